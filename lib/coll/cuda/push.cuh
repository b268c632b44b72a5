/*
 * Reduction by pushing: what a rank must send to others it stores into their stages,
 * and reduces what they have stored here. All that crosses a link is a store, which
 * links carry faster than loads (355 against 325 GB/s a GPU, 4 GPUs), and inputs need not
 * be mapped.
 *
 * Ranks reduce a share of the buffer each, but in a reduction to one rank of more than two,
 * whose root has none, and of two, whose root has it all. A share is cut into pieces, one for
 * each lane round after round, so that all lanes work in the same region. A lane is two blocks
 * or three that run beside each other, so that links are busy while data are waited for. In
 * each round its pusher
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
 * Results go straight into the outputs. If peers cannot map one of those, all results for
 * peers land in the second of their stages, and the lane's third block, the drainer,
 *
 *   6. waits for the peers' results (taken says that, too), copies them into the output,
 *   7. tells the peers that their place is free (drained, release), which a reducer
 *      awaits `depth` rounds later before it stores.
 *
 * Where a rank has no share, the reducer is a second pusher: each pushes a part of every
 * piece, and has a cell of its own to tell it in.
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

#include "coll/cuda/copy_engine.h"
#include "coll/cuda/direct.cuh"
#include "coll/cuda/packet.cuh"

#if defined(WEIR_EMULATED)
enum { WEIRI_GPU_PUSH_LEAST_BYTES = 128 }; /* tests have several rounds soon */
#else
enum { WEIRI_GPU_PUSH_LEAST_BYTES = 8192 };
#endif

/* How a launch divides its buffers; the same on all ranks but for the last lines. */
struct weiri_gpu_push {
    size_t bytes, share; /* of the buffer, and from share to share */
    size_t length;       /* of a share, what is reduced */
    size_t piece;        /* bytes of a lane's */
    uint32_t rounds, lanes;
    uint32_t depth; /* rounds whose pieces a stage holds */
    int idle;  /* the rank that has no share; -1: none */
    int hands; /* blocks of a lane that push there, a part of each piece */
    int lands; /* results for peers go through their stages */
    unsigned outs; /* the ranks that want results, a bit each */

    const char *in;
    size_t own;    /* where the own share begins */
    uint32_t lane; /* the block's */
    int pushes, reduces, drains; /* what the block does */
    int hand;                    /* which of those that push */
    int in_aligned, out_aligned; /* the own share to 16 bytes, and where its results go */
};

/* Which share is a rank's. */
WEIRI_GPU_FN unsigned weiri_gpu_share_of(const weiri_gpu_push &p, int rank)
{
    return (unsigned)(p.idle >= 0 && rank > p.idle ? rank - 1 : rank);
}

/* Of two ranks the root of a reduction reduces it all. */
WEIRI_GPU_FN int weiri_gpu_root_reduces(const weiri_gpu_args &args)
{
    return args.collective == WEIR_COLL_REDUCE && args.view.nranks == 2;
}

/* Who has no share; -1: all have one. A reduction to one of more ranks has shares on all
 * others, so that each link carries the buffer once. */
WEIRI_GPU_FN int weiri_gpu_push_idle(const weiri_gpu_args &args)
{
    if (weiri_gpu_root_reduces(args))
        return 1 - args.root;
    return args.collective == WEIR_COLL_REDUCE ? args.root : -1;
}

/* The roles of this block. Who has nothing to reduce pushes by two blocks a lane: what it
 * sends are the inputs of all shares. Where that is one of two ranks, each block is a lane, as
 * none has more than one thing to do. */
WEIRI_GPU_FN void weiri_gpu_cast(weiri_gpu_push *p, const weiri_gpu_args &args)
{
    const int rank = args.view.rank;
    const uint32_t roles = weiri_gpu_root_reduces(args) ? 1 : p->lands ? 3 : 2;
    const uint32_t lanes = gridDim.x / roles;
    const int alone = roles == 1 || !lanes;
    p->lanes = lanes ? lanes : 1;
    p->lane = blockIdx.x % p->lanes;
    const uint32_t role = blockIdx.x / p->lanes;
    p->hands = alone ? 1 : 2;
    p->hand = rank == p->idle ? (int)role : 0;
    p->pushes = rank == p->idle ? p->hand < p->hands : role == 0 && roles > 1;
    p->reduces = rank != p->idle && role == (alone ? 0 : 1);
    p->drains = p->lands && p->outs >> rank & 1 && role == (alone ? 0 : 2);
}

