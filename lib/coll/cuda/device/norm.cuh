/*
 * Normalisation of a row by the blocks that share it, its team. Each block has a segment of the
 * row, whole lines of 128 elements (compute/norm.h), in shared memory:
 *
 *   1. Each warp adds up the lines of its block's segment. Blocks of a team send each other the
 *      sums of their lines as LL packets within this rank's scratch memory, in the slots of the
 *      rank itself, which no kernel uses otherwise.
 *   2. Every warp adds up the sums of all lines, in the same order.
 *   3. Each thread normalises the elements that it has added up, and stores them. If a scale of the
 *      whole row is wanted, the blocks exchange their largest magnitudes in the same way before.
 *
 * A warp takes every line in turn, so a thread accesses the same elements of the segment in all
 * steps.
 */
#ifndef WEIR_COLL_CUDA_NORM_CUH
#define WEIR_COLL_CUDA_NORM_CUH

#include "coll/cuda/device/vector.cuh"
#include "coll/cuda/norm.h"
#include "compute/norm.h"

/* Elements of a lane, in words. */
template <int dtype> struct weiri_norm_lanes {
    typedef weiri_gpu_lanes<dtype> lanes;
    enum { WORDS = WEIRI_NORM_LANE / lanes::COUNT, BYTES = 8 * WORDS, ELEMENT = 8 / lanes::COUNT };

    WEIRI_GPU_FN void unpack(const uint64_t (&words)[WORDS], float (&x)[WEIRI_NORM_LANE])
    {
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            float part[lanes::COUNT];
            lanes::unpack(words[w], part);
#pragma unroll
            for (int i = 0; i < lanes::COUNT; i++)
                x[w * lanes::COUNT + i] = part[i];
        }
    }
    WEIRI_GPU_FN void load(const char *from, float (&x)[WEIRI_NORM_LANE])
    {
        uint64_t words[WORDS];
#pragma unroll
        for (int w = 0; w < WORDS; w++)
            words[w] = weiri_gpu_load8(from + 8 * w);
        unpack(words, x);
    }
    WEIRI_GPU_FN void store(char *to, const float (&x)[WEIRI_NORM_LANE])
    {
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            float part[lanes::COUNT];
#pragma unroll
            for (int i = 0; i < lanes::COUNT; i++)
                part[i] = x[w * lanes::COUNT + i];
            weiri_gpu_store8(to + 8 * w, lanes::pack(part));
        }
    }
    /* x = sum + residual, rounded; word by word. */
    WEIRI_GPU_FN uint64_t add(uint64_t sum, uint64_t residual)
    {
        float a[lanes::COUNT], b[lanes::COUNT];
        lanes::unpack(sum, a);
        lanes::unpack(residual, b);
#pragma unroll
        for (int i = 0; i < lanes::COUNT; i++)
            a[i] = weiri_norm_plus(a[i], b[i]);
        return lanes::pack(a);
    }
};

/* A block's shared memory. */
struct __align__(16) weiri_norm_block
{
    char segment[WEIR_NORM_ROW_BYTES_MAX]; /* x, of type dtype */
    weiri_norm_line lines[WEIRI_NORM_LINES_MAX];
    float most[32]; /* of the warps */
};

/* A block's part of the rows of a launch. */
struct weiri_norm_team {
    uint32_t first, step; /* rows */
    uint32_t part, parts;
    uint32_t lines, line, line_end; /* of a row; those of this block */
};

/* Part number `part` of a row. */
WEIRI_GPU_FN weiri_norm_team weiri_norm_team_part(const weiri_norm_launch &launch, uint32_t part)
{
    weiri_norm_team t = {};
    t.parts = launch.split;
    t.part = part;
    t.lines = (launch.hidden + WEIRI_NORM_LINE - 1) / WEIRI_NORM_LINE;
    const uint32_t each = (t.lines + t.parts - 1) / t.parts;
    t.line = each * t.part < t.lines ? each * t.part : t.lines;
    t.line_end = t.line + each < t.lines ? t.line + each : t.lines;
    return t;
}

WEIRI_GPU_FN weiri_norm_team weiri_norm_team_of_block(const weiri_norm_launch &launch)
{
    const uint32_t index = blockIdx.x - launch.senders;
    weiri_norm_team t = weiri_norm_team_part(launch, index % launch.split);
    t.step = (gridDim.x - launch.senders) / t.parts;
    t.first = index / t.parts < t.step ? index / t.parts : launch.rows;
    return t;
}

/* Adds up the values of a warp in halves; all threads get the result. */
WEIRI_GPU_FN float weiri_norm_warp_sum(float value)
{
#pragma unroll
    for (int half = 16; half; half /= 2)
        value = weiri_norm_plus(value, __shfl_xor_sync(0xffffffff, value, half));
    return value;
}

