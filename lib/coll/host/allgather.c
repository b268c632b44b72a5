/*
 * Allgather. packet: every rank publishes its input piece by piece and copies
 * everybody's from the slots. direct: ranks post their inputs, and each copies
 * from everybody's buffer, beginning with its successor, so that no two read
 * the same rank at once.
 */
#include "coll/algos.h"
#include "coll/host/slot.h"

static const char packet_phase[] = "allgather (packet)";
static const char direct_phase[] = "allgather (direct)";

/* The own block, unless it is in place already. */
static void place_own(weiri_coll *coll, const weir_call *call)
{
    char *own = weiri_out_at(call, (size_t)coll->rank * coll->count_bytes);
    if (own != call->in)
        weiri_move(coll, own, call->in, coll->count_bytes,
                   coll->count_bytes * (size_t)coll->nranks);
}

weir_status weiri_allgather_packet(weiri_coll *coll, const weir_call *call)
{
    int n = coll->nranks;
    for (size_t done = 0; done < coll->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, coll->count_bytes, done);
        weir_status status = weiri_coll_begin(coll);
        if (status != WEIR_OK)
            return status;
        weiri_slot_publish(weiri_slot_of(coll, coll->rank), coll->epoch, weiri_in_at(call, done),
                           total);
        if (done == 0)
            place_own(coll, call);
        for (int rank = weiri_next(coll->rank, n); rank != coll->rank; rank = weiri_next(rank, n)) {
            char *to = weiri_out_at(call, (size_t)rank * coll->count_bytes + done);
            status =
                weiri_slot_follow(coll, weiri_slot_of(coll, rank), rank, to, total, packet_phase);
            if (status != WEIR_OK)
                return status;
        }
        weiri_coll_end_all_heard(coll);
    }
    return WEIR_OK;
}

weir_status weiri_allgather_direct(weiri_coll *coll, const weir_call *call)
{
    int all_in, all_out;
    weir_status status = weiri_coll_begin(coll);
    if (status == WEIR_OK)
        status =
            weiri_posts_exchange(coll, call->in, coll->count_bytes, NULL, 0, &all_in, &all_out);
    if (status != WEIR_OK)
        return status;
    if (!all_in && !weiri_copies_plain(coll, coll->count_bytes)) {
        weiri_coll_end_all_heard(coll);
        return weiri_algo_give_way(coll, call, "packet", weiri_allgather_packet);
    }
    place_own(coll, call);
    int n = coll->nranks;
    for (int rank = weiri_next(coll->rank, n); rank != coll->rank; rank = weiri_next(rank, n)) {
        status = weiri_fetch(coll, rank, coll->areas[rank].post[coll->epoch & 1]->in,
                             weiri_out_at(call, (size_t)rank * coll->count_bytes),
                             coll->count_bytes, coll->count_bytes * (size_t)n);
        if (status != WEIR_OK)
            return status;
    }
    return weiri_coll_end_together(coll, direct_phase);
}
