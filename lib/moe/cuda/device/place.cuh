/*
 * Places rows for dispatch: the first part of the complete phase.
 *
 * After all ranks have published, all counts are added up, which gives the places where rows begin:
 * those that this rank receives (source_row) and its own on other ranks (first_row). Problems of
 * any rank and exceeded capacities are found, which every rank finds in the same data.
 */
#ifndef WEIRI_MOE_CUDA_PLACE_CUH
#define WEIRI_MOE_CUDA_PLACE_CUH

#include "moe/cuda/device/call.cuh"

/* The first capacity that is exceeded: by rank, then by expert. */
typedef struct moe_overflow {
    int rank, expert;
    int64_t rows, capacity;
} moe_overflow;

/* What the threads of a block share while they place. */
typedef struct moe_placing {
    int64_t sums[MOE_WARPS];            /* rows of each warp's bins */
    int64_t first[WEIRI_GPU_RANKS_MAX]; /* rows of all bins before a rank's first */
    int over;                           /* the first bin whose capacity is exceeded */
    moe_overflow overflow;              /* of that bin; rank -1: none */
    int32_t own_first[MOE_GPU_DISPATCH_THREADS], own_rows[MOE_GPU_DISPATCH_THREADS];
} moe_placing;

/* Where this rank's rows are: [source][own bin] the first of a source, [own bin] how many. */
typedef struct moe_places {
    const int32_t *first, *rows;
} moe_places;

/* Whether each block places for itself: there is a thread for each bin. */
WEIRI_GPU_FN bool moe_places_itself(const moe_gpu_args &a)
{
    return a.shape.bins <= (int)blockDim.x;
}

/* The sum of a value over the threads before this one, and over the block. All threads. */
WEIRI_GPU_FN int64_t moe_sum_before(int64_t value, int64_t *sums, int64_t *all)
{
    const int lane = (int)(threadIdx.x % MOE_WARP), warp = (int)threadIdx.x / MOE_WARP;
    int64_t sum = value;
#pragma unroll 1
    for (int step = 1; step < MOE_WARP; step *= 2) {
        const int64_t before = __shfl_sync(0xffffffff, sum, lane < step ? lane : lane - step);
        sum += lane < step ? 0 : before;
    }
    if (lane == MOE_WARP - 1)
        sums[warp] = sum;
    __syncthreads();
    int64_t before = 0;
    *all = 0;
#pragma unroll 1
    for (int other = 0; other < (int)blockDim.x / MOE_WARP; other++) {
        before += other < warp ? sums[other] : 0;
        *all += sums[other];
    }
    return before + sum - value;
}

/* Stores where the rows of a bin begin: this rank's, and, if the bin is this rank's own, those of
 * each source. rows: of each source. */
WEIRI_GPU_FN void moe_store_places(const moe_gpu_args &a, int bin, int64_t first, int32_t total,
                                   const int32_t (&rows)[WEIRI_GPU_RANKS_MAX], moe_placing *placing)
{
    const int own = bin - a.view.rank * a.shape.own_bins;
    const bool is_own = own >= 0 && own < a.shape.own_bins, is_shared = moe_places_itself(a);
    int32_t *kept = moe_source_row(a, 0) + own, at = (int32_t)first;
#pragma unroll
    for (int from = 0; from < WEIRI_GPU_RANKS_MAX; from++) {
        if (from == a.view.rank && blockIdx.x == 0)
            moe_first_row(a)[bin] = at;
        if (is_own && from < a.view.nranks && is_shared)
            placing->own_first[from * a.shape.own_bins + own] = at;
        if (is_own && from < a.view.nranks && blockIdx.x == 0)
            kept[from * a.shape.own_bins] = at;
        at += rows[from];
    }
    if (is_own && is_shared)
        placing->own_rows[own] = total;
    if (is_own && blockIdx.x == 0)
        moe_bin_rows(a)[own] = total;
}

/* Places the bins from `begin` on, one for each thread, in layouts expert and flat; the bins before
 * have `before` rows, with gaps. Returns the rows of these bins, too. All threads. */
WEIRI_GPU_FN int64_t moe_place_bins(const moe_gpu_args &a, int begin, int64_t before,
                                    moe_placing *placing)
{
    const int64_t capacity = a.shape.expert_capacity, alignment = a.shape.alignment;
    const int bin = begin + (int)threadIdx.x, stride = a.shape.experts + a.view.nranks;
    const int rank = bin / a.shape.own_bins;
    const bool is_there = bin < a.shape.bins;
    const int32_t *counts =
        moe_counts(a, a.view.rank, 0) + (moe_by_expert(a) ? bin : a.shape.experts + bin);
    int32_t rows[WEIRI_GPU_RANKS_MAX];
    int64_t total = 0, all;
#pragma unroll
    for (int from = 0; from < WEIRI_GPU_RANKS_MAX; from++)
        rows[from] = is_there && from < a.view.nranks ? counts[from * stride] : 0;
#pragma unroll
    for (int from = 0; from < WEIRI_GPU_RANKS_MAX; from++)
        total += rows[from];
    const int64_t room = !is_there       ? 0
                         : capacity      ? capacity
                         : alignment > 1 ? (total + alignment - 1) / alignment * alignment
                                         : total;
    int64_t at = before + moe_sum_before(room, placing->sums, &all);
    if (is_there && bin == rank * a.shape.own_bins)
        placing->first[rank] = at;
    __syncthreads();
    at -= is_there ? placing->first[rank] : 0;
    const bool is_full = is_there && capacity && total > capacity;
    const bool is_over = is_full || (is_there && at + room > a.shape.recv_rows);
    if (is_over)
        atomicMin(&placing->over, bin);
    if (is_there)
        moe_store_places(a, bin, at, (int32_t)total, rows, placing);
    __syncthreads();
    if (is_over && placing->over == bin)
        placing->overflow = {rank, moe_by_expert(a) ? bin : -1, is_full ? total : at + room,
                             is_full ? capacity : a.shape.recv_rows};
    return before + all;
}

