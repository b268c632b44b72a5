/*
 * Reduce to a root on the host.
 *
 * packet: every rank publishes its input, short ones in its lane, longer ones piece by piece in its
 *         slot, and the root reduces them all.
 * direct: every rank publishes descriptors of its buffers and reduces its share of all inputs into
 *         the root's output. The call ends with a barrier.
 */
#include "coll/algos.h"
#include "coll/host/lane.h"
#include "coll/host/slot.h"

static const char packet_phase[] = "reduce (packet)";
static const char direct_phase[] = "reduce (direct)";

static weir_status reduce_lanes(weiri_coll *coll, const weiri_task *task)
{
    coll->epoch++;
    for (int rank = 0; rank < coll->nranks; rank++) {
        const char *data = task->call->in;
        weir_status status = rank == coll->rank ? WEIR_OK
                                                : weiri_lane_follow(coll, rank, task->count_bytes,
                                                                    packet_phase, &data);
        if (status != WEIR_OK)
            return status;
        coll->sources[rank] = data;
    }
    weiri_reduce(task->call->out, coll->sources, coll->nranks, task->call->count, task->call->dtype,
                 task->call->op, (uint64_t)coll->nranks, 0);
    return WEIR_OK;
}

static weir_status reduce_through_lanes(weiri_coll *coll, const weiri_task *task)
{
    weir_status status = coll->rank == task->call->root
                             ? reduce_lanes(coll, task)
                             : weiri_lane_send(coll, task->call->in, task->count_bytes);
    weiri_coll_end(coll);
    return status;
}

/* The root's part of an epoch. It stores nothing that others read, and so need not wait for them
 * before it begins. */
static weir_status reduce_piece(weiri_coll *coll, const weiri_task *task, size_t done, size_t total)
{
    coll->epoch++;
    return weiri_slots_reduce(coll, task, weiri_in_at(task, done), total, weiri_out_at(task, done),
                              packet_phase);
}

static weir_status reduce_packet_run(weiri_coll *coll, const weiri_task *task)
{
    if (task->count_bytes <= WEIRI_LANE_BYTES)
        return reduce_through_lanes(coll, task);
    weiri_slots_for_ahead(coll);
    for (size_t done = 0; done < task->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, task->count_bytes, done);
        weir_status status = WEIR_OK;
        if (coll->rank == task->call->root) {
            status = reduce_piece(coll, task, done, total);
        } else {
            status = weiri_slot_begin(coll, total, task->call->root);
            if (status == WEIR_OK)
                weiri_slot_publish(coll, coll->epoch, weiri_in_at(task, done), total,
                                   WEIRI_CHUNK_BYTES, weiri_copy_to_peer);
        }
        if (status != WEIR_OK)
            return status;
        weiri_coll_end(coll);
    }
    return WEIR_OK;
}

static weir_status reduce_direct_run(weiri_coll *coll, const weiri_task *task)
{
    int all_in, all_out, is_root = coll->rank == task->call->root;
    /* Only the root's output matters; the others publish an empty buffer. */
    weir_status status = weiri_posts_exchange_ahead(
        coll, task->call->in, task->count_bytes, is_root ? task->call->out : task->call->in,
        is_root ? task->count_bytes : 0, &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in || !all_out)
        return weiri_algo_fall_back_plain(coll, task);
    status = weiri_posts_map_outputs(coll, task, task->call->root, 1);
    if (status == WEIR_OK)
        status = weiri_posts_map_inputs(coll, task, 0);
    if (status != WEIR_OK)
        return status;
    weiri_share share =
        weiri_share_of(task->call->count, task->element_bytes, coll->rank, coll->nranks);
    status = weiri_reduce_into(coll, task,
                               (weiri_reduction){share.first, share.count, 0, task->call->root, 1});
    return status == WEIR_OK ? weiri_coll_end_together(coll, direct_phase) : status;
}

const weiri_algo weiri_host_reduce_packet_row = {
    .info = {WEIRI_HOST_TRAITS(REDUCE, "packet", "publish the input, the root reduces all inputs")},
    .run = reduce_packet_run,
};

const weiri_algo weiri_host_reduce_direct_row = {
    .info = {WEIRI_HOST_TRAITS(REDUCE, "direct",
                               "each reduces a share into the root's registered memory"),
             .needs_mapped = 1},
    .run = reduce_direct_run,
};
