/*
 * The source of the functions of weigh.h. Included by weigh_plain.c, weigh_avx2.c and
 * weigh_avx512.c after they define WEIRI_VECTOR_BYTES and the table's name, WEIRI_WEIGH_TABLE.
 * Compiled without contraction of products and sums.
 *
 * Sums are formed for a few vectors at a time, which stay in registers while all sources are added.
 * The last vectors end at the last element and overlap those before, so there is no remainder; rows
 * shorter than that are added element by element.
 */
#ifndef WEIR_COMPUTE_WEIGH_BODY_H
#define WEIR_COMPUTE_WEIGH_BODY_H

#include "base/float_env.h"
#include "compute/reduce_vector.h"
#include "compute/weigh.h"

enum { LANES = WEIRI_VECTOR_BYTES / 4, UNROLLED = 4, STEP = LANES * UNROLLED };

static const float largest_e4m3 = 448.0f, least_magnitude = 0x1p-100f;

/* --------------------------------------------------------- single elements */

WEIR_FN float weigh_load_one(weir_dtype dtype, const uint8_t *at)
{
    uint16_t small;
    float value;
    if (dtype == WEIR_FLOAT) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&small, at, sizeof small);
    return dtype == WEIR_HALF ? weiri_half_to_float(small) : weiri_bf16_to_float(small);
}

WEIR_FN void weigh_store_one(weir_dtype dtype, uint8_t *at, float value)
{
    uint16_t small =
        dtype == WEIR_HALF ? weiri_half_from_float(value) : weiri_bf16_from_float(value);
    if (dtype == WEIR_FLOAT)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &small, sizeof small);
}

WEIR_FN void weigh_one(weir_dtype dtype, uint8_t *dst, const void *const *src, const float *weights,
                       int nsrc, size_t at)
{
    float total = weigh_load_one(dtype, (const uint8_t *)src[0] + at);
    if (weights)
        total *= weights[0];
    for (int k = 1; k < nsrc; k++) {
        float value = weigh_load_one(dtype, (const uint8_t *)src[k] + at);
        total += weights ? value * weights[k] : value;
    }
    weigh_store_one(dtype, dst + at, total);
}

/* --------------------------------------------------------------------- sums */

WEIR_FN vec_f32 weigh_term(weir_dtype dtype, const uint8_t *at, const float *weights, int k)
{
    vec_f32 value = load_f32(dtype, at);
    return weights ? value * weights[k] : value;
}

/* STEP elements from byte `at` of every row. */
WEIR_FN void weigh_step(weir_dtype dtype, size_t element_bytes, uint8_t *dst,
                        const void *const *src, const float *weights, int nsrc, size_t at)
{
    const size_t stride = LANES * element_bytes;
    vec_f32 total[UNROLLED];
#pragma GCC unroll 4
    for (size_t j = 0; j < UNROLLED; j++)
        total[j] = weigh_term(dtype, (const uint8_t *)src[0] + at + j * stride, weights, 0);
    for (int k = 1; k < nsrc; k++) {
        const uint8_t *from = (const uint8_t *)src[k] + at;
#pragma GCC unroll 4
        for (size_t j = 0; j < UNROLLED; j++)
            total[j] += weigh_term(dtype, from + j * stride, weights, k);
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < UNROLLED; j++)
        store_f32(dtype, dst + at + j * stride, total[j]);
}

WEIR_FN void weigh_row(weir_dtype dtype, size_t element_bytes, uint8_t *dst, const void *const *src,
                       const float *weights, int nsrc, size_t count)
{
    const size_t bytes = count * element_bytes, step = STEP * element_bytes;
    size_t at = 0;
    for (; at + step <= bytes; at += step)
        weigh_step(dtype, element_bytes, dst, src, weights, nsrc, at);
    if (at < bytes && bytes >= step)
        weigh_step(dtype, element_bytes, dst, src, weights, nsrc, bytes - step);
    else
        for (; at < bytes; at += element_bytes)
            weigh_one(dtype, dst, src, weights, nsrc, at);
}

/* --------------------------------------------------------------------- fp8 */

/* The largest magnitude of count elements, which NaN does not change. */
WEIR_FN float weigh_magnitude(weir_dtype dtype, size_t element_bytes, const uint8_t *src,
                              size_t count)
{
    vec_u32 most = {0};
    float largest = least_magnitude;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vec_u32 magnitude = (vec_u32)load_f32(dtype, src + i * element_bytes) & 0x7fffffff;
        vec_i32 is_more = ((vec_i32)magnitude > (vec_i32)most) & ((vec_i32)magnitude <= 0x7f800000);
        most = select_u32(is_more, magnitude, most);
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        float value = weiri_float_from_bits(most[lane]);
        largest = value > largest ? value : largest;
    }
    for (; i < count; i++) {
        float value = weigh_load_one(dtype, src + i * element_bytes);
        value = value < 0 ? -value : value;
        largest = value > largest ? value : largest;
    }
    return largest;
}

WEIR_FN void weigh_to_fp8(weir_dtype dtype, size_t element_bytes, uint8_t *dst, float *scales,
                          const uint8_t *src, size_t count)
{
    for (size_t from = 0; from < count; from += WEIRI_SCALE_BLOCK) {
        const size_t left = count - from;
        const size_t length = left < WEIRI_SCALE_BLOCK ? left : WEIRI_SCALE_BLOCK;
        const uint8_t *block = src + from * element_bytes;
        const float magnitude = weigh_magnitude(dtype, element_bytes, block, length);
        const float factor = largest_e4m3 / magnitude;
        size_t i = 0;
        scales[from / WEIRI_SCALE_BLOCK] = magnitude / largest_e4m3;
        for (; i + LANES <= length; i += LANES)
            store_f32(WEIR_FP8_E4M3, dst + from + i,
                      load_f32(dtype, block + i * element_bytes) * factor);
        for (; i < length; i++)
            dst[from + i] =
                weiri_fp8e4m3_from_float(weigh_load_one(dtype, block + i * element_bytes) * factor);
    }
}

/* ------------------------------------------------------------ the functions */

#define WEIGH_TYPE(name, dtype, bytes)                                                             \
    static void weigh_sum_##name(void *dst, const void *const *src, const float *weights,          \
                                 int nsrc, size_t count)                                           \
    {                                                                                              \
        const weiri_float_env environment = weiri_float_begin();                                   \
        if (weights)                                                                               \
            weigh_row(dtype, bytes, dst, src, weights, nsrc, count);                               \
        else                                                                                       \
            weigh_row(dtype, bytes, dst, src, NULL, nsrc, count);                                  \
        weiri_float_end(environment);                                                              \
    }                                                                                              \
    static void weigh_fp8_##name(uint8_t *dst, float *scales, const void *src, size_t count)       \
    {                                                                                              \
        const weiri_float_env environment = weiri_float_begin();                                   \
        weigh_to_fp8(dtype, bytes, dst, scales, src, count);                                       \
        weiri_float_end(environment);                                                              \
    }

WEIGH_TYPE(float, WEIR_FLOAT, 4)
WEIGH_TYPE(half, WEIR_HALF, 2)
WEIGH_TYPE(bfloat16, WEIR_BFLOAT16, 2)

const weiri_weigh WEIRI_WEIGH_TABLE[WEIRI_WEIGH_TYPES] = {
    {WEIR_FLOAT, weigh_sum_float, weigh_fp8_float},
    {WEIR_HALF, weigh_sum_half, weigh_fp8_half},
    {WEIR_BFLOAT16, weigh_sum_bfloat16, weigh_fp8_bfloat16},
};

#endif
