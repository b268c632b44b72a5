/*
 * What the kernels of expert parallelism share: the window, and the steps of a call.
 *
 * A launch reads the number of its call from device memory. In the order of its phases:
 *
 *   send      waits until peers have finished with what is overwritten; writes choices and counts
 *             into the receivers' windows, and rows into staging. Of the blocks that write, the one
 *             that arrives last writes the header into all windows and then, with release,
 *             published
 *   complete  waits for published of all ranks, reads. The block that ends last stores done with
 *             release into all windows. If peers read this rank's rows in place, it waits for their
 *             done
 *
 * The block that ends last also stores the state for the next launch, when all blocks have read it.
 *
 * Memory order. Stores of all blocks reach the peers before published: each block executes
 * __syncthreads, a fence of system scope and an atomic addition; the last one sees all additions.
 * Where only one block writes, __syncthreads and the release are enough. A wait acquires, followed
 * by __syncthreads. Waits that fail record the reason and change no control flow.
 */
#ifndef WEIR_MOE_CUDA_CALL_CUH
#define WEIR_MOE_CUDA_CALL_CUH

#include "coll/cuda/device/access.cuh"
#include "moe/cuda/args.h"
#include "moe/problem.h"

enum { MOE_WARP = 32, MOE_WARPS = MOE_GPU_DISPATCH_THREADS / MOE_WARP /* of a block, at most */ };

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

/* [segment][bin]: what the blocks of a launch have counted. */
WEIRI_GPU_FN int32_t *moe_segment_counts(const moe_gpu_args &a)
{
    return (int32_t *)(a.windows[a.view.rank] + a.shape.at.segments);
}

/* The counts of rank `from`, in the window of rank `at`; those of ranks in layouts other than
 * expert only. */
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