/* Places the rows of layout rank, which cannot overflow. */
WEIRI_GPU_FN void moe_place_by_source(const moe_gpu_args &a, moe_placing *placing)
{
    const int rank = (int)threadIdx.x, first = rank * a.shape.max_tokens;
    if (rank < a.view.nranks)
        placing->own_first[rank] = first;
    if (rank >= a.view.nranks || blockIdx.x)
        return;
    moe_first_row(a)[rank] = a.view.rank * a.shape.max_tokens;
    moe_source_row(a, rank)[0] = first;
    if (rank == 0) {
        int32_t rows = 0;
#pragma unroll 1
        for (int from = 0; from < a.view.nranks; from++)
            rows += moe_rows_from(a, from, a.view.rank);
        moe_bin_rows(a)[0] = rows;
    }
}

/* Reports the lowest rank that lacks weights which another one wants. One thread. */
WEIRI_GPU_COLD_FN void moe_report_weights(const moe_gpu_args &a, const moe_launch &l)
{
    int wanting = -1, lacking = -1;
    for (int rank = 0; rank < a.view.nranks; rank++) {
        const moe_gpu_header *header = moe_header(a, rank, l.call);
        wanting = header->wants_weights && wanting < 0 ? rank : wanting;
        lacking = !header->has_weights && lacking < 0 ? rank : lacking;
    }
    moe_report(a, MOE_NO_WEIGHTS, lacking, wanting, 0, 0);
}

/* Returns whether the call fails: a rank cannot take part, or lacks weights. Block 0 reports it.
 * notes: of moe_await_parts. All threads of a block. */
WEIRI_GPU_FN bool moe_find_problem(const moe_gpu_args &a, const moe_launch &l, int notes)
{
    const bool is_refused = moe_find_refusal(a, l, notes);
    const bool is_wanted = __syncthreads_or(notes & MOE_WANTS);
    const bool is_missing = __syncthreads_or(notes & MOE_LACKS) && is_wanted;
    if (blockIdx.x == 0 && threadIdx.x == 0 && is_missing && !is_refused)
        moe_report_weights(a, l);
    return is_refused || is_missing;
}

/* Places all rows of a new routing; block 0 stores where they are, for combine. Returns whether the
 * call fails; is_failed: it does. All threads of a block. */
WEIRI_GPU_FN bool moe_place_new(const moe_gpu_args &a, moe_placing *placing, bool is_failed)
{
    if (threadIdx.x == 0) {
        placing->over = a.shape.bins;
        placing->overflow.rank = -1;
    }
    __syncthreads();
    if (a.shape.layout == WEIR_MOE_RANK_MAJOR)
        moe_place_by_source(a, placing);
    else {
        int64_t before = 0;
#pragma unroll 1
        for (int bin = 0; bin < a.shape.bins; bin += (int)blockDim.x)
            before = moe_place_bins(a, bin, before, placing);
    }
    __syncthreads();
    const moe_overflow overflow = placing->overflow;
    const bool is_over = overflow.rank >= 0, writes = blockIdx.x == 0 && threadIdx.x == 0;
    if (writes && is_over && !is_failed)
        moe_report(a, MOE_OVERFLOW, overflow.rank, overflow.expert, overflow.rows,
                   overflow.capacity);
    if (writes)
        moe_routing_of(a)->is_valid = !is_failed && !is_over;
    return is_failed || is_over;
}

/* Waits for block 0, which has placed the rows; returns whether the call fails. */
WEIRI_GPU_FN bool moe_await_placed(const moe_gpu_args &a, const moe_launch &l, bool is_failed)
{
    __shared__ int has_failed;
    uint64_t *word = &moe_state(a)->placed;
    const uint64_t target = 2 * l.epoch;
    if (threadIdx.x == 0 && blockIdx.x == 0)
        weir_store_release(word, target + (uint64_t)is_failed);
    if (threadIdx.x == 0)
        has_failed = moe_await_word(a, word, target, a.view.rank) != target;
    __syncthreads();
    return has_failed;
}

/* Finds where this rank's rows are. Where there are few bins, every block computes that itself,
 * from the counts of all ranks; otherwise block 0 does, and the others wait for it. Returns whether
 * rows can be written. notes: of moe_await_parts. All threads of a block. */
WEIRI_GPU_FN bool moe_place(const moe_gpu_args &a, const moe_launch &l, int notes,
                            moe_placing *placing, moe_places *places)
{
    const bool is_new = a.dispatch.topk_experts != nullptr, is_shared = moe_places_itself(a);
    bool is_failed = moe_find_problem(a, l, notes);
    places->first = is_new && is_shared ? placing->own_first : moe_source_row(a, 0);
    places->rows = is_new && is_shared ? placing->own_rows : moe_bin_rows(a);
    if (is_new && (is_shared || blockIdx.x == 0))
        is_failed = moe_place_new(a, placing, is_failed);
    if (is_new && !is_shared)
        is_failed = moe_await_placed(a, l, is_failed);
    return !is_failed;
}

#endif
