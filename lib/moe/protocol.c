/*
 * The protocol of calls (group.h): numbers, headers, waits, and how a call fails on all ranks when
 * one rank cannot take part in it.
 */
#include "moe/group.h"

#include "base/config.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

static moe_words *own_words(const weir_moe *g)
{
    return g->windows[g->rank].words;
}

/* -------------------------------------------------------------------- waits */

weir_status weiri_moe_await_done(weir_moe *g, uint64_t call, const char *phase)
{
    if (WEIRI_LIKELY(g->all_done >= call))
        return WEIR_OK;
    for (int peer = 0; peer < g->nranks; peer++) {
        weir_status status = WEIR_OK;
        if (peer != g->rank)
            status =
                weiri_comm_wait(g->comm, &g->windows[peer].words->done.value, call, peer, phase);
        if (status != WEIR_OK)
            return status;
    }
    g->all_done = call;
    return WEIR_OK;
}

static const char *kind_name(uint32_t kind)
{
    return kind == MOE_DISPATCH ? "dispatch" : "combine";
}

/* Waits until a peer has published call number `call`, and checks that it is the same one. */
static weir_status await_published(weir_moe *g, int peer, uint64_t call, const char *phase)
{
    weir_status status =
        weiri_comm_wait(g->comm, &g->windows[peer].words->published.value, call, peer, phase);
    if (status != WEIR_OK)
        return status;
    const moe_header *own = moe_header_of(g, g->rank, call), *other = moe_header_of(g, peer, call);
    if (WEIRI_LIKELY(own->kind == other->kind && own->handle == other->handle &&
                     own->has_grads == other->has_grads && own->has_routing == other->has_routing))
        return WEIR_OK;
    if (own->problem || other->problem)
        return WEIR_OK; /* reported by weiri_moe_await_all */
    weiri_fail(
        WEIR_ERR_MISMATCH,
        "weir_moe: call %llu is %s on handle %u (new routing %u, gradients %u) on rank %d, but "
        "%s on handle %u (%u, %u) on rank %d; make the same calls on all ranks",
        (unsigned long long)call, kind_name(own->kind), own->handle, own->has_routing,
        own->has_grads, g->rank, kind_name(other->kind), other->handle, other->has_routing,
        other->has_grads, peer);
    return weiri_comm_give_up(g->comm, WEIR_ERR_MISMATCH);
}

weir_status weiri_moe_await_ready(weir_moe *g, int peer, uint64_t call, const char *phase)
{
    return weiri_comm_wait(g->comm, &g->windows[peer].words->ready.value, call, peer, phase);
}

/* --------------------------------------------------------- the steps of a call */

void weiri_moe_read_args(moe_call *call, const char *type, const void *given, void *args,
                         size_t args_bytes)
{
    size_t size = 0;
    if (given && weiri_config_read(type, given, args, args_bytes) == WEIR_OK)
        return;
    if (given)
        memcpy(&size, given, sizeof size);
    call->problem = MOE_BAD_ARGS;
    call->values[0] = (int64_t)size;
    call->values[1] = given ? (int64_t)args_bytes : 0;
}

weir_status weiri_moe_check_send(weir_moe *g, moe_kind kind)
{
    const weir_status status = weiri_comm_admit(g->comm, "weir_moe");
    if (status != WEIR_OK)
        return status;
    if (g->under_way[kind].number)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_moe: rank %d has a %s under way; complete it before the next one",
                          g->rank, kind_name(kind));
    return WEIR_OK;
}

weir_status weiri_moe_check_complete(weir_moe *g, moe_kind kind)
{
    const uint64_t mine = g->under_way[kind].number, other = g->under_way[!kind].number;
    const weir_status status = weiri_comm_admit(g->comm, "weir_moe");
    if (status != WEIR_OK)
        return status;
    if (!mine)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe: rank %d has no %s under way to complete",
                          g->rank, kind_name(kind));
    if (other && other < mine)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "weir_moe: rank %d has sent a %s before this %s; complete them in that order", g->rank,
            kind_name(!kind), kind_name(kind));
    return WEIR_OK;
}

