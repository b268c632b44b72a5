/*
 * The kernel's part of sends and receives (p2p.h): a block serves one lane of one
 * direction of a pair, and goes through its messages in order.
 *
 * A piece of a long one:
 *
 *   sender    waits until the receiver has taken what was in the slot (acquire),
 *             stores the piece with all threads, meets, and one thread releases
 *             the count of pieces
 *   receiver  waits for the count (acquire), meets, copies the piece with all
 *             threads, meets, and one thread releases the count of pieces taken
 *
 * A part of a short one takes a packet's latency:
 *
 *   sender    each thread waits until the receiver has taken what was there, and stores
 *             its packets; one of them a first packet that says how long the message is
 *   receiver  each thread waits for its packets and stores their words; the block meets, and
 *             one thread tells the count. That needs no release: the packets were compared
 *
 * A receiver that waits for a part looks for a piece, too, and the other way round: then
 * lengths differ.
 *
 * Blocks behind those copy what the rank sends to itself.
 *
 * A wait that fails aborts the communicator; its counts are of no use any more.
 */
#ifndef WEIR_NCCL_P2P_CUH
#define WEIR_NCCL_P2P_CUH

#include "coll/cuda/packets.cuh"
#include "nccl/p2p_gpu.h"

/* Why this launch fails, for the host; one thread. */
WEIRI_GPU_FN void weiri_p2p_fail(const weiri_p2p_args &args, int status, int peer, uint64_t kind,
                                 uint64_t expected, uint64_t seen)
{
    weiri_gpu_view view;
    view.guard = args.guard;
    weiri_gpu_fail(view, status, peer, kind, expected, seen);
}

/* One direction of a lane of a pair: the ends of it, and how many pieces and parts have passed. */
typedef struct weiri_p2p_flow {
    weiri_p2p_lane *there, *here; /* in the peer's mailbox, and in the own one */
    uint64_t count;
} weiri_p2p_flow;

/* The count to wait for before the next piece or part: that is it, or there is room for it. */
WEIRI_GPU_FN uint64_t weiri_p2p_target(uint64_t count, int sends)
{
    const uint64_t next = count + 1, slots = WEIRI_P2P_SLOTS;
    return !sends ? next : next < slots ? 0 : next - slots;
}

/* So seldom does who waits look for what should not come: a look takes as long as a poll. */
enum { WEIRI_P2P_POLLS_PER_LOOK = 32 };

/* The guard of waits for a peer. Of many blocks the one that fails tells. */
WEIRI_GPU_FN weir_guard weiri_p2p_guard(const weiri_p2p_args &args, int peer)
{
    weir_guard guard = args.guard;
    guard.peer = peer;
    guard.record = NULL;
    return guard;
}

/* ------------------------------------------------------------- long messages */

/* One thread of a receiver: waits for a piece, or for the part of a short message in its place,
 * and learns how long the message is. */
WEIRI_GPU_FN int weiri_p2p_hear_piece(const weiri_p2p_flow &flow, const weir_guard &guard,
                                      uint64_t *seen)
{
    const unsigned slot = (unsigned)(flow.count % WEIRI_P2P_SLOTS);
    const uint64_t next = flow.count + 1;
    weir_waiter waiter = {0, 0};
    while (weir_load_acquire(&flow.here->sent) < next) {
        int status = weir_waiter_step(&waiter, &guard);
        if (status)
            return status;
        if (waiter.polls % WEIRI_P2P_POLLS_PER_LOOK == 0 &&
            weir_packet16_read(flow.here->packet[slot], (uint32_t)next, seen))
            return 0;
    }
    *seen = flow.here->slot[slot].message_bytes;
    return 0;
}

/* Waits until the receiver has room for the next piece, or until it has come, of a message
 * that is as long as is expected. All threads of the block know it. If not, the host is told
 * why, and with the peer. */
