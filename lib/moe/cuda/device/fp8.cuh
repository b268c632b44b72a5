/*
 * Casts tokens to fp8 for dispatch: a warp converts 32 vectors of a token, whose lanes share the
 * scale of each block of WEIR_MOE_SCALE_BLOCK elements.
 */
#ifndef WEIRI_MOE_CUDA_FP8_CUH
#define WEIRI_MOE_CUDA_FP8_CUH

#include "coll/cuda/device/vector.cuh"
#include "moe/cuda/device/call.cuh"

/* The largest magnitude in a vector, as float bits; NaN does not count. */
template <int dtype>
WEIRI_GPU_FN uint32_t moe_magnitude(const float (&values)[2][weiri_gpu_lanes<dtype>::COUNT])
{
    uint32_t most = 0;
#pragma unroll
    for (int w = 0; w < 2; w++)
#pragma unroll
        for (int i = 0; i < weiri_gpu_lanes<dtype>::COUNT; i++) {
            const uint32_t bits = weiri_float_bits(values[w][i]) & 0x7fffffff;
            most = bits > most && bits <= 0x7f800000 ? bits : most;
        }
    return most;
}

/* Converts a token's vector of 16 bytes; the lanes of a block of elements share a scale. The
 * arithmetic is that of weir/moe.h. */
template <int dtype>
WEIRI_GPU_FN void moe_to_fp8(const moe_gpu_args &a, const char *row, char *to, float *scales,
                             int vector, int lane)
{
    typedef weiri_gpu_lanes<dtype> lanes;
    enum { EACH = 2 * lanes::COUNT, GROUP = WEIR_MOE_SCALE_BLOCK / EACH };
    const bool is_there = (uint32_t)vector * 16 < a.shape.row_bytes;
    float values[2][lanes::COUNT];
    weiri_gpu_vector v = {{0, 0}};
    if (is_there)
        v = weiri_gpu_load16(row + (size_t)vector * 16);
    lanes::unpack(v.word[0], values[0]);
    lanes::unpack(v.word[1], values[1]);
    uint32_t most = moe_magnitude<dtype>(values);
#pragma unroll
    for (int flip = GROUP / 2; flip; flip /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffff, most, flip);
        most = other > most ? other : most;
    }
    const uint32_t least = 0x0d800000; /* 2^-100 */
    const float magnitude = weiri_float_from_bits(most > least ? most : least);
    const float factor = 448.0f / magnitude;
    if (!is_there)
        return;
    if (lane % GROUP == 0)
        scales[vector / GROUP] = magnitude / 448.0f;
#pragma unroll
    for (int i = 0; i < EACH; i += 4) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            four[j] = values[(i + j) / lanes::COUNT][(i + j) % lanes::COUNT] * factor;
        *(uint32_t *)(to + (size_t)vector * EACH + i) =
            (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four) |
            (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four + 2) << 16;
    }
}

/* Writes all tokens as fp8 into staging. */
template <int dtype> WEIRI_GPU_FN void moe_stage_fp8(const moe_gpu_args &a, const moe_launch &l)
{
    char *window = a.windows[a.view.rank];
    const int vectors = (int)(a.shape.row_bytes / 16);
    const int parts = (vectors + MOE_WARP - 1) / MOE_WARP;
    for (int64_t unit = l.warp; unit < (int64_t)a.tokens * parts; unit += l.warps) {
        const size_t token = (size_t)(unit / parts);
        moe_to_fp8<dtype>(a, a.in + token * a.shape.row_bytes,
                          window + a.shape.at.tokens + token * a.shape.sent_row_bytes,
                          (float *)(window + a.shape.at.scales) +
                              token * (size_t)a.shape.scales_per_row,
                          (int)(unit % parts) * MOE_WARP + l.lane, l.lane);
    }
}

#endif
