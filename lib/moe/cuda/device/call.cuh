/*
 * What the kernels of expert parallelism share: the window, and the steps of a call.
 *
 * A launch reads the number of its call from the state of the group. In the order of its phases:
 *
 *   send      waits until peers have finished with what is overwritten; writes the header, counts
 *             and choices into the receivers' windows. The header is written when all blocks have
 *             looked for invalid choices, before the choices; if rows go to staging, when these
 *             are there, by the block that arrives last
 *   complete  waits for the headers of all ranks, and for what it reads besides. The block that
 *             ends last stores done into all windows. If peers read this rank's rows in place, it
 *             waits for their done
 *
 * The block that ends last also stores the state for the next launch, when all blocks have read it.
 *
 * Memory order. Packets carry their own flags, so all their accesses are relaxed, and they arrive
 * in any order. A header also says that rows can be read: those in place have been written before
 * the launch; where they are staged, each block executes __syncthreads, a fence of system scope and
 * an atomic addition, and the last one sees all additions. Its reader acquires. done is
 * stored when all blocks have used what they have loaded, and needs none. Waits that fail record
 * the reason and change no control flow.
 */
#ifndef WEIR_MOE_CUDA_CALL_CUH
#define WEIR_MOE_CUDA_CALL_CUH

#include "coll/cuda/device/access.cuh"
#include "moe/cuda/args.h"
#include "moe/problem.h"

enum { MOE_WARPS = MOE_GPU_DISPATCH_THREADS / MOE_WARP }; /* of a block, at most */

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

WEIRI_GPU_FN const moe_gpu_header *moe_header_of(const moe_gpu_args &a, int from, uint64_t call)
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

/* The counts of rank `from`, in the window of rank `at`, as packets of 8 bytes (weir_packet_make);
 * those of ranks in layouts other than expert only. */
