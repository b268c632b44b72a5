/*
 * The source of the reduction functions. Included by reduce_plain.c, reduce_avx2.c and
 * reduce_avx512.c after they define WEIRI_VECTOR_BYTES and the table's name, WEIRI_REDUCE_TABLE.
 *
 * Each dtype is computed in vector lanes of one kind: small floats and float in f32, double in f64,
 * integers in unsigned lanes of the same width, in which overflow wraps. A kind has a vector
 * function for each operation, and one for a single element (one_), which serves counts below one
 * vector.
 *
 * No rounded product is an operand of a sum, so contraction of a * b + c into one instruction
 * changes no result.
 */
#ifndef WEIR_COMPUTE_REDUCE_BODY_H
#define WEIR_COMPUTE_REDUCE_BODY_H

#include "base/float_env.h"
#include "compute/reduce.h"
#include "compute/reduce_vector.h"

enum {
    BLOCK = 8,             /* vectors kept in registers while all sources are combined */
    STREAMING_BYTES = 2048 /* below this size a fence costs more than streaming saves */
};

/* ------------------------------------------------------------- the average */

/* The divisor in the formats that the kinds need. */
struct average {
    uint64_t divisor;
    uint64_t reciprocal; /* floor((2^64 - 1) / divisor) */
    double f64;
    float f32;
};

WEIR_FN struct average average_of(uint64_t divisor)
{
    return (struct average){.divisor = divisor,
                            .reciprocal = UINT64_MAX / divisor,
                            .f64 = (double)divisor,
                            .f32 = (float)divisor};
}

/* value / divisor by multiplication with the reciprocal, whose result is at most one too small. */
WEIR_FN uint64_t divide_u64(uint64_t value, const struct average *average)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 wide;
    uint64_t quotient = (uint64_t)((wide)value * average->reciprocal >> 64);
    return quotient + (value - quotient * average->divisor >= average->divisor);
#else
    return value / average->divisor;
#endif
}

/*
 * Integer division, rounded towards zero. For up to 32 bits, a floating-point quotient with more
 * bits than the dividend is exact after truncation: it cannot be rounded up to an integer that the
 * true quotient does not reach. A divisor too large to be represented gives a quotient below 1 in
 * either case.
 */
WEIR_FN uint8_t one_finish_u8(weir_dtype dtype, uint8_t value, const struct average *average)
{
    if (dtype == WEIR_INT8)
        return (uint8_t)(int)((float)(int8_t)value / average->f32);
    return (uint8_t)((float)value / average->f32);
}

WEIR_FN uint32_t one_finish_u32(weir_dtype dtype, uint32_t value, const struct average *average)
{
    if (dtype == WEIR_INT32)
        return (uint32_t)(int32_t)((double)(int32_t)value / average->f64);
    return (uint32_t)((double)value / average->f64);
}

WEIR_FN uint64_t one_finish_u64(weir_dtype dtype, uint64_t value, const struct average *average)
{
    if (dtype == WEIR_INT64 && value >> 63)
        return 0 - divide_u64(0 - value, average);
    return divide_u64(value, average);
}

WEIR_FN float one_finish_f32(weir_dtype dtype, float value, const struct average *average)
{
    (void)dtype;
    return value / average->f32;
}

WEIR_FN double one_finish_f64(weir_dtype dtype, double value, const struct average *average)
{
    (void)dtype;
    return value / average->f64;
}

WEIR_FN vec_f32 finish_f32(weir_dtype dtype, vec_f32 value, const struct average *average)
{
    (void)dtype;
    return value / average->f32;
}

WEIR_FN vec_f64 finish_f64(weir_dtype dtype, vec_f64 value, const struct average *average)
{
    (void)dtype;
    return value / average->f64;
}

/* ------------------------------------------------------------ the integers */

