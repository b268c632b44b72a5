/*
 * Allreduce without intermediate copies, for large sizes in registered memory. Every rank publishes
 * descriptors of its buffers, reads its share of all inputs, reduces it block by block in its
 * first-level cache, and writes the result into all outputs. No other rank accesses that share, so
 * in and out may be the same buffer. The call ends with a barrier, when all outputs are complete.
 *
 * The direct algorithms of reduce_scatter and reduce do the same with one output.
 */
#include "coll/algos.h"

static const char phase[] = "allreduce (fused)";

static weir_status fused_reduce_share(weiri_coll *coll, const weir_call *call)
{
    weir_status status = weiri_posts_map_inputs(coll, call, 0);
    if (status == WEIR_OK) /* own output first */
        status = weiri_posts_map_outputs(coll, call, coll->rank, coll->nranks);
    if (status != WEIR_OK)
        return status;
    weiri_share share =
        weiri_share_of(call->count, coll->element_bytes, coll->rank, coll->nranks);
    return weiri_reduce_into(
        coll, call, (weiri_reduction){share.first, share.count, 0, coll->rank, coll->nranks});
}

weir_status weiri_allreduce_fused_posted(weiri_coll *coll, const weir_call *call)
{
    weir_status status = fused_reduce_share(coll, call);
    return status == WEIR_OK ? weiri_coll_end_together(coll, phase) : status;
}

weir_status weiri_allreduce_mapped(weiri_coll *coll, const weir_call *call, weiri_algo_run run)
{
    int all_in, all_out;
    weir_status status =
        weiri_posts_exchange(coll, call->in, coll->count_bytes, WEIRI_LENDS_MAPPED, call->out,
                             coll->count_bytes, &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in || !all_out)
        return weiri_algo_fall_back_plain(coll, call);
    return run(coll, call);
}

weir_status weiri_allreduce_fused(weiri_coll *coll, const weir_call *call)
{
    return weiri_allreduce_mapped(coll, call, weiri_allreduce_fused_posted);
}
