/*
 * The kernel of sends and receives (protocol: p2p.h). A block serves one or more lanes of one
 * direction of a pair and processes its messages in order.
 *
 * A round of a long message; one thread per lane of the block waits and signals:
 *
 *   sender    waits until the receiver has taken what was in the slots (acquire),
 *             synchronises, stores the pieces with all threads, synchronises, and
 *             releases the counts of pieces
 *   receiver  waits for the counts (acquire), synchronises, copies the pieces with all
 *             threads, synchronises, and releases the counts of pieces taken
 *
 * A short message travels in parts, one per lane, and takes the latency of an LL packet:
 *
 *   sender    each thread waits until the receiver has taken what was there, and stores its
 *             packets; one of them also stores a header packet with the message's length
 *   receiver  each thread waits for its packets and stores their words; the block
 *             synchronises, and one thread stores the count. That needs no release, because
 *             the packets' contents have been compared
 *
 * A receiver that waits for a part also checks for a piece, and the other way round, because that
 * means that the lengths differ.
 *
 * The blocks after those copy what the rank sends to itself.
 *
 * A wait that fails aborts the communicator; its counts are then meaningless.
 */
#ifndef WEIR_NCCL_P2P_CUH
#define WEIR_NCCL_P2P_CUH

#include "coll/cuda/device/ll_message.cuh"
#include "nccl/p2p/p2p_gpu.h"

/* Records why this launch fails, for the host. Called by one thread. */
WEIRI_GPU_FN void weiri_p2p_fail(const weiri_p2p_args &args, int status, int peer, uint64_t kind,
                                 uint64_t expected, uint64_t seen)
{
    weiri_gpu_view view;
    view.guard = args.guard;
    weiri_gpu_fail(view, status, peer, kind, expected, seen);
}

/* The boxes of a pair: in the peer's mailbox, and in this rank's own. */
typedef struct weiri_p2p_pair {
    char *peer_box, *own_box;
} weiri_p2p_pair;

WEIRI_GPU_FN weiri_p2p_pair weiri_p2p_pair_with(const weiri_p2p_args &args, int peer)
{
    weiri_p2p_pair pair = {
        weiri_p2p_box(args.mailbox[peer], peer, args.rank, args.lanes),
        weiri_p2p_box(args.mailbox[args.rank], args.rank, peer, args.lanes),
    };
    return pair;
}

/* This rank's count of a lane: pieces and parts that it has sent, or taken. */
WEIRI_GPU_FN uint64_t *weiri_p2p_own_count(const weiri_p2p_pair &pair, int sends, int lane)
{
    weiri_p2p_lane *own = weiri_p2p_lane_at(pair.own_box, lane);
    return sends ? &own->own_sent : &own->own_taken;
}

/* The count that the receiver must have taken before the next piece or part may be stored. */
WEIRI_GPU_FN uint64_t weiri_p2p_target(uint64_t count)
{
    const uint64_t next = count + 1, slots = WEIRI_P2P_SLOTS;
    return next < slots ? 0 : next - slots;
}

/* How seldom a waiter checks for what should not arrive; a check takes as long as a poll. */
enum { WEIRI_P2P_POLLS_PER_LOOK = 32 };

/* The guard for waits for a peer. It has no record: of many blocks only the one that fails
 * reports. */
WEIRI_GPU_FN weir_guard weiri_p2p_guard(const weiri_p2p_args &args, int peer)
{
    weir_guard guard = args.guard;
    guard.peer = peer;
    guard.record = NULL;
    return guard;
}

/* One thread of a sender: waits until the receiver has room for a lane's next piece or part.
 * Returns 0, or an error, which has been recorded. */
WEIRI_GPU_FN int weiri_p2p_await_room(const weiri_p2p_args &args, const weiri_p2p_pair &pair,
                                      int peer, int lane, uint64_t count)
{
    const weir_guard guard = weiri_p2p_guard(args, peer);
    const uint64_t *taken = &weiri_p2p_lane_at(pair.own_box, lane)->taken;
    const uint64_t target = weiri_p2p_target(count);
    const int status = weir_wait_at_least(taken, target, &guard);
    if (status)
        weiri_p2p_fail(args, status, peer, WEIR_WAIT_SEMAPHORE, target, weir_load_relaxed(taken));
    return status;
}

