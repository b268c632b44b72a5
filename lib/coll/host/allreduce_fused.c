/*
 * Allreduce without copies, for large sizes in library memory: ranks post
 * where their buffers are; each reads its share of everybody's input, reduces
 * it block by block in its first-level cache, and writes the result into
 * everybody's output. Nobody else reads or writes that share, so in and out
 * may be the same buffer. Ranks leave together, when all outputs are complete.
 *
 * reduce_scatter and reduce in their direct forms are the same with one output.
 */
#include "coll/algos.h"

enum { ONE_STEP_BYTES = 16384 }; /* of plain memory: one latency beats fewer bytes */

static const char phase[] = "allreduce (fused)";

static weir_status run_share(weiri_coll *coll, const weir_call *call)
{
    char *outputs[WEIRI_RANKS_MAX];
    weir_status status = WEIR_OK;
    for (int rank = 0; rank < coll->nranks && status == WEIR_OK; rank++) {
        const char *in = NULL;
        int step = (rank - coll->rank + coll->nranks) % coll->nranks; /* own output first */
        status = weiri_post_in(coll, rank, call->in, &in);
        if (status == WEIR_OK)
            status = weiri_post_out(coll, rank, call->out, &outputs[step]);
        coll->sources[rank] = in;
    }
    if (status != WEIR_OK)
        return status;
    weiri_share share =
        weiri_share_of(call->count, coll->element_bytes, coll->rank, coll->nranks);
    weiri_reduce_into(coll, call, share.first, share.count, outputs, coll->nranks);
    return WEIR_OK;
}

weir_status weiri_allreduce_fused(weiri_coll *coll, const weir_call *call)
{
    int all_in, all_out;
    weir_status status = weiri_coll_begin(coll);
    if (status == WEIR_OK)
        status = weiri_posts_exchange(coll, call->in, coll->count_bytes, call->out,
                                      coll->count_bytes, &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in || !all_out) {
        weiri_coll_end_all_heard(coll);
        return coll->count_bytes <= ONE_STEP_BYTES
                   ? weiri_algo_give_way(coll, call, "packet", weiri_allreduce_packet)
                   : weiri_algo_give_way(coll, call, "packet2", weiri_allreduce_packet2);
    }
    status = run_share(coll, call);
    return status == WEIR_OK ? weiri_coll_end_together(coll, phase) : status;
}
