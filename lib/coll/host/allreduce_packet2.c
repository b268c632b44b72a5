/*
 * Allreduce in two steps through the slots, for plain memory: every rank
 * publishes a piece of its input, reduces its share of everybody's piece into
 * its result slot, and gathers all results. The next piece is published before
 * the results of the current one are gathered, so that ranks which share a
 * core need one turn a piece.
 *
 * Reuse. A rank publishes piece k + 1 when it has gathered piece k - 1, which
 * every rank must have reduced by then, and has seen everyone's piece k, so
 * that all have finished whatever came before this call: nobody reads that slot
 * any more. It stores results of piece k + 1 after it has seen everyone's input
 * k + 1, which they publish after gathering k - 1: nobody reads those results
 * either.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char phase[] = "allreduce (packet2)";

typedef struct piece {
    size_t at, bytes; /* within the buffers */
} piece;

static piece piece_at(const weiri_coll *coll, size_t index)
{
    size_t at = index * coll->piece_bytes;
    return (piece){at, weiri_piece_at(coll, coll->count_bytes, at)};
}

static void publish(const weiri_coll *coll, const weir_call *call, uint64_t epoch, piece part)
{
    weiri_slot_publish(coll->areas[coll->rank].slot[epoch & 1], epoch, weiri_in_at(call, part.at),
                       part.bytes);
}

/* The own share of a piece, from all slots into the own result slot. */
static weir_status reduce_share(weiri_coll *coll, const weir_call *call, piece part)
{
    int parity = (int)(coll->epoch & 1);
    weiri_share share = weiri_share_of(part.bytes / coll->element_bytes, coll->element_bytes,
                                       coll->rank, coll->nranks);
    size_t from = share.first * coll->element_bytes, bytes = share.count * coll->element_bytes;
    for (int rank = 0; rank < coll->nranks; rank++) {
        weiri_slot *slot = coll->areas[rank].slot[parity];
        weir_status status = weiri_slot_await(coll, slot, rank, from + bytes, phase);
        if (status != WEIR_OK)
            return status;
        coll->sources[rank] = weiri_slot_data(slot, part.bytes) + from;
    }
    weiri_slot *result = coll->areas[coll->rank].result[parity];
    weiri_reduce(weiri_slot_data(result, bytes), coll->sources, coll->nranks, share.count,
                 call->dtype, call->op, (uint64_t)coll->nranks, 0);
    weiri_slot_advance(coll, result, bytes);
    return WEIR_OK;
}

static weir_status gather_results(weiri_coll *coll, const weir_call *call, piece part)
{
    int parity = (int)(coll->epoch & 1);
    for (int step = 0; step < coll->nranks; step++) {
        int rank = (coll->rank + step) % coll->nranks;
        weiri_share share = weiri_share_of(part.bytes / coll->element_bytes, coll->element_bytes,
                                           rank, coll->nranks);
        size_t bytes = share.count * coll->element_bytes;
        weiri_slot *result = coll->areas[rank].result[parity];
        weir_status status = weiri_slot_await(coll, result, rank, bytes, phase);
        if (status != WEIR_OK)
            return status;
        weiri_move(coll, weiri_out_at(call, part.at) + share.first * coll->element_bytes,
                   weiri_slot_data(result, bytes), bytes, coll->count_bytes);
    }
    return WEIR_OK;
}

weir_status weiri_allreduce_packet2(weiri_coll *coll, const weir_call *call)
{
    size_t pieces = (coll->count_bytes + coll->piece_bytes - 1) / coll->piece_bytes;
    for (size_t index = 0; index < pieces; index++) {
        weir_status status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        piece part = piece_at(coll, index);
        if (index == 0)
            publish(coll, call, coll->epoch, part);
        status = reduce_share(coll, call, part);
        if (status != WEIR_OK)
            return status;
        if (index + 1 < pieces)
            publish(coll, call, coll->epoch + 1, piece_at(coll, index + 1));
        status = gather_results(coll, call, part);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end_all_heard(coll);
    }
    return WEIR_OK;
}
