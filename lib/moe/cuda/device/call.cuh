/*
 * What the kernels of expert parallelism share: the window, the steps of a call, and the division
 * of rows among warps.
 *
 * A launch reads the number of its call from device memory. In the order of its phases:
 *
 *   send      waits until peers have finished with what is overwritten; writes choices and counts
 *             into the receivers' windows, and rows into staging. The block that arrives last
 *             writes the header into all windows and then, with release, published
 *   complete  waits for published of all ranks, reads. The block that finishes last stores done
 *             with release into all windows, and the state for the next launch. If peers read this
 *             rank's rows in place, it waits for their done
 *
 * Memory order. Stores of all blocks reach the peers before published: each block executes
 * __syncthreads, a fence of system scope and an atomic addition; the last one sees all additions. A
 * wait acquires, followed by __syncthreads. Waits that fail record the reason and change no control
 * flow.
 */
#ifndef WEIR_MOE_CUDA_CALL_CUH
#define WEIR_MOE_CUDA_CALL_CUH

#include "coll/cuda/device/access.cuh"
#include "moe/cuda/args.h"
#include "moe/problem.h"

enum { MOE_WARP = 32 };

/* ------------------------------------------------------------------- window */

WEIRI_GPU_FN moe_gpu_state *moe_state(const moe_gpu_args &a)
{
    return (moe_gpu_state *)(a.windows[a.view.rank] + a.shape.at.state);
}

/* What rank `from` writes into the window of rank `at`. */
WEIRI_GPU_FN moe_gpu_peer *moe_peer(const moe_gpu_args &a, int at, int from)
{
    return (moe_gpu_peer *)(a.windows[at] + a.shape.at.peers) + from;
}

WEIRI_GPU_FN const moe_gpu_header *moe_header(const moe_gpu_args &a, int from, uint64_t call)
{
    return &moe_peer(a, a.view.rank, from)->headers[call % MOE_GPU_CALLS];
}

WEIRI_GPU_FN moe_gpu_routing *moe_routing_of(const moe_gpu_args &a)
{
    return (moe_gpu_routing *)(a.windows[a.view.rank] + a.shape.at.routings) + a.handle;
}

/* A private array of the handle, with so many elements. */
WEIRI_GPU_FN int32_t *moe_array(const moe_gpu_args &a, uint64_t at, size_t elements)
{
    return (int32_t *)(a.windows[a.view.rank] + at) + (size_t)a.handle * elements;
}

WEIRI_GPU_FN int32_t *moe_experts(const moe_gpu_args &a)
{
    return moe_array(a, a.shape.at.experts, (size_t)a.shape.max_tokens * a.shape.topk);
}

WEIRI_GPU_FN int32_t *moe_positions(const moe_gpu_args &a)
{
    return moe_array(a, a.shape.at.positions, (size_t)a.shape.max_tokens * a.shape.topk);
}

WEIRI_GPU_FN int32_t *moe_first_row(const moe_gpu_args &a)
{
    return moe_array(a, a.shape.at.first_row, (size_t)a.shape.bins);
}

WEIRI_GPU_FN int32_t *moe_source_row(const moe_gpu_args &a, int source)
{
    return moe_array(a, a.shape.at.source_row, (size_t)a.view.nranks * a.shape.own_bins) +
           source * a.shape.own_bins;
}

WEIRI_GPU_FN int32_t *moe_bin_rows(const moe_gpu_args &a)
{
    return moe_array(a, a.shape.at.bin_rows, (size_t)a.shape.own_bins);
}

/* The counts of rank `from`, in the window of rank `at`. */
WEIRI_GPU_FN int32_t *moe_counts(const moe_gpu_args &a, int at, int from)
{
    const size_t each = (size_t)(a.shape.experts + a.view.nranks);
    return (int32_t *)(a.windows[at] + a.shape.at.counts) +
           ((size_t)a.handle * a.view.nranks + from) * each;
}

WEIRI_GPU_FN moe_gpu_choice *moe_choices(const moe_gpu_args &a, int at, int from)
{
    const size_t each = (size_t)a.shape.max_tokens * a.shape.topk;
    return (moe_gpu_choice *)(a.windows[at] + a.shape.at.choices) +
           ((size_t)a.handle * a.view.nranks + from) * each;
}

