/*
 * Reduce to a root. packet: every rank publishes its input, short ones in its
 * lane, longer ones piece by piece, and the root reduces all of them. direct: ranks post their
 * buffers; each reduces its share of everybody's input into the root's output, and all leave
 * together.
 */
#include "coll/algos.h"
#include "coll/host/lane.h"
#include "coll/host/slot.h"

static const char packet_phase[] = "reduce (packet)";
static const char direct_phase[] = "reduce (direct)";

static weir_status reduce_piece(weiri_coll *coll, const weir_call *call, size_t done, size_t total)
{
    for (int rank = 0; rank < coll->nranks; rank++) {
        weiri_slot *slot = weiri_slot_of(coll, rank);
        coll->sources[rank] = weiri_slot_data(slot, total);
        if (rank == coll->rank) {
            coll->sources[rank] = weiri_in_at(call, done);
            continue;
        }
        weir_status status = weiri_slot_await(coll, slot, rank, total, packet_phase);
        if (status != WEIR_OK)
            return status;
    }
    weiri_reduce(weiri_out_at(call, done), coll->sources, coll->nranks, total / coll->element_bytes,
                 call->dtype, call->op, (uint64_t)coll->nranks, 0);
    return WEIR_OK;
}

static weir_status reduce_lanes(weiri_coll *coll, const weir_call *call)
{
    coll->epoch++;
    for (int rank = 0; rank < coll->nranks; rank++) {
        const char *data = call->in;
        weir_status status =
            rank == coll->rank ? WEIR_OK : weiri_lane_await(coll, rank, packet_phase, &data);
        if (status != WEIR_OK)
            return status;
        coll->sources[rank] = data;
    }
    weiri_reduce(call->out, coll->sources, coll->nranks, call->count, call->dtype, call->op,
                 (uint64_t)coll->nranks, 0);
    return WEIR_OK;
}

static weir_status through_lanes(weiri_coll *coll, const weir_call *call)
{
    weir_status status = coll->rank == call->root
                             ? reduce_lanes(coll, call)
                             : weiri_lane_send(coll, call->in, coll->count_bytes);
    weiri_coll_end(coll);
    return status;
}

weir_status weiri_reduce_packet(weiri_coll *coll, const weir_call *call)
{
    int is_root = coll->rank == call->root;
    if (coll->count_bytes <= WEIRI_LANE_BYTES)
        return through_lanes(coll, call);
    for (size_t done = 0; done < coll->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, coll->count_bytes, done);
        weir_status status = WEIR_OK;
        if (is_root) {
            coll->epoch++; /* stores nothing that others read */
            status = reduce_piece(coll, call, done, total);
        } else {
            status = weiri_coll_begin(coll);
            if (status == WEIR_OK)
                weiri_slot_publish(weiri_slot_of(coll, coll->rank), coll->epoch,
                                   weiri_in_at(call, done), total);
        }
        if (status != WEIR_OK)
            return status;
        weiri_coll_end(coll);
    }
    return WEIR_OK;
}

/* Only the root's output counts: the others declare an empty buffer. */
static weir_status exchange_posts(weiri_coll *coll, const weir_call *call, int *usable)
{
    int all_in, all_out;
    int is_root = coll->rank == call->root;
    weir_status status =
        weiri_posts_exchange(coll, call->in, coll->count_bytes, is_root ? call->out : call->in,
                             is_root ? coll->count_bytes : 0, &all_in, &all_out);
    *usable = status == WEIR_OK && all_in && all_out;
    return status;
}

weir_status weiri_reduce_direct(weiri_coll *coll, const weir_call *call)
{
    int usable = 0;
    weir_status status = weiri_coll_begin(coll);
    if (status == WEIR_OK)
        status = exchange_posts(coll, call, &usable);
    if (status != WEIR_OK)
        return status;
    if (!usable) {
        weiri_coll_end_all_heard(coll);
        return weiri_algo_give_way(coll, call, "packet", weiri_reduce_packet);
    }
    char *out = NULL;
    status = weiri_post_out(coll, call->root, call->out, &out);
    for (int rank = 0; rank < coll->nranks && status == WEIR_OK; rank++) {
        const char *in = NULL;
        status = weiri_post_in(coll, rank, call->in, &in);
        coll->sources[rank] = in;
    }
    if (status != WEIR_OK)
        return status;
    weiri_share share = weiri_share_of(call->count, coll->element_bytes, coll->rank, coll->nranks);
    weiri_reduce_into(coll, call, share.first, share.count, &out, 1);
    return weiri_coll_end_together(coll, direct_phase);
}
