/*
 * Chains: pieces of a buffer travel from rank to rank, through one staging buffer on each rank. A
 * lane is a block. In each round a rank
 *
 *   1. waits until its predecessor has stored a piece (staged, acquire), and until its successor
 *      has used the piece of `depth` rounds before (taken),
 *   2. uses the piece and stores what the successor needs,
 *   3. signals the successor (staged, release), and the predecessor that its piece has been used
 *      (taken, release).
 *
 * At entry a rank signals all others that it has begun, and waits for its successor, whose staging
 * buffer an earlier launch may still read. It waits for the others at the end: in each launch every
 * rank must receive something from every other. So ranks that have passed on all of their pieces
 * can be in their next launch, while those behind them are still busy with this one: the words that
 * these await only grow. In consecutive calls a chain is thus filled only once.
 */
#ifndef WEIR_COLL_CUDA_CHAIN_CUH
#define WEIR_COLL_CUDA_CHAIN_CUH

#include "coll/cuda/device/pieces.cuh"

/* What the blocks of a launch have in common. */
struct weiri_gpu_chain : weiri_gpu_pieces {
    int before, after; /* ranks; -1: none */
};

/* Cuts args.bytes into pieces. rounds, least: of weiri_gpu_cut_pieces. The kernel sets the
 * neighbours. */
WEIRI_GPU_FN void weiri_gpu_cut_chain(weiri_gpu_chain *c, const weiri_gpu_args &args,
                                      uint32_t rounds, uint32_t least)
{
    c->length = args.bytes;
    c->lanes = gridDim.x;
    weiri_gpu_cut_pieces(c, 2 * WEIRI_GPU_STAGE_BYTES, rounds, least);
}

/* Where this lane's piece of a round is in a rank's staging buffer. */
WEIRI_GPU_FN char *weiri_gpu_chain_slot(const weiri_gpu_view &view, const weiri_gpu_chain &c,
                                        int rank, uint32_t round)
{
    return weiri_gpu_stage(view, rank, 0) +
           ((size_t)(round % c.depth) * c.lanes + blockIdx.x) * c.piece;
}

/* Before the first round. All threads of the block call it, after the epoch has been advanced. */
WEIRI_GPU_FN void weiri_gpu_chain_begin(const weiri_gpu_view &view, const weiri_gpu_chain &c,
                                        uint64_t epoch)
{
    const int peer = (int)threadIdx.x;
    if (peer < view.nranks && peer != view.rank)
        weiri_gpu_signal(view, peer, epoch, 1);
    if (peer == c.after)
        weiri_gpu_await(view, peer, epoch, 1);
    __syncthreads();
}

/* After the last round. All threads of the block call it. */
WEIRI_GPU_FN void weiri_gpu_chain_end(const weiri_gpu_view &view, uint64_t epoch)
{
    const int peer = (int)threadIdx.x;
    if (peer < view.nranks && peer != view.rank)
        weiri_gpu_await(view, peer, epoch, 1);
}

/* Step 1. All threads of the block call it. to_stage: whether the successor receives this chain's
 * pieces in its staging buffer. */
WEIRI_GPU_FN void weiri_gpu_chain_await(const weiri_gpu_view &view, const weiri_gpu_chain &c,
                                        uint64_t epoch, uint32_t round, bool to_stage)
{
    const uint32_t lane = blockIdx.x;
    if (c.before >= 0 && threadIdx.x == 0)
        weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, c.before, lane)->staged,
                             epoch, round + 1, c.before);
    if (c.after >= 0 && threadIdx.x == blockDim.x - 1 && to_stage && round >= c.depth)
        weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, c.after, lane)->taken, epoch,
                             round - c.depth + 1, c.after);
    __syncthreads();
}

/* Step 3. All threads of the block call it. from_stage: whether this rank received the piece in its
 * staging buffer. */
WEIRI_GPU_FN void weiri_gpu_chain_signal(const weiri_gpu_view &view, const weiri_gpu_chain &c,
                                         uint64_t epoch, uint32_t round, bool from_stage)
{
    const uint32_t lane = blockIdx.x;
    __syncthreads();
    if (c.after >= 0 && threadIdx.x == blockDim.x - 1)
        weir_store_release(&weiri_gpu_cell_at(view, c.after, view.rank, lane)->staged,
                           weiri_gpu_step(epoch, round + 1));
    if (c.before >= 0 && threadIdx.x == 0 && from_stage &&
        round + c.depth < c.rounds) /* otherwise nobody waits for it */
        weir_store_release(&weiri_gpu_cell_at(view, c.before, view.rank, lane)->taken,
                           weiri_gpu_step(epoch, round + 1));
}

/* The grid: two blocks per multiprocessor, so that one works while the other waits. */
static inline weiri_gpu_shape weiri_gpu_chain_shape(uint64_t bytes, int processors, int threads)
{
    enum { LANE_LEAST_BYTES = 4096 };
    const uint64_t lanes = bytes / LANE_LEAST_BYTES, most = 2 * (uint64_t)processors;
    return {lanes < 1 ? 1 : lanes < most ? (int)lanes : (int)most, threads};
}

#endif
