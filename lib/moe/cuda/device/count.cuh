/*
 * Counts and places choices for dispatch: the first part of the send phase.
 *
 * A bin is an expert, whose items are its choices, or, in layouts other than expert, also a rank,
 * whose items are the tokens with a choice of one of its experts. Items have numbers within their
 * bin, in the order of the tokens, whatever the grid.
 *
 * The tokens are divided into segments, one for each of the first blocks, and a segment into
 * consecutive tokens for each warp. A warp counts the items of its tokens in each bin. The block
 * adds up its warps' counts, and stores them for the blocks of later segments, which begin at the
 * sum of those before. Then the warps go over their tokens again: each choice gets its number, and
 * is stored, with its expert and weight, into the windows of all ranks. The block of the last
 * segment stores the counts. Bins are served in ranges, because shared memory limits them.
 */
#ifndef WEIRI_MOE_CUDA_COUNT_CUH
#define WEIRI_MOE_CUDA_COUNT_CUH

#include "coll/cuda/device/vector.cuh"
#include "moe/cuda/device/rows.cuh"

/* In the emulator limits are small, so that tests reach several ranges and segments. One segment
 * counts MOE_ALONE_CHOICES faster than several, which have to wait for each other. */
enum {
    MOE_RANGE = WEIR_ON_DEVICE ? 640 : 24,           /* bins of a range */
    MOE_ALONE_CHOICES = WEIR_ON_DEVICE ? 2048 : 48,  /* of a single segment, at most */
    MOE_SEGMENT_CHOICES = WEIR_ON_DEVICE ? 512 : 24, /* of a segment, while blocks are left */
};

WEIRI_GPU_FN uint32_t moe_lanes_before(int lane)
{
    return (1u << lane) - 1;
}

/* The sum of a value over the lanes of a warp. */
WEIRI_GPU_FN int32_t moe_sum_lanes(int32_t value)
{
#pragma unroll
    for (int flip = MOE_WARP / 2; flip; flip /= 2)
        value += __shfl_xor_sync(0xffffffff, value, flip);
    return value;
}

WEIRI_GPU_FN int moe_bins(const moe_gpu_args &a)
{
    return a.shape.experts + (moe_by_expert(a) ? 0 : a.view.nranks);
}

/* How many segments there are, which is also the number of blocks that count. */
WEIRI_GPU_FN int moe_segments(const moe_gpu_args &a)
{
    const int most = (int)gridDim.x < MOE_GPU_SEGMENTS ? (int)gridDim.x : MOE_GPU_SEGMENTS;
    const int64_t choices = (int64_t)a.tokens * a.shape.topk;
    const int64_t wanted = (choices + MOE_SEGMENT_CHOICES - 1) / MOE_SEGMENT_CHOICES;
    return choices <= MOE_ALONE_CHOICES ? 1 : wanted < most ? (int)wanted : most;
}

WEIRI_GPU_FN bool moe_is_in_range(int first_bin, int bin)
{
    return bin >= first_bin && bin < first_bin + MOE_RANGE;
}

/* -------------------------------------------------------------------- items */

/* The nth of so many equal parts, of which the last ones may be shorter. */
WEIRI_GPU_FN moe_span moe_part_of(moe_span all, int nth, int parts)
{
    const uint32_t each = (uint32_t)(all.end - all.begin + parts - 1) / (uint32_t)parts;
    const int begin = all.begin + nth * (int)each, end = begin + (int)each;
    moe_span part;
    part.begin = begin < all.end ? begin : all.end;
    part.end = end < all.end ? end : all.end;
    return part;
}

/* A choice. A lane has one of those of 32 / topk tokens. */
typedef struct moe_item {
    int64_t i;            /* among all choices; -1: this lane has none */
    int32_t expert, rank; /* -1: the choice has none */
    int32_t first;        /* in layouts other than expert: lane of the token's first choice of this
                             rank */
    bool is_wrong;
} moe_item;

