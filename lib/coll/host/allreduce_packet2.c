/*
 * Allreduce in two steps through the slots, for unregistered memory: every rank publishes a piece
 * of its input, reduces its share of all ranks' pieces into its result slot, and copies the results
 * of all shares. It publishes the next piece before it copies the results of the current one, so
 * that ranks that share a core are scheduled once per piece.
 *
 * Reuse of slots. A rank publishes piece k + 1 in the slot of piece k - 1. It has then copied the
 * results of k - 1, which all ranks had reduced by then, and has seen every rank's piece k, so all
 * have finished whatever preceded this call: nobody reads that slot any more. It stores its result
 * of piece k + 1 after it has seen every rank's input k + 1, which a rank publishes after copying
 * the results of k - 1: nobody reads that result slot either.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char phase[] = "allreduce (packet2)";

typedef struct piece {
    size_t at, bytes; /* within the buffers */
} piece;

static piece packet2_piece_at(const weiri_coll *coll, size_t index)
{
    size_t at = index * coll->piece_bytes;
    return (piece){at, weiri_piece_at(coll, coll->count_bytes, at)};
}

static void packet2_publish(const weiri_coll *coll, const weir_call *call, uint64_t epoch,
                            piece part)
{
    weiri_slot_publish(coll->areas[coll->rank].slot[epoch & 1], epoch, weiri_in_at(call, part.at),
                       part.bytes);
}

/* Reduces this rank's share of a piece from all slots into its result slot. */
static weir_status reduce_share(weiri_coll *coll, const weir_call *call, piece part)
{
    weiri_share share = weiri_share_of(part.bytes / coll->element_bytes, coll->element_bytes,
                                       coll->rank, coll->nranks);
    size_t from = share.first * coll->element_bytes, bytes = share.count * coll->element_bytes;
    weir_status status = weiri_slots_await(coll, NULL, from, from + bytes, part.bytes, phase);
    if (status != WEIR_OK)
        return status;
    weiri_slot *result = coll->areas[coll->rank].result[coll->epoch & 1];
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
        piece part = packet2_piece_at(coll, index);
        if (index == 0)
            packet2_publish(coll, call, coll->epoch, part);
        status = reduce_share(coll, call, part);
        if (status != WEIR_OK)
            return status;
        if (index + 1 < pieces)
            packet2_publish(coll, call, coll->epoch + 1, packet2_piece_at(coll, index + 1));
        status = gather_results(coll, call, part);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end_all_heard(coll);
    }
    return WEIR_OK;
}
