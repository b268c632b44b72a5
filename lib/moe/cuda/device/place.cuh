/*
 * Places rows for dispatch: the first part of the complete phase.
 *
 * Block 0 waits until all ranks have published, adds up all counts, and stores where rows begin:
 * those that this rank receives (source_row) and its own on other ranks (first_row). It finds
 * problems of any rank and exceeded capacities, which every rank finds in the same data. It then
 * stores `placed`, for which the other blocks wait.
 */
#ifndef WEIRI_MOE_CUDA_PLACE_CUH
#define WEIRI_MOE_CUDA_PLACE_CUH

#include "moe/cuda/device/call.cuh"

/* The sum of a value over the lanes before this one, and over all. */
WEIRI_GPU_FN int64_t moe_sum_before(int64_t value, int lane, int64_t *all)
{
    int64_t sum = value;
#pragma unroll
    for (int step = 1; step < MOE_WARP; step *= 2) {
        const int64_t before = __shfl_sync(0xffffffff, sum, lane < step ? lane : lane - step);
        sum += lane < step ? 0 : before;
    }
    *all = __shfl_sync(0xffffffff, sum, MOE_WARP - 1);
    return sum - value;
}

/* The first capacity that is exceeded: by rank, then by expert. */
typedef struct moe_overflow {
    int rank, expert;
    int64_t rows, capacity;
} moe_overflow;

/* The rows of bin `own` of a rank: of all sources, and of those before this rank. */
WEIRI_GPU_FN int64_t moe_bin_sum(const moe_gpu_args &a, int bin, int32_t *before)
{
    int64_t total = 0;
    *before = 0;
    for (int from = 0; from < a.view.nranks; from++) {
        const int32_t rows = moe_rows_from(a, from, bin);
        total += rows;
        *before += from < a.view.rank ? rows : 0;
    }
    return total;
}

/* Stores where the rows of bin `own` begin on this rank, by source. */
WEIRI_GPU_FN void moe_place_sources(const moe_gpu_args &a, int own, int64_t first, int64_t total)
{
    const int bin = a.view.rank * a.shape.own_bins + own;
    int32_t at = (int32_t)first;
    moe_bin_rows(a)[own] = (int32_t)total;
    for (int from = 0; from < a.view.nranks; from++) {
        moe_source_row(a, from)[own] = at;
        at += moe_rows_from(a, from, bin);
    }
}

/* Places 32 bins of a rank, whose first row is `first`; one for each lane. Returns their rows, with
 * gaps. */
WEIRI_GPU_FN int64_t moe_place_bins(const moe_gpu_args &a, int rank, int own, int64_t first,
                                    int64_t total, int32_t before, moe_overflow *overflow)
{
    const int64_t capacity = a.shape.expert_capacity, alignment = a.shape.alignment;
    const int lane = own % MOE_WARP, bin = rank * a.shape.own_bins + own;
    const bool is_there = own < a.shape.own_bins;
    int64_t room = capacity, all;
    if (!is_there)
        room = 0;
    else if (!capacity)
        room = alignment > 1 ? (total + alignment - 1) / alignment * alignment : total;
    const int64_t at = first + moe_sum_before(room, lane, &all);
    const bool is_full = is_there && capacity && total > capacity;
    const bool is_over = is_full || (is_there && at + room > a.shape.recv_rows);
    const uint32_t over = __ballot_sync(0xffffffff, is_over);
    if (over && lane == __ffs((int)over) - 1 && overflow->rank < 0)
        *overflow = {rank, moe_by_expert(a) ? bin : -1, is_full ? total : at + room,
                     is_full ? capacity : a.shape.recv_rows};
    if (is_there)
        moe_first_row(a)[bin] = (int32_t)(at + before);
    if (is_there && rank == a.view.rank)
        moe_place_sources(a, own, at, total);
    return all;
}

/* Places all bins of a rank, in layouts expert and flat. One warp; it reads the counts of AHEAD
 * bins per lane at the same time. */
