/* A recording for another number of ranks: see trace.h. */
#include "bench/replay/trace.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static weir_status scale_call(const replay_trace *trace, replay_call *call, int nranks)
{
    const replay_kind kind = (replay_kind)call->kind;
    const uint64_t before = (uint64_t)trace->nranks, after = (uint64_t)nranks;
    const int has_blocks = kind == REPLAY_ALLGATHER || kind == REPLAY_REDUCE_SCATTER ||
                           kind == REPLAY_ALLTOALL || kind == REPLAY_GATHER ||
                           kind == REPLAY_SCATTER;
    const char *why = NULL;
    if (trace->comms[call->comm].nranks != trace->nranks)
        why = "is on a communicator of some ranks";
    if (kind == REPLAY_SEND || kind == REPLAY_RECV || kind == REPLAY_ALLTOALLV)
        why = "has counts or peers of its own for each rank";
    if (replay_kind_has_root(kind) && call->peer >= nranks)
        why = "has a root that does not exist then";
    if (why)
        return weiri_fail(WEIR_ERR_INVALID,
                          "--ranks %d: %s (%s:%u) %s, for which there is no rule; run it with the "
                          "%d ranks of the recording",
                          nranks, replay_kind_name(kind), trace->files[call->file], call->line, why,
                          trace->nranks);
    if (has_blocks)
        call->count = (call->count * before + after - 1) / after;
    return WEIR_OK;
}

weir_status replay_scale(replay_trace *trace, int nranks)
{
    replay_rank *first = &trace->ranks[0];
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < first->count && status == WEIR_OK; i++)
        status = scale_call(trace, &first->calls[i], nranks);
    for (int i = 0; i < trace->ncomms && status == WEIR_OK; i++) {
        int *ranks = replay_take(&trace->pool, (size_t)nranks, sizeof *ranks);
        if (!ranks)
            return replay_no_memory();
        for (int rank = 0; rank < nranks; rank++)
            ranks[rank] = rank;
        trace->comms[i].ranks = ranks;
        trace->comms[i].nranks = nranks;
    }
    for (int rank = 1; rank < REPLAY_RANKS_MAX && status == WEIR_OK; rank++) {
        replay_rank *r = &trace->ranks[rank];
        free(r->calls);
        *r = (replay_rank){NULL, 0, 0, NULL};
        if (rank >= nranks)
            continue;
        r->calls = malloc(first->count * sizeof *r->calls);
        if (!r->calls)
            return replay_no_memory();
        memcpy(r->calls, first->calls, first->count * sizeof *r->calls);
        r->count = r->room = first->count;
    }
    if (status == WEIR_OK)
        trace->nranks = nranks;
    return status;
}