/* Where a part's packets are in the receiver's box: the header, or the data. */
WEIRI_GPU_FN char *weiri_p2p_part_at(const weiri_p2p_args &args, char *box, int lane,
                                     uint64_t count, int is_first)
{
    char *packets =
        (char *)weiri_p2p_packets_at(box, args.lanes, lane)->words[count % WEIRI_P2P_SLOTS];
    return packets + (is_first ? 0 : WEIRI_GPU_LINE_BYTES);
}

/* ------------------------------------------------------------- long messages */

/* One thread of a receiver: waits for a lane's next piece, or for the part of a short message in
 * its place, and returns the message's length in *seen. */
WEIRI_GPU_FN int weiri_p2p_await_piece(const weiri_p2p_args &args, const weiri_p2p_pair &pair,
                                       int lane, uint64_t count, const weir_guard &guard,
                                       uint64_t *seen)
{
    const weiri_p2p_lane *own = weiri_p2p_lane_at(pair.own_box, lane);
    const uint64_t next = count + 1;
    weir_waiter waiter = {0, 0};
    while (weir_load_acquire(&own->sent) < next) {
        int status = weir_waiter_step(&waiter, &guard);
        if (status)
            return status;
        if (waiter.polls % WEIRI_P2P_POLLS_PER_LOOK == 0 && !lane && /* every short message uses
                                                                      * lane 0 */
            weir_packet16_read((const uint64_t *)weiri_p2p_part_at(args, pair.own_box, 0, count, 1),
                               (uint32_t)next, seen))
            return 0;
    }
    *seen = own->slot[count % WEIRI_P2P_SLOTS].message_bytes;
    return 0;
}

/* One thread: waits until the receiver has room for a lane's next piece, or until the piece has
 * come and its message has the expected length. Returns 0, or an error, which has been recorded. */
WEIRI_GPU_FN int weiri_p2p_await(const weiri_p2p_args &args, const weiri_p2p_pair &pair,
                                 const weiri_p2p_call &call, int lane, uint64_t count)
{
    if (call.sends)
        return weiri_p2p_await_room(args, pair, call.peer, lane, count);
    const weir_guard guard = weiri_p2p_guard(args, call.peer);
    uint64_t seen = call.bytes;
    int status = weiri_p2p_await_piece(args, pair, lane, count, guard, &seen);
    if (status) {
        weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_SEMAPHORE, count + 1,
                       weir_load_relaxed(&weiri_p2p_lane_at(pair.own_box, lane)->sent));
    } else if (seen != call.bytes) {
        status = WEIR_ERR_MISMATCH;
        weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_COUNTS, call.bytes, seen);
    }
    return status;
}

/* Copies with as many loads in flight as registers allow if there is much to copy. */
WEIRI_GPU_FN void weiri_p2p_copy(char *to, const char *from, uint32_t bytes)
{
    enum { IN_FLIGHT = 8 };
    const uint32_t step = blockDim.x * 16;
    uint32_t done = 0;
    if (!weiri_gpu_misaligned(to, 16) && !weiri_gpu_misaligned(from, 16))
#pragma unroll 1
        for (; done + IN_FLIGHT * step <= bytes; done += IN_FLIGHT * step) {
            weiri_gpu_vector vec[IN_FLIGHT];
#pragma unroll
            for (uint32_t i = 0; i < IN_FLIGHT; i++)
                vec[i] = weiri_gpu_load16_cached(from + done + threadIdx.x * 16 + i * step);
#pragma unroll
            for (uint32_t i = 0; i < IN_FLIGHT; i++)
                weiri_gpu_store16(to + done + threadIdx.x * 16 + i * step, vec[i]);
        }
    weiri_gpu_copy(to + done, from + done, bytes - done);
}

