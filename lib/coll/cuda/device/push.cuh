/*
 * Reduction by pushing: what a rank must send to others it stores into their stages,
 * and reduces what they have stored here. All that crosses a link is a store, which
 * links carry faster than loads (355 against 325 GB/s a GPU, 4 GPUs), and inputs need not
 * be mapped.
 *
 * Ranks reduce a share of the buffer each, but for the root of a reduction to one rank. A
 * share is cut into pieces, one for each lane round after round, so that all lanes work in the
 * same region. A lane is two blocks or three that run beside each other, so that links are
 * busy while data are waited for. In each round its pusher
 *
 *   1. waits until the peers have used up its piece whose place in their stages comes
 *      next: that of `depth` rounds before, two at least,
 *   2. stores the same piece of each peer's share into that peer's stage,
 *   3. tells them (staged, release),
 *
 * and its reducer
 *
 *   4. waits for the peers' pieces (acquire), reduces them with the own input, and
 *      stores the result where it is wanted,
 *   5. tells the peers that their pieces are used up (taken, release).
 *
 * Results go straight into the outputs. If peers cannot map one of those, or one is not aligned
 * to 16 bytes, all results for peers land in the second of their stages, and the lane's third
 * block, the drainer,
 *
 *   6. waits for the peers' results (taken says that, too), copies them into the output,
 *   7. tells the peers that their place is free (drained, release), which a reducer
 *      awaits `depth` rounds later before it stores.
 *
 * Counts go up to the number of rounds, in the lane's cell. The grid is the same on all
 * ranks. A grid of fewer blocks than a lane has is all of them in turn, each a round behind
 * the one before; blocks that are left over have nothing to do.
 *
 * A rank reads a piece of its own share's input only to reduce it, and a peer's to
 * push it, before the peer can have its result: results may overwrite inputs.
 */
#ifndef WEIR_COLL_CUDA_PUSH_CUH
#define WEIR_COLL_CUDA_PUSH_CUH

#include "coll/cuda/launch/copy_engine.h"
#include "coll/cuda/device/packet.cuh"
#include "coll/cuda/device/pieces.cuh"

/* How a launch divides its buffers, the same on all ranks but for the last lines. What is cut
 * of each share is what is reduced of it. */
struct weiri_gpu_push : weiri_gpu_pieces {
    size_t bytes, share; /* of the buffer, and from share to share */
    int idle;  /* the rank that has no share; -1: none */
    int lands; /* results for peers go through their stages */
    unsigned outs; /* the ranks that want results, a bit each */

    const char *in;
    size_t own;    /* where the own share begins */
    uint32_t lane; /* the block's */
    int pushes, reduces, drains; /* what the block does */
    int in_aligned, out_aligned; /* to 16 bytes: the own share, and its place in the own output,
                                    if it has one; peers' are stored to only where they are */
};

/* Which share is a rank's. */
WEIRI_GPU_FN unsigned weiri_gpu_share_of(const weiri_gpu_push &p, int rank)
{
    return (unsigned)(p.idle >= 0 && rank > p.idle ? rank - 1 : rank);
}

/* The roles of this block. Who has no share has nothing to reduce. */
WEIRI_GPU_FN void weiri_gpu_cast(weiri_gpu_push *p, int rank)
{
    const uint32_t roles = p->lands ? 3 : 2, alone = gridDim.x < roles;
    p->lanes = alone ? 1 : gridDim.x / roles;
    p->lane = blockIdx.x % p->lanes;
    const uint32_t role = blockIdx.x / p->lanes;
    p->pushes = role == 0;
    p->reduces = rank != p->idle && role == (alone ? 0 : 1);
    p->drains = p->lands && p->outs >> rank & 1 && role == (alone ? 0 : 2);
}

/* A reduction to one rank has shares on all others, so that each link carries the buffer
 * once; reduce_scatter's are its blocks. */