/* The part of a piece that this block pushes. */
WEIRI_GPU_FN weiri_gpu_range weiri_gpu_hand_part(const weiri_gpu_push &p, int rank,
                                                 weiri_gpu_range piece)
{
    return rank == p.idle
               ? weiri_gpu_part(piece, (unsigned)p.hand, (unsigned)p.hands)
               : piece;
}

/* The cell in which a pusher tells. */
WEIRI_GPU_FN uint32_t weiri_gpu_hand_cell(const weiri_gpu_push &p, int hand)
{
    return p.lane + (uint32_t)hand * p.lanes;
}

/* Pieces are whole lines of 128 bytes, which links carry best, as many as the stages
 * allow, but fewer where there would be too few rounds for one to travel while another is
 * reduced. Counted in units, as divisions of 64 bits are calls. */
WEIRI_GPU_FN void weiri_gpu_cut_pieces(weiri_gpu_push *p, int nranks)
{
    const uint32_t rounds_wanted = 8, least_bytes = WEIRI_GPU_PUSH_LEAST_BYTES;
    const uint32_t stages = (uint32_t)((p->lands ? 1 : 2) * WEIRI_GPU_STAGE_BYTES);
    const uint32_t room = stages / (2 * (uint32_t)nranks * p->lanes);
    const int shift = room < 128 ? 4 : 7; /* of a unit: 16 bytes or 128 */
    const uint32_t units = (uint32_t)((p->length + (1u << shift) - 1) >> shift);
    uint32_t piece = units / (rounds_wanted * p->lanes);
    piece = piece > least_bytes >> shift ? piece : least_bytes >> shift;
    piece = piece < room >> shift ? piece : room >> shift;
    p->rounds = (units + piece * p->lanes - 1) / (piece * p->lanes);
    p->piece = (size_t)((units + p->rounds * p->lanes - 1) / (p->rounds * p->lanes)) << shift;
    p->depth = stages / ((uint32_t)nranks * p->lanes * (uint32_t)p->piece);
}

/* The shares of reduce_scatter are its blocks. */
WEIRI_GPU_FN weiri_gpu_push weiri_gpu_plan_push(const weiri_gpu_args &args, unsigned outs,
                                                int lands)
{
    const int nranks = args.view.nranks, scatters = args.collective == WEIR_COLL_REDUCE_SCATTER;
    weiri_gpu_push p;
    p.lands = lands;
    p.outs = outs;
    p.idle = weiri_gpu_push_idle(args);
    weiri_gpu_cast(&p, args);
    p.bytes = scatters ? (size_t)nranks * args.bytes : args.bytes;
    p.share = scatters ? args.bytes : weiri_gpu_share_bytes(args.bytes, nranks - (p.idle >= 0));
    p.length = args.chunk_bytes ? args.chunk_bytes : p.share;
    weiri_gpu_cut_pieces(&p, nranks);
    p.in = args.in;
    p.own = weiri_gpu_share_of(p, args.view.rank) * p.share;
    p.in_aligned = ((uintptr_t)args.in + p.own) % 16 == 0;
    p.out_aligned = 0;
    return p;
}

/* Whether all results of the own share are stored at multiples of 16 bytes. */
WEIRI_GPU_FN int weiri_gpu_results_aligned(const weiri_gpu_push &p,
                                           const weiri_gpu_buffers *buffers,
                                           const weiri_gpu_view &view)
{
    uintptr_t places = 0;
    for (int r = 0; r < view.nranks; r++)
        if (p.outs >> r & 1 && (r == view.rank || !p.lands))
            places |= (uintptr_t)buffers->out[r] + p.own;
    return places % 16 == 0;
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
    const size_t begin = ((size_t)round * p.lanes + p.lane) * p.piece;
    const size_t at = weiri_gpu_share_of(p, rank) * p.share + begin;
    size_t most = begin < p.length ? p.length - begin : 0;
    const size_t left = at < p.bytes ? p.bytes - at : 0;
    most = most < left ? most : left;
    return {at, most < p.piece ? most : p.piece};
}