/* A lane's choice, as the caller has it. */
typedef struct moe_given {
    int64_t i, id; /* among all choices, or -1; expert */
    float weight;
} moe_given;

WEIRI_GPU_FN moe_given moe_given_at(const moe_gpu_args &a, int token, int end, int lane)
{
    const int k = a.shape.topk, nth = lane / k;
    moe_given given = {-1, -1, 0.0f};
    if (nth >= MOE_WARP / k || token + nth >= end)
        return given;
    given.i = (int64_t)(token + nth) * k + (lane - nth * k);
    given.id = moe_id_at(a, given.i);
    if (a.dispatch.topk_weights)
        given.weight = a.dispatch.topk_weights[given.i];
    return given;
}

/* The choices of a warp's tokens, in order: those at hand, and the next ones, whose loads are under
 * way meanwhile. */
typedef struct moe_stream {
    moe_given at, next;
} moe_stream;

WEIRI_GPU_FN moe_stream moe_stream_from(const moe_gpu_args &a, moe_span span, int lane)
{
    moe_stream s;
    s.at = moe_given_at(a, span.begin, span.end, lane);
    s.next = moe_given_at(a, span.begin + MOE_WARP / a.shape.topk, span.end, lane);
    return s;
}

/* Goes on; token: the first one of those at hand. */
WEIRI_GPU_FN void moe_stream_on(const moe_gpu_args &a, moe_stream *s, moe_span span, int token,
                                int lane)
{
    s->at = s->next;
    s->next = moe_given_at(a, token + 2 * (MOE_WARP / a.shape.topk), span.end, lane);
}

/* All lanes of a warp. */
WEIRI_GPU_FN moe_item moe_item_of(const moe_gpu_args &a, const moe_given &given, int lane)
{
    const int64_t id = given.id;
    moe_item item = {given.i, -1, -1, lane, id >= a.shape.experts};
    if (id >= 0 && !item.is_wrong) {
        item.expert = (int32_t)id;
        item.rank = item.expert / a.shape.local_experts;
    }
    if (moe_by_expert(a))
        return item;
    const int token = lane / a.shape.topk;
    const uint32_t key = item.rank < 0 ? 1u << 31 | (uint32_t)lane
                                       : (uint32_t)(token * WEIRI_GPU_RANKS_MAX + item.rank);
    item.first = __ffs((int)__match_any_sync(0xffffffff, key)) - 1;
    return item;
}

/* Gives the items of all lanes numbers: the next ones of their bins, in order of the lanes. next:
 * the warp's next number of each bin of the range. */
WEIRI_GPU_FN int32_t moe_take_number(int32_t *next, int first_bin, int bin, int lane)
{
    const bool is_there = moe_is_in_range(first_bin, bin);
    const uint32_t key = is_there ? (uint32_t)bin : 1u << 31 | (uint32_t)lane;
    const uint32_t same = __match_any_sync(0xffffffff, key);
    const int before = __popc(same & moe_lanes_before(lane));
    const int32_t number = is_there ? next[bin - first_bin] + before : 0;
    __syncwarp();
    if (is_there && before == 0)
        next[bin - first_bin] += __popc(same);
    __syncwarp();
    return number;
}

/* -------------------------------------------------------------------- steps */

/* A warp counts the items of its tokens. The experts' numbers have no order in layouts other than
 * expert. Returns whether a lane has seen an expert that does not exist. */
