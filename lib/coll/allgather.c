/*
 * Allgather. packet: every rank publishes its input piece by piece and copies
 * everybody's from the slots. direct: ranks post their inputs, and each copies
 * from everybody's buffer, beginning with its successor, so that no two read
 * the same rank at once.
 */
#include "coll/algos.h"
#include "coll/slot.h"

static const char packet_phase[] = "allgather (packet)";
static const char direct_phase[] = "allgather (direct)";

/* The own block, unless it is in place already. */
static void place_own(weiri_coll *coll, const weiri_call *call)
{
    char *own = call->out + (size_t)coll->rank * call->bytes;
    if (own != call->in)
        weiri_move(coll, own, call->in, call->bytes, call->bytes * (size_t)coll->nranks);
}

/* Copies rank's piece as it arrives. */
static weir_status collect(weiri_coll *coll, const weiri_call *call, int rank, size_t done,
                           size_t total)
{
    weiri_slot *slot = coll->areas[rank].slot[coll->epoch & 1];
    const char *data = weiri_slot_data(slot, total);
    char *out = call->out + (size_t)rank * call->bytes + done;
    for (size_t at = 0; at < total; at += WEIRI_CHUNK_BYTES) {
        size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
        weir_status status = weiri_slot_await(coll, slot, rank, at + bytes, packet_phase);
        if (status != WEIR_OK)
            return status;
        memcpy(out + at, data + at, bytes);
    }
    return WEIR_OK;
}

weir_status weiri_allgather_packet(weiri_coll *coll, const weiri_call *call)
{
    for (size_t done = 0; done < call->bytes; done += coll->piece_bytes) {
        size_t left = call->bytes - done;
        size_t total = left < coll->piece_bytes ? left : coll->piece_bytes;
        weir_status status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        weiri_slot_publish(coll->areas[coll->rank].slot[coll->epoch & 1], coll->epoch,
                           call->in + done, total);
        if (done == 0)
            place_own(coll, call);
        for (int step = 1; step < coll->nranks && status == WEIR_OK; step++)
            status = collect(coll, call, (coll->rank + step) % coll->nranks, done, total);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end_all_heard(coll);
    }
    return WEIR_OK;
}

weir_status weiri_allgather_direct(weiri_coll *coll, const weiri_call *call)
{
    int all_in, all_out;
    weir_status status = weiri_coll_begin(coll);
    if (status == WEIR_OK)
        status = weiri_posts_exchange(coll, call->in, call->bytes, NULL, 0, &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in) {
        weiri_coll_end_all_heard(coll);
        return weiri_algo_give_way(coll, call, "packet", weiri_allgather_packet);
    }
    place_own(coll, call);
    int n = coll->nranks;
    for (int rank = weiri_next(coll->rank, n); rank != coll->rank; rank = weiri_next(rank, n)) {
        const char *in = NULL;
        status = weiri_post_in(coll, rank, NULL, &in);
        if (status != WEIR_OK)
            return status;
        weiri_move(coll, call->out + (size_t)rank * call->bytes, in, call->bytes,
                   call->bytes * (size_t)coll->nranks);
    }
    return weiri_coll_end_together(coll, direct_phase);
}