weir_status weiri_moe_open(weir_moe *g, moe_kind kind, int handle, moe_header **header)
{
    const uint64_t call = g->calls + 1;
    if (call > MOE_CALLS) {
        weir_status status = weiri_moe_await_done(g, call - MOE_CALLS, "moe: header");
        if (status != WEIR_OK)
            return status;
    }
    g->calls = call;
    *header = moe_header_of(g, g->rank, call);
    **header = (moe_header){.kind = kind, .handle = (uint32_t)handle};
    return WEIR_OK;
}

void weiri_moe_publish(weir_moe *g)
{
    weir_store_release(&own_words(g)->published.value, g->calls);
}

void weiri_moe_rows_ready(weir_moe *g)
{
    weir_store_release(&own_words(g)->ready.value, g->calls);
}

void weiri_moe_finish(weir_moe *g, uint64_t call)
{
    weir_store_release(&own_words(g)->done.value, g->refused > call ? g->refused : call);
    g->refused = 0;
}

weir_status weiri_moe_rows_of(weir_moe *g, int peer, uint64_t call, char *staged, const char **rows)
{
    const moe_header *header = moe_header_of(g, peer, call);
    char *direct = NULL;
    if (header->staged) {
        *rows = staged;
        return WEIR_OK;
    }
    if (peer == g->rank)
        return WEIR_OK; /* the caller knows its own buffer */
    weir_status status = weiri_region_pointer(g->comm, peer, header->desc, &direct);
    if (status != WEIR_OK)
        return weiri_comm_give_up(g->comm, status);
    *rows = direct;
    return WEIR_OK;
}

/* ----------------------------------------------------------------- refusals */

static const char *pointer_name(int64_t pointer)
{
    static const char *const names[] = {"x",           "rows",           "row_scales", "out",
                                        "row_experts", "expert_offsets", "weights"};
    return names[pointer];
}

/* Formats why the caller's structure cannot be read; known: 0 if it is NULL. */
static void args_format(long long size, long long known, char *text, size_t bytes)
{
    if (!known)
        snprintf(text, bytes, "args is NULL; it is required");
    else if (size >= 0 && size <= (long long)sizeof(size_t))
        snprintf(text, bytes, "args.size is %lld; initialise args with its _INIT macro", size);
    else
        snprintf(text, bytes,
                 "args.size is %lld, but the library knows %lld bytes; the fields after them must "
                 "be 0, or the library must be newer",
                 size, known);
}

