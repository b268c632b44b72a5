/*
 * Places rows for dispatch: the first part of the complete phase.
 *
 * When the counts of all ranks have arrived, they are added up, which gives the places where rows
 * begin: those that this rank receives (source_row) and its own on other ranks (first_row).
 * Problems of any rank and exceeded capacities are found, which every rank finds in the same data.
 */
#ifndef WEIRI_MOE_CUDA_PLACE_CUH
#define WEIRI_MOE_CUDA_PLACE_CUH

#include "moe/cuda/device/count.cuh"

/* The first capacity that is exceeded: by rank, then by expert. */
typedef struct moe_overflow {
    int rank, expert;
    int64_t rows, capacity;
} moe_overflow;

/* What the threads of a block share while they place. moe_place_begin and a __syncthreads precede
 * its use. */
typedef struct moe_placing {
    uint32_t sums[MOE_WARPS];            /* rows of each warp's bins */
    int is_late;                         /* a rank's counts have not arrived */
    uint32_t first[WEIRI_GPU_RANKS_MAX]; /* rows of all bins before a rank's first */
    int over;                            /* the first bin whose capacity is exceeded */
    moe_overflow overflow;               /* of that bin; rank -1: none */
    union {
        int32_t numbers[MOE_WARPS][MOE_RANGE]; /* of the send phase, before a __syncthreads */
        struct {
            /* [source][own bin], [own bin] */
            int32_t own_first[MOE_GPU_DISPATCH_THREADS], own_rows[MOE_GPU_DISPATCH_THREADS];
            /* Each thread's: what its bin gets from each rank. */
            int32_t rows[WEIRI_GPU_RANKS_MAX][MOE_GPU_DISPATCH_THREADS];
        } tables;
    };
} moe_placing;

WEIRI_GPU_FN void moe_place_begin(const moe_gpu_args &a, moe_placing *placing)
{
    if (threadIdx.x)
        return;
    placing->over = a.shape.bins;
    placing->overflow.rank = -1;
    placing->is_late = 0;
}

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
WEIRI_GPU_FN uint32_t moe_sum_before(uint32_t value, uint32_t *sums, uint32_t *all)
{
    const int lane = (int)(threadIdx.x % MOE_WARP), warp = (int)threadIdx.x / MOE_WARP;
    const uint32_t sum = moe_sum_through(value, lane);
    if (lane == MOE_WARP - 1)
        sums[warp] = sum;
    __syncthreads();
    const uint32_t other = lane < (int)blockDim.x / MOE_WARP ? sums[lane] : 0;
    *all = (uint32_t)moe_sum_lanes((int32_t)other);
    return (uint32_t)moe_sum_lanes(lane < warp ? (int32_t)other : 0) + sum - value;
}

/* Stores where the rows of a thread's bin begin: this rank's, and, if the bin is this rank's own,
 * those of each source. */
WEIRI_GPU_FN void moe_store_places(const moe_gpu_args &a, int bin, uint32_t first, int32_t total,
                                   moe_placing *placing)
{
    const int own = bin - a.view.rank * a.shape.own_bins;
    const bool is_own = own >= 0 && own < a.shape.own_bins, is_shared = moe_places_itself(a);
    int32_t *kept = moe_source_row(a, 0) + own, at = (int32_t)first;
#pragma unroll 1
    for (int from = 0; from < a.view.nranks; from++) {
        if (from == a.view.rank && blockIdx.x == 0)
            moe_first_row(a)[bin] = at;
        if (is_own && is_shared)
            placing->tables.own_first[from * a.shape.own_bins + own] = at;
        if (is_own && blockIdx.x == 0)
            kept[from * a.shape.own_bins] = at;
        at += placing->tables.rows[from][threadIdx.x];
    }
    if (is_own && is_shared)
        placing->tables.own_rows[own] = total;
    if (is_own && blockIdx.x == 0)
        moe_bin_rows(a)[own] = total;
}

