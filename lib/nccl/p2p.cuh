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

/* Whether a word has reached target; all threads of the block know it. If not, why is told
 * to the host, with the peer. */
WEIRI_GPU_FN int weiri_p2p_await(const weiri_p2p_args &args, const uint64_t *word, uint64_t target,
                                 int peer)
{
    int status = 0;
    if (!threadIdx.x) {
        weir_guard guard = args.guard;
        guard.peer = peer;
        guard.record = NULL; /* of many blocks the one that fails tells */
        status = weir_wait_at_least(word, target, &guard);
        if (status)
            weiri_p2p_fail(args, status, peer, WEIR_WAIT_SEMAPHORE, target,
                           weir_load_relaxed(word));
    }
    return !__syncthreads_or(status);
}

WEIRI_GPU_FN void weiri_p2p_send(const weiri_p2p_args &args, int first, int last, int lane)
{
    const int peer = args.call[first].peer;
    weiri_p2p_lane *there = weiri_p2p_lane_at(args.mailbox[peer], args.rank, args.lanes, lane);
    weiri_p2p_lane *here = weiri_p2p_lane_at(args.mailbox[args.rank], peer, args.lanes, lane);
    uint64_t sent = here->own_sent;
    for (int i = first; i < last; i++) {
        const uint64_t bytes = args.call[i].bytes;
        const int lanes = weiri_p2p_lanes_of(bytes, args.lanes);
        const uint64_t pieces = lane < lanes ? weiri_p2p_pieces(bytes, lanes, lane) : 0;
        for (uint64_t piece = 0; piece < pieces; piece++) {
            const uint64_t room = sent < WEIRI_P2P_SLOTS ? 0 : sent + 1 - WEIRI_P2P_SLOTS;
            if (!weiri_p2p_await(args, &here->taken, room, peer))
                return;
            const unsigned slot = (unsigned)(sent % WEIRI_P2P_SLOTS);
            uint64_t at;
            const uint64_t length = weiri_p2p_piece(bytes, lanes, lane, piece, &at);
            if (length)
                weiri_gpu_copy(there->slot[slot].data, args.call[i].buffer + at, length,
                               threadIdx.x, blockDim.x);
            if (!threadIdx.x)
                there->slot[slot].message_bytes = bytes;
            __syncthreads();
            sent++;
            if (!threadIdx.x)
                weir_store_release(&there->sent, sent);
        }
    }
    __syncthreads(); /* all have read the count */
    if (!threadIdx.x)
        here->own_sent = sent;
}

/* Whether the piece is of a message as long as is expected; all threads know it. */
WEIRI_GPU_FN int weiri_p2p_agrees(const weiri_p2p_args &args, uint64_t seen, uint64_t expected,
                                  int peer)
{
    int differs = seen != expected;
    if (!threadIdx.x && differs)
        weiri_p2p_fail(args, WEIR_ERR_MISMATCH, peer, WEIR_WAIT_COUNTS, expected, seen);
    return !__syncthreads_or(differs);
}

WEIRI_GPU_FN void weiri_p2p_receive(const weiri_p2p_args &args, int first, int last, int lane)
{
    const int peer = args.call[first].peer;
    weiri_p2p_lane *there = weiri_p2p_lane_at(args.mailbox[peer], args.rank, args.lanes, lane);
    weiri_p2p_lane *here = weiri_p2p_lane_at(args.mailbox[args.rank], peer, args.lanes, lane);
    uint64_t taken = here->own_taken;
    for (int i = first; i < last; i++) {
        const uint64_t bytes = args.call[i].bytes;
        const int lanes = weiri_p2p_lanes_of(bytes, args.lanes);
        const uint64_t pieces = lane < lanes ? weiri_p2p_pieces(bytes, lanes, lane) : 0;
        for (uint64_t piece = 0; piece < pieces; piece++) {
            const unsigned slot = (unsigned)(taken % WEIRI_P2P_SLOTS);
            if (!weiri_p2p_await(args, &here->sent, taken + 1, peer) ||
                !weiri_p2p_agrees(args, here->slot[slot].message_bytes, bytes, peer))
                return;
            uint64_t at;
            const uint64_t length = weiri_p2p_piece(bytes, lanes, lane, piece, &at);
            if (length)
                weiri_gpu_copy(args.call[i].buffer + at, here->slot[slot].data, length,
                               threadIdx.x, blockDim.x);
            __syncthreads();
            taken++;
            if (!threadIdx.x)
                weir_store_release(&there->taken, taken);
        }
    }
    __syncthreads();
    if (!threadIdx.x)
        here->own_taken = taken;
}

/* All blocks of a launch: nflows * blocks_each of them. */
WEIRI_GPU_FN void weiri_p2p_exchange(const weiri_p2p_args &args)
{
    const int flow = (int)blockIdx.x / args.blocks_each, lane = (int)blockIdx.x % args.blocks_each;
    const int first = args.first[flow], last = args.first[flow + 1];
    if (args.call[first].sends)
        weiri_p2p_send(args, first, last, lane);
    else
        weiri_p2p_receive(args, first, last, lane);
}

#endif