/* One thread: signals that a lane's piece is there, or has been taken. */
WEIRI_GPU_FN void weiri_p2p_signal_piece(const weiri_p2p_pair &pair, const weiri_p2p_call &call,
                                         int lane, uint64_t count)
{
    weiri_p2p_lane *at_peer = weiri_p2p_lane_at(pair.peer_box, lane);
    if (call.sends)
        at_peer->slot[count % WEIRI_P2P_SLOTS].message_bytes = call.bytes;
    weir_store_release(call.sends ? &at_peer->sent : &at_peer->taken, count + 1);
}

/* Copies a lane's piece of a round between its message and a slot. All threads. */
WEIRI_GPU_FN void weiri_p2p_copy_piece(const weiri_p2p_pair &pair, const weiri_p2p_call &call,
                                       const weiri_p2p_division &cut, int lane, uint32_t round,
                                       uint32_t slot)
{
    uint64_t at;
    const uint32_t length = weiri_p2p_piece(call.bytes, cut, lane, round, &at);
    char *data =
        weiri_p2p_lane_at(call.sends ? pair.peer_box : pair.own_box, lane)->slot[slot].data;
    if (call.sends)
        weiri_p2p_copy(data, call.buffer + at, length);
    else
        weiri_p2p_copy(call.buffer + at, data, length);
}

/* Bit i is the parity of the count of the block's i-th lane, which selects the next slot. */
WEIRI_GPU_FN uint32_t weiri_p2p_next_slots(const weiri_p2p_args &args, const weiri_p2p_pair &pair,
                                           int sends, int lane, int lanes)
{
    static_assert(WEIRI_P2P_SLOTS == 2, "a bit says which slot");
    uint32_t slots = 0;
    for (int i = 0; lane < lanes; i++, lane += args.blocks_each)
        slots |= (uint32_t)(*weiri_p2p_own_count(pair, sends, lane) & 1) << i;
    return slots;
}

/* Moves a long message's pieces in a block's lanes: lane, lane + args.blocks_each, ... Returns 1,
 * or 0 in all threads if a wait failed. Counts are stored after the last round. */
WEIRI_GPU_FN int weiri_p2p_serve_long(const weiri_p2p_args &args, const weiri_p2p_call &call,
                                      int lane)
{
    const weiri_p2p_pair pair = weiri_p2p_pair_with(args, call.peer);
    const weiri_p2p_division cut = weiri_p2p_divide(call.bytes, args.lanes);
    const int mine = lane + (int)threadIdx.x * args.blocks_each, has_lane = mine < cut.lanes;
    if (lane >= cut.lanes)
        return 1;
    uint64_t count = has_lane ? *weiri_p2p_own_count(pair, call.sends, mine) : 0;
    uint32_t slots = weiri_p2p_next_slots(args, pair, call.sends, lane, cut.lanes);
    for (uint32_t round = 0; round < cut.rounds; round++, slots = ~slots) {
        if (__syncthreads_or(has_lane && weiri_p2p_await(args, pair, call, mine, count)))
            return 0;
        for (int i = 0, each = lane; each < cut.lanes; i++, each += args.blocks_each)
            weiri_p2p_copy_piece(pair, call, cut, each, round, slots >> i & 1);
        __syncthreads();
        if (has_lane)
            weiri_p2p_signal_piece(pair, call, mine, count++);
    }
    if (has_lane)
        *weiri_p2p_own_count(pair, call.sends, mine) = count;
    return 1;
}

/* ------------------------------------------------------------ short messages */

/* A lane of one direction of a pair, and how many pieces and parts have passed through it. */
typedef struct weiri_p2p_flow {
    weiri_p2p_pair pair;
    int lane;
    uint64_t count;
} weiri_p2p_flow;

