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

/* Publishes the bytes at offset done of every block, in the order of blocks. */
static void publish_blocks(weiri_coll *coll, const weir_call *call, size_t done, size_t bytes)
{
    weiri_slot *own = weiri_slot_of(coll, coll->rank);
    size_t total = bytes * (size_t)coll->nranks;
    char *data = weiri_slot_data(own, total);
    for (int block = 0; block < coll->nranks; block++) {
        memcpy(data + (size_t)block * bytes,
               weiri_in_at(call, (size_t)block * coll->count_bytes + done), bytes);
        if (total > WEIRI_INLINE_BYTES)
            weir_store_release(&own->flag, weiri_flag(coll->epoch, ((size_t)block + 1) * bytes /
                                                                       WEIRI_CHUNK_BYTES));
    }
    weiri_slot_advance(coll, own, total);
}

static weir_status reduce_block(weiri_coll *coll, const weir_call *call, size_t done, size_t bytes)
{
    size_t at = bytes * (size_t)coll->rank;
    weir_status status = weiri_slots_await(coll, NULL, at, at + bytes,
                                           bytes * (size_t)coll->nranks, packet_phase);
    if (status == WEIR_OK)
        weiri_reduce(weiri_out_at(call, done), coll->sources, coll->nranks,
                     bytes / coll->element_bytes, call->dtype, call->op, (uint64_t)coll->nranks, 0);
    return status;
}

weir_status weiri_reduce_scatter_packet(weiri_coll *coll, const weir_call *call)
{
    size_t piece = coll->piece_bytes / (size_t)coll->nranks / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    for (size_t done = 0; done < coll->count_bytes; done += piece) {
        size_t bytes = coll->count_bytes - done < piece ? coll->count_bytes - done : piece;
        weir_status status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        publish_blocks(coll, call, done, bytes);
        status = reduce_block(coll, call, done, bytes);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end_all_heard(coll);
    }
    return WEIR_OK;
}

weir_status weiri_reduce_scatter_direct(weiri_coll *coll, const weir_call *call)
{
    int all_in, all_out;
    weir_status status =
        weiri_posts_exchange(coll, call->in, coll->count_bytes * (size_t)coll->nranks, NULL, 0,
                             &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in) {
        weiri_coll_end_all_heard(coll);
        return weiri_algo_fall_back(coll, call, "packet", weiri_reduce_scatter_packet);
    }
    status = weiri_posts_map_inputs(coll, call, (size_t)coll->rank * coll->count_bytes);
    if (status != WEIR_OK)
        return status;
    weiri_reduce_into(coll, call, 0, call->count, &(char *){call->out}, 1);
    return weiri_coll_end_together(coll, direct_phase);
}
