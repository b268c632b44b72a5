/*
 * The push algorithm: each rank stores what others shall reduce into their staging buffers, and
 * reduces what they have stored into its own. Only stores cross a link, which links carry faster
 * than loads, and inputs need not be mapped.
 *
 * Every rank reduces one share of the buffer, except the root of a reduction to one rank. A share
 * is divided into pieces, one per lane and round, so that all lanes work in the same region. A lane
 * is two or three blocks that run at the same time, so that links stay busy while data are awaited.
 * In each round the lane's pusher
 *
 *   1. waits until the peers have used its piece of `depth` (two or more) rounds before,
 *      whose place in their staging buffers the new one takes,
 *   2. stores its piece of each peer's share into that peer's staging buffer,
 *   3. signals them (staged, release),
 *
 * and its reducer
 *
 *   4. waits for the peers' pieces (acquire), reduces them with this rank's input, and
 *      stores the result to where it is wanted,
 *   5. signals the peers that their pieces have been used (taken, release).
 *
 * Results are stored directly into the outputs. If peers cannot map one of the outputs, or one is
 * not aligned to 16 bytes, all results for peers go to the second part of their staging buffers,
 * and the lane's third block, the drainer,
 *
 *   6. waits for the peers' results (also signalled by taken), copies them to the output,
 *   7. signals the peers that the place is free (drained, release), for which a reducer
 *      waits `depth` rounds later before it stores.
 *
 * The counters are in the lane's cells and count up to the number of rounds. The grid is the same
 * on all ranks. If the grid has fewer blocks than a lane needs, one block plays all roles in turn,
 * each one round after the previous role. Blocks left over do nothing.
 *
 * A rank reads a piece of its share only to reduce it, and of a peer's share only to push it,
 * which happens before the peer can have its result. Results may therefore overwrite inputs.
 */
#ifndef WEIR_COLL_CUDA_PUSH_CUH
#define WEIR_COLL_CUDA_PUSH_CUH

#include "coll/cuda/launch/copy_engine.h"
#include "coll/cuda/device/ll_reduce.cuh"
#include "coll/cuda/device/pieces.cuh"

/* How a launch divides its buffers; the same on all ranks but for the roles and addresses. The
 * pieces divide the part of each share that is reduced. */
struct weiri_gpu_push : weiri_gpu_pieces {
    size_t bytes, share; /* of the buffer; offset from share to share */
    int no_share;        /* the rank without a share; -1: none */
    int stages_results;  /* results for peers go through their staging buffers */
    unsigned outs;       /* bit mask of the ranks that want results */

    const char *in;
    size_t own;                  /* offset of this rank's share */
    uint32_t lane;               /* this block's */
    int pushes, reduces, drains; /* this block's roles */
    int in_aligned, out_aligned; /* to 16 bytes: this rank's share in the input, and in its own
                                  * output if it has one. Peers' outputs are stored to directly only
                                  * if aligned. */
};

/* The number of a rank's share. */
WEIRI_GPU_FN unsigned weiri_gpu_share_of(const weiri_gpu_push &p, int rank)
{
    return (unsigned)(p.no_share >= 0 && rank > p.no_share ? rank - 1 : rank);
}

/* Assigns this block its roles. A rank without a share has nothing to reduce. */
WEIRI_GPU_FN void weiri_gpu_assign_roles(weiri_gpu_push *p, int rank)
{
    const uint32_t roles = p->stages_results ? 3 : 2, alone = gridDim.x < roles;
    p->lanes = alone ? 1 : gridDim.x / roles;
    p->lane = blockIdx.x % p->lanes;
    const uint32_t role = blockIdx.x / p->lanes;
    p->pushes = role == 0;
    p->reduces = rank != p->no_share && role == (alone ? 0 : 1);
    p->drains = p->stages_results && p->outs >> rank & 1 && role == (alone ? 0 : 2);
}

/* A reduction to one rank has shares on all ranks but the root, so that each link carries the
 * buffer once. The shares of reduce_scatter are its blocks. */
WEIRI_GPU_FN weiri_gpu_push weiri_gpu_plan_push(const weiri_gpu_args &args, unsigned outs,
                                                int stages_results)
{
    enum { ROUNDS_WANTED = 8 };
    const int nranks = args.view.nranks, scatters = args.collective == WEIR_COLL_REDUCE_SCATTER;
    weiri_gpu_push p;
    p.stages_results = stages_results;
    p.outs = outs;
    p.no_share = args.collective == WEIR_COLL_REDUCE ? args.root : -1;
    weiri_gpu_assign_roles(&p, args.view.rank);
    p.bytes = scatters ? (size_t)nranks * args.bytes : args.bytes;
    p.share = scatters ? args.bytes : weiri_gpu_share_bytes(args.bytes, nranks - (p.no_share >= 0));
    p.length = args.chunk_bytes ? args.chunk_bytes : p.share;
    weiri_gpu_cut_pieces(
        &p, (uint32_t)((stages_results ? 1 : 2) * WEIRI_GPU_STAGE_BYTES) / (uint32_t)nranks,
        ROUNDS_WANTED, WEIRI_GPU_LEAST_PIECE(8192));
    p.in = args.in;
    p.own = weiri_gpu_share_of(p, args.view.rank) * p.share;
    p.in_aligned = ((uintptr_t)args.in + p.own) % 16 == 0;
    p.out_aligned =
        !(outs >> args.view.rank & 1) || ((uintptr_t)args.out + (scatters ? 0 : p.own)) % 16 == 0;
    return p;
}

