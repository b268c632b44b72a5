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

static weir_status fused_reduce_share(weiri_coll *coll, const weiri_task *task)
{
    weir_status status = weiri_posts_map_inputs(coll, task, 0);
    if (status == WEIR_OK) /* own output first */
        status = weiri_posts_map_outputs(coll, task, coll->rank, coll->nranks);
    if (status != WEIR_OK)
        return status;
    weiri_share share =
        weiri_share_of(task->call->count, task->element_bytes, coll->rank, coll->nranks);
    return weiri_reduce_into(
        coll, task, (weiri_reduction){share.first, share.count, 0, coll->rank, coll->nranks});
}

weir_status weiri_allreduce_fused_posted(weiri_coll *coll, const weiri_task *task)
{
    weir_status status = fused_reduce_share(coll, task);
    return status == WEIR_OK ? weiri_coll_end_together(coll, phase) : status;
}

weir_status weiri_allreduce_mapped(weiri_coll *coll, const weiri_task *task, weiri_algo_run run)
{
    int all_in, all_out;
    weir_status status =
        weiri_posts_exchange(coll, task->call->in, task->count_bytes, WEIRI_LENDS_MAPPED,
                             task->call->out, task->count_bytes, &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in || !all_out)
        return weiri_algo_fall_back_plain(coll, task);
    return run(coll, task);
}

static weir_status allreduce_fused_run(weiri_coll *coll, const weiri_task *task)
{
    return weiri_allreduce_mapped(coll, task, weiri_allreduce_fused_posted);
}

const weiri_algo weiri_host_allreduce_fused_row = {
    .info = {WEIRI_HOST_TRAITS(
                 ALLREDUCE, "fused",
                 "read a share of all inputs, reduce it, write it to all; registered memory"),
             .needs_mapped = 1},
    .run = allreduce_fused_run,
};