WEIRI_GPU_FN bool moe_by_expert(const moe_gpu_args &a)
{
    return a.shape.layout == WEIR_MOE_EXPERT_MAJOR;
}

/* The rows that bin `bin` gets from rank `from`. */
WEIRI_GPU_FN int moe_rows_from(const moe_gpu_args &a, int from, int bin)
{
    return moe_counts(a, a.view.rank, from)[moe_by_expert(a) ? bin : a.shape.experts + bin];
}

/* ------------------------------------------------------------------- launch */

/* A launch, as every thread sees it. */
typedef struct moe_launch {
    uint64_t epoch, call;
    int warp, warps, lane; /* of the grid */
} moe_launch;

WEIRI_GPU_FN moe_launch moe_begin(const moe_gpu_args &a)
{
    const moe_gpu_state *state = moe_state(a);
    moe_launch l;
    l.epoch = weiri_gpu_epoch(a.view);
    l.call = a.phases & MOE_GPU_SEND ? state->calls + 1 : state->under_way[a.kind];
    l.lane = (int)(threadIdx.x % MOE_WARP);
    l.warp = (int)(blockIdx.x * (blockDim.x / MOE_WARP) + threadIdx.x / MOE_WARP);
    l.warps = (int)(gridDim.x * (blockDim.x / MOE_WARP));
    weiri_gpu_advance_epoch(a.view, l.epoch);
    return l;
}

/* Returns true in all threads of the block that arrives last at a counter. */
WEIRI_GPU_FN bool moe_is_last(uint64_t *counter)
{
    __shared__ int is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        weiri_gpu_fence();
        is_last = atomicAdd((unsigned long long *)counter, 1ull) == gridDim.x - 1;
        if (is_last) {
            weir_store_relaxed(counter, 0);
            weiri_gpu_fence();
        }
    }
    __syncthreads();
    return is_last;
}

/* Waits until all ranks have finished a call. All threads of a block. */
WEIRI_GPU_FN void moe_await_done(const moe_gpu_args &a, uint64_t call)
{
    const int peer = (int)threadIdx.x;
    if (peer < a.view.nranks)
        weiri_gpu_await_word(a.view, &moe_peer(a, a.view.rank, peer)->done, call, peer);
    __syncthreads();
}

/* Waits until all ranks have published a call. All threads of a block. */
WEIRI_GPU_FN void moe_await_published(const moe_gpu_args &a, uint64_t call)
{
    const int peer = (int)threadIdx.x;
    if (peer < a.view.nranks)
        weiri_gpu_await_word(a.view, &moe_peer(a, a.view.rank, peer)->published, call, peer);
    __syncthreads();
}

/* Whether a rank has published a call, after the wait for it, which may have failed. */
WEIRI_GPU_FN bool moe_has_published(const moe_gpu_args &a, const moe_launch &l, int from)
{
    return weir_load_relaxed(&moe_peer(a, a.view.rank, from)->published) >= l.call;
}

/* The call, equal on all ranks. */
WEIRI_GPU_FN uint64_t moe_what(const moe_gpu_args &a)
{
    return (uint64_t)a.handle << 8 | (uint64_t)(a.kind == MOE_COMBINE) << 2 |
           (uint64_t)(a.combine.row_weight_grads != nullptr) << 1 |
           (uint64_t)(a.dispatch.topk_experts != nullptr);
}

/* Ends the send phase: the last block publishes the header and records the call. is_staged: peers
 * read staging. */