/* Waits for the rows that a bin gets from each rank; returns false if they have not arrived. */
WEIRI_GPU_COLD_FN bool moe_wait_counts(const moe_gpu_args &a, uint64_t call, int bin)
{
    bool is_there = true;
    for (int from = 0; from < a.view.nranks; from++)
        is_there &= moe_wait_packet(a, moe_rows_from(a, from, bin), (uint32_t)call, from) >> 32 ==
                    (uint32_t)call;
    return is_there;
}

/* Loads the rows that a thread's bin gets from each rank, when they have arrived; returns how many.
 */
WEIRI_GPU_FN int32_t moe_await_counts(const moe_gpu_args &a, const moe_launch &l, int bin,
                                      moe_placing *placing)
{
    enum { AT_ONCE = 4 }; /* loads */
    const uint64_t *counts = moe_rows_from(a, 0, bin);
    const size_t stride = (size_t)(a.shape.experts + a.view.nranks);
    int32_t total = 0;
#pragma unroll 1
    for (int first = 0; first < a.view.nranks; first += AT_ONCE) {
        uint64_t seen[AT_ONCE];
        bool is_there = true;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i < a.view.nranks)
                seen[i] = weir_load_relaxed(counts + (size_t)(first + i) * stride);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i >= a.view.nranks)
                continue;
            is_there &= seen[i] >> 32 == (uint32_t)l.call;
            total += placing->tables.rows[first + i][threadIdx.x] = (int32_t)(uint32_t)seen[i];
        }
        if (!is_there && moe_wait_counts(a, l.call, bin)) {
            first = -AT_ONCE;
            total = 0;
        } else if (!is_there) {
            placing->is_late = 1;
        }
    }
    return total;
}

WEIRI_GPU_FN uint32_t moe_round_up(uint32_t number, uint32_t unit)
{
    return (number + unit - 1) / unit * unit;
}

/* Places the bins from `begin` on, one for each thread, in layouts expert and flat; the bins before
 * have `before` rows, with gaps. Returns the rows of these bins, too. Sums are modulo 2^32, which
 * the rows of one rank are less than. All threads. */
WEIRI_GPU_FN uint32_t moe_place_bins(const moe_gpu_args &a, const moe_launch &l, int begin,
                                     uint32_t before, moe_placing *placing)
{
    const uint32_t capacity = (uint32_t)a.shape.expert_capacity;
    const uint32_t alignment = (uint32_t)a.shape.alignment;
    const int bin = begin + (int)threadIdx.x, rank = bin / a.shape.own_bins;
    const bool is_there = bin < a.shape.bins;
    const uint32_t total = is_there ? (uint32_t)moe_await_counts(a, l, bin, placing) : 0;
    const uint32_t room = !is_there       ? 0
                          : capacity      ? capacity
                          : alignment > 1 ? moe_round_up(total, alignment)
                                          : total;
    uint32_t all, at = before + moe_sum_before(room, placing->sums, &all);
    if (is_there && bin == rank * a.shape.own_bins)
        placing->first[rank] = at;
    __syncthreads();
    at -= is_there ? placing->first[rank] : 0;
    const bool is_full = is_there && capacity && total > capacity;
    const bool is_over = is_full || (is_there && at + room > (uint32_t)a.shape.recv_rows);
    if (is_over)
        atomicMin(&placing->over, bin);
    if (is_there)
        moe_store_places(a, bin, at, (int32_t)total, placing);
    __syncthreads();
    if (is_over && placing->over == bin)
        placing->overflow = {rank, moe_by_expert(a) ? bin : -1, is_full ? total : at + room,
                             is_full ? capacity : (uint32_t)a.shape.recv_rows};
    return before + all;
}

/* Places the rows of layout rank, which cannot overflow. */
WEIRI_GPU_FN void moe_place_by_source(const moe_gpu_args &a, const moe_launch &l,
                                      moe_placing *placing)
{
    const int rank = (int)threadIdx.x, first = rank * a.shape.max_tokens;
    if (rank < a.view.nranks)
        placing->tables.own_first[rank] = first;
    if (rank >= a.view.nranks || blockIdx.x)
        return;
    moe_first_row(a)[rank] = a.view.rank * a.shape.max_tokens;
    moe_source_row(a, rank)[0] = first;
    if (rank == 0)
        moe_bin_rows(a)[0] = moe_await_counts(a, l, a.view.rank, placing);
}