WEIRI_GPU_FN int weiri_p2p_await(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                 const weiri_p2p_call &call)
{
    int status = 0;
    if (!threadIdx.x) {
        const weir_guard guard = weiri_p2p_guard(args, call.peer);
        const uint64_t target = weiri_p2p_target(flow.count, call.sends);
        const uint64_t *word = call.sends ? &flow.here->taken : &flow.here->sent;
        uint64_t seen = call.bytes;
        status = call.sends ? weir_wait_at_least(word, target, &guard)
                            : weiri_p2p_hear_piece(flow, guard, &seen);
        if (status) {
            weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_SEMAPHORE, target,
                           weir_load_relaxed(word));
        } else if (seen != call.bytes) {
            status = WEIR_ERR_MISMATCH;
            weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_COUNTS, call.bytes, seen);
        }
    }
    return !__syncthreads_or(status);
}

/* With as many loads in flight as there are registers for, where it is much; less code is
 * sooner there, where it is not. */
WEIRI_GPU_FN void weiri_p2p_copy(char *to, const char *from, uint64_t bytes)
{
    enum { MUCH_BYTES = 16 << 10, IN_FLIGHT = 8 };
    if (bytes < MUCH_BYTES)
        weiri_gpu_copy(to, from, bytes, threadIdx.x, blockDim.x);
    else
        weiri_gpu_copy<IN_FLIGHT>(to, from, bytes, threadIdx.x, blockDim.x);
}

/* Moves the next piece, which begins at `at` of its message: 1, or 0 in all threads if a wait
 * failed. */
WEIRI_GPU_FN int weiri_p2p_step(const weiri_p2p_args &args, weiri_p2p_flow *flow,
                                const weiri_p2p_call &call, uint64_t at, uint64_t length)
{
    const unsigned slot = (unsigned)(flow->count % WEIRI_P2P_SLOTS);
    if (!weiri_p2p_await(args, *flow, call))
        return 0;
    if (length)
        weiri_p2p_copy(call.sends ? flow->there->slot[slot].data : call.buffer + at,
                       call.sends ? call.buffer + at : flow->here->slot[slot].data, length);
    if (!threadIdx.x && call.sends)
        flow->there->slot[slot].message_bytes = call.bytes;
    __syncthreads();
    flow->count++;
    if (!threadIdx.x)
        weir_store_release(call.sends ? &flow->there->sent : &flow->there->taken, flow->count);
    return 1;
}

/* ------------------------------------------------------------ short messages */

/* Where a part's packets are, the first and the others. */
WEIRI_GPU_FN char *weiri_p2p_packets(weiri_p2p_lane *lane, uint64_t count, int is_first)
{
    return (char *)lane->packet[count % WEIRI_P2P_SLOTS] + (is_first ? 0 : WEIRI_GPU_LINE_BYTES);
}

/* One thread: whether the receiver has room for the next part, in the end. If not, the host is
 * told. */
WEIRI_GPU_FN int weiri_p2p_has_room(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                    int peer)
{
    const uint64_t target = weiri_p2p_target(flow.count, 1);
    const uint64_t *taken = &flow.here->taken;
    if (weir_load_relaxed(taken) >= target)
        return 1;
    const weir_guard guard = weiri_p2p_guard(args, peer);
    int status = weir_wait_at_least(taken, target, &guard);
    if (status)
        weiri_p2p_fail(args, status, peer, WEIR_WAIT_SEMAPHORE, target, weir_load_relaxed(taken));
    return !status;
}

template <int UNROLL, bool EVEN>
WEIRI_GPU_FN void weiri_p2p_send_part(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                      const weiri_p2p_call &call, const char *from, uint64_t bytes)
{
    const uint64_t next = flow.count + 1;
    weiri_gpu_send_words<UNROLL, EVEN>(
        from, bytes, next, threadIdx.x, blockDim.x, [&](uint64_t *) -> char * {
            return weiri_p2p_has_room(args, flow, call.peer)
                       ? weiri_p2p_packets(flow.there, flow.count, 0)
                       : NULL;
        });
    if (weiri_gpu_has_header(bytes, threadIdx.x, blockDim.x) &&
        weiri_p2p_has_room(args, flow, call.peer))
        weiri_gpu_send(weiri_p2p_packets(flow.there, flow.count, 1), 0, next, call.bytes);
}

