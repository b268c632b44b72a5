/*
 * The kernel's part of sends and receives (p2p.h): a block serves one lane of one
 * direction of a pair, and goes through its messages in order.
 *
 *   sender    waits until the receiver has taken what was in the slot (acquire),
 *             stores the piece with all threads, meets, and one thread releases
 *             the count of pieces
 *   receiver  waits for the count (acquire), meets, copies the piece with all
 *             threads, meets, and one thread releases the count of pieces taken
 *
 * Blocks behind those copy what the rank sends to itself.
 *
 * A wait that fails ends the block: the communicator is aborted then, and its
 * counts are of no use any more.
 */
#ifndef WEIR_NCCL_P2P_CUH
#define WEIR_NCCL_P2P_CUH

#include "coll/cuda/move.cuh"
#include "nccl/p2p_gpu.h"

/* Why this launch fails, for the host; one thread. */
WEIRI_GPU_FN void weiri_p2p_fail(const weiri_p2p_args &args, int status, int peer, uint64_t kind,
                                 uint64_t expected, uint64_t seen)
{
    weiri_gpu_view view;
    view.guard = args.guard;
    weiri_gpu_fail(view, status, peer, kind, expected, seen);
}

/* Whether a word of this rank's has reached target, and the message is as long as is expected;
 * seen: how long, NULL if this is the sender. All threads of the block know it. If not, the
 * host is told why, and with the peer. */
WEIRI_GPU_FN int weiri_p2p_await(const weiri_p2p_args &args, const uint64_t *word, uint64_t target,
                                 const uint64_t *seen, const weiri_p2p_call &call)
{
    int status = 0;
    if (!threadIdx.x) {
        weir_guard guard = args.guard;
        guard.peer = call.peer;
        guard.record = NULL; /* of many blocks the one that fails tells */
        status = weir_wait_at_least(word, target, &guard);
        if (status) {
            weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_SEMAPHORE, target,
                           weir_load_relaxed(word));
        } else if (seen && *seen != call.bytes) {
            status = WEIR_ERR_MISMATCH;
            weiri_p2p_fail(args, status, call.peer, WEIR_WAIT_COUNTS, call.bytes, *seen);
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

/* One direction of a lane of a pair: the ends of it, and how many pieces have passed. */
typedef struct weiri_p2p_flow {
    weiri_p2p_lane *there, *here; /* in the peer's mailbox, and in the own one */
    uint64_t count;
} weiri_p2p_flow;

/* Moves the next piece, which begins at `at` of its message: 1, or 0 in all threads if a wait
 * failed. */
WEIRI_GPU_FN int weiri_p2p_step(const weiri_p2p_args &args, weiri_p2p_flow *flow,
                                const weiri_p2p_call &call, uint64_t at, uint64_t length)
{
    const unsigned slot = (unsigned)(flow->count % WEIRI_P2P_SLOTS);
    const uint64_t next = flow->count + 1, slots = WEIRI_P2P_SLOTS;
    const uint64_t *seen = call.sends ? NULL : &flow->here->slot[slot].message_bytes;
    const uint64_t *word = call.sends ? &flow->here->taken : &flow->here->sent;
    const uint64_t target = !call.sends ? next : next < slots ? 0 : next - slots;
    if (!weiri_p2p_await(args, word, target, seen, call))
        return 0;
    if (length)
        weiri_p2p_copy(call.sends ? flow->there->slot[slot].data : call.buffer + at,
                       call.sends ? call.buffer + at : flow->here->slot[slot].data, length);
    if (!threadIdx.x && call.sends)
        flow->there->slot[slot].message_bytes = call.bytes;
    __syncthreads();
    flow->count = next;
    if (!threadIdx.x)
        weir_store_release(call.sends ? &flow->there->sent : &flow->there->taken, next);
    return 1;
}

/* A block's lane of the calls [first, last), which are of one pair and direction. */
WEIRI_GPU_FN void weiri_p2p_serve(const weiri_p2p_args &args, int first, int last, int lane)
{
    const int peer = args.call[first].peer;
    weiri_p2p_flow flow;
    flow.there = weiri_p2p_lane_at(args.mailbox[peer], args.rank, args.lanes, lane);
    flow.here = weiri_p2p_lane_at(args.mailbox[args.rank], peer, args.lanes, lane);
    uint64_t *own = args.call[first].sends ? &flow.here->own_sent : &flow.here->own_taken;
    flow.count = *own;
    for (int i = first; i < last; i++) {
        const weiri_p2p_call &call = args.call[i];
        const int lanes = weiri_p2p_lanes_of(call.bytes, args.lanes);
        const uint64_t pieces = lane < lanes ? weiri_p2p_pieces(call.bytes, lanes, lane) : 0;
        for (uint64_t piece = 0; piece < pieces; piece++) {
            uint64_t at, length = weiri_p2p_piece(call.bytes, lanes, lane, piece, &at);
            if (!weiri_p2p_step(args, &flow, call, at, length))
                return;
        }
    }
    __syncthreads(); /* all have read the count */
    if (!threadIdx.x)
        *own = flow.count;
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

/* All blocks of a launch: nflows * blocks_each of them, and own.blocks. */
WEIRI_GPU_FN void weiri_p2p_exchange(const weiri_p2p_args &args)
{
    const int flow = (int)blockIdx.x / args.blocks_each, lane = (int)blockIdx.x % args.blocks_each;
    if (flow >= args.nflows) {
        weiri_p2p_copy_own(args.own, blockIdx.x - (uint32_t)(args.nflows * args.blocks_each));
        return;
    }
    weiri_p2p_serve(args, args.first[flow], args.first[flow + 1], lane);
}

#endif
