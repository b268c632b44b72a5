/*
 * weir_comm_split: every rank gathers the colors and keys of all ranks, sorts the ranks of its
 * color by key, and creates a communicator over a bootstrap of these ranks (boot/part.c). The new
 * communicator owns that bootstrap.
 */
#include "comm/split.h"

#include "base/error.h"
#include "boot/part.h"
#include "comm/comm.h"

#include <stdlib.h>

/* The arguments of a rank, which all ranks gather. */
typedef struct split_wish {
    int32_t color, key;
} split_wish;

/* Inserts rank, which is greater than all members, in the order of keys. */
static void split_insert(weiri_split_group *group, const split_wish *wishes, int rank)
{
    int at = group->count++;
    for (; at > 0 && wishes[group->members[at - 1]].key > wishes[rank].key; at--)
        group->members[at] = group->members[at - 1];
    group->members[at] = rank;
}

static weir_status split_sort(const split_wish *wishes, int rank, int nranks,
                              weiri_split_group *group)
{
    group->count = group->rank = 0;
    for (int other = 0; other < nranks; other++) {
        if (wishes[other].color < WEIR_SPLIT_NONE)
            return weiri_fail(WEIR_ERR_INVALID,
                              "splitting a communicator: rank %d passed color %d; expected 0 or "
                              "more, or %d to join no new communicator",
                              other, (int)wishes[other].color, WEIR_SPLIT_NONE);
        if (wishes[rank].color != WEIR_SPLIT_NONE && wishes[other].color == wishes[rank].color)
            split_insert(group, wishes, other);
    }
    while (group->rank < group->count && group->members[group->rank] != rank)
        group->rank++;
    return WEIR_OK;
}

weir_status weiri_split_exchange(weir_boot *boot, int color, int key, weiri_split_group *group)
{
    const int rank = weir_boot_rank(boot), nranks = weir_boot_nranks(boot);
    split_wish *wishes = calloc((size_t)nranks, sizeof *wishes);
    weir_status status = wishes && group->members
                             ? WEIR_OK
                             : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to split ranks");
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK) {
        wishes[rank] = (split_wish){color, key};
        status = weir_boot_allgather(boot, wishes, sizeof *wishes);
    }
    if (status == WEIR_OK)
        status = split_sort(wishes, rank, nranks, group);
    free(wishes);
    return status;
}

/* Creates the communicator of a group, and ends the set-up. Collective over the group; comm's ranks
 * agree on whether all of them have a bootstrap for it. */
static weir_status split_create(const weiri_setup *setup, const weiri_split_group *group,
                                const weir_comm_config *config, weir_comm **created)
{
    weir_comm *comm = setup->comm;
    weir_boot *boot = NULL;
    weir_comm *made = NULL;
    weir_status status = WEIR_OK;
    if (group->count)
        status = weiri_boot_part_create(comm->boot, group->members, group->count, &boot);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK && boot)
        status = weir_comm_create(boot, config, &made);
    status = weiri_setup_end(setup, status);
    if (status != WEIR_OK && made) { /* comm was aborted; other ranks may have theirs, and use it */
        weir_comm_abort(made);
        weir_comm_destroy(made);
        status = weiri_comm_fail_aborted(comm, setup->function);
    }
    if (status != WEIR_OK) {
        weir_boot_destroy(boot);
        return status;
    }
    if (made)
        made->owned_boot = boot;
    *created = made;
    return WEIR_OK;
}

weir_status weir_comm_split(weir_comm *comm, int color, int key, const weir_comm_config *config,
                            weir_comm **created)
{
    if (!comm || !created)
        return weiri_fail(WEIR_ERR_INVALID, "weir_comm_split: comm and created are required");
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_comm_split");
    if (status != WEIR_OK)
        return status;
    weiri_split_group group = {.members = calloc((size_t)comm->nranks, sizeof *group.members)};
    status = weiri_split_exchange(comm->boot, color, key, &group);
    status = status == WEIR_OK ? split_create(&setup, &group, config, created)
                               : weiri_setup_end(&setup, status);
    free(group.members);
    return status;
}
