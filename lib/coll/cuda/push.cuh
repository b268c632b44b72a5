/*
 * Reduction by pushing: what a rank must send to others it stores into their stages,
 * and reduces what they have stored here. All that crosses a link is a store, which
 * links carry faster than loads (355 against 325 GB/s a GPU, 4 GPUs).
 *
 * A buffer is a share for each rank; a share is cut into pieces, one for each lane
 * round after round, so that all lanes work in the same region. A lane is two blocks
 * that run beside each other on one multiprocessor, so that links are busy while data
 * are waited for. In each round its pusher
 *
 *   1. waits until the peers have used up its piece two rounds before, whose place in
 *      their stages comes next,
 *   2. stores the same piece of each peer's share into that peer's stage,
 *   3. tells them (staged, release),
 *
 * and its reducer
 *
 *   4. waits for the peers' pieces (acquire), reduces them with the own input, and
 *      stores the result where it is wanted,
 *   5. tells the peers that their pieces are used up (taken, release).
 *
 * Counts go up to the number of rounds, in the lane's cell. The grid is the same on all
 * ranks. A grid of one block is pusher and reducer in turn; an odd block has nothing
 * to do.
 *
 * A rank reads a piece of its own share's input only to reduce it, and a peer's to
 * push it, before the peer can have its result: results may overwrite inputs.
 */
#ifndef WEIR_COLL_CUDA_PUSH_CUH
#define WEIR_COLL_CUDA_PUSH_CUH

#include "coll/cuda/copy_engine.h"
#include "coll/cuda/direct.cuh"
#include "coll/cuda/packet.cuh"

/* How a launch divides its buffers; the same on all ranks. */
struct weiri_gpu_push {
    const char *in;
    size_t bytes, share; /* of the buffer, and from share to share */
    size_t length;       /* of a share, what is reduced */
    size_t piece;        /* bytes of a lane's */
    uint32_t rounds;
    uint32_t lanes, lane; /* the block's */
    int pushes, reduces;  /* what the block does */
    int in_aligned, out_aligned; /* to 16 bytes */
};

/* Pieces are whole lines of 128 bytes, which links carry best, as many as the stages
 * allow, but fewer where there would be too few rounds for one to travel while another is
 * reduced. */
WEIRI_GPU_FN weiri_gpu_push weiri_gpu_plan_push(const weiri_gpu_args &args)
{
    enum { ROUNDS_WANTED = 4 };
    const size_t least = 8192, line = 128;
    const unsigned nranks = (unsigned)args.view.nranks;
    weiri_gpu_push p;
    p.lanes = gridDim.x > 1 ? gridDim.x / 2 : 1;
    p.lane = blockIdx.x % p.lanes;
    p.pushes = blockIdx.x < p.lanes;
    p.reduces = gridDim.x == 1 || blockIdx.x / p.lanes == 1;
    p.in = args.in;
    p.bytes = args.bytes;
    p.share = weiri_gpu_share_bytes(args.bytes, (int)nranks);
    p.length = args.chunk_bytes ? args.chunk_bytes : p.share;
    const size_t room = 2 * WEIRI_GPU_STAGE_BYTES / (2 * nranks * p.lanes);
    const size_t unit = room < line ? 16 : line, most = room / unit * unit;
    size_t piece = p.length / (ROUNDS_WANTED * p.lanes);
    piece = piece > least ? piece : least;
    piece = piece < most ? piece : most;
    p.rounds = (uint32_t)((p.length + piece * p.lanes - 1) / (piece * p.lanes));
    const size_t parts = (size_t)p.rounds * p.lanes;
    p.piece = ((p.length + parts - 1) / parts + unit - 1) / unit * unit;
    p.in_aligned = (uintptr_t)args.in % 16 == 0;
    p.out_aligned = 0;
    return p;
}

/* Where in a rank's stage this lane's piece of a round from a sender is. */
WEIRI_GPU_FN size_t weiri_gpu_push_slot(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                        int from, uint32_t round)
{
    return WEIRI_GPU_STAGE_AT +
           (((size_t)(round & 1) * (unsigned)view.nranks + (unsigned)from) * p.lanes + p.lane) *
               p.piece;
}