WEIRI_GPU_FN weiri_gpu_push weiri_gpu_plan_push(const weiri_gpu_args &args, unsigned outs,
                                                int lands)
{
    enum { ROUNDS_WANTED = 8 };
    const int nranks = args.view.nranks, scatters = args.collective == WEIR_COLL_REDUCE_SCATTER;
    weiri_gpu_push p;
    p.lands = lands;
    p.outs = outs;
    p.idle = args.collective == WEIR_COLL_REDUCE ? args.root : -1;
    weiri_gpu_cast(&p, args.view.rank);
    p.bytes = scatters ? (size_t)nranks * args.bytes : args.bytes;
    p.share = scatters ? args.bytes : weiri_gpu_share_bytes(args.bytes, nranks - (p.idle >= 0));
    p.length = args.chunk_bytes ? args.chunk_bytes : p.share;
    weiri_gpu_cut_pieces(&p, (uint32_t)((lands ? 1 : 2) * WEIRI_GPU_STAGE_BYTES) / (uint32_t)nranks,
                         ROUNDS_WANTED, WEIRI_GPU_LEAST_PIECE(8192));
    p.in = args.in;
    p.own = weiri_gpu_share_of(p, args.view.rank) * p.share;
    p.in_aligned = ((uintptr_t)args.in + p.own) % 16 == 0;
    p.out_aligned = !(outs >> args.view.rank & 1) ||
                    ((uintptr_t)args.out + (scatters ? 0 : p.own)) % 16 == 0;
    return p;
}

/* Where in a rank's stage this lane's piece of a round from a sender is: to be reduced, or
 * a result. */
WEIRI_GPU_FN size_t weiri_gpu_push_slot(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                        int from, uint32_t round, int result)
{
    return WEIRI_GPU_STAGE_AT + (result ? WEIRI_GPU_STAGE_BYTES : 0) +
           (((size_t)(round % p.depth) * (unsigned)view.nranks + (unsigned)from) * p.lanes +
            p.lane) * p.piece;
}

/* This lane's piece of a round of a rank's share. */
WEIRI_GPU_FN weiri_gpu_range weiri_gpu_push_piece(const weiri_gpu_push &p, int rank,
                                                  uint32_t round)
{
    weiri_gpu_range piece = weiri_gpu_piece_at(p, p.lane, round);
    piece.at += weiri_gpu_share_of(p, rank) * p.share;
    const size_t left = piece.at < p.bytes ? p.bytes - piece.at : 0;
    piece.bytes = piece.bytes < left ? piece.bytes : left;
    return piece;
}

/* Steps 1 to 3. */
template <int exact>
WEIRI_GPU_FN void weiri_gpu_push_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                       uint64_t epoch, uint32_t round)
{
    const int nranks = weiri_gpu_nranks<exact>(view), peer = (int)threadIdx.x;
    const bool talks = peer < nranks && peer != view.rank && peer != p.idle;
    if (talks && round >= p.depth)
        weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->taken, epoch,
                             round - p.depth + 1, peer);
    if (round >= p.depth)
        __syncthreads();
    const size_t slot = weiri_gpu_push_slot(view, p, view.rank, round, 0);
    for (int i = 1; i < nranks; i++) {
        const int r = weiri_gpu_nth_after(view.rank, i, nranks);
        const weiri_gpu_range part = weiri_gpu_push_piece(p, r, round);
        if (r != p.idle)
            weiri_gpu_copy(view.scratch[r] + slot, p.in + part.at, part.bytes);
    }
    __syncthreads();
    if (talks)
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->staged,
                           weiri_gpu_step(epoch, round + 1));
}