WEIRI_GPU_FN bool moe_count(const moe_gpu_args &a, moe_span span, moe_stream stream,
                            int32_t *counts, int first_bin, int lane)
{
    const int bins = moe_bins(a) - first_bin < MOE_RANGE ? moe_bins(a) - first_bin : MOE_RANGE;
    const int step = MOE_WARP / a.shape.topk;
    bool is_wrong = false;
#pragma unroll 4
    for (int bin = lane; bin < bins; bin += MOE_WARP)
        counts[bin] = 0;
    __syncwarp();
#pragma unroll 1
    for (int token = span.begin; token < span.end; token += step) {
        const moe_item item = moe_item_of(a, stream.at, lane);
        moe_stream_on(a, &stream, span, token, lane);
        if (item.is_wrong)
            atomicMax((unsigned long long *)&moe_state(a)->wrong,
                      (1ull << 63) - (unsigned long long)item.i);
        is_wrong |= item.is_wrong;
        int bin = item.expert;
        if (!moe_by_expert(a)) {
            if (moe_is_in_range(first_bin, bin))
                atomicAdd(&counts[bin - first_bin], 1);
            bin = item.rank >= 0 && item.first == lane ? a.shape.experts + item.rank : -1;
        }
        moe_take_number(counts, first_bin, bin, lane);
    }
    return is_wrong;
}

/* Waits until the blocks of all segments have stored their counts of this range, the nth. */
WEIRI_GPU_FN void moe_await_segments(const moe_gpu_args &a, int segments, int nth)
{
    uint64_t *counted = &moe_state(a)->counted;
    __syncthreads();
    if (threadIdx.x == 0) {
        weiri_gpu_fence();
        atomicAdd((unsigned long long *)counted, 1ull);
        moe_await_word(a, counted, (uint64_t)segments * (uint64_t)nth, a.view.rank);
    }
    __syncthreads();
}

/* Stores the counts of a range, the nth, of this block's segment, and waits for those of the
 * others. After __syncthreads. */
WEIRI_GPU_FN void moe_share_counts(const moe_gpu_args &a, int32_t (*counts)[MOE_RANGE], int nth,
                                   int segments)
{
    const int bins = moe_bins(a), first_bin = nth * MOE_RANGE;
    const int warps = (int)blockDim.x / MOE_WARP;
    int32_t *stored = moe_segment_counts(a) + (size_t)blockIdx.x * (size_t)bins + first_bin;
    for (int at = (int)threadIdx.x; at < MOE_RANGE && first_bin + at < bins;
         at += (int)blockDim.x) {
        int32_t sum = 0;
#pragma unroll 4
        for (int warp = 0; warp < warps; warp++)
            sum += counts[warp][at];
        stored[at] = sum;
    }
    moe_await_segments(a, segments, nth + 1);
}

/* Turns the warps' counts of a range, the nth, into the first numbers of their items; the block of
 * the last segment stores the counts of all tokens into all windows. After __syncthreads. */
WEIRI_GPU_FN void moe_number(const moe_gpu_args &a, const moe_launch &l,
                             int32_t (*counts)[MOE_RANGE], int nth, int segments)
{
    const int bins = moe_bins(a), first_bin = nth * MOE_RANGE, segment = (int)blockIdx.x;
    const int warps = (int)blockDim.x / MOE_WARP;
    const int32_t *stored = moe_segment_counts(a) + first_bin;
    for (int at = (int)threadIdx.x; at < MOE_RANGE && first_bin + at < bins;
         at += (int)blockDim.x) {
        int32_t next = 0;
#pragma unroll 8
        for (int earlier = 0; earlier < segment; earlier++)
            next += stored[(size_t)earlier * bins + at];
#pragma unroll 4
        for (int warp = 0; warp < warps; warp++) {
            const int32_t count = counts[warp][at];
            counts[warp][at] = next;
            next += count;
        }
#pragma unroll 1
        for (int peer = 0; segment == segments - 1 && peer < a.view.nranks; peer++)
            weir_store_relaxed(moe_counts(a, peer, a.view.rank) + first_bin + at,
                               weir_packet_make((uint32_t)next, (uint32_t)l.call));
    }
    __syncthreads();
}

