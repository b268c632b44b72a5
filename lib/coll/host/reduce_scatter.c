/*
 * Reduce-scatter on the host.
 *
 * packet: every rank publishes a piece of each block of its input in its slot and reduces its block
 *         from all slots.
 * direct: every rank publishes a descriptor of its input and reduces its block from all buffers
 *         into its output.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char packet_phase[] = "reduce_scatter (packet)";
static const char direct_phase[] = "reduce_scatter (direct)";

/* Publishes the bytes at offset done of every block, in the order of blocks, except for this rank's
 * own block. The reader of each block is the rank of the same number; if all fit the flag's cache
 * line, every rank reads that. */
static void publish_blocks(weiri_coll *coll, const weiri_task *task, size_t done, size_t bytes)
{
    weiri_slot *own = weiri_slot_of(coll, coll->rank);
    size_t total = bytes * (size_t)coll->nranks;
    char *data = weiri_slot_data(coll, own, coll->epoch, total);
    for (int block = 0; block < coll->nranks; block++) {
        const char *in = weiri_in_at(task, (size_t)block * task->count_bytes + done);
        if (total <= WEIRI_INLINE_BYTES)
            memcpy(data + (size_t)block * bytes, in, bytes);
        else if (block != coll->rank)
            weiri_slot_publish_to(coll, coll->epoch, block,
                                  data + weiri_part_place(coll, (size_t)block * bytes), in, bytes);
    }
    if (total <= WEIRI_INLINE_BYTES)
        weiri_slot_advance(coll, own, total);
}

/* Points coll->sources to byte at of this rank's block in all slots. own: of its input. */
static weir_status await_blocks(weiri_coll *coll, const char *own, size_t at, size_t length,
                                size_t bytes)
{
    size_t start = bytes * (size_t)coll->rank, total = bytes * (size_t)coll->nranks;
    if (total <= WEIRI_INLINE_BYTES)
        return weiri_slots_await(coll, own - start, start + at, start + at + length, total,
                                 packet_phase);
    return weiri_slots_await_parts(coll, own + at, weiri_part_place(coll, start) + at, total,
                                   at + length, packet_phase);
}

static weir_status reduce_block(weiri_coll *coll, const weiri_task *task, size_t done, size_t bytes)
{
    weiri_reduce_fn reduce = weiri_reduce_get(task->call->dtype, task->call->op);
    const char *own = weiri_in_at(task, (size_t)coll->rank * task->count_bytes + done);
    for (size_t at = 0; at < bytes; at += WEIRI_CHUNK_BYTES) {
        size_t length = bytes - at < WEIRI_CHUNK_BYTES ? bytes - at : WEIRI_CHUNK_BYTES;
        weir_status status = await_blocks(coll, own, at, length, bytes);
        if (status != WEIR_OK)
            return status;
        weiri_slots_combine(coll, task, reduce, weiri_out_at(task, done + at), length);
    }
    return WEIR_OK;
}

static weir_status reduce_scatter_packet_run(weiri_coll *coll, const weiri_task *task)
{
    size_t piece = coll->piece_bytes / (size_t)coll->nranks / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    for (size_t done = 0; done < task->count_bytes; done += piece) {
        size_t bytes = task->count_bytes - done < piece ? task->count_bytes - done : piece;
        weir_status status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        publish_blocks(coll, task, done, bytes);
        status = reduce_block(coll, task, done, bytes);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end_all_heard(coll);
    }
    return WEIR_OK;
}

static weir_status reduce_scatter_direct_run(weiri_coll *coll, const weiri_task *task)
{
    int all_in, all_out;
    weir_status status =
        weiri_posts_exchange(coll, task->call->in, task->count_bytes * (size_t)coll->nranks,
                             WEIRI_LENDS_MAPPED, NULL, 0, &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in)
        return weiri_algo_fall_back_plain(coll, task);
    const size_t offset = (size_t)coll->rank * task->count_bytes;
    status = weiri_posts_map_inputs(coll, task, offset);
    if (status != WEIR_OK)
        return status;
    coll->outputs[0] = task->call->out;
    status = weiri_reduce_into(coll, task,
                               (weiri_reduction){0, task->call->count, offset, coll->rank, 1});
    return status == WEIR_OK ? weiri_coll_end_together(coll, direct_phase) : status;
}

const weiri_algo weiri_host_reduce_scatter_packet_row = {
    .info = {WEIRI_HOST_TRAITS(REDUCE_SCATTER, "packet",
                               "publish the input, reduce one block of all inputs")},
    .run = reduce_scatter_packet_run,
};

const weiri_algo weiri_host_reduce_scatter_direct_row = {
    .info = {WEIRI_HOST_TRAITS(REDUCE_SCATTER, "direct",
                               "reduce one block from all ranks' registered memory"),
             .needs_mapped = 1},
    .run = reduce_scatter_direct_run,
};