WEIRI_GPU_FN void moe_publish(const moe_gpu_args &a, const moe_launch &l, moe_gpu_header header,
                              bool is_staged)
{
    const int peer = (int)threadIdx.x;
    moe_gpu_state *state = moe_state(a);
    if (!moe_is_last(&state->arrived))
        return;
    if (a.kind == MOE_DISPATCH && state->wrong) {
        const uint64_t index = ((uint64_t)1 << 63) - state->wrong;
        header.problem = MOE_BAD_EXPERT;
        header.values[0] = (int64_t)(index / (uint64_t)a.shape.topk);
        header.values[1] = (int64_t)(index % (uint64_t)a.shape.topk);
        header.values[2] = a.dispatch.has_wide_ids
                               ? ((const int64_t *)a.dispatch.topk_experts)[index]
                               : ((const int32_t *)a.dispatch.topk_experts)[index];
    }
    __syncthreads();
    if (peer < a.view.nranks) {
        moe_gpu_peer *to = moe_peer(a, peer, a.view.rank);
        to->headers[l.call % MOE_GPU_CALLS] = header;
        weiri_gpu_fence();
        weir_store_release(&to->published, l.call);
        if (a.problem && !a.is_other_under_way)
            weir_store_release(&to->done, l.call);
    }
    if (peer == 0) {
        state->calls = l.call;
        state->wrong = 0;
        if (a.problem && a.is_other_under_way)
            state->refused = l.call;
        if (!a.problem)
            state->under_way[a.kind] = l.call;
        if (is_staged)
            state->staged[a.kind] = l.call;
    }
}

/* The whole launch of a rank that cannot take part. */
WEIRI_GPU_FN void moe_refuse(const moe_gpu_args &a, const moe_launch &l)
{
    moe_gpu_header header = {};
    header.what = moe_what(a);
    header.problem = (uint64_t)a.problem;
    for (int i = 0; i < 3; i++)
        header.values[i] = a.values[i];
    moe_publish(a, l, header, false);
}

/* Ends a call. */
WEIRI_GPU_FN void moe_finish(const moe_gpu_args &a, const moe_launch &l)
{
    const int peer = (int)threadIdx.x;
    moe_gpu_state *state = moe_state(a);
    if (!moe_is_last(&state->finished))
        return;
    const uint64_t refused = state->refused;
    __syncthreads();
    if (peer < a.view.nranks)
        weir_store_release(&moe_peer(a, peer, a.view.rank)->done,
                           refused > l.call ? refused : l.call);
    if (peer == 0)
        state->refused = 0;
    if (peer == 0 && a.kind == MOE_DISPATCH)
        moe_routing_of(a)->call = l.call;
    if (a.desc != WEIRI_GPU_UNMAPPED)
        moe_await_done(a, l.call);
}

/* Reports a failure to the host. One thread. */
WEIRI_GPU_COLD_FN void moe_report(const moe_gpu_args &a, uint64_t problem, int rank, int64_t first,
                                  int64_t second, int64_t third)
{
    moe_gpu_report *report = a.report;
    if (weir_load_acquire(&report->problem))
        return;
    report->kind = (uint64_t)a.kind;
    report->rank = (uint64_t)rank;
    report->values[0] = first;
    report->values[1] = second;
    report->values[2] = third;
    weir_store_release(&report->problem, problem);
}

/* Returns whether all ranks make the same call. All threads of a block, after the wait. */
WEIRI_GPU_FN bool moe_is_same(const moe_gpu_args &a, const moe_launch &l)
{
    const int from = (int)threadIdx.x;
    bool is_other = false;
    if (from < a.view.nranks && moe_has_published(a, l, from)) {
        const moe_gpu_header *header = moe_header(a, from, l.call);
        const uint64_t what = header->what;
        is_other = what != moe_what(a) && !header->problem;
    }
    return !__syncthreads_or(is_other);
}

/* Reports the first rank that makes another call, after which nothing can go on. One thread. */
WEIRI_GPU_COLD_FN void moe_report_other(const moe_gpu_args &a, const moe_launch &l)
{
    for (int from = 0; from < a.view.nranks; from++) {
        const moe_gpu_header *header = moe_header(a, from, l.call);
        if (!moe_has_published(a, l, from) || header->problem || header->what == moe_what(a))
            continue;
        moe_report(a, MOE_OTHER_CALL, from, (int64_t)l.call, (int64_t)moe_what(a),
                   (int64_t)header->what);
        weiri_gpu_fail(a.view, WEIR_ERR_MISMATCH, from, WEIR_WAIT_FAILED,
                       (uint64_t)(int64_t)-WEIR_ERR_MISMATCH, 0);
        return;
    }
}