/* Stores a choice into all windows: on other ranks than its own it has no expert. */
WEIRI_GPU_FN void moe_store_choice(const moe_gpu_args &a, const moe_launch &l, const moe_item &item,
                                   int32_t position, float weight)
{
    const int32_t local = item.expert - item.rank * a.shape.local_experts;
    const uint32_t code = (uint32_t)(local + 1) << a.shape.position_bits | (uint32_t)position;
    const uint64_t high = (uint64_t)weiri_float_bits(weight) << 32;
#pragma unroll 1
    for (int nth = 0; nth < a.view.nranks; nth++) {
        const int peer = weiri_gpu_nth_after(a.view.rank, nth, a.view.nranks);
        weir_packet16_write(moe_choices(a, peer, a.view.rank)[item.i].packet, (uint32_t)l.call,
                            high | (peer == item.rank ? code : 0));
    }
}

/* A warp places the choices of its tokens whose bins are in a range; the first range has those
 * without an expert, too. */
WEIRI_GPU_FN void moe_place_choices(const moe_gpu_args &a, const moe_launch &l, moe_span span,
                                    moe_stream stream, int32_t *next, int first_bin)
{
    const int step = MOE_WARP / a.shape.topk, lane = l.lane;
#pragma unroll 1
    for (int token = span.begin; token < span.end; token += step) {
        const moe_item item = moe_item_of(a, stream.at, lane);
        const float weight = stream.at.weight;
        moe_stream_on(a, &stream, span, token, lane);
        const bool is_first = moe_by_expert(a) || item.first == lane;
        const int bin = item.expert < 0    ? -1
                        : moe_by_expert(a) ? item.expert
                                           : a.shape.experts + item.rank;
        const int32_t number = moe_take_number(next, first_bin, is_first ? bin : -1, lane);
        const int32_t position = __shfl_sync(0xffffffff, number, is_first ? lane : item.first);
        const bool is_here = bin < 0 ? first_bin == 0 : moe_is_in_range(first_bin, bin);
        if (item.i < 0 || !is_here)
            continue;
        moe_experts(a)[item.i] = item.expert;
        moe_positions(a)[item.i] = is_first ? position : ~position;
        moe_store_choice(a, l, item, position, weight);
    }
}

/* The first blocks, as many as there are segments. watch: of the call that has read what is
 * overwritten. If `publishes`, the block of the last segment stores the header as soon as all
 * experts have been seen. numbers: in shared memory. */
WEIRI_GPU_FN void moe_send_routing(const moe_gpu_args &a, const moe_launch &l, int segments,
                                   const moe_watch &watch, const moe_header &header, bool publishes,
                                   int32_t (*numbers)[MOE_RANGE])
{
    const int warp = (int)threadIdx.x / MOE_WARP, warps = (int)blockDim.x / MOE_WARP;
    const moe_span all = {0, a.tokens};
    const moe_span segment = moe_part_of(all, (int)blockIdx.x, segments);
    const moe_span span = moe_part_of(segment, warp, warps);
    const moe_stream first = moe_stream_from(a, span, l.lane);
    for (int nth = 0; nth * MOE_RANGE < moe_bins(a); nth++) {
        bool is_wrong = moe_count(a, span, first, numbers[warp], nth * MOE_RANGE, l.lane);
        if (nth == 0)
            moe_await_watched(a, watch);
        is_wrong = __syncthreads_or(is_wrong);
        if (segments > 1)
            moe_share_counts(a, numbers, nth, segments);
        if (nth == 0 && publishes && (int)blockIdx.x == segments - 1)
            weiri_moe_publish(a, l, header, is_wrong || segments > 1);
        moe_number(a, l, numbers, nth, segments);
        moe_place_choices(a, l, span, first, numbers[warp], nth * MOE_RANGE);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        moe_gpu_routing *routing = moe_routing_of(a);
        routing->tokens = a.tokens;
        routing->has_weights = a.dispatch.topk_weights != nullptr;
        routing->is_valid = 0;
    }
}

#endif