/* Offset, in a rank's scratch segment, of this lane's piece of a round from a sender: either input
 * to be reduced or, with `result`, a result. */
WEIRI_GPU_FN size_t weiri_gpu_push_slot(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                        int from, uint32_t round, int result)
{
    return WEIRI_GPU_STAGE_AT + (result ? WEIRI_GPU_STAGE_BYTES : 0) +
           (((size_t)(round % p.depth) * (unsigned)view.nranks + (unsigned)from) * p.lanes +
            p.lane) *
               p.piece;
}

/* This lane's piece of a round of a rank's share. */
WEIRI_GPU_FN weiri_gpu_range weiri_gpu_push_piece(const weiri_gpu_push &p, int rank, uint32_t round)
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
    const bool signals = peer < nranks && peer != view.rank && peer != p.no_share;
    if (signals && round >= p.depth)
        weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->taken, epoch,
                             round - p.depth + 1, peer);
    if (round >= p.depth)
        __syncthreads();
    const size_t slot = weiri_gpu_push_slot(view, p, view.rank, round, 0);
    for (int i = 1; i < nranks; i++) {
        const int r = weiri_gpu_nth_after(view.rank, i, nranks);
        const weiri_gpu_range part = weiri_gpu_push_piece(p, r, round);
        if (r != p.no_share)
            weiri_gpu_copy(view.scratch[r] + slot, p.in + part.at, part.bytes);
    }
    __syncthreads();
    if (signals)
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->staged,
                           weiri_gpu_step(epoch, round + 1));
}

/* Reduces what the peers have stored at `stage` with this rank's input. */
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
                    r == view.rank ? weiri_gpu_load_vector(p.in + at, p.bytes - at, p.in_aligned)
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

/* Steps 4 and 5. Results are stored at buffers->out[rank] + their offset in the buffer. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_reduce_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                         int op, weiri_gpu_buffers *buffers, uint64_t epoch,
                                         uint32_t round)
{
    const int nranks = weiri_gpu_nranks<exact>(view), peer = (int)threadIdx.x;
    const bool signals = peer < nranks && peer != view.rank;
    const weiri_gpu_range own = weiri_gpu_push_piece(p, view.rank, round);
    if (signals) {
        const weiri_gpu_cell *cell = weiri_gpu_cell_at(view, view.rank, peer, p.lane);
        weiri_gpu_await_step(view, &cell->staged, epoch, round + 1, peer);
        if (p.stages_results && p.outs >> peer & 1) {
            if (round >= p.depth)
                weiri_gpu_await_step(view, &cell->drained, epoch, round - p.depth + 1, peer);
            buffers->out[peer] =
                view.scratch[peer] + weiri_gpu_push_slot(view, p, view.rank, round, 1) - own.at;
        }
    }
    __syncthreads();
    weiri_gpu_reduce_piece<dtype, exact>(view, p, op, buffers, own,
                                         view.scratch[view.rank] +
                                             weiri_gpu_push_slot(view, p, 0, round, 0));
    __syncthreads();
    if (signals && (p.stages_results || round + p.depth < p.rounds)) /* otherwise nobody waits for
                                                                      * it */
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->taken,
                           weiri_gpu_step(epoch, round + 1));
}

/* Steps 6 and 7. */
WEIRI_GPU_FN void weiri_gpu_drain_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                        char *out, uint64_t epoch, uint32_t round)
{
    const int peer = (int)threadIdx.x;
    const bool signals = peer < view.nranks && peer != view.rank && peer != p.no_share;
    if (signals)
        weiri_gpu_await_step(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->taken, epoch,
                             round + 1, peer);
    __syncthreads();
    for (int i = 1; i < view.nranks; i++) {
        const int r = weiri_gpu_nth_after(view.rank, i, view.nranks);
        const weiri_gpu_range part = weiri_gpu_push_piece(p, r, round);
        if (r != p.no_share)
            weiri_gpu_copy(out + part.at,
                           view.scratch[view.rank] + weiri_gpu_push_slot(view, p, r, round, 1),
                           part.bytes);
    }
    __syncthreads();
    if (signals && round + p.depth < p.rounds)
        weir_store_release(&weiri_gpu_cell_at(view, peer, view.rank, p.lane)->drained,
                           weiri_gpu_step(epoch, round + 1));
}

/* All rounds. The epoch must have been advanced before. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_push_all(const weiri_gpu_args &args, const weiri_gpu_push &p,
                                     weiri_gpu_buffers *buffers, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    const uint32_t steps = p.rounds + (p.stages_results ? 2 : 1);
    for (uint32_t step = 0; step < steps; step++) {
        if (p.pushes && step < p.rounds)
            weiri_gpu_push_round<exact>(view, p, epoch, step);
        if (p.reduces && step >= 1 && step <= p.rounds)
            weiri_gpu_reduce_round<dtype, exact>(view, p, weiri_gpu_op_of<dtype>(args), buffers,
                                                 epoch, step - 1);
        if (p.drains && step >= 2)
            weiri_gpu_drain_round(view, p, args.out, epoch, step - 2);
    }
}

#endif