/* The address of a rank's rows: in place, or in its staging. */
WEIRI_GPU_FN const char *moe_rows_of(const moe_gpu_args &a, const moe_launch &l, int from,
                                     uint64_t staged_at)
{
    const uint64_t rows = moe_header(a, from, l.call)->rows;
    if (rows == WEIRI_GPU_UNMAPPED)
        return a.windows[from] + staged_at;
    return from == a.view.rank ? a.in : weiri_gpu_address(a.view, from, rows);
}

/* --------------------------------------------------------------------- rows */

/*
 * Rows are divided into slices of 4 vectors for each lane of a warp. Units (a row and a slice) are
 * numbered over all rows that a launch moves, and warps take them in turn.
 */
typedef struct moe_turns {
    int next, warps; /* this warp's next unit, counted from the beginning of the current part */
} moe_turns;

WEIRI_GPU_FN moe_turns moe_turns_of(const moe_launch &l)
{
    moe_turns turns = {l.warp, l.warps};
    return turns;
}

/* Ends a part of so many units, after all of this warp's units in it. */
WEIRI_GPU_FN void moe_turns_end(moe_turns *turns, int64_t units)
{
    turns->next -= (int)(units % turns->warps);
    turns->next += turns->next < 0 ? turns->warps : 0;
}

/* Bytes of a vector by which rows of this length are moved. */
WEIRI_GPU_FN uint32_t moe_vector_bytes(uint32_t row_bytes)
{
    return row_bytes % 16 ? 4 : 16;
}

enum { MOE_VECTORS = 4 }; /* of a lane in a slice */

WEIRI_GPU_FN uint32_t moe_slice_bytes(uint32_t row_bytes)
{
    return MOE_VECTORS * MOE_WARP * moe_vector_bytes(row_bytes);
}

WEIRI_GPU_FN int moe_slices(uint32_t row_bytes)
{
    const uint32_t slice = moe_slice_bytes(row_bytes);
    return (int)((row_bytes + slice - 1) / slice);
}

/* A lane's part of a slice. */
struct moe_slice {
    weiri_gpu_vector vectors[MOE_VECTORS];
    uint32_t words[MOE_VECTORS]; /* rows that are not multiples of 16 bytes */
};

WEIRI_GPU_FN void moe_slice_load(moe_slice *s, const char *row, uint32_t row_bytes, int slice,
                                 int lane)
{
    const uint32_t vector = moe_vector_bytes(row_bytes);
    const uint32_t at = (uint32_t)slice * moe_slice_bytes(row_bytes) + (uint32_t)lane * vector;
#pragma unroll
    for (uint32_t i = 0; i < MOE_VECTORS; i++) {
        const uint32_t from = at + i * MOE_WARP * vector;
        if (from >= row_bytes)
            continue;
        if (vector == 16)
            s->vectors[i] = weiri_gpu_load16(row + from);
        else
            s->words[i] = *(const volatile uint32_t *)(row + from);
    }
}

WEIRI_GPU_FN void moe_slice_store(const moe_slice *s, char *row, uint32_t row_bytes, int slice,
                                  int lane)
{
    const uint32_t vector = moe_vector_bytes(row_bytes);
    const uint32_t at = (uint32_t)slice * moe_slice_bytes(row_bytes) + (uint32_t)lane * vector;
#pragma unroll
    for (uint32_t i = 0; i < MOE_VECTORS; i++) {
        const uint32_t to = at + i * MOE_WARP * vector;
        if (to >= row_bytes)
            continue;
        if (vector == 16)
            weiri_gpu_store16(row + to, s->vectors[i]);
        else
            *(uint32_t *)(row + to) = s->words[i];
    }
}

/* Copies rows that follow each other. */
WEIRI_GPU_FN void moe_copy_rows(moe_turns *turns, char *to, const char *from, int rows,
                                uint32_t row_bytes, int lane)
{
    const int slices = moe_slices(row_bytes);
    const int64_t units = (int64_t)rows * slices;
    for (int64_t unit = turns->next; unit < units; unit += turns->warps) {
        const size_t at = (size_t)(unit / slices) * row_bytes;
        moe_slice s;
        moe_slice_load(&s, from + at, row_bytes, (int)(unit % slices), lane);
        moe_slice_store(&s, to + at, row_bytes, (int)(unit % slices), lane);
    }
    moe_turns_end(turns, units);
}

#endif