/* The functions of an integer kind. MAX and MIN compare signed or unsigned, by dtype. */
#define INTEGER_KIND(kind, bits, signed_dtype)                                                     \
    typedef uint##bits##_t one_##kind;                                                             \
                                                                                                   \
    WEIR_FN vec_##kind load_##kind(weir_dtype dtype, const uint8_t *at)                            \
    {                                                                                              \
        (void)dtype;                                                                               \
        return *(const vec_##kind##_memory *)(const void *)at;                                     \
    }                                                                                              \
                                                                                                   \
    WEIR_FN void store_##kind(weir_dtype dtype, uint8_t *at, vec_##kind value)                     \
    {                                                                                              \
        (void)dtype;                                                                               \
        *(vec_##kind##_memory *)(void *)at = value;                                                \
    }                                                                                              \
                                                                                                   \
    WEIR_FN vec_##kind combine_##kind(weir_dtype dtype, weir_op op, vec_##kind a, vec_##kind b)    \
    {                                                                                              \
        if (op == WEIR_SUM || op == WEIR_AVG)                                                      \
            return a + b;                                                                          \
        if (op == WEIR_PROD)                                                                       \
            return a * b;                                                                          \
        vec_##kind greater = dtype == (signed_dtype)                                               \
                                 ? (vec_##kind)((vec_i##bits)a > (vec_i##bits)b)                   \
                                 : (vec_##kind)(a > b);                                            \
        return op == WEIR_MAX ? (greater & a) | (~greater & b) : (greater & b) | (~greater & a);   \
    }                                                                                              \
                                                                                                   \
    WEIR_FN vec_##kind finish_##kind(weir_dtype dtype, vec_##kind value,                           \
                                     const struct average *average)                                \
    {                                                                                              \
        one_##kind lanes[sizeof value / sizeof(one_##kind)];                                       \
        memcpy(lanes, &value, sizeof value);                                                       \
        for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++)                                \
            lanes[i] = one_finish_##kind(dtype, lanes[i], average);                                \
        memcpy(&value, lanes, sizeof value);                                                       \
        return value;                                                                              \
    }                                                                                              \
                                                                                                   \
    WEIR_FN one_##kind one_load_##kind(weir_dtype dtype, const uint8_t *at)                        \
    {                                                                                              \
        (void)dtype;                                                                               \
        one_##kind value;                                                                          \
        memcpy(&value, at, sizeof value);                                                          \
        return value;                                                                              \
    }                                                                                              \
                                                                                                   \
    WEIR_FN void one_store_##kind(weir_dtype dtype, uint8_t *at, one_##kind value)                 \
    {                                                                                              \
        (void)dtype;                                                                               \
        memcpy(at, &value, sizeof value);                                                          \
    }                                                                                              \
                                                                                                   \
    WEIR_FN one_##kind one_combine_##kind(weir_dtype dtype, weir_op op, one_##kind a,              \
                                          one_##kind b)                                            \
    {                                                                                              \
        if (op == WEIR_SUM || op == WEIR_AVG)                                                      \
            return (one_##kind)(a + b);                                                            \
        if (op == WEIR_PROD)                                                                       \
            return (one_##kind)(a * b);                                                            \
        int greater = dtype == (signed_dtype) ? (int##bits##_t)a > (int##bits##_t)b : a > b;       \
        return greater == (op == WEIR_MAX) ? a : b;                                                \
    }

INTEGER_KIND(u8, 8, WEIR_INT8)
INTEGER_KIND(u32, 32, WEIR_INT32)
INTEGER_KIND(u64, 64, WEIR_INT64)

/* ---------------------------------------------------------- floating point */

/* MAX and MIN return NaN if either operand is NaN: a NaN in a selects a; a NaN in b makes the
 * comparison false, which selects b. */
#define FLOAT_KIND(kind, type, bits)                                                               \
    typedef type one_##kind;                                                                       \
                                                                                                   \
    WEIR_FN vec_##kind combine_##kind(weir_dtype dtype, weir_op op, vec_##kind a, vec_##kind b)    \
    {                                                                                              \
        (void)dtype;                                                                               \
        if (op == WEIR_SUM || op == WEIR_AVG)                                                      \
            return a + b;                                                                          \
        if (op == WEIR_PROD)                                                                       \
            return a * b;                                                                          \
        vec_u##bits chosen = (vec_u##bits)(op == WEIR_MAX ? a > b : a < b);                        \
        chosen |= (vec_u##bits)(a != a);                                                           \
        return (vec_##kind)((chosen & (vec_u##bits)a) | (~chosen & (vec_u##bits)b));               \
    }                                                                                              \
                                                                                                   \
    WEIR_FN one_##kind one_combine_##kind(weir_dtype dtype, weir_op op, one_##kind a,              \
                                          one_##kind b)                                            \
    {                                                                                              \
        (void)dtype;                                                                               \
        if (op == WEIR_SUM || op == WEIR_AVG)                                                      \
            return a + b;                                                                          \
        if (op == WEIR_PROD)                                                                       \
            return a * b;                                                                          \
        return (op == WEIR_MAX ? a > b : a < b) || a != a ? a : b;                                 \
    }

FLOAT_KIND(f32, float, 32)
FLOAT_KIND(f64, double, 64)

WEIR_FN vec_f64 load_f64(weir_dtype dtype, const uint8_t *at)
{
    (void)dtype;
    return *(const vec_f64_memory *)(const void *)at;
}

WEIR_FN void store_f64(weir_dtype dtype, uint8_t *at, vec_f64 value)
{
    (void)dtype;
    *(vec_f64_memory *)(void *)at = value;
}

WEIR_FN double one_load_f64(weir_dtype dtype, const uint8_t *at)
{
    (void)dtype;
    double value;
    memcpy(&value, at, sizeof value);
    return value;
}

WEIR_FN void one_store_f64(weir_dtype dtype, uint8_t *at, double value)
{
    (void)dtype;
    memcpy(at, &value, sizeof value);
}

WEIR_FN float one_load_f32(weir_dtype dtype, const uint8_t *at)
{
    uint16_t half;
    float value;
    switch (dtype) {
    case WEIR_HALF:
        memcpy(&half, at, sizeof half);
        return weiri_half_to_float(half);
    case WEIR_BFLOAT16:
        memcpy(&half, at, sizeof half);
        return weiri_bf16_to_float(half);
    case WEIR_FP8_E5M2:
        return weiri_fp8e5m2_to_float(*at);
    case WEIR_FP8_E4M3:
        return weiri_fp8e4m3_to_float(*at);
    default:
        memcpy(&value, at, sizeof value);
        return value;
    }
}

WEIR_FN void one_store_f32(weir_dtype dtype, uint8_t *at, float value)
{
    uint16_t half;
    switch (dtype) {
    case WEIR_HALF:
        half = weiri_half_from_float(value);
        memcpy(at, &half, sizeof half);
        return;
    case WEIR_BFLOAT16:
        half = weiri_bf16_from_float(value);
        memcpy(at, &half, sizeof half);
        return;
    case WEIR_FP8_E5M2:
        *at = weiri_fp8e5m2_from_float(value);
        return;
    case WEIR_FP8_E4M3:
        *at = weiri_fp8e4m3_from_float(value);
        return;
    default:
        memcpy(at, &value, sizeof value);
    }
}

/* ----------------------------------------------------- around the caches */

/* store_ with stores that bypass the caches. at is a multiple of bytes, the stride of a vector in
 * memory; the compiler keeps `stored` in registers. */
#define STREAM(kind)                                                                               \
    WEIR_FN void stream_##kind(weir_dtype dtype, uint8_t *at, vec_##kind value, size_t bytes)      \
    {                                                                                              \
        _Alignas(WEIRI_VECTOR_BYTES) uint8_t stored[WEIRI_VECTOR_BYTES];                           \
        store_##kind(dtype, stored, value);                                                        \
        stream_bytes(at, stored, bytes);                                                           \
    }

STREAM(f32)
STREAM(f64)
STREAM(u8)
STREAM(u32)
STREAM(u64)

/* --------------------------------------------------------------- the loops */

#define KIND f32
#include "compute/reduce_loop.h"
#undef KIND
#define KIND f64
#include "compute/reduce_loop.h"
#undef KIND
#define KIND u8
#include "compute/reduce_loop.h"
#undef KIND
#define KIND u32
#include "compute/reduce_loop.h"
#undef KIND
#define KIND u64
#include "compute/reduce_loop.h"
#undef KIND

/* --------------------------------------------------------------- the table */

/* Integers are divided in floating point. */
#define COMPUTES_IN_FLOAT(dtype, op) ((op) == WEIR_AVG || (dtype) >= WEIR_HALF)

#define FUNCTION(name, kind, dtype, op, element_bytes)                                             \
    static void name(void *dst, const void *const *src, int nsrc, size_t count, uint64_t divisor,  \
                     int streaming)                                                                \
    {                                                                                              \
        if (!COMPUTES_IN_FLOAT(dtype, op)) {                                                       \
            reduce_##kind(dtype, op, element_bytes, dst, src, nsrc, count, divisor, streaming);    \
            return;                                                                                \
        }                                                                                          \
        const weiri_float_env environment = weiri_float_begin();                                   \
        WEIRI_FLOAT_OPERAND(divisor);                                                              \
        reduce_##kind(dtype, op, element_bytes, dst, src, nsrc, count, divisor, streaming);        \
        weiri_float_end(environment);                                                              \
    }

/* X(symbol of the dtype, kind, bytes of an element): one row of the table. */
#define ROWS(X)                                                                                    \
    X(INT8, u8, 1)                                                                                 \
    X(UINT8, u8, 1)                                                                                \
    X(INT32, u32, 4)                                                                               \
    X(UINT32, u32, 4)                                                                              \
    X(INT64, u64, 8)                                                                               \
    X(UINT64, u64, 8)                                                                              \
    X(HALF, f32, 2)                                                                                \
    X(FLOAT, f32, 4)                                                                               \
    X(DOUBLE, f64, 8)                                                                              \
    X(BFLOAT16, f32, 2)                                                                            \
    X(FP8_E4M3, f32, 1)                                                                            \
    X(FP8_E5M2, f32, 1)

#define FUNCTIONS(symbol, kind, bytes)                                                             \
    FUNCTION(sum_##symbol, kind, WEIR_##symbol, WEIR_SUM, bytes)                                   \
    FUNCTION(prod_##symbol, kind, WEIR_##symbol, WEIR_PROD, bytes)                                 \
    FUNCTION(max_##symbol, kind, WEIR_##symbol, WEIR_MAX, bytes)                                   \
    FUNCTION(min_##symbol, kind, WEIR_##symbol, WEIR_MIN, bytes)                                   \
    FUNCTION(avg_##symbol, kind, WEIR_##symbol, WEIR_AVG, bytes)
ROWS(FUNCTIONS)

#define ROW(symbol, kind, bytes)                                                                   \
    [WEIR_##symbol] = {                                                                            \
        [WEIR_SUM] = sum_##symbol, [WEIR_PROD] = prod_##symbol, [WEIR_MAX] = max_##symbol,         \
        [WEIR_MIN] = min_##symbol, [WEIR_AVG] = avg_##symbol,                                      \
    },
const weiri_reduce_table WEIRI_REDUCE_TABLE = {ROWS(ROW)};

#endif