/* Formats a problem; a, b, c: its values. */
static void problem_format(moe_problem problem, long long a, long long b, long long c, char *text,
                           size_t bytes)
{
    switch (problem) {
    case MOE_NO_PROBLEM:
    case MOE_OVERFLOW: /* weiri_moe_overflow_fail */
        break;
    case MOE_BAD_EXPERT:
        snprintf(
            text, bytes,
            "choice %lld of token %lld names expert %lld; give 0 to experts - 1, or a negative "
            "number for none",
            b, a, c);
        break;
    case MOE_BAD_TOKENS:
        snprintf(text, bytes, "%lld tokens; the group was created for 0 to %lld", a, b);
        break;
    case MOE_BAD_REUSE:
        snprintf(text, bytes,
                 "%lld tokens without topk_experts; the routing of handle %lld has %lld", a, c, b);
        break;
    case MOE_NO_ROUTING:
        snprintf(text, bytes,
                 "handle %lld has no routing; dispatch with topk_experts, which is not NULL "
                 "without tokens either, on one of the group's %lld handles first",
                 a, b);
        break;
    case MOE_BAD_ROWS:
        snprintf(text, bytes, "rows has %lld bytes; %lld are needed", a, b);
        break;
    case MOE_BAD_OUT:
        snprintf(text, bytes, "out has %lld bytes; %lld are needed", a, b);
        break;
    case MOE_BAD_POINTER:
        snprintf(text, bytes, "%s is NULL; it is required", pointer_name(a));
        break;
    case MOE_BAD_TYPE:
        snprintf(text, bytes, "topk_dtype is %lld; use WEIR_INT32 or WEIR_INT64", a);
        break;
    case MOE_BAD_MEMORY:
        snprintf(text, bytes,
                 "%s is not in registered memory (weir_mem_alloc, on GPUs followed by "
                 "weir_comm_barrier), which this group's configuration promises",
                 pointer_name(a));
        break;
    case MOE_BAD_STREAM:
        snprintf(text, bytes,
                 a ? "stream is not one of the rank's GPU"
                   : "stream is not NULL; the host backend has no streams");
        break;
    case MOE_BAD_MEMBER:
        snprintf(text, bytes, "%s is not NULL; the group's layout does not have it",
                 pointer_name(a));
        break;
    case MOE_NO_WEIGHTS:
        snprintf(text, bytes,
                 "topk_weights is NULL, but rank %lld receives row_weights; pass weights on all "
                 "ranks",
                 a);
        break;
    case MOE_OTHER_CALL:
        snprintf(text, bytes,
                 "call %lld is another one (0x%llx) than here (0x%llx: handle, kind, gradients, "
                 "new routing); make the same calls on all ranks",
                 a, (unsigned long long)c, (unsigned long long)b);
        break;
    case MOE_UNALIGNED:
        snprintf(text, bytes, "%s is not aligned to 16 bytes, as GPUs need it", pointer_name(a));
        break;
    case MOE_BAD_ARGS:
        args_format(a, b, text, bytes);
        break;
    case MOE_BAD_BUFFER:
        snprintf(text, bytes, "%s is not memory of the rank's GPU, or is too short",
                 a < 0 ? "a buffer" : pointer_name(a));
        break;
    case MOE_BAD_CAPTURE:
        snprintf(text, bytes,
                 "stream is being captured; with GPUs of several nodes the host takes part in "
                 "calls, which a graph cannot repeat");
        break;
    }
}

weir_status weiri_moe_problem_fail(moe_kind kind, moe_problem problem, const int64_t values[3],
                                   int rank)
{
    char text[200] = "";
    problem_format(problem, (long long)values[0], (long long)values[1], (long long)values[2], text,
                   sizeof text);
    return weiri_fail(problem == MOE_OTHER_CALL ? WEIR_ERR_MISMATCH : WEIR_ERR_INVALID,
                      "weir_moe: %s on rank %d: %s", kind_name(kind), rank, text);
}

/* Fails with what a rank's header says. */
static weir_status header_fail(const moe_header *header, int rank)
{
    return weiri_moe_problem_fail((moe_kind)header->kind, (moe_problem)header->problem,
                                  header->values, rank);
}

weir_status weiri_moe_refuse(weir_moe *g, moe_header *header, moe_problem problem, int64_t a,
                             int64_t b, int64_t c)
{
    header->problem = problem;
    header->values[0] = a;
    header->values[1] = b;
    header->values[2] = c;
    weiri_moe_publish(g);
    weiri_moe_rows_ready(g);
    if (g->under_way[!header->kind].number)
        g->refused = g->calls; /* until that call is over */
    else
        weiri_moe_finish(g, g->calls);
    return header_fail(header, g->rank);
}

weir_status weiri_moe_await_all(weir_moe *g, uint64_t call, const char *phase)
{
    weir_status status = WEIR_OK;
    int refusing = -1;
    for (int rank = 0; status == WEIR_OK && rank < g->nranks; rank++) {
        if (rank != g->rank)
            status = await_published(g, rank, call, phase);
        if (status == WEIR_OK && refusing < 0 && moe_header_of(g, rank, call)->problem)
            refusing = rank;
    }
    if (status != WEIR_OK || refusing < 0)
        return status;
    return header_fail(moe_header_of(g, refusing, call), refusing);
}
