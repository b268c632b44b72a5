/*
 * Broadcast on the host.
 *
 * packet: short messages pass through the root's lane. The root publishes longer ones piece by
 *         piece in its slot, and the others copy them as they arrive. At most two pieces are
 *         unread, because the root begins an epoch only when all have finished the one before the
 *         last.
 * direct: the root publishes a descriptor of its buffer, and the others copy from it. The root
 *         returns when all have.
 * cma:    the same; the kernel copies from a buffer that cannot be mapped.
 */
#include "coll/algos.h"
#include "coll/host/lane.h"
#include "coll/host/slot.h"

static const char packet_phase[] = "broadcast (packet)";
static const char direct_phase[] = "broadcast (direct)";

/* Only the root stores, so only the root waits until all have finished. */
static weir_status broadcast_begin(weiri_coll *coll, const weir_call *call)
{
    if (coll->rank == call->root)
        return weiri_coll_begin(coll);
    coll->epoch++;
    return WEIR_OK;
}

static weir_status broadcast_through_lane(weiri_coll *coll, const weir_call *call)
{
    weir_status status;
    if (coll->rank == call->root) {
        status = weiri_lane_send(coll, call->in, coll->count_bytes);
        weiri_place_own(coll, call, call->out, coll->count_bytes);
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
        return broadcast_through_lane(coll, call);
    for (size_t done = 0; done < coll->count_bytes; done += coll->piece_bytes) {
        size_t total = weiri_piece_at(coll, coll->count_bytes, done);
        weir_status status = broadcast_begin(coll, call);
        if (status == WEIR_OK && is_root)
            weiri_slot_publish(coll, coll->epoch, weiri_in_at(call, done), total);
        else if (status == WEIR_OK)
            status = weiri_slot_follow(coll, call->root, weiri_out_at(call, done), total,
                                       packet_phase);
        if (status != WEIR_OK)
            return status;
        weiri_coll_end(coll);
    }
    if (is_root)
        weiri_place_own(coll, call, call->out, coll->count_bytes);
    return WEIR_OK;
}

/* Whether the others copy from the root's buffer. */
static int post_is_readable(weiri_coll *coll, const weiri_post *post)
{
    if (post->in.generation == WEIRI_GENERATION_UNREGISTERED)
        coll->last_algo = "cma";
    return post->in.generation != 0;
}

/* The root's buffer; unregistered memory if the root lends it, as "cma" always does. */
static weiri_desc describe_root(const weiri_coll *coll, const weir_call *call, int is_cma)
{
    int lends = weiri_reads_unregistered(coll, call) &&
                weiri_lends_unregistered(coll, call->collective);
    return weiri_describe(coll, call->in, coll->count_bytes,
                          is_cma  ? WEIRI_LENDS_COPIED
                          : lends ? WEIRI_LENDS_ANY
                                  : WEIRI_LENDS_MAPPED);
}

static weir_status broadcast_lend(weiri_coll *coll, const weir_call *call, int is_cma)
{
    weiri_post *post = coll->areas[coll->rank].post[coll->epoch & 1];
    post->in = describe_root(coll, call, is_cma);
    weir_store_release(&post->flag, coll->epoch);
    if (!post_is_readable(coll, post)) {
        weiri_coll_end(coll);
        return weiri_algo_fall_back_plain(coll, call);
    }
    weiri_place_own(coll, call, call->out, coll->count_bytes);
    return weiri_coll_end_together(coll, direct_phase);
}

static weir_status broadcast_copy(weiri_coll *coll, const weir_call *call)
{
    const weiri_post *post = coll->areas[call->root].post[coll->epoch & 1];
    weir_status status =
        weiri_comm_wait(coll->comm, &post->flag, coll->epoch, call->root, direct_phase);
    if (status != WEIR_OK)
        return status;
    if (!post_is_readable(coll, post)) {
        weiri_coll_end(coll);
        return weiri_algo_fall_back_plain(coll, call);
    }
    status =
        weiri_fetch(coll, call->root, post->in, call->out, coll->count_bytes, coll->count_bytes);
    if (status != WEIR_OK)
        return status;
    weiri_coll_end(coll);
    return WEIR_OK;
}

static weir_status broadcast_pull(weiri_coll *coll, const weir_call *call, int is_cma)
{
    weir_status status = broadcast_begin(coll, call);
    if (status != WEIR_OK)
        return status;
    return coll->rank == call->root ? broadcast_lend(coll, call, is_cma)
                                    : broadcast_copy(coll, call);
}

weir_status weiri_broadcast_direct(weiri_coll *coll, const weir_call *call)
{
    return broadcast_pull(coll, call, 0);
}

weir_status weiri_broadcast_cma(weiri_coll *coll, const weir_call *call)
{
    if (!coll->comm->reads_unregistered)
        return weiri_algo_fall_back(coll, call, "packet", weiri_broadcast_packet);
    return broadcast_pull(coll, call, 1);
}
