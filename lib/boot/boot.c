/*
 * The bootstrap object: an ops table with its context, the argument checks that all implementations
 * share, and agreement on errors, which only uses allgather.
 */
#include "base/error.h"
#include "base/fork.h"
#include "boot/deadline.h"
#include "boot/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local const weiri_wait_guard *weiri_wait_guarded;

/* The analyzer's macros are for callers. */
#undef weir_boot_agree

struct weir_boot {
    const weir_boot_ops *ops;
    void *context;
    int rank, nranks;
    int forks; /* of weiri_fork_count(): detects use in a forked child */
};

weir_status weir_boot_create(const weir_boot_ops *ops, void *context, int rank, int nranks,
                             weir_boot **boot)
{
    if (!ops || !boot)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_create: ops and boot must not be NULL");
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "bootstrap: rank %d of %d; expected at least 1 rank, and a rank from 0 "
                          "to the number of ranks - 1",
                          rank, nranks);
    if (!ops->name || !ops->allgather || !ops->send || !ops->recv || !ops->barrier || !ops->destroy)
        return weiri_fail(WEIR_ERR_INVALID,
                          "bootstrap '%s': an operation is missing; expected name, allgather, "
                          "send, recv, barrier and destroy",
                          ops->name ? ops->name : "(no name)");
    weir_boot *made = malloc(sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "bootstrap '%s': no memory for it", ops->name);
    *made = (weir_boot){.ops = ops,
                        .context = context,
                        .rank = rank,
                        .nranks = nranks,
                        .forks = weiri_fork_count()};
    *boot = made;
    return WEIR_OK;
}

void *weiri_boot_context(const weir_boot *boot)
{
    return boot->context;
}

int weir_boot_rank(const weir_boot *boot)
{
    return boot->rank;
}

int weir_boot_nranks(const weir_boot *boot)
{
    return boot->nranks;
}

const char *weir_boot_name(const weir_boot *boot)
{
    return boot->ops->name;
}

weir_status weir_boot_allgather(weir_boot *boot, void *all, size_t bytes)
{
    WEIRI_REQUIRE(boot);
    if (weiri_fork_is_child(boot->forks))
        return weiri_fork_fail("bootstrap");
    if (bytes > 0 && !all)
        return weiri_fail(WEIR_ERR_INVALID, "rank %d, allgather of %zu bytes: no buffer",
                          boot->rank, bytes);
    if (bytes > SIZE_MAX / (size_t)boot->nranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d, allgather of %zu bytes from each of %d ranks: more than memory "
                          "can hold",
                          boot->rank, bytes, boot->nranks);
    return boot->ops->allgather(boot->context, all, bytes);
}

static weir_status boot_check_message(const weir_boot *boot, const char *verb, const void *data,
                                      size_t bytes, int peer)
{
    if (weiri_fork_is_child(boot->forks))
        return weiri_fork_fail("bootstrap");
    if (peer < 0 || peer >= boot->nranks || peer == boot->rank)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d cannot %s rank %d; expected another rank from 0 to %d",
                          boot->rank, verb, peer, boot->nranks - 1);
    if (bytes > 0 && !data)
        return weiri_fail(WEIR_ERR_INVALID, "rank %d cannot %s rank %d: no buffer for %zu bytes",
                          boot->rank, verb, peer, bytes);
    return WEIR_OK;
}

weir_status weir_boot_send(weir_boot *boot, const void *data, size_t bytes, int peer, int tag)
{
    WEIRI_REQUIRE(boot);
    weir_status status = boot_check_message(boot, "send to", data, bytes, peer);
    if (status != WEIR_OK)
        return status;
    return boot->ops->send(boot->context, data, bytes, peer, tag);
}

weir_status weir_boot_recv(weir_boot *boot, void *data, size_t bytes, int peer, int tag)
{
    WEIRI_REQUIRE(boot);
    weir_status status = boot_check_message(boot, "receive from", data, bytes, peer);
    if (status != WEIR_OK)
        return status;
    return boot->ops->recv(boot->context, data, bytes, peer, tag);
}

weir_status weir_boot_barrier(weir_boot *boot)
{
    WEIRI_REQUIRE(boot);
    if (weiri_fork_is_child(boot->forks))
        return weiri_fork_fail("bootstrap");
    return boot->ops->barrier(boot->context);
}

weir_status weir_boot_set_timeout(weir_boot *boot, int timeout_ms)
{
    WEIRI_REQUIRE(boot);
    if (timeout_ms < 1)
        return weiri_fail(WEIR_ERR_INVALID, "bootstrap '%s': timeout of %d ms; expected 1 or more",
                          boot->ops->name, timeout_ms);
    if (!boot->ops->set_timeout)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "bootstrap '%s' has no timeout to set",
                          boot->ops->name);
    boot->ops->set_timeout(boot->context, timeout_ms);
    return WEIR_OK;
}

/* What each rank contributes to weir_boot_agree: its status, and its error line. */
typedef struct verdict {
    int32_t status;
    char text[252];
} verdict;

/* The first rank whose failure does not follow from another one's, as a deadline does; -1: none. */
static int boot_find_cause(const verdict *all, int nranks)
{
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].status != WEIR_OK &&
            !weiri_status_is_consequence((weir_status)all[rank].status))
            return rank;
    return -1;
}

static weir_status boot_fail_worst(const verdict *all, int nranks)
{
    int worst = 0;
    for (int rank = 1; rank < nranks; rank++)
        if (all[rank].status < all[worst].status)
            worst = rank;
    weir_status status = (weir_status)all[worst].status;
    if (status == WEIR_OK)
        return WEIR_OK;
    weiri_fail(status, "rank %d failed (%s): %.*s", worst, weir_status_text(status),
               (int)sizeof all[worst].text, all[worst].text);
    const int cause = boot_find_cause(all, nranks);
    if (!weiri_status_is_consequence(status) || cause < 0)
        return status;
    return weiri_fail_context(status, "rank %d: %.*s; therefore", cause,
                              (int)sizeof all[cause].text, all[cause].text);
}

weir_status weir_boot_agree(weir_boot *boot, weir_status mine)
{
    WEIRI_REQUIRE(boot);
    verdict *all = calloc((size_t)boot->nranks, sizeof *all);
    /* Without memory this rank cannot take part in the allgather, nor notify the others, whose
     * deadline then passes. */
    if (!all)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to agree with %d ranks",
                          boot->rank, boot->nranks);
    verdict *own = &all[boot->rank];
    own->status = mine;
    if (mine != WEIR_OK)
        snprintf(own->text, sizeof own->text, "%s", weir_last_error());
    weir_status status = weir_boot_allgather(boot, all, sizeof *all);
    if (status != WEIR_OK)
        status = weiri_fail_context(status, "rank %d could not agree on %s%s%s", boot->rank,
                                    weir_status_name(mine), *own->text ? ": " : "", own->text);
    else
        status = boot_fail_worst(all, boot->nranks);
    free(all);
    return status;
}

void weir_boot_destroy(weir_boot *boot)
{
    if (!boot || weiri_fork_is_child(boot->forks))
        return;
    boot->ops->destroy(boot->context);
    free(boot);
}