/* Where in a share this lane's piece of a round begins. */
WEIRI_GPU_FN size_t weiri_gpu_push_at(const weiri_gpu_push &p, uint32_t round)
{
    return ((size_t)round * p.lanes + p.lane) * p.piece;
}

/* 16 bytes at `at` of the input, or what there is of them. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_push_load(const weiri_gpu_push &p, size_t at)
{
    if (p.in_aligned && at + 16 <= p.bytes)
        return weiri_gpu_load16(p.in + at);
    const size_t left = p.bytes - at;
    return {{weiri_gpu_load_word(p.in + at, left),
             left > 8 ? weiri_gpu_load_word(p.in + at + 8, left - 8) : 0}};
}

/* Steps 1 to 3. */
template <int exact>
WEIRI_GPU_FN void weiri_gpu_push_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                       uint64_t epoch, uint32_t round)
{
    const int nranks = weiri_gpu_nranks<exact>(view), peer = (int)threadIdx.x;
    const bool talks = peer < nranks && peer != view.rank;
    if (talks && round >= 2)
        weiri_gpu_await_word(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->taken,
                             weiri_gpu_step(epoch, round - 1), peer);
    if (round >= 2)
        __syncthreads();
    const size_t begin = weiri_gpu_push_at(p, round);
    const size_t slot = weiri_gpu_push_slot(view, p, view.rank, round);
    const size_t most = begin < p.length ? p.length - begin : 0;
    const size_t length = most < p.piece ? most : p.piece;
    for (int i = 1; i < nranks; i++) {
        const int r = weiri_gpu_nth_after(view.rank, i, nranks);
        const size_t at = (size_t)r * p.share + begin;
        const size_t left = at < p.bytes ? p.bytes - at : 0;
        weiri_gpu_copy(view.scratch[r] + slot, p.in + at, left < length ? left : length);
    }
    __syncthreads();
    if (talks)
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->staged,
                           weiri_gpu_step(epoch, round + 1));
}

/* Steps 4 and 5. outs: the ranks whose buffers->out get the result, a bit each. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_reduce_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                         int op, const weiri_gpu_buffers *buffers, unsigned outs,
                                         uint64_t epoch, uint32_t round)
{
    const int nranks = weiri_gpu_nranks<exact>(view), peer = (int)threadIdx.x;
    const bool talks = peer < nranks && peer != view.rank;
    if (talks)
        weiri_gpu_await_word(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->staged,
                             weiri_gpu_step(epoch, round + 1), peer);
    __syncthreads();
    const size_t begin = weiri_gpu_push_at(p, round), own = (size_t)view.rank * p.share;
    const char *stage = view.scratch[view.rank] + weiri_gpu_push_slot(view, p, 0, round);
    for (size_t i = 16 * threadIdx.x; i < p.piece && begin + i < p.length; i += 16 * blockDim.x) {
        const size_t at = own + begin + i;
        if (at >= p.bytes)
            break;
        uint64_t words[WEIRI_GPU_RANKS_MAX][2], totals[2];
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++) {
            if (r >= nranks)
                continue;
            weiri_gpu_vector data =
                r == view.rank ? weiri_gpu_push_load(p, at)
                               : weiri_gpu_load16(stage + (size_t)r * p.lanes * p.piece + i);
            words[r][0] = data.word[0];
            words[r][1] = data.word[1];
        }
        weiri_gpu_reduce<dtype>(op, nranks, words, totals);
        weiri_gpu_store_all(buffers, outs, view.rank, nranks, at, p.bytes - at, p.out_aligned,
                            totals);
    }
    __syncthreads();
    if (talks)
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->taken,
                           weiri_gpu_step(epoch, round + 1));
}

/* All rounds; the epoch's turn is taken before or within. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_push_all(const weiri_gpu_args &args, weiri_gpu_push p,
                                     const weiri_gpu_buffers *buffers, unsigned outs,
                                     uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    for (uint32_t round = 0; round <= p.rounds; round++) {
        if (p.pushes && round < p.rounds)
            weiri_gpu_push_round<exact>(view, p, epoch, round);
        if (p.reduces && round)
            weiri_gpu_reduce_round<dtype, exact>(view, p, args.op, buffers, outs, epoch, round - 1);
    }
}

#endif