WEIRI_GPU_FN float weiri_norm_warp_most(float value)
{
#pragma unroll
    for (int half = 16; half; half /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, value, half);
        value = other > value ? other : value;
    }
    return value;
}

/* The place of a value that blocks of this rank exchange. */
WEIRI_GPU_FN char *weiri_norm_slot(const weiri_gpu_view &view, uint64_t epoch, int phase)
{
    return weiri_gpu_slot(view, view.rank, view.rank, epoch, phase);
}

/* Steps 1 and 2. The segment is complete: a barrier has passed since it was stored. */
template <int dtype>
WEIRI_GPU_FN void weiri_norm_add_lines(const weiri_norm_launch &launch, const weiri_norm_team &t,
                                       uint64_t epoch, uint32_t row, weiri_norm_block *block)
{
    typedef weiri_norm_lanes<dtype> lanes;
    const uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (uint32_t line = t.line + threadIdx.x / 32; line < t.line_end; line += warps) {
        const uint32_t elements = weiri_norm_line_elements(launch.hidden, line);
        const bool has = WEIRI_NORM_LANE * lane < elements;
        float x[WEIRI_NORM_LANE] = {}, mean = 0;
        weiri_norm_line sums = {0, 0};
        if (has)
            lanes::load(block->segment + ((line - t.line) * 32 + lane) * lanes::BYTES, x);
        if (launch.kind == WEIR_NORM_LAYER) {
            sums.sum = weiri_norm_warp_sum(has ? weiri_norm_lane_sum(x) : 0);
            mean = weiri_norm_over(sums.sum, (float)elements);
        }
        sums.squares = weiri_norm_warp_sum(has ? weiri_norm_lane_squares(x, mean) : 0);
        if (lane == 0) {
            block->lines[line] = sums;
            if (t.parts > 1)
                weiri_gpu_send(weiri_norm_slot(launch.view, epoch, 0), row * t.lines + line, epoch,
                               (uint64_t)weiri_float_bits(sums.squares) << 32 |
                                   weiri_float_bits(sums.sum));
        }
    }
    if (t.parts > 1)
        for (uint32_t line = threadIdx.x; line < t.lines; line += blockDim.x) {
            if (line >= t.line && line < t.line_end)
                continue;
            const uint64_t sums =
                weiri_gpu_receive(launch.view, weiri_norm_slot(launch.view, epoch, 0),
                                  row * t.lines + line, epoch, launch.view.rank);
            block->lines[line] = {weiri_float_from_bits((uint32_t)sums),
                                  weiri_float_from_bits((uint32_t)(sums >> 32))};
        }
    __syncthreads();
}

WEIRI_GPU_FN weiri_norm_row weiri_norm_add_row(const weiri_norm_launch &launch,
                                               const weiri_norm_team &t,
                                               const weiri_norm_block *block)
{
    const uint32_t lane = threadIdx.x % 32;
    const int is_layer = launch.kind == WEIR_NORM_LAYER;
    float mean = 0, squares = 0;
    if (is_layer) {
        for (uint32_t line = lane; line < t.lines; line += 32)
            mean = weiri_norm_plus(mean, block->lines[line].sum);
        mean = weiri_norm_over(weiri_norm_warp_sum(mean), (float)launch.hidden);
    }
    for (uint32_t line = lane; line < t.lines; line += 32)
        squares = weiri_norm_plus(
            squares,
            is_layer ? weiri_norm_line_squares(block->lines[line],
                                               weiri_norm_line_elements(launch.hidden, line), mean)
                     : block->lines[line].squares);
    return {mean, weiri_norm_factor(weiri_norm_warp_sum(squares), launch.hidden, launch.epsilon)};
}

/* A thread's elements of a line, normalised; 0 beyond the row's end. */
template <int dtype>
WEIRI_GPU_FN bool weiri_norm_lane(const weiri_norm_launch &launch, const weiri_norm_team &t,
                                  const weiri_norm_row &by, const weiri_norm_block *block,
                                  uint32_t line, float (&y)[WEIRI_NORM_LANE])
{
    typedef weiri_norm_lanes<dtype> lanes;
    const uint32_t lane = threadIdx.x % 32;
    const bool has = WEIRI_NORM_LANE * lane < weiri_norm_line_elements(launch.hidden, line);
    float weight[WEIRI_NORM_LANE] = {1, 1, 1, 1}, bias[WEIRI_NORM_LANE] = {};
    if (has) {
        const size_t at = (size_t)(line * 32 + lane) * lanes::BYTES;
        if (launch.weight)
            lanes::load(launch.weight + at, weight);
        if (launch.bias)
            lanes::load(launch.bias + at, bias);
        lanes::load(block->segment + ((line - t.line) * 32 + lane) * lanes::BYTES, y);
    }
#pragma unroll
    for (int i = 0; i < WEIRI_NORM_LANE; i++)
        y[i] = has ? weiri_norm_apply(by, y[i], weight[i], bias[i]) : 0;
    return has;
}