/* What peers have stored at `stage`, with the own input. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_reduce_piece(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                         int op, const weiri_gpu_buffers *buffers,
                                         weiri_gpu_range own, const char *stage)
{
    constexpr int RANKS = exact ? exact : WEIRI_GPU_RANKS_MAX;
    constexpr int VECTORS = exact == 2 ? WEIRI_GPU_VECTORS_OF_TWO<dtype> : 1;
    const int nranks = weiri_gpu_nranks<exact>(view);
    const size_t step = 16 * blockDim.x;
    for (size_t first = 16 * threadIdx.x; first < own.bytes; first += VECTORS * step) {
        uint64_t words[RANKS][2 * VECTORS] = {}, totals[2 * VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const size_t i = first + v * step, at = own.at + i;
#pragma unroll
            for (int r = 0; r < RANKS; r++) {
                if (r >= nranks || i >= own.bytes)
                    continue;
                const weiri_gpu_vector data =
                    r == view.rank
                        ? weiri_gpu_load_vector(p.in + at, p.bytes - at, p.in_aligned)
                        : weiri_gpu_load16(stage + (size_t)r * p.lanes * p.piece + i);
                words[r][2 * v] = data.word[0];
                words[r][2 * v + 1] = data.word[1];
            }
        }
        weiri_gpu_reduce<dtype>(op, nranks, words, totals);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const size_t i = first + v * step;
            if (i < own.bytes)
                weiri_gpu_store_all(buffers, p.outs, view.rank, nranks, own.at + i, own.bytes - i,
                                    p.out_aligned, {{totals[2 * v], totals[2 * v + 1]}});
        }
    }
}

/* Steps 4 and 5. Where results go: buffers->out[rank] + their place in the buffer. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_reduce_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                         int op, weiri_gpu_buffers *buffers, uint64_t epoch,
                                         uint32_t round)
{
    const int nranks = weiri_gpu_nranks<exact>(view), peer = (int)threadIdx.x;
    const bool talks = peer < nranks && peer != view.rank;
    const weiri_gpu_range own = weiri_gpu_push_piece(p, view.rank, round);
    if (talks) {
        const weiri_gpu_cell *cell = weiri_gpu_cell_at(view, view.rank, peer, p.lane);
        weiri_gpu_await_step(view, &cell->staged, epoch, round + 1, peer);
        if (p.lands && p.outs >> peer & 1) {
            if (round >= p.depth)
                weiri_gpu_await_step(view, &cell->drained, epoch, round - p.depth + 1, peer);
            buffers->out[peer] =
                view.scratch[peer] + weiri_gpu_push_slot(view, p, view.rank, round, 1) - own.at;
        }
    }
    __syncthreads();
    weiri_gpu_reduce_piece<dtype, exact>(
        view, p, op, buffers, own,
        view.scratch[view.rank] + weiri_gpu_push_slot(view, p, 0, round, 0));
    __syncthreads();
    if (talks && (p.lands || round + p.depth < p.rounds)) /* else nobody waits for it */
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->taken,
                           weiri_gpu_step(epoch, round + 1));
}

/* Steps 6 and 7. */
WEIRI_GPU_FN void weiri_gpu_drain_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                        char *out, uint64_t epoch, uint32_t round)
{
    const int peer = (int)threadIdx.x;
    const bool talks = peer < view.nranks && peer != view.rank && peer != p.idle;
    if (talks)
        weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->taken, epoch,
                             round + 1, peer);
    __syncthreads();
    for (int i = 1; i < view.nranks; i++) {
        const int r = weiri_gpu_nth_after(view.rank, i, view.nranks);
        const weiri_gpu_range part = weiri_gpu_push_piece(p, r, round);
        if (r != p.idle)
            weiri_gpu_copy(out + part.at,
                           view.scratch[view.rank] + weiri_gpu_push_slot(view, p, r, round, 1),
                           part.bytes);
    }
    __syncthreads();
    if (talks && round + p.depth < p.rounds)
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->drained,
                           weiri_gpu_step(epoch, round + 1));
}

/* All rounds; the epoch's turn is taken before. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_push_all(const weiri_gpu_args &args, const weiri_gpu_push &p,
                                     weiri_gpu_buffers *buffers, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    const uint32_t steps = p.rounds + (p.lands ? 2 : 1);
    for (uint32_t step = 0; step < steps; step++) {
        if (p.pushes && step < p.rounds)
            weiri_gpu_push_round<exact>(view, p, epoch, step);
        if (p.reduces && step >= 1 && step <= p.rounds)
            weiri_gpu_reduce_round<dtype, exact>(view, p, args.op, buffers, epoch, step - 1);
        if (p.drains && step >= 2)
            weiri_gpu_drain_round(view, p, args.out, epoch, step - 2);
    }
}

#endif