WEIRI_GPU_FN uint64_t *moe_counts(const moe_gpu_args &a, int at, int from)
{
    const size_t each = (size_t)(a.shape.experts + a.view.nranks);
    return (uint64_t *)(a.windows[at] + a.shape.at.counts) +
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

/* What a choice says in its lower half: the local expert, -1: none, and the position. */
typedef struct moe_place_of_choice {
    int32_t expert, position;
} moe_place_of_choice;

WEIRI_GPU_FN moe_place_of_choice moe_decode(const moe_gpu_args &a, uint32_t code)
{
    return {(int32_t)(code >> a.shape.position_bits) - 1,
            (int32_t)(code & ((1u << a.shape.position_bits) - 1))};
}

/* The expert of a choice, as the caller has it; -1: none. i: of the choice, or -1. */
WEIRI_GPU_FN int64_t moe_id_at(const moe_gpu_args &a, int64_t i)
{
    if (i < 0)
        return -1;
    return a.dispatch.has_wide_ids ? ((const int64_t *)a.dispatch.topk_experts)[i]
                                   : ((const int32_t *)a.dispatch.topk_experts)[i];
}

/* The rows that bin `bin` gets from rank `from`: a packet. */
WEIRI_GPU_FN const uint64_t *moe_rows_from(const moe_gpu_args &a, int from, int bin)
{
    return moe_counts(a, a.view.rank, from) + (moe_by_expert(a) ? bin : a.shape.experts + bin);
}

/* A count that has arrived. */
WEIRI_GPU_FN int moe_count_at(const uint64_t *packet)
{
    return (int)(uint32_t)weir_load_relaxed(packet);
}

/* ------------------------------------------------------------------- launch */

/* A launch, as every thread sees it. */
typedef struct moe_launch {
    uint64_t call;
    int warp, warps, lane; /* of the grid */
} moe_launch;

/* Makes a launch of some of the blocks, of which this one is the nth. Groups of 8 of their warps
 * follow each other in different blocks, so that few units of work are spread over all
 * multiprocessors, and each block reads from all ranks. The first block, which sends, comes last.
 */
WEIRI_GPU_FN moe_launch moe_launch_as(const moe_launch &all, int nth, int blocks)
{
    enum { GROUP = 8 };
    const int warp = (int)(threadIdx.x / MOE_WARP), warps = (int)(blockDim.x / MOE_WARP);
    const int first = warp / GROUP * GROUP, size = warps - first < GROUP ? warps - first : GROUP;
    const int block = blocks - 1 - nth;
    moe_launch l = all;
    l.warp = first * blocks + block * size + warp - first;
    l.warps = blocks * warps;
    return l;
}

WEIRI_GPU_FN moe_launch moe_begin(const moe_gpu_args &a)
{
    const moe_gpu_state *state = moe_state(a);
    moe_launch l;
    l.call = a.phases & MOE_GPU_SEND ? state->calls + 1 : state->under_way[a.kind];
    l.lane = (int)(threadIdx.x % MOE_WARP);
    return moe_launch_as(l, (int)blockIdx.x, (int)gridDim.x);
}

/* The bits that are set in a lane of the warp. */
WEIRI_GPU_FN uint32_t moe_or_lanes(uint32_t bits)
{
#if WEIR_ON_DEVICE
    return __reduce_or_sync(0xffffffff, bits);
#else
    for (int flip = MOE_WARP / 2; flip; flip /= 2)
        bits |= __shfl_xor_sync(0xffffffff, bits, flip);
    return bits;
#endif
}

/* The sum of a value over the lanes up to this one. */
WEIRI_GPU_FN uint32_t moe_sum_through(uint32_t value, int lane)
{
    uint32_t sum = value;
#pragma unroll
    for (int step = 1; step < MOE_WARP; step *= 2) {
        const uint32_t before = __shfl_sync(0xffffffff, sum, lane < step ? lane : lane - step);
        sum += lane < step ? 0 : before;
    }
    return sum;
}

/* Returns true in all threads of the block that arrives last of so many at a counter; it sees what
 * the others have stored before. */
WEIRI_GPU_FN bool moe_is_last(uint64_t *counter, int blocks)
{
    WEIRI_GPU_SHARED(int, is_last);
    __syncthreads();
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

WEIRI_GPU_COLD_FN uint64_t moe_wait_packet(const moe_gpu_args &a, const uint64_t *packet,
                                           uint32_t flag, int peer)
{
    weir_waiter waiter = {0, 0};
    uint64_t seen;
    while ((seen = weir_load_relaxed(packet)) >> 32 != flag) {
        const int status = weir_waiter_step(&waiter, &a.view.guard);
        if (status) {
            weiri_gpu_fail(a.view, status, peer, WEIR_WAIT_PACKET, flag, seen >> 32);
            break;
        }
    }
    return seen;
}

/* Waits for a packet of 8 bytes of this call, of which `seen` has been loaded. Returns it; the wait
 * has failed if it has not the call's flag. */
WEIRI_GPU_FN uint64_t moe_await_packet(const moe_gpu_args &a, const moe_launch &l,
                                       const uint64_t *packet, uint64_t seen, int peer)
{
    return seen >> 32 == (uint32_t)l.call ? seen
                                          : moe_wait_packet(a, packet, (uint32_t)l.call, peer);
}

WEIRI_GPU_FN uint64_t moe_await_word(const moe_gpu_args &a, const uint64_t *word, uint64_t target,
                                     int peer)
{
    const uint64_t seen = weir_load_acquire(word);
    return seen < target ? moe_wait(a, word, target, peer) : seen;
}

/* A wait for one rank's done, of which `seen` has been loaded. */
typedef struct moe_watch {
    uint64_t target, seen;
} moe_watch;

/* Looks whether all ranks have finished a call: the first threads of a block do, one for each. */
WEIRI_GPU_FN moe_watch moe_watch_done(const moe_gpu_args &a, uint64_t call)
{
    const int peer = (int)threadIdx.x;
    moe_watch watch = {call, call};
    if (peer < a.view.nranks)
        watch.seen = weir_load_relaxed(&moe_peer(a, a.view.rank, peer)->done);
    return watch;
}

/* Waits until they have. __syncthreads must follow. */
WEIRI_GPU_FN void moe_await_watched(const moe_gpu_args &a, const moe_watch &watch)
{
    const int peer = (int)threadIdx.x;
    if (watch.seen < watch.target)
        moe_wait(a, &moe_peer(a, a.view.rank, peer)->done, watch.target, peer);
}

/* The call, equal on all ranks. */
WEIRI_GPU_FN uint32_t moe_what(const moe_gpu_args &a)
{
    return (uint32_t)a.handle << 8 | (uint32_t)(a.kind == MOE_COMBINE) << 2 |
           (uint32_t)(a.combine.row_weight_grads != nullptr) << 1 |
           (uint32_t)(a.dispatch.topk_experts != nullptr);
}

/* ------------------------------------------------------------------ headers */

/* What a rank says about a call. */
typedef struct moe_header {
    uint32_t what;          /* moe_what */
    uint32_t tokens, notes; /* moe_problem, and whether it has and wants weights */
    weiri_gpu_desc rows;    /* WEIRI_GPU_UNMAPPED: in staging */
} moe_header;

/* notes; MOE_IS_AHEAD: rows are in inboxes, or on their way (device/push.cuh) */
enum {
    MOE_PROBLEM = 0xff,
    MOE_HAS_WEIGHTS = 0x100,
    MOE_WANTS_WEIGHTS = 0x200,
    MOE_IS_AHEAD = 0x400
};

/* The details of a problem, which precede its header. */
WEIRI_GPU_COLD_FN void moe_store_values(const moe_gpu_args &a, uint64_t call, int peer,
                                        int64_t first, int64_t second, int64_t third)
{
    int64_t *values = moe_peer(a, peer, a.view.rank)->headers[call % MOE_GPU_CALLS].values;
    values[0] = first;
    values[1] = second;
    values[2] = third;
    weiri_gpu_fence();
}

/* Returns the problem of a rank that may have found a choice of an expert that does not exist; its
 * details are then stored for one peer. */
WEIRI_GPU_COLD_FN uint32_t moe_find_wrong(const moe_gpu_args &a, uint64_t call, int peer)
{
    const uint64_t wrong = weir_load_relaxed(&moe_state(a)->wrong);
    const uint64_t index = ((uint64_t)1 << 63) - wrong, k = (uint64_t)a.shape.topk;
    if (!wrong)
        return MOE_NO_PROBLEM;
    moe_store_values(a, call, peer, (int64_t)(index / k), (int64_t)(index % k),
                     moe_id_at(a, (int64_t)index));
    return MOE_BAD_EXPERT;
}

/* Stores the header into all windows. The first threads of one block, one for each rank.
 * may_be_wrong: a choice may be invalid. */
WEIRI_GPU_FN void weiri_moe_publish(const moe_gpu_args &a, const moe_launch &l, moe_header header,
                                    bool may_be_wrong)
{
    const int peer = (int)threadIdx.x;
    const uint32_t flag = (uint32_t)l.call;
    if (peer >= a.view.nranks)
        return;
    if (may_be_wrong)
        header.notes |= moe_find_wrong(a, l.call, peer);
    moe_gpu_header *to = &moe_peer(a, peer, a.view.rank)->headers[l.call % MOE_GPU_CALLS];
    weir_packet16_write(to->packets[0], flag, (uint64_t)header.notes << 32 | header.what);
    weir_packet16_write(to->packets[1], flag, header.tokens);
    weir_packet16_write(to->packets[2], flag, header.rows);
}

/* Publishes a header, and the handle and tokens of a problem that it announces. */
WEIRI_GPU_FN void moe_announce(const moe_gpu_args &a, const moe_launch &l, const moe_header &header,
                               bool may_be_wrong)
{
    if (header.notes & MOE_PROBLEM && (int)threadIdx.x < a.view.nranks)
        moe_store_values(a, l.call, (int)threadIdx.x, a.handle, a.tokens, 0);
    weiri_moe_publish(a, l, header, may_be_wrong);
}

/* Reads a header that rank `from` has published, and acquires; returns whether it has. The last
 * load acquires, and all are in flight at the same time. */
WEIRI_GPU_FN bool moe_read_header(const moe_gpu_args &a, uint64_t call, int from,
                                  moe_header *header)
{
    const moe_gpu_header *there = moe_header_of(a, from, call);
    uint64_t low[MOE_GPU_HEADER_PACKETS], high[MOE_GPU_HEADER_PACKETS];
    bool is_there = true;
#pragma unroll
    for (int i = 0; i < MOE_GPU_HEADER_PACKETS - 1; i++)
        weir_load_pair(there->packets[i], &low[i], &high[i]);
    weir_load_pair_acquire(there->packets[MOE_GPU_HEADER_PACKETS - 1],
                           &low[MOE_GPU_HEADER_PACKETS - 1], &high[MOE_GPU_HEADER_PACKETS - 1]);
#pragma unroll
    for (int i = 0; i < MOE_GPU_HEADER_PACKETS; i++)
        is_there = is_there && low[i] >> 32 == (uint32_t)call && high[i] >> 32 == (uint32_t)call;
    header->what = (uint32_t)low[0];
    header->notes = (uint32_t)high[0];
    header->tokens = (uint32_t)low[1];
    header->rows = high[2] << 32 | (uint32_t)low[2];
    return is_there;
}

/* Waits for a header; returns whether it has arrived. */
WEIRI_GPU_COLD_FN bool moe_wait_header(const moe_gpu_args &a, uint64_t call, int from)
{
    weir_waiter waiter = {0, 0};
    moe_header header;
    while (!moe_read_header(a, call, from, &header)) {
        const int status = weir_waiter_step(&waiter, &a.view.guard);
        if (status) {
            weiri_gpu_fail(a.view, status, from, WEIR_WAIT_PACKET, call,
                           moe_header_of(a, from, call)->packets[0][0] >> 32);
            return false;
        }
    }
    return true;
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

/* Returns true in the first warp of the block that ends last: all blocks have read what they read.
 */
WEIRI_GPU_FN bool moe_ends_last(const moe_gpu_args &a)
{
    unsigned long long *ended = (unsigned long long *)&moe_state(a)->ended;
    int is_last = 0;
    __syncthreads();
    if (threadIdx.x >= MOE_WARP)
        return false;
    if (threadIdx.x == 0)
        is_last = gridDim.x == 1 || atomicAdd(ended, 1ull) == (uint64_t)gridDim.x - 1;
    return __shfl_sync(0xffffffff, is_last, 0);
}

/* Ends a launch: the last block records a call that was sent, and says that one that was completed
 * is done. is_staged: peers read staging, or what has been sent ahead. */
WEIRI_GPU_FN void moe_end(const moe_gpu_args &a, const moe_launch &l, bool is_staged)
{
    const int peer = (int)threadIdx.x;
    moe_gpu_state *state = moe_state(a);
    const bool is_complete = a.phases & MOE_GPU_COMPLETE && !a.problem;
    const uint64_t refused = is_complete ? weir_load_relaxed(&state->refused) : 0;
    if (!moe_ends_last(a))
        return;
    if (is_complete && peer < a.view.nranks)
        weir_store_relaxed(&moe_peer(a, peer, a.view.rank)->done,
                           refused > l.call ? refused : l.call);
    __syncwarp();
    if (peer == 0) {
        state->ended = 0;
        state->claimed[MOE_PUSHED] = 0;
        state->claimed[MOE_ADDED] = 0;
        if (a.phases & MOE_GPU_SEND || a.problem)
            moe_record(a, l, is_staged);
    }
    if (peer == 0 && is_complete) {
        state->refused = 0;
        if (a.kind == MOE_DISPATCH)
            moe_routing_of(a)->call = l.call;
    }
    if (is_complete && a.desc != WEIRI_GPU_UNMAPPED && peer < a.view.nranks)
        moe_await_word(a, &moe_peer(a, a.view.rank, peer)->done, l.call, peer);
}

/* The whole launch of a rank that cannot take part. */
WEIRI_GPU_FN void weiri_moe_refuse(const moe_gpu_args &a, const moe_launch &l)
{
    const int peer = (int)threadIdx.x;
    const moe_header header = {moe_what(a), 0, (uint32_t)a.problem, WEIRI_GPU_UNMAPPED};
    if (blockIdx.x == 0 && peer < a.view.nranks) {
        moe_store_values(a, l.call, peer, a.values[0], a.values[1], a.values[2]);
        weiri_moe_publish(a, l, header, false);
        if (!a.is_other_under_way)
            weir_store_release(&moe_peer(a, peer, a.view.rank)->done, l.call);
    }
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
WEIRI_GPU_COLD_FN void moe_report_refusal(const moe_gpu_args &a, uint64_t call)
{
    moe_header header;
    for (int rank = 0; rank < a.view.nranks && moe_read_header(a, call, rank, &header); rank++) {
        const int64_t *values = moe_header_of(a, rank, call)->values;
        if (header.notes & MOE_PROBLEM) {
            moe_report(a, header.notes & MOE_PROBLEM, rank, values[0], values[1], values[2]);
            return;
        }
    }
}

/* Reports the first rank that makes another call, after which nothing can go on. One thread. */
WEIRI_GPU_COLD_FN void moe_report_other(const moe_gpu_args &a, uint64_t call)
{
    moe_header header;
    for (int from = 0; from < a.view.nranks; from++) {
        if (!moe_read_header(a, call, from, &header) || header.notes & MOE_PROBLEM ||
            header.what == moe_what(a))
            continue;
        moe_report(a, MOE_OTHER_CALL, from, (int64_t)call, (int64_t)moe_what(a),
                   (int64_t)header.what);
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
    /* In place, or in the rank's staging; NULL: each in an inbox, when it has arrived there. */
    const char *rows[WEIRI_GPU_RANKS_MAX];
    int32_t tokens[WEIRI_GPU_RANKS_MAX];
    uint32_t notes; /* of all ranks */
} moe_parts;

/* Reads the header of a rank, after a wait for it; returns what is notable about it. */
WEIRI_GPU_FN uint32_t moe_read_part(const moe_gpu_args &a, const moe_launch &l, int from,
                                    uint64_t staged_at, moe_parts *parts)
{
    moe_header header;
    while (!moe_read_header(a, l.call, from, &header))
        if (!moe_wait_header(a, l.call, from))
            return MOE_IS_LATE;
    if (header.notes & MOE_PROBLEM)
        return MOE_HAS_PROBLEM;
    if (header.what != moe_what(a))
        return MOE_IS_OTHER;
    parts->tokens[from] = (int32_t)header.tokens;
    const bool is_cast = a.kind == MOE_DISPATCH && a.shape.is_fp8;
    if (header.notes & MOE_IS_AHEAD)
        parts->rows[from] = from == a.view.rank && !is_cast ? a.in : nullptr;
    else if (header.rows == WEIRI_GPU_UNMAPPED)
        parts->rows[from] = a.windows[from] + staged_at;
    else
        parts->rows[from] =
            from == a.view.rank ? a.in : weiri_gpu_address(a.view, from, header.rows);
    return (header.notes & MOE_WANTS_WEIGHTS ? MOE_WANTS : 0) |
           (header.notes & MOE_HAS_WEIGHTS ? 0 : MOE_LACKS);
}

/* Waits for the headers of all ranks. All threads of a block. */
WEIRI_GPU_FN void moe_await_parts(const moe_gpu_args &a, const moe_launch &l, uint64_t staged_at,
                                  moe_parts *parts)
{
    const int from = (int)threadIdx.x;
    if (from < MOE_WARP) {
        const uint32_t notes =
            from < a.view.nranks ? moe_read_part(a, l, from, staged_at, parts) : 0;
        const uint32_t all = moe_or_lanes(notes);
        if (from == 0)
            parts->notes = all;
    }
    __syncthreads();
}

/* The most tokens of a rank. */
WEIRI_GPU_FN int moe_most_tokens(const moe_gpu_args &a, const moe_parts &parts)
{
    int most = 0;
#pragma unroll 1
    for (int from = 0; from < a.view.nranks; from++)
        most = parts.tokens[from] > most ? parts.tokens[from] : most;
    return most;
}

/* Returns whether a rank cannot take part, or makes another call, which the first block reports. */
WEIRI_GPU_FN bool moe_find_refusal(const moe_gpu_args &a, const moe_launch &l,
                                   const moe_parts &parts)
{
    const bool reports = blockIdx.x == 0 && threadIdx.x == 0;
    if (reports && parts.notes & MOE_IS_OTHER)
        moe_report_other(a, l.call);
    else if (reports && parts.notes & (MOE_IS_LATE | MOE_HAS_PROBLEM))
        moe_report_refusal(a, l.call);
    return parts.notes & (MOE_IS_OTHER | MOE_IS_LATE | MOE_HAS_PROBLEM);
}

#endif