/* The expert of a choice, as the caller has it; -1: none. i: of the choice, or -1. */
WEIRI_GPU_FN int64_t moe_id_at(const moe_gpu_args &a, int64_t i)
{
    if (i < 0)
        return -1;
    return a.dispatch.has_wide_ids ? ((const int64_t *)a.dispatch.topk_experts)[i]
                                   : ((const int32_t *)a.dispatch.topk_experts)[i];
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

/* Returns true in all threads of the block that arrives last of so many at a counter. */
WEIRI_GPU_FN bool moe_is_last(uint64_t *counter, int blocks)
{
    __shared__ int is_last;
    __syncthreads();
    if (blocks == 1)
        return true;
    if (threadIdx.x == 0) {
        weiri_gpu_fence();
        is_last = atomicAdd((unsigned long long *)counter, 1ull) == (uint64_t)blocks - 1;
        if (is_last) {
            weir_store_relaxed(counter, 0);
            weiri_gpu_fence();
        }
    }
    __syncthreads();
    return is_last;
}

/* weiri_gpu_await_word, out of line where the word is not there yet: the instructions of these
 * kernels, which are executed once, are loaded from memory, so their number is time. */
WEIRI_GPU_COLD_FN uint64_t moe_wait(const moe_gpu_args &a, const uint64_t *word, uint64_t target,
                                    int peer)
{
    return weiri_gpu_await_word(a.view, word, target, peer);
}

WEIRI_GPU_FN uint64_t moe_await_word(const moe_gpu_args &a, const uint64_t *word, uint64_t target,
                                     int peer)
{
    const uint64_t seen = weir_load_acquire(word);
    return seen < target ? moe_wait(a, word, target, peer) : seen;
}

/* Waits until all ranks have finished a call. All threads of a block. */
WEIRI_GPU_FN void moe_await_done(const moe_gpu_args &a, uint64_t call)
{
    const int peer = (int)threadIdx.x;
    if (peer < a.view.nranks)
        moe_await_word(a, &moe_peer(a, a.view.rank, peer)->done, call, peer);
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

/* Ends the send phase: of the first `senders` blocks, which write what peers read, the last one
 * publishes the header. may_be_wrong: a choice may be invalid. */
WEIRI_GPU_FN void moe_publish(const moe_gpu_args &a, const moe_launch &l, moe_gpu_header header,
                              int senders, bool may_be_wrong)
{
    const int peer = (int)threadIdx.x;
    moe_gpu_state *state = moe_state(a);
    if ((int)blockIdx.x >= senders || !moe_is_last(&state->arrived, senders))
        return;
    const uint64_t wrong = may_be_wrong ? weir_load_relaxed(&state->wrong) : 0;
    if (wrong) {
        const uint64_t index = ((uint64_t)1 << 63) - wrong;
        header.problem = MOE_BAD_EXPERT;
        header.values[0] = (int64_t)(index / (uint64_t)a.shape.topk);
        header.values[1] = (int64_t)(index % (uint64_t)a.shape.topk);
        header.values[2] = moe_id_at(a, (int64_t)index);
    }
    if (peer < a.view.nranks) {
        moe_gpu_peer *to = moe_peer(a, peer, a.view.rank);
        to->headers[l.call % MOE_GPU_CALLS] = header;
        weir_store_release(&to->published, l.call);
        if (a.problem && !a.is_other_under_way)
            weir_store_release(&to->done, l.call);
    }
}

/* Records the call for the next launch. One thread of the block that ends last. */
WEIRI_GPU_FN void moe_record(const moe_gpu_args &a, const moe_launch &l, bool is_staged)
{
    moe_gpu_state *state = moe_state(a);
    state->calls = l.call;
    state->wrong = 0;
    state->counted = 0;
    if (a.problem && a.is_other_under_way)
        state->refused = l.call;
    if (!a.problem)
        state->under_way[a.kind] = l.call;
    if (is_staged)
        state->staged[a.kind] = l.call;
}

/* Ends a launch: the last block records a call that was sent, and says that one that was completed
 * is done. is_staged: peers read staging. */
WEIRI_GPU_FN void moe_end(const moe_gpu_args &a, const moe_launch &l, bool is_staged)
{
    const int peer = (int)threadIdx.x;
    moe_gpu_state *state = moe_state(a);
    if (!moe_is_last(&state->ended, (int)gridDim.x))
        return;
    const bool is_complete = a.phases & MOE_GPU_COMPLETE && !a.problem;
    const uint64_t refused = is_complete ? weir_load_relaxed(&state->refused) : 0;
    __syncthreads();
    if (is_complete && peer < a.view.nranks)
        weir_store_release(&moe_peer(a, peer, a.view.rank)->done,
                           refused > l.call ? refused : l.call);
    if (peer == 0 && (a.phases & MOE_GPU_SEND || a.problem))
        moe_record(a, l, is_staged);
    if (peer == 0 && is_complete) {
        state->refused = 0;
        if (a.kind == MOE_DISPATCH)
            moe_routing_of(a)->call = l.call;
    }
    if (is_complete && a.desc != WEIRI_GPU_UNMAPPED)
        moe_await_done(a, l.call);
}

/* The whole launch of a rank that cannot take part. */
WEIRI_GPU_FN void moe_refuse(const moe_gpu_args &a, const moe_launch &l)
{
    moe_gpu_header header = {};
    header.what = moe_what(a);
    header.problem = (uint64_t)a.problem;
    for (int i = 0; i < 3; i++)
        header.values[i] = a.values[i];
    moe_publish(a, l, header, 1, false);
    moe_end(a, l, false);
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

/* Reports the lowest rank that cannot take part, unless the wait for a lower one has failed. One
 * thread. */
WEIRI_GPU_COLD_FN void moe_report_refusal(const moe_gpu_args &a, const moe_launch &l)
{
    for (int rank = 0; rank < a.view.nranks; rank++) {
        const moe_gpu_header *header = moe_header(a, rank, l.call);
        if (!moe_has_published(a, l, rank))
            return;
        if (header->problem) {
            moe_report(a, header->problem, rank, header->values[0], header->values[1],
                       header->values[2]);
            return;
        }
    }
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

/* -------------------------------------------------------------------- parts */

/* Why a rank's part of a call needs a closer look. */
enum { MOE_IS_LATE = 1, MOE_IS_OTHER = 2, MOE_HAS_PROBLEM = 4, MOE_WANTS = 8, MOE_LACKS = 16 };

/* What a block knows of the parts of all ranks, in shared memory. */
typedef struct moe_parts {
    const char *rows[WEIRI_GPU_RANKS_MAX]; /* in place, or in the rank's staging */
    int32_t tokens[WEIRI_GPU_RANKS_MAX];
} moe_parts;

/* Reads the header of a rank, after the wait for it; returns what is notable about it. */
WEIRI_GPU_FN int moe_read_part(const moe_gpu_args &a, const moe_launch &l, int from, bool is_late,
                               uint64_t staged_at, moe_parts *parts)
{
    const moe_gpu_header *header = moe_header(a, from, l.call);
    const uint64_t problem = header->problem, what = header->what, rows = header->rows;
    const int wants = header->wants_weights, has = header->has_weights;
    parts->tokens[from] = header->tokens;
    if (is_late)
        return MOE_IS_LATE;
    if (problem)
        return MOE_HAS_PROBLEM;
    if (what != moe_what(a))
        return MOE_IS_OTHER;
    parts->rows[from] = rows == WEIRI_GPU_UNMAPPED ? a.windows[from] + staged_at
                        : from == a.view.rank      ? a.in
                                                   : weiri_gpu_address(a.view, from, rows);
    return (wants ? MOE_WANTS : 0) | (has ? 0 : MOE_LACKS);
}

/* Waits until all ranks have published, and reads their headers. All threads of a block; each gets
 * what is notable about one rank, or 0. __syncthreads must follow. */
WEIRI_GPU_FN int moe_await_parts(const moe_gpu_args &a, const moe_launch &l, uint64_t staged_at,
                                 moe_parts *parts)
{
    const int from = (int)threadIdx.x;
    if (from >= a.view.nranks)
        return 0;
    const uint64_t *word = &moe_peer(a, a.view.rank, from)->published;
    const bool is_late = moe_await_word(a, word, l.call, from) < l.call;
    return moe_read_part(a, l, from, is_late, staged_at, parts);
}

/* Returns whether a rank cannot take part, or makes another call, which block 0 reports. notes: of
 * moe_await_parts. All threads of a block. */
WEIRI_GPU_FN bool moe_find_refusal(const moe_gpu_args &a, const moe_launch &l, int notes)
{
    const bool is_other = __syncthreads_or(notes & MOE_IS_OTHER);
    const bool is_wrong = __syncthreads_or(notes & (MOE_IS_LATE | MOE_HAS_PROBLEM));
    const bool reports = blockIdx.x == 0 && threadIdx.x == 0;
    if (reports && is_other)
        moe_report_other(a, l);
    else if (reports && is_wrong)
        moe_report_refusal(a, l);
    return is_other || is_wrong;
}

#endif