/* Reports the lowest rank that lacks weights which another one wants. One thread. */
WEIRI_GPU_COLD_FN void moe_report_weights(const moe_gpu_args &a, uint64_t call)
{
    moe_header header;
    int wanting = -1, lacking = -1;
    for (int rank = 0; rank < a.view.nranks && moe_read_header(a, call, rank, &header); rank++) {
        wanting = header.notes & MOE_WANTS_WEIGHTS && wanting < 0 ? rank : wanting;
        lacking = !(header.notes & MOE_HAS_WEIGHTS) && lacking < 0 ? rank : lacking;
    }
    moe_report(a, MOE_NO_WEIGHTS, lacking, wanting, 0, 0);
}

/* Returns whether the call fails: a rank cannot take part, or lacks weights. Block 0 reports it. */
WEIRI_GPU_FN bool moe_find_problem(const moe_gpu_args &a, const moe_launch &l,
                                   const moe_parts &parts)
{
    const bool is_refused = moe_find_refusal(a, l, parts);
    const bool is_missing = parts.notes & MOE_WANTS && parts.notes & MOE_LACKS;
    if (blockIdx.x == 0 && threadIdx.x == 0 && is_missing && !is_refused)
        moe_report_weights(a, l.call);
    return is_refused || is_missing;
}

/* Places all rows of a new routing; block 0 stores where they are, for combine. Returns whether the
 * call fails. All threads of a block. */
WEIRI_GPU_FN bool moe_place_new(const moe_gpu_args &a, const moe_launch &l, moe_placing *placing)
{
    if (a.shape.layout == WEIR_MOE_RANK_MAJOR)
        moe_place_by_source(a, l, placing);
    else {
        uint32_t before = 0;
#pragma unroll 1
        for (int bin = 0; bin < a.shape.bins; bin += (int)blockDim.x)
            before = moe_place_bins(a, l, bin, before, placing);
    }
    __syncthreads();
    const moe_overflow overflow = placing->overflow;
    const bool is_over = overflow.rank >= 0, is_late = placing->is_late;
    const bool writes = blockIdx.x == 0 && threadIdx.x == 0;
    if (writes && is_over && !is_late)
        moe_report(a, MOE_OVERFLOW, overflow.rank, overflow.expert, overflow.rows,
                   overflow.capacity);
    if (writes)
        moe_routing_of(a)->is_valid = !is_over && !is_late;
    return is_over || is_late;
}

/* Waits for block 0, which has placed the rows; returns whether the call fails. */
WEIRI_GPU_FN bool moe_await_placed(const moe_gpu_args &a, const moe_launch &l, bool is_failed)
{
    WEIRI_GPU_SHARED(int, has_failed);
    uint64_t *word = &moe_state(a)->placed;
    const uint64_t target = 2 * l.call;
    if (threadIdx.x == 0 && blockIdx.x == 0)
        weir_store_release(word, target + (uint64_t)is_failed);
    if (threadIdx.x == 0)
        has_failed = moe_await_word(a, word, target, a.view.rank) != target;
    __syncthreads();
    return has_failed;
}

/* Finds where this rank's rows are. Where there are few bins, every block computes that itself,
 * from the counts of all ranks; otherwise block 0 does, and the others wait for it. Returns whether
 * rows can be written. All threads of a block. */
WEIRI_GPU_FN bool moe_place(const moe_gpu_args &a, const moe_launch &l, moe_placing *placing,
                            moe_places *places)
{
    const bool is_new = a.dispatch.topk_experts != nullptr, is_shared = moe_places_itself(a);
    bool is_failed = false;
    places->first = is_new && is_shared ? placing->tables.own_first : moe_source_row(a, 0);
    places->rows = is_new && is_shared ? placing->tables.own_rows : moe_bin_rows(a);
    if (is_new && (is_shared || blockIdx.x == 0))
        is_failed = moe_place_new(a, l, placing);
    if (is_new && !is_shared)
        is_failed = moe_await_placed(a, l, is_failed);
    return !is_failed;
}

#endif
