/*
 * Casts tokens to fp8 for dispatch. A lane casts 16 elements, so that it stores 16 bytes; several
 * lanes share the scale of a block of WEIR_MOE_SCALE_BLOCK elements.
 */
#ifndef WEIRI_MOE_CUDA_FP8_CUH
#define WEIRI_MOE_CUDA_FP8_CUH

#include "coll/cuda/device/vector.cuh"
#include "moe/cuda/device/call.cuh"

enum {
    MOE_FP8_EACH = 16,                                   /* elements that a lane casts */
    MOE_FP8_LANES = WEIR_MOE_SCALE_BLOCK / MOE_FP8_EACH, /* that share a scale */
    MOE_FP8_SCALES = MOE_WARP / MOE_FP8_LANES,           /* of what a warp casts */
};

/* What a lane casts of a token. Number n begins with element n * MOE_FP8_EACH. */
template <int dtype> struct moe_fp8_input {
    enum {
        COUNT = weiri_gpu_lanes<dtype>::COUNT, /* elements of a word */
        WORDS = MOE_FP8_EACH / COUNT,
        VECTORS = WORDS / 2,
    };
    weiri_gpu_vector vectors[VECTORS];
};

/* A lane's elements as fp8, and the scale of their block. */
typedef struct moe_fp8 {
    uint32_t words[MOE_FP8_EACH / 4];
    float scale;
} moe_fp8;

/* Loads a lane's elements; zeros after the end of the token. */
template <int dtype>
WEIRI_GPU_FN moe_fp8_input<dtype> moe_fp8_load(const moe_gpu_args &a, const char *token, int number)
{
    moe_fp8_input<dtype> input;
#pragma unroll
    for (int i = 0; i < input.VECTORS; i++) {
        const uint32_t at = ((uint32_t)number * input.VECTORS + (uint32_t)i) * 16;
        input.vectors[i] = {{0, 0}};
        if (at < a.shape.row_bytes)
            input.vectors[i] = weiri_gpu_load16(token + at);
    }
    return input;
}

/* The largest magnitude of a lane's elements, as float bits; NaN does not count. */
template <int dtype>
WEIRI_GPU_FN uint32_t
moe_magnitude(const float (&values)[moe_fp8_input<dtype>::WORDS][moe_fp8_input<dtype>::COUNT])
{
    float most = 0;
#pragma unroll
    for (int w = 0; w < moe_fp8_input<dtype>::WORDS; w++)
#pragma unroll
        for (int i = 0; i < moe_fp8_input<dtype>::COUNT; i++)
            most = fmaxf(most, fabsf(values[w][i])); /* of a NaN and a number the number */
    return weiri_float_bits(most);
}

/* Casts a lane's elements. The arithmetic is that of weir/moe.h. All lanes of a warp. */
template <int dtype> WEIRI_GPU_FN moe_fp8 moe_cast(const moe_fp8_input<dtype> &input)
{
    enum { COUNT = moe_fp8_input<dtype>::COUNT, WORDS = moe_fp8_input<dtype>::WORDS };
    moe_fp8 cast;
    float values[WORDS][COUNT];
#pragma unroll
    for (int w = 0; w < WORDS; w++)
        weiri_gpu_lanes<dtype>::unpack(input.vectors[w / 2].word[w % 2], values[w]);
    uint32_t most = moe_magnitude<dtype>(values);
#pragma unroll
    for (int flip = MOE_FP8_LANES / 2; flip; flip /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffff, most, flip);
        most = other > most ? other : most;
    }
    const uint32_t least = 0x0d800000; /* 2^-100 */
    const float magnitude = weiri_float_from_bits(most > least ? most : least);
    const float factor = 448.0f / magnitude;
    cast.scale = magnitude / 448.0f;
#pragma unroll
    for (int i = 0; i < MOE_FP8_EACH; i += 4) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            four[j] = values[(i + j) / COUNT][(i + j) % COUNT] * factor;
        cast.words[i / 4] = (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four) |
                            (uint32_t)weiri_gpu_fp8_pair<WEIR_FP8_E4M3>::pair_of(four + 2) << 16;
    }
    return cast;
}

/* Stores a lane's elements, those before the end of the row. */
WEIRI_GPU_FN void moe_fp8_store(const moe_gpu_args &a, const moe_fp8 &cast, char *row, int number)
{
    const uint32_t at = (uint32_t)number * MOE_FP8_EACH, bytes = a.shape.sent_row_bytes;
    if (moe_vector_bytes(bytes) == 16) {
        const weiri_gpu_vector v = {{cast.words[0] | (uint64_t)cast.words[1] << 32,
                                     cast.words[2] | (uint64_t)cast.words[3] << 32}};
        if (at < bytes)
            weiri_gpu_store16(row + at, v);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < MOE_FP8_EACH / 4; i++)
        if (at + 4 * i < bytes)
            *(uint32_t *)(row + at + 4 * i) = cast.words[i];
}

/* Writes all tokens as fp8 into staging. */
template <int dtype> WEIRI_GPU_FN void moe_stage_fp8(const moe_gpu_args &a, const moe_launch &l)
{
    char *window = a.windows[a.view.rank];
    const int numbers = (int)((a.shape.sent_row_bytes + MOE_FP8_EACH - 1) / MOE_FP8_EACH);
    const int parts = (numbers + MOE_WARP - 1) / MOE_WARP;
    for (int64_t unit = l.warp; unit < (int64_t)a.tokens * parts; unit += l.warps) {
        const size_t token = (size_t)(unit / parts);
        const int number = (int)(unit % parts) * MOE_WARP + l.lane;
        const moe_fp8 cast =
            moe_cast<dtype>(moe_fp8_load<dtype>(a, a.in + token * a.shape.row_bytes, number));
        moe_fp8_store(a, cast, window + a.shape.at.tokens + token * a.shape.sent_row_bytes, number);
        if (number < numbers && number % MOE_FP8_LANES == 0)
            ((float *)(window + a.shape.at.scales))[token * (size_t)a.shape.scales_per_row +
                                                    (size_t)(number / MOE_FP8_LANES)] = cast.scale;
    }
}

#endif
