/*
 * Broadcast. packet: short messages go through the root's lane. Longer ones the
 * root publishes piece by piece in its slot, and the others follow; two pieces are on their way at
 * most, because the root begins an epoch only when all have finished the one before the last.
 * direct: the root posts its buffer and the others copy from it; the root leaves when all have.
 */
#include "coll/algos.h"
#include "coll/host/lane.h"
#include "coll/host/slot.h"
#include "comm/node/peer_copy.h"

static const char packet_phase[] = "broadcast (packet)";
static const char direct_phase[] = "broadcast (direct)";

static void keep_own(weiri_coll *coll, const weir_call *call)
{
    if (call->out != call->in)
        weiri_move(coll, call->out, call->in, coll->count_bytes, coll->count_bytes);
}

/* Only the root stores, so only the root must know that all have finished. */
static weir_status begin(weiri_coll *coll, const weir_call *call)
{
    if (coll->rank == call->root)
        return weiri_coll_begin(coll);
    coll->epoch++;
    return WEIR_OK;
}

static weir_status through_lane(weiri_coll *coll, const weir_call *call)
{
    weir_status status;
    if (coll->rank == call->root) {
        status = weiri_lane_send(coll, call->in, coll->count_bytes);
        keep_own(coll, call);
    } else {
        const char *data;
        coll->epoch++;
        status = weiri_lane_await(coll, call->root, packet_phase, &data);
        if (status == WEIR_OK)
            memcpy(call->out, data, coll->count_bytes);
    }
    weiri_coll_end(coll);
    return status;
}

weir_status weiri_broadcast_packet(weiri_coll *coll, const weir_call *call)
{
    int is_root = coll->rank == call->root;
    if (coll->count_bytes <= WEIRI_LANE_BYTES)
        return through_lane(coll, call);
    for (size_t done = 0; done < coll->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, coll->count_bytes, done);
        weir_status status = begin(coll, call);
        weiri_slot *slot = weiri_slot_of(coll, call->root);
        if (status == WEIR_OK && is_root)
            weiri_slot_publish(slot, coll->epoch, weiri_in_at(call, done), total);
        else if (status == WEIR_OK)
            status = weiri_slot_follow(coll, slot, call->root, weiri_out_at(call, done), total,
                                       packet_phase);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end(coll);
    }
    if (is_root)
        keep_own(coll, call);
    return WEIR_OK;
}

static int readable(const weiri_coll *coll, const weiri_post *post)
{
    return post->in.generation == WEIRI_GENERATION_UNREGISTERED
               ? weiri_copies_plain(coll, coll->count_bytes)
               : post->in.generation != 0;
}

static weir_status lend(weiri_coll *coll, const weir_call *call)
{
    weiri_post *post = coll->areas[coll->rank].post[coll->epoch & 1];
    post->in = weiri_peer_copy_describe(coll->comm, call->in, coll->count_bytes);
    weir_store_release(&post->flag, coll->epoch);
    if (!readable(coll, post)) {
        weiri_coll_end(coll);
        return weiri_algo_give_way(coll, call, "packet", weiri_broadcast_packet);
    }
    keep_own(coll, call);
    return weiri_coll_end_together(coll, direct_phase);
}

static weir_status borrow(weiri_coll *coll, const weir_call *call)
{
    const weiri_post *post = coll->areas[call->root].post[coll->epoch & 1];
    weir_status status =
        weiri_comm_wait(coll->comm, &post->flag, coll->epoch, call->root, direct_phase);
    if (status != WEIR_OK)
        return status;
    if (!readable(coll, post)) {
        weiri_coll_end(coll);
        return weiri_algo_give_way(coll, call, "packet", weiri_broadcast_packet);
    }
    status =
        weiri_fetch(coll, call->root, post->in, call->out, coll->count_bytes, coll->count_bytes);
    if (status != WEIR_OK)
        return status;
    weiri_coll_end(coll);
    return WEIR_OK;
}

weir_status weiri_broadcast_direct(weiri_coll *coll, const weir_call *call)
{
    weir_status status = begin(coll, call);
    if (status != WEIR_OK)
        return status;
    return coll->rank == call->root ? lend(coll, call) : borrow(coll, call);
}