WEIRI_GPU_FN float weiri_norm_lane_most(const float (&y)[WEIRI_NORM_LANE])
{
    float most = 0;
#pragma unroll
    for (int i = 0; i < WEIRI_NORM_LANE; i++)
        most = fabsf(y[i]) > most ? fabsf(y[i]) : most;
    return most;
}

WEIRI_GPU_FN void weiri_norm_store_fp8(char *to, const float (&y)[WEIRI_NORM_LANE], float scale)
{
    typedef weiri_gpu_fp8_pair<WEIR_FP8_E4M3> pair;
    float scaled[WEIRI_NORM_LANE];
#pragma unroll
    for (int i = 0; i < WEIRI_NORM_LANE; i++)
        scaled[i] = weiri_norm_over(y[i], scale);
    *(uint32_t *)to = (uint32_t)(pair::pair_of(scaled) | pair::pair_of(scaled + 2) << 16);
}

/* The scale of a whole row, for which the blocks of the team exchange their largest magnitudes. */
template <int dtype>
WEIRI_GPU_FN float weiri_norm_row_scale(const weiri_norm_launch &launch, const weiri_norm_team &t,
                                        const weiri_norm_row &by, uint64_t epoch, uint32_t row,
                                        weiri_norm_block *block)
{
    const uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float most = 0;
    for (uint32_t line = t.line + threadIdx.x / 32; line < t.line_end; line += warps) {
        float y[WEIRI_NORM_LANE] = {};
        weiri_norm_lane<dtype>(launch, t, by, block, line, y);
        const float here = weiri_norm_lane_most(y);
        most = here > most ? here : most;
    }
    most = weiri_norm_warp_most(most);
    if (lane == 0)
        block->most[threadIdx.x / 32] = most;
    __syncthreads();
    most = weiri_norm_warp_most(lane < warps ? block->most[lane] : 0);
    if (t.parts == 1)
        return weiri_norm_scale(most);
    char *slot = weiri_norm_slot(launch.view, epoch, 1);
    if (threadIdx.x == 0)
        weiri_gpu_send(slot, row * t.parts + t.part, epoch, weiri_float_bits(most));
    for (uint32_t part = lane; part < t.parts; part += 32) {
        const uint64_t bits =
            weiri_gpu_receive(launch.view, slot, row * t.parts + part, epoch, launch.view.rank);
        const float there = weiri_float_from_bits((uint32_t)bits);
        most = there > most ? there : most;
    }
    __syncwarp();
    return weiri_norm_scale(weiri_norm_warp_most(most));
}

/* Steps 1 to 3. All threads of the block call it, after a barrier. */
template <int dtype>
WEIRI_GPU_FN void weiri_norm_finish(const weiri_norm_launch &launch, const weiri_norm_team &t,
                                    uint64_t epoch, uint32_t row, weiri_norm_block *block)
{
    typedef weiri_norm_lanes<dtype> lanes;
    const uint32_t lane = threadIdx.x % 32, warps = blockDim.x / 32;
    weiri_norm_add_lines<dtype>(launch, t, epoch, row, block);
    const weiri_norm_row by = weiri_norm_add_row(launch, t, block);
    float scale = 1;
    if (launch.output == WEIR_NORM_FP8_TENSOR)
        scale = launch.scales[0];
    if (launch.output == WEIR_NORM_FP8_TOKEN) {
        scale = weiri_norm_row_scale<dtype>(launch, t, by, epoch, row, block);
        if (t.part == 0 && threadIdx.x == 0)
            launch.scales[row] = scale;
    }
    for (uint32_t line = t.line + threadIdx.x / 32; line < t.line_end; line += warps) {
        const size_t element =
            (size_t)row * launch.hidden + (size_t)line * WEIRI_NORM_LINE + WEIRI_NORM_LANE * lane;
        float y[WEIRI_NORM_LANE] = {};
        const bool has = weiri_norm_lane<dtype>(launch, t, by, block, line, y);
        if (launch.output == WEIR_NORM_FP8_BLOCK) {
            scale = weiri_norm_scale(weiri_norm_warp_most(weiri_norm_lane_most(y)));
            if (lane == 0)
                launch.scales[(size_t)row * t.lines + line] = scale;
        }
        if (has && launch.output == WEIR_NORM_PLAIN)
            lanes::store(launch.out + element * lanes::ELEMENT, y);
        else if (has)
            weiri_norm_store_fp8(launch.out + element, y, scale);
    }
    __syncthreads(); /* before the next row takes the shared memory */
}

#endif
