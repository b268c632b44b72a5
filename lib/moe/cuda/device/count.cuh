/*
 * Counts and places choices for dispatch: the first part of the send phase.
 *
 * A bin is an expert or a rank; its items are all choices, or all tokens, of this rank. A team of
 * warps counts the items that are in a bin, in order, so that positions do not depend on the grid.
 * It stores each choice, with its position and weight, straight into the window of the receiving
 * rank, and the count into all windows. Layout expert places the items of experts, the others those
 * of ranks.
 */
#ifndef WEIRI_MOE_CUDA_COUNT_CUH
#define WEIRI_MOE_CUDA_COUNT_CUH

#include "coll/cuda/device/vector.cuh"
#include "moe/cuda/device/call.cuh"

WEIRI_GPU_FN int64_t moe_id_at(const moe_gpu_args &a, int64_t i)
{
    return a.dispatch.has_wide_ids ? ((const int64_t *)a.dispatch.topk_experts)[i]
                                   : ((const int32_t *)a.dispatch.topk_experts)[i];
}

/* Stores the experts of all choices, looks for invalid ones, and in layout expert marks each choice
 * as absent on the ranks that it is not for. */
WEIRI_GPU_FN void moe_store_experts(const moe_gpu_args &a, const moe_launch &l)
{
    const int64_t choices = (int64_t)a.tokens * a.shape.topk;
    int32_t *experts = moe_experts(a);
    for (int64_t i = (int64_t)l.warp * MOE_WARP + l.lane; i < choices;
         i += (int64_t)l.warps * MOE_WARP) {
        const int64_t id = moe_id_at(a, i);
        const int32_t expert = id < 0 || id >= a.shape.experts ? -1 : (int32_t)id;
        const int rank = expert < 0 ? -1 : expert / a.shape.local_experts;
        experts[i] = expert;
        if (id >= a.shape.experts)
            atomicMax((unsigned long long *)&moe_state(a)->wrong,
                      (1ull << 63) - (unsigned long long)i);
        for (int peer = 0; moe_by_expert(a) && peer < a.view.nranks; peer++)
            if (peer != rank)
                moe_choices(a, peer, a.view.rank)[i].expert = -1;
    }
}

WEIRI_GPU_FN void moe_store_choice(const moe_gpu_args &a, int rank, int64_t i, int32_t expert,
                                   int32_t position)
{
    const float weight = a.dispatch.topk_weights ? a.dispatch.topk_weights[i] : 0.0f;
    weiri_gpu_vector v;
    v.word[0] = (uint32_t)expert | (uint64_t)(uint32_t)position << 32;
    v.word[1] = weiri_float_bits(weight);
    weiri_gpu_store16((char *)(moe_choices(a, rank, a.view.rank) + i), v);
}

WEIRI_GPU_FN void moe_store_count(const moe_gpu_args &a, int lane, int index, int32_t count)
{
    if (lane < a.view.nranks)
        moe_counts(a, lane, a.view.rank)[index] = count;
}

WEIRI_GPU_FN uint32_t moe_lanes_before(int lane)
{
    return (1u << lane) - 1;
}

/*
 * A team is a warp or, where there are so many choices that one warp would be slow, a block. Each
 * warp of the team has consecutive items, and marks up to MOE_MARKS of each lane in a mask, so that
 * it reads them once. (In the emulator there are fewer, so that tests reach a second round.)
 */
enum { MOE_MARKS = WEIR_ON_DEVICE ? 64 : 8, MOE_WARP_ITEMS = 1024 };

typedef struct moe_team {
    int warp, warps, lane;
} moe_team;

WEIRI_GPU_FN bool moe_is_placed_bin(const moe_gpu_args &a, int bin)
{
    return moe_by_expert(a) == (bin < a.shape.experts);
}

/* The choices of an item that are in a bin: bit 0 of an expert's, a bit for each choice of a token
 * of a rank's. */
WEIRI_GPU_FN uint32_t moe_find(const moe_gpu_args &a, int bin, int64_t item)
{
    if (bin < a.shape.experts)
        return moe_id_at(a, item) == bin;
    const int k = a.shape.topk;
    const int32_t begin = (bin - a.shape.experts) * a.shape.local_experts;
    uint32_t here = 0;
    for (int choice = 0; choice < k; choice++) {
        const int64_t id = moe_id_at(a, item * k + choice);
        here |= (uint32_t)(id >= begin && id < begin + a.shape.local_experts) << choice;
    }
    return here;
}

