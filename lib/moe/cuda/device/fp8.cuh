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

/* A vector of 16 bytes as fp8, and the scale of its block. */
template <int dtype> struct moe_fp8_vector {
    enum {
        EACH = 2 * weiri_gpu_lanes<dtype>::COUNT,
        LANES = WEIR_MOE_SCALE_BLOCK / EACH, /* that share a scale */
    };
    uint32_t words[EACH / 4];
    float scale;
};

/* Converts a vector of a token, or nothing after its end; the lanes of a block share a scale. The
 * arithmetic is that of weir/moe.h. */
template <int dtype>
WEIRI_GPU_FN moe_fp8_vector<dtype> moe_to_fp8(const moe_gpu_args &a, const char *row, int vector)
{
    typedef weiri_gpu_lanes<dtype> lanes;
    moe_fp8_vector<dtype> fp8;
    float values[2][lanes::COUNT];
    weiri_gpu_vector v = {{0, 0}};
    if ((uint32_t)vector * 16 < a.shape.row_bytes)
        v = weiri_gpu_load16(row + (size_t)vector * 16);
    lanes::unpack(v.word[0], values[0]);
    lanes::unpack(v.word[1], values[1]);
    uint32_t most = moe_magnitude<dtype>(values);
#pragma unroll
    for (int flip = fp8.LANES / 2; flip; flip /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffff, most, flip);
        most = other > most ? other : most;
    }
    const uint32_t least = 0x0d800000; /* 2^-100 */
    const float magnitude = weiri_float_from_bits(most > least ? most : least);
    const float factor = 448.0f / magnitude;
    fp8.scale = magnitude / 448.0f;
#pragma unroll
    for (int i = 0; i < fp8.EACH; i += 4) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            four[j] = values[(i + j) / lanes::COUNT][(i + j) % lanes::COUNT] * factor;
        fp8.words[i / 4] = (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four) |
                           (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four + 2) << 16;
    }
    return fp8;
}

/* Stores a vector of a token, or nothing after its end. */
template <int dtype>
WEIRI_GPU_FN void moe_store_fp8(const moe_gpu_args &a, const moe_fp8_vector<dtype> &fp8, char *row,
                                float *scales, int vector)
{
    if ((uint32_t)vector * 16 >= a.shape.row_bytes)
        return;
    if (vector % fp8.LANES == 0)
        scales[vector / fp8.LANES] = fp8.scale;
#pragma unroll
    for (int i = 0; i < fp8.EACH / 4; i++)
        ((uint32_t *)(row + (size_t)vector * fp8.EACH))[i] = fp8.words[i];
}

/* Writes all tokens as fp8 into staging. */
template <int dtype> WEIRI_GPU_FN void moe_stage_fp8(const moe_gpu_args &a, const moe_launch &l)
{
    char *window = a.windows[a.view.rank];
    const int vectors = (int)(a.shape.row_bytes / 16);
    const int parts = (vectors + MOE_WARP - 1) / MOE_WARP;
    for (int64_t unit = l.warp; unit < (int64_t)a.tokens * parts; unit += l.warps) {
        const size_t token = (size_t)(unit / parts);
        const int vector = (int)(unit % parts) * MOE_WARP + l.lane;
        moe_store_fp8(
            a, moe_to_fp8<dtype>(a, a.in + token * a.shape.row_bytes, vector),
            window + a.shape.at.tokens + token * a.shape.sent_row_bytes,
            (float *)(window + a.shape.at.scales) + token * (size_t)a.shape.scales_per_row, vector);
    }
}

#endif