/* One thread: waits until the receiver has room for the next part; false if the wait failed. */
WEIRI_GPU_FN int weiri_p2p_has_room(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                    int peer)
{
    const uint64_t *taken = &weiri_p2p_lane_at(flow.pair.own_box, flow.lane)->taken;
    return weir_load_relaxed(taken) >= weiri_p2p_target(flow.count) ||
           !weiri_p2p_await_room(args, flow.pair, peer, flow.lane, flow.count);
}

template <int UNROLL, bool EVEN>
WEIRI_GPU_FN void weiri_p2p_send_part(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                      const weiri_p2p_call &call, const char *from, uint64_t bytes)
{
    const uint64_t next = flow.count + 1;
    weiri_gpu_send_words<UNROLL, EVEN>(
        from, bytes, next, threadIdx.x, blockDim.x, [&](uint64_t *) -> char * {
            return weiri_p2p_has_room(args, flow, call.peer)
                       ? weiri_p2p_part_at(args, flow.pair.peer_box, flow.lane, flow.count, 0)
                       : NULL;
        });
    if (weiri_gpu_has_header(bytes, threadIdx.x, blockDim.x) &&
        weiri_p2p_has_room(args, flow, call.peer))
        weiri_gpu_send(weiri_p2p_part_at(args, flow.pair.peer_box, flow.lane, flow.count, 1), 0,
                       next, call.bytes);
}

/* One thread of a receiver: waits for a part's header packet, or for a piece in its place, and
 * compares the length. */
WEIRI_GPU_FN void weiri_p2p_await_part(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                       const weiri_p2p_call &call)
{
    const weir_guard guard = weiri_p2p_guard(args, call.peer);
    const weiri_p2p_lane *own = weiri_p2p_lane_at(flow.pair.own_box, flow.lane);
    const uint64_t *packet =
        (const uint64_t *)weiri_p2p_part_at(args, flow.pair.own_box, flow.lane, flow.count, 1);
    const uint64_t next = flow.count + 1;
    uint64_t seen;
    weir_waiter waiter = {0, 0};
    while (!weir_packet16_read(packet, (uint32_t)next, &seen)) {
        int status = weir_waiter_step(&waiter, &guard);
        if (status) {
            weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_PACKET, next, 0);
            return;
        }
        if (waiter.polls % WEIRI_P2P_POLLS_PER_LOOK == 0 && weir_load_acquire(&own->sent) >= next &&
            !weir_packet16_read(packet, (uint32_t)next, &seen)) { /* and not after a part before a
                                                                   * later piece */
            seen = own->slot[flow.count % WEIRI_P2P_SLOTS].message_bytes;
            break;
        }
    }
    if (seen != call.bytes)
        weiri_p2p_fail(args, WEIR_ERR_MISMATCH, call.peer, WEIR_WAIT_COUNTS, call.bytes, seen);
}

template <int UNROLL, bool EVEN>
WEIRI_GPU_FN void weiri_p2p_receive_part(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                         const weiri_p2p_call &call, char *to, uint64_t bytes)
{
    weiri_gpu_view view;
    view.guard = args.guard;
    if (weiri_gpu_has_header(bytes, threadIdx.x, blockDim.x))
        weiri_p2p_await_part(args, flow, call);
    weiri_gpu_receive_words<UNROLL, EVEN>(
        view, weiri_p2p_part_at(args, flow.pair.own_box, flow.lane, flow.count, 0), call.peer, to,
        bytes, flow.count + 1, threadIdx.x, blockDim.x);
    __syncthreads();
    if (!threadIdx.x)
        weir_store_relaxed(&weiri_p2p_lane_at(flow.pair.peer_box, flow.lane)->taken,
                           flow.count + 1);
}

