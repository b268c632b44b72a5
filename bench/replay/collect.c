/* Lists of calls that may belong together: see matching.h. */
#include "bench/replay/matching.h"

#include <stdlib.h>

static int is_message(const replay_call *call)
{
    return call->kind == REPLAY_SEND || call->kind == REPLAY_RECV;
}

/* ---------------------------------------------------------------- collectives */

void replay_comm_calls_free(const replay_trace *trace, replay_comm_calls *lists)
{
    for (int i = 0; lists && i < trace->ncomms; i++) {
        for (int member = 0; lists[i].calls && member < trace->comms[i].nranks; member++)
            free(lists[i].calls[member]);
        free(lists[i].calls);
        free(lists[i].counts);
    }
    free(lists);
}

/* Appends the calls of one rank to the lists of its communicators. 0, or -1. */
static int collect_rank(const replay_trace *trace, int rank, int *members, replay_comm_calls *lists)
{
    const replay_rank *r = &trace->ranks[rank];
    for (int i = 0; i < trace->ncomms; i++)
        members[i] = replay_comm_rank(&trace->comms[i], rank);
    for (size_t i = 0; i < r->count; i++) {
        const uint32_t comm = r->calls[i].comm;
        size_t *count = &lists[comm].counts[members[comm]];
        uint32_t **list = &lists[comm].calls[members[comm]];
        if (is_message(&r->calls[i]))
            continue;
        if (!(*count & (*count - 1))) { /* 0 or a power of two: full */
            void *grown = realloc(*list, (*count ? 2 * *count : 1) * sizeof **list);
            if (!grown)
                return -1;
            *list = grown;
        }
        (*list)[(*count)++] = (uint32_t)i;
    }
    return 0;
}

replay_comm_calls *replay_collect(const replay_trace *trace)
{
    const size_t ncomms = (size_t)trace->ncomms;
    replay_comm_calls *lists = calloc(ncomms, sizeof *lists);
    int *members = malloc(ncomms * sizeof *members), failed = !lists || !members;
    for (int i = 0; !failed && i < trace->ncomms; i++) {
        const size_t nranks = (size_t)trace->comms[i].nranks;
        lists[i].calls = calloc(nranks, sizeof *lists[i].calls);
        lists[i].counts = calloc(nranks, sizeof *lists[i].counts);
        failed = !lists[i].calls || !lists[i].counts;
    }
    for (int rank = 0; !failed && rank < trace->nranks; rank++)
        failed = collect_rank(trace, rank, members, lists) != 0;
    free(members);
    if (!failed)
        return lists;
    replay_comm_calls_free(trace, lists);
    return NULL;
}

/* ------------------------------------------------------------------- messages */

static int compare_ends(const void *a, const void *b)
{
    const replay_end *x = a, *y = b;
    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    if (x->pair != y->pair)
        return x->pair < y->pair ? -1 : 1;
    return x->nth < y->nth ? -1 : x->nth > y->nth;
}

replay_end *replay_list_ends(const replay_trace *trace, int kind, size_t *count)
{
    size_t all = 0;
    for (int rank = 0; rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++)
            all += trace->ranks[rank].calls[i].kind == kind;
    replay_end *ends = malloc((all + 1) * sizeof *ends);
    *count = 0;
    for (int rank = 0; ends && rank < trace->nranks; rank++)
        for (size_t i = 0; i < trace->ranks[rank].count; i++) {
            const replay_call *call = &trace->ranks[rank].calls[i];
            if (call->kind != kind)
                continue;
            const uint64_t mine = (uint64_t)rank,
                           peer = (uint64_t)trace->comms[call->comm].ranks[call->peer];
            ends[(*count)++] =
                (replay_end){kind == REPLAY_SEND ? mine << 32 | peer : peer << 32 | mine,
                             call->comm, (uint32_t)rank, (uint32_t)i, (uint32_t)i};
        }
    if (ends)
        qsort(ends, *count, sizeof *ends, compare_ends);
    return ends;
}
