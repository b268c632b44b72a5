/*
 * Allreduce in one step, for small sizes: every rank publishes its input in
 * its slot and reduces everybody's, so each byte is read nranks times and only
 * one latency is paid. Inputs longer than a slot go piece by piece, one epoch
 * each. Reduction follows the writers chunk by chunk.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char phase[] = "allreduce (packet)";

/* Reduces [at, at + bytes) of the current piece; out is the piece's place. */
static weir_status reduce_part(weiri_coll *coll, weiri_reduce_fn reduce, const char *in,
                               char *out, size_t at, size_t bytes, size_t total)
{
    int parity = (int)(coll->epoch & 1);
    const void **sources = coll->sources;
    for (int rank = 0; rank < coll->nranks; rank++) {
        weiri_slot *slot = coll->areas[rank].slot[parity];
        sources[rank] = weiri_slot_data(slot, total) + at;
        if (rank == coll->rank) {
            sources[rank] = in + at;
            continue;
        }
        weir_status status = weiri_slot_await(coll, slot, rank, at + bytes, phase);
        if (status != WEIR_OK)
            return status;
    }
    reduce(out + at, sources, coll->nranks, bytes / coll->element_bytes, (uint64_t)coll->nranks, 0);
    return WEIR_OK;
}

weir_status weiri_allreduce_packet(weiri_coll *coll, const weir_call *call)
{
    weiri_reduce_fn reduce = weiri_reduce_get(call->dtype, call->op);
    weir_status status = WEIR_OK;
    for (size_t done = 0; done < coll->count_bytes && status == WEIR_OK;
         done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, coll->count_bytes, done);
        status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        weiri_slot *own = weiri_slot_of(coll, coll->rank);
        weiri_slot_publish(own, coll->epoch, weiri_in_at(call, done), total);
        for (size_t at = 0; at < total && status == WEIR_OK; at += WEIRI_CHUNK_BYTES) {
            size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
            status = reduce_part(coll, reduce, weiri_in_at(call, done), weiri_out_at(call, done),
                                 at, bytes, total);
        }
        weiri_coll_end_all_heard(coll);
    }
    return status;
}