/* 16 bytes at `at` of the input, in the own share, or what there is of them. */
WEIRI_GPU_FN weiri_gpu_vector weiri_gpu_push_load(const weiri_gpu_push &p, size_t at)
{
    if (p.in_aligned && at + 16 <= p.bytes)
        return weiri_gpu_load16(p.in + at);
    const size_t left = p.bytes - at;
    return {{weiri_gpu_load_word(p.in + at, left),
             left > 8 ? weiri_gpu_load_word(p.in + at + 8, left - 8) : 0}};
}

/* Waits until a peer has counted so many rounds in a word of this rank's cells. */
WEIRI_GPU_FN void weiri_gpu_push_await(const weiri_gpu_view &view, const uint64_t *word,
                                       uint64_t epoch, uint32_t rounds, int peer)
{
    weiri_gpu_await_word(view, word, weiri_gpu_step(epoch, rounds), peer);
}

/* Steps 1 to 3. */
template <int exact>
WEIRI_GPU_FN void weiri_gpu_push_round(const weiri_gpu_view &view, const weiri_gpu_push &p,
                                       uint64_t epoch, uint32_t round)
{
    const int nranks = weiri_gpu_nranks<exact>(view), peer = (int)threadIdx.x;
    const bool talks = peer < nranks && peer != view.rank && peer != p.idle;
    if (talks && round >= p.depth)
        weiri_gpu_push_await(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->taken, epoch,
                             round - p.depth + 1, peer);
    if (round >= p.depth)
        __syncthreads();
    const size_t slot = weiri_gpu_push_slot(view, p, view.rank, round, 0);
    for (int i = 1; i < nranks; i++) {
        const int r = weiri_gpu_nth_after(view.rank, i, nranks);
        const weiri_gpu_range piece = weiri_gpu_push_piece(p, r, round);
        const weiri_gpu_range part = weiri_gpu_hand_part(p, view.rank, piece);
        if (r != p.idle)
            weiri_gpu_copy(view.scratch[r] + slot + (part.at - piece.at), p.in + part.at,
                           part.bytes);
    }
    __syncthreads();
    if (talks)
        weir_store_release(
            &weiri_gpu_cell_at(view, peer, view.rank, weiri_gpu_hand_cell(p, p.hand))->staged,
            weiri_gpu_step(epoch, round + 1));
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
        for (int hand = 0; hand < (peer == p.idle ? p.hands : 1); hand++)
            weiri_gpu_push_await(
                view,
                &weiri_gpu_cell_at(view, view.rank, peer, weiri_gpu_hand_cell(p, hand))->staged,
                epoch, round + 1, peer);
        if (p.lands && p.outs >> peer & 1) {
            if (round >= p.depth)
                weiri_gpu_push_await(view, &cell->drained, epoch, round - p.depth + 1, peer);
            buffers->out[peer] =
                view.scratch[peer] + weiri_gpu_push_slot(view, p, view.rank, round, 1) - own.at;
        }
    }
    __syncthreads();
    const char *stage = view.scratch[view.rank] + weiri_gpu_push_slot(view, p, 0, round, 0);
    for (size_t i = 16 * threadIdx.x; i < own.bytes; i += 16 * blockDim.x) {
        uint64_t words[WEIRI_GPU_RANKS_MAX][2], totals[2];
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++) {
            if (r >= nranks)
                continue;
            weiri_gpu_vector data =
                r == view.rank ? weiri_gpu_push_load(p, own.at + i)
                               : weiri_gpu_load16(stage + (size_t)r * p.lanes * p.piece + i);
            words[r][0] = data.word[0];
            words[r][1] = data.word[1];
        }
        weiri_gpu_reduce<dtype>(op, nranks, words, totals);
        weiri_gpu_store_all(buffers, p.outs, view.rank, nranks, own.at + i, own.bytes - i,
                            p.out_aligned, totals);
    }
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
        weiri_gpu_push_await(view, &weiri_gpu_cell_at(view, view.rank, peer, p.lane)->taken, epoch,
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