/* One thread of a receiver: waits for a part's first packet, or for a piece in its place, and
 * compares what it says. */
WEIRI_GPU_FN void weiri_p2p_hear_part(const weiri_p2p_args &args, const weiri_p2p_flow &flow,
                                      const weiri_p2p_call &call)
{
    const weir_guard guard = weiri_p2p_guard(args, call.peer);
    const uint64_t *packet = (const uint64_t *)weiri_p2p_packets(flow.here, flow.count, 1);
    const uint64_t next = flow.count + 1;
    uint64_t seen;
    weir_waiter waiter = {0, 0};
    while (!weir_packet16_read(packet, (uint32_t)next, &seen)) {
        int status = weir_waiter_step(&waiter, &guard);
        if (status) {
            weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_PACKET, next, 0);
            return;
        }
        if (waiter.polls % WEIRI_P2P_POLLS_PER_LOOK == 0 &&
            weir_load_acquire(&flow.here->sent) >= next &&
            !weir_packet16_read(packet, (uint32_t)next, &seen)) { /* nor before a later piece */
            seen = flow.here->slot[flow.count % WEIRI_P2P_SLOTS].message_bytes;
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
        weiri_p2p_hear_part(args, flow, call);
    weiri_gpu_receive_words<UNROLL, EVEN>(view, weiri_p2p_packets(flow.here, flow.count, 0),
                                          call.peer, to, bytes, flow.count + 1, threadIdx.x,
                                          blockDim.x);
    __syncthreads();
    if (!threadIdx.x)
        weir_store_relaxed(&flow.there->taken, flow.count + 1);
}

/* Moves the part of a short message in this lane. */
WEIRI_GPU_FN void weiri_p2p_pass(const weiri_p2p_args &args, weiri_p2p_flow *flow,
                                 const weiri_p2p_call &call, int lanes, int lane)
{
    enum { UNROLL = 2 };
    uint64_t at, bytes = weiri_p2p_part(call.bytes, lanes, lane, &at);
    char *buffer = call.buffer + at;
    const int even = weiri_gpu_even(buffer, bytes);
    if (call.sends && even)
        weiri_p2p_send_part<UNROLL, true>(args, *flow, call, buffer, bytes);
    else if (call.sends)
        weiri_p2p_send_part<1, false>(args, *flow, call, buffer, bytes);
    else if (even)
        weiri_p2p_receive_part<UNROLL, true>(args, *flow, call, buffer, bytes);
    else
        weiri_p2p_receive_part<1, false>(args, *flow, call, buffer, bytes);
    flow->count++;
}

/* -------------------------------------------------------------------- blocks */

/* A block's lane of the calls [first, last), which are of one pair and direction. move moves what
 * a call has in the lane: 1, or 0 in all threads if a wait failed. */
template <typename MOVE>
WEIRI_GPU_FN void weiri_p2p_serve(const weiri_p2p_args &args, int first, int last, int lane,
                                  MOVE move)
{
    const int peer = args.call[first].peer;
    weiri_p2p_flow flow;
    flow.there = weiri_p2p_lane_at(args.mailbox[peer], args.rank, args.lanes, lane);
    flow.here = weiri_p2p_lane_at(args.mailbox[args.rank], peer, args.lanes, lane);
    uint64_t *own = args.call[first].sends ? &flow.here->own_sent : &flow.here->own_taken;
    flow.count = *own;
    for (int i = first; i < last; i++)
        if (!move(&flow, args.call[i]))
            return;
    __syncthreads(); /* all have read the count */
    if (!threadIdx.x)
        *own = flow.count;
}

WEIRI_GPU_FN void weiri_p2p_serve_short(const weiri_p2p_args &args, int first, int last, int lane)
{
    weiri_p2p_serve(args, first, last, lane, [&](weiri_p2p_flow *flow, const weiri_p2p_call &call) {
        const int lanes = weiri_p2p_lanes_of(call.bytes, args.lanes);
        if (lane < lanes)
            weiri_p2p_pass(args, flow, call, lanes, lane);
        return 1;
    });
}

/* In code apart from what serves long ones, whose copies need the registers. */
WEIRI_GPU_COLD_FN void weiri_p2p_serve_apart(const weiri_p2p_args &args, int first, int last,
                                             int lane)
{
    weiri_p2p_serve_short(args, first, last, lane);
}

WEIRI_GPU_FN void weiri_p2p_serve_long(const weiri_p2p_args &args, int first, int last, int lane)
{
    weiri_p2p_serve(args, first, last, lane, [&](weiri_p2p_flow *flow, const weiri_p2p_call &call) {
        const uint64_t pieces = weiri_p2p_pieces(call.bytes, args.lanes, lane);
        for (uint64_t piece = 0; piece < pieces; piece++) {
            uint64_t at, length = weiri_p2p_piece(call.bytes, args.lanes, lane, piece, &at);
            if (!weiri_p2p_step(args, flow, call, at, length))
                return 0;
        }
        return 1;
    });
}

/* Short and long ones in turn. */
WEIRI_GPU_FN void weiri_p2p_serve_mixed(const weiri_p2p_args &args, int first, int last, int lane)
{
    for (int next; first < last; first = next) {
        const int are_short = weiri_p2p_is_short(args.call[first].bytes, args.lanes);
        for (next = first + 1; next < last; next++)
            if (weiri_p2p_is_short(args.call[next].bytes, args.lanes) != are_short)
                break;
        if (are_short)
            weiri_p2p_serve_apart(args, first, next, lane);
        else
            weiri_p2p_serve_long(args, first, next, lane);
        __syncthreads(); /* the count is kept for the next ones */
    }
}

/* A block's part of what the rank sends to itself: whole lines. */
WEIRI_GPU_FN void weiri_p2p_copy_own(const weiri_p2p_own &own, uint32_t block)
{
    const uint32_t lines = weiri_gpu_units(own.bytes, WEIRI_GPU_LINE_BYTES);
    const uint64_t each =
        (uint64_t)weiri_gpu_parts(lines, (uint32_t)own.blocks) * WEIRI_GPU_LINE_BYTES;
    const uint64_t at = block * each;
    if (at < own.bytes)
        weiri_gpu_copy(own.to + at, own.from + at, weiri_gpu_least(own.bytes - at, each),
                       threadIdx.x, blockDim.x);
}

/* All blocks of a launch of that weiri_p2p_kind: nflows * blocks_each of them, and own.blocks.
 * What peers launch may be another. */
template <int KIND>
WEIRI_GPU_FN void weiri_p2p_exchange(const weiri_p2p_args &args)
{
    const int flow = (int)blockIdx.x / args.blocks_each, lane = (int)blockIdx.x % args.blocks_each;
    if (flow >= args.nflows) {
        weiri_p2p_copy_own(args.own, blockIdx.x - (uint32_t)(args.nflows * args.blocks_each));
        return;
    }
    const int first = args.first[flow], last = args.first[flow + 1];
    if (KIND == WEIRI_P2P_SHORT)
        weiri_p2p_serve_short(args, first, last, lane);
    else if (KIND == WEIRI_P2P_MIXED)
        weiri_p2p_serve_mixed(args, first, last, lane);
    else if (weiri_p2p_is_short(args.call[first].bytes, args.lanes))
        weiri_p2p_serve_apart(args, first, last, lane);
    else
        weiri_p2p_serve_long(args, first, last, lane);
}

#endif