/* Moves a lane's part of a short message that uses `lanes` lanes. */
WEIRI_GPU_FN void weiri_p2p_transfer_part(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                          const weiri_p2p_call &call, int lanes)
{
    enum { UNROLL = 2 };
    uint64_t at, bytes = weiri_p2p_part(call.bytes, lanes, flow.lane, &at);
    char *buffer = call.buffer + at;
    const int even = weiri_gpu_word_aligned(buffer, bytes);
    if (call.sends && even)
        weiri_p2p_send_part<UNROLL, true>(args, flow, call, buffer, bytes);
    else if (call.sends)
        weiri_p2p_send_part<1, false>(args, flow, call, buffer, bytes);
    else if (even)
        weiri_p2p_receive_part<UNROLL, true>(args, flow, call, buffer, bytes);
    else
        weiri_p2p_receive_part<1, false>(args, flow, call, buffer, bytes);
}

/* Moves one lane's parts of short messages: the calls [first, last) of one pair and direction. */
WEIRI_GPU_FN void weiri_p2p_serve_short(const weiri_p2p_args &args, int first, int last, int lane)
{
    const weiri_p2p_call *call = args.call + first, *end = args.call + last;
    weiri_p2p_flow flow = {weiri_p2p_pair_with(args, call->peer), lane, 0};
    uint64_t *own = weiri_p2p_own_count(flow.pair, call->sends, lane);
    flow.count = *own;
    for (; call < end; call++) {
        const int lanes = weiri_p2p_lanes_of_short(call->bytes, args.lanes);
        if (lane >= lanes)
            continue;
        weiri_p2p_transfer_part(args, flow, *call, lanes);
        flow.count++;
    }
    __syncthreads(); /* all threads have read the count */
    if (!threadIdx.x)
        *own = flow.count;
}

/* -------------------------------------------------------------------- blocks */

/* Moves a short message in a block's lanes, in a launch that also serves long ones. Not inlined,
 * because the copies of long messages need the registers. */
WEIRI_GPU_COLD_FN void weiri_p2p_serve_short_in_lanes(const weiri_p2p_args &args, int call,
                                                      int block)
{
    const int lanes = weiri_p2p_lanes_of_short(args.call[call].bytes, args.lanes);
    for (int lane = block; lane < lanes; lane += args.blocks_each)
        weiri_p2p_serve_short(args, call, call + 1, lane);
}

/* Serves short and long messages in order. */
WEIRI_GPU_FN void weiri_p2p_serve(const weiri_p2p_args &args, int first, int last, int block)
{
    for (int call = first; call < last; call++) {
        if (weiri_p2p_is_short(args.call[call].bytes, args.lanes))
            weiri_p2p_serve_short_in_lanes(args, call, block);
        else if (!weiri_p2p_serve_long(args, args.call[call], block))
            return;
        __syncthreads(); /* the counts are used by the next message */
    }
}

/* A block's part of what the rank sends to itself: whole lines. */
WEIRI_GPU_FN void weiri_p2p_copy_self(const weiri_p2p_self_copy &own, uint32_t block)
{
    const uint32_t lines = weiri_gpu_units_for(own.bytes, WEIRI_GPU_LINE_BYTES);
    const uint64_t each =
        (uint64_t)weiri_gpu_div_up(lines, (uint32_t)own.blocks) * WEIRI_GPU_LINE_BYTES;
    const uint64_t at = block * each;
    if (at < own.bytes)
        weiri_gpu_copy(own.to + at, own.from + at, weiri_gpu_min(own.bytes - at, each), threadIdx.x,
                       blockDim.x);
}

/* All blocks of a launch: nflows * blocks_each of them, then the blocks of the copy to itself.
 * SHORT: weiri_p2p_are_short of this launch; peers may launch the other kernel. */
template <bool SHORT> WEIRI_GPU_FN void weiri_p2p_exchange(const weiri_p2p_args &args)
{
    const int flow = (int)blockIdx.x / args.blocks_each, block = (int)blockIdx.x % args.blocks_each;
    if (flow >= args.nflows)
        weiri_p2p_copy_self(args.own, blockIdx.x - (uint32_t)(args.nflows * args.blocks_each));
    else if (SHORT)
        weiri_p2p_serve_short(args, args.first[flow], args.first[flow + 1], block);
    else
        weiri_p2p_serve(args, args.first[flow], args.first[flow + 1], block);
}

#endif