/* Marks the items of a lane: first, first + 32, ..., before end. */
WEIRI_GPU_FN uint64_t moe_mark(const moe_gpu_args &a, int bin, int64_t first, int64_t end)
{
    enum { AHEAD = 8 };
    uint64_t marks = 0;
    for (int step = 0; step < MOE_MARKS && first + step * MOE_WARP < end; step += AHEAD) {
        uint32_t here[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int64_t item = first + (step + j) * MOE_WARP;
            here[j] = item < end ? moe_find(a, bin, item) : 0;
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            marks |= (uint64_t)(here[j] != 0) << (step + j);
    }
    return marks;
}

WEIRI_GPU_FN int moe_count_marks(uint64_t marks)
{
    return __popc((uint32_t)marks) + __popc((uint32_t)(marks >> 32));
}

/* The sum of a value over the lanes of a warp. */
WEIRI_GPU_FN int32_t moe_sum_lanes(int32_t value)
{
#pragma unroll
    for (int flip = MOE_WARP / 2; flip; flip /= 2)
        value += __shfl_xor_sync(0xffffffff, value, flip);
    return value;
}

/* The items in the bin of the team's warps before this one; *all: of all of them. */
WEIRI_GPU_FN int32_t moe_count_before(const moe_team &team, int32_t count, int32_t *all)
{
    __shared__ int32_t counts[MOE_GPU_THREADS / MOE_WARP];
    *all = count;
    if (team.warps == 1)
        return 0;
    __syncthreads(); /* the counts before have been read */
    if (team.lane == 0)
        counts[team.warp] = count;
    __syncthreads();
    const int32_t other = team.lane < team.warps ? counts[team.lane] : 0;
    *all = moe_sum_lanes(other);
    return moe_sum_lanes(team.lane < team.warp ? other : 0);
}

/* Places a choice: its row is number `position` of the bin's. */
WEIRI_GPU_FN void moe_place_choice(const moe_gpu_args &a, int bin, int64_t i, int32_t position)
{
    moe_positions(a)[i] = position;
    moe_store_choice(a, bin / a.shape.local_experts, i, bin % a.shape.local_experts, position);
}

/* Places the choices of a token, in layouts other than expert. */
WEIRI_GPU_FN void moe_place_token(const moe_gpu_args &a, int bin, int64_t token, int32_t position)
{
    const int rank = bin - a.shape.experts, k = a.shape.topk;
    const uint32_t here = moe_find(a, bin, token);
    for (int choice = 0; choice < k; choice++) {
        const int64_t i = token * k + choice;
        const bool is_here = here >> choice & 1;
        moe_store_choice(a, rank, i,
                         is_here ? (int32_t)moe_id_at(a, i) - rank * a.shape.local_experts : -1,
                         position);
        if (is_here)
            moe_positions(a)[i] = here & ((1u << choice) - 1) ? ~position : position;
    }
}

/* Places a lane's marked items, and in layouts other than expert all tokens. */
WEIRI_GPU_FN void moe_place_marks(const moe_gpu_args &a, int bin, int64_t first, int64_t end,
                                  uint64_t marks, int32_t position, int lane)
{
    for (int step = 0; step < MOE_MARKS && first - lane + step * MOE_WARP < end; step++) {
        const int64_t item = first + step * MOE_WARP;
        const bool is_here = marks >> step & 1;
        const uint32_t all = __ballot_sync(0xffffffff, is_here);
        const int32_t own = position + __popc(all & moe_lanes_before(lane));
        position += __popc(all);
        if (bin < a.shape.experts && is_here)
            moe_place_choice(a, bin, item, own);
        else if (bin >= a.shape.experts && item < end)
            moe_place_token(a, bin, item, own);
    }
}

/* Counts a bin, places its items, and stores the count in all windows. */
WEIRI_GPU_FN void moe_count_bin(const moe_gpu_args &a, const moe_team &team, int bin)
{
    const int64_t items = bin < a.shape.experts ? (int64_t)a.tokens * a.shape.topk : a.tokens;
    int32_t count = 0;
    for (int64_t begin = 0; begin < items; begin += (int64_t)team.warps * MOE_MARKS * MOE_WARP) {
        const int64_t left = items - begin, most = (int64_t)MOE_MARKS * MOE_WARP;
        int64_t each = (left + team.warps - 1) / team.warps;
        each = (each + MOE_WARP - 1) / MOE_WARP * MOE_WARP;
        each = each < most ? each : most;
        const int64_t at = begin + team.warp * each, end = at + each < items ? at + each : items;
        const uint64_t marks = moe_mark(a, bin, at + team.lane, end);
        int32_t all;
        const int32_t before = moe_count_before(team, moe_sum_lanes(moe_count_marks(marks)), &all);
        if (moe_is_placed_bin(a, bin))
            moe_place_marks(a, bin, at + team.lane, end, marks, count + before, team.lane);
        count += all;
    }
    if (team.warp == 0)
        moe_store_count(a, team.lane, bin, count);
}

WEIRI_GPU_FN void moe_send_routing(const moe_gpu_args &a, const moe_launch &l)
{
    moe_store_experts(a, l);
    const bool is_block = (int64_t)a.tokens * a.shape.topk > MOE_WARP_ITEMS;
    const int warps = (int)blockDim.x / MOE_WARP;
    const moe_team team = {is_block ? (int)threadIdx.x / MOE_WARP : 0, is_block ? warps : 1,
                           l.lane};
    const int bins = a.shape.experts + a.view.nranks;
    for (int bin = is_block ? (int)blockIdx.x : l.warp; bin < bins;
         bin += is_block ? (int)gridDim.x : l.warps)
        moe_count_bin(a, team, bin);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        moe_gpu_routing *routing = moe_routing_of(a);
        routing->tokens = a.tokens;
        routing->has_weights = a.dispatch.topk_weights != nullptr;
        routing->is_valid = 0;
    }
}

#endif