WEIRI_GPU_FN void moe_place_rank(const moe_gpu_args &a, int rank, int lane, moe_overflow *overflow)
{
    enum { AHEAD = 8 };
    int64_t first = 0;
    for (int begin = lane; begin - lane < a.shape.own_bins; begin += AHEAD * MOE_WARP) {
        int64_t totals[AHEAD];
        int32_t before[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int own = begin + i * MOE_WARP;
            totals[i] = before[i] = 0;
            if (own < a.shape.own_bins)
                totals[i] = moe_bin_sum(a, rank * a.shape.own_bins + own, &before[i]);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int own = begin + i * MOE_WARP;
            if (own - lane < a.shape.own_bins)
                first += moe_place_bins(a, rank, own, first, totals[i], before[i], overflow);
        }
    }
}

/* Places the rows of layout rank, which cannot overflow. */
WEIRI_GPU_FN void moe_place_by_source(const moe_gpu_args &a)
{
    const int rank = (int)threadIdx.x;
    if (rank >= a.view.nranks)
        return;
    moe_first_row(a)[rank] = a.view.rank * a.shape.max_tokens;
    moe_source_row(a, rank)[0] = rank * a.shape.max_tokens;
    if (rank == 0) {
        int32_t before;
        moe_bin_rows(a)[0] = (int32_t)moe_bin_sum(a, a.view.rank, &before);
    }
}

/* Finds the lowest rank with a problem, or that lacks weights which another one wants. One thread.
 * Returns whether there is one. */
WEIRI_GPU_FN bool moe_find_problem(const moe_gpu_args &a, const moe_launch &l)
{
    int wanting = -1, lacking = -1;
    for (int rank = 0; rank < a.view.nranks; rank++) {
        const moe_gpu_header *header = moe_header(a, rank, l.call);
        if (!moe_has_published(a, l, rank))
            return true; /* the wait has failed */
        if (header->problem) {
            moe_report(a, header->problem, rank, header->values[0], header->values[1],
                       header->values[2]);
            return true;
        }
        wanting = header->wants_weights && wanting < 0 ? rank : wanting;
        lacking = !header->has_weights && lacking < 0 ? rank : lacking;
    }
    if (wanting < 0 || lacking < 0)
        return false;
    moe_report(a, MOE_NO_WEIGHTS, lacking, wanting, 0, 0);
    return true;
}

/* Places all rows. Block 0. */
WEIRI_GPU_FN void moe_place(const moe_gpu_args &a, const moe_launch &l)
{
    __shared__ moe_overflow overflows[WEIRI_GPU_RANKS_MAX];
    __shared__ int is_failed;
    const int warp = (int)threadIdx.x / MOE_WARP, warps = (int)blockDim.x / MOE_WARP;
    const bool is_new = a.dispatch.topk_experts != nullptr;
    moe_await_published(a, l.call);
    if (threadIdx.x < WEIRI_GPU_RANKS_MAX)
        overflows[threadIdx.x].rank = -1;
    const bool is_same = moe_is_same(a, l);
    if (threadIdx.x == 0 && !is_same)
        moe_report_other(a, l);
    if (threadIdx.x == 0)
        is_failed = !is_same || moe_find_problem(a, l);
    __syncthreads();
    if (is_new && a.shape.layout == WEIR_MOE_RANK_MAJOR)
        moe_place_by_source(a);
    else if (is_new)
        for (int rank = warp; rank < a.view.nranks; rank += warps)
            moe_place_rank(a, rank, l.lane, &overflows[rank]);
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int rank = 0; rank < a.view.nranks && !is_failed; rank++)
        if (overflows[rank].rank >= 0) {
            moe_report(a, MOE_OVERFLOW, rank, overflows[rank].expert, overflows[rank].rows,
                       overflows[rank].capacity);
            is_failed = 1;
        }
    if (is_new)
        moe_routing_of(a)->is_valid = !is_failed;
    weiri_gpu_fence();
    weir_store_release(&moe_state(a)->placed, 2 * l.epoch + (uint64_t)is_failed);
}

/* Waits for block 0; returns whether rows are placed. All threads of a block. It waits for all
 * ranks first, so that the rank that is late is the one reported. */
WEIRI_GPU_FN bool moe_await_placed(const moe_gpu_args &a, const moe_launch &l)
{
    __shared__ int is_placed;
    moe_await_published(a, l.call);
    if (threadIdx.x == 0) {
        const uint64_t *word = &moe_state(a)->placed;
        weiri_gpu_await_word(a.view, word, 2 * l.epoch, a.view.rank);
        is_placed = weir_load_acquire(word) == 2 * l.epoch;
    }
    __syncthreads();
    return is_placed;
}

#endif
