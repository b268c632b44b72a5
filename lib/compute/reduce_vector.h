/*
 * Vectors of WEIRI_VECTOR_BYTES bytes for the reduction loops: types, loads and stores at any
 * alignment, and conversions between float and the small floating-point types with the same results
 * as numeric.h. It uses the vector types of gcc and clang, and intrinsics only for single
 * instructions that the compilers do not generate from them: widening, narrowing, half.
 *
 * Included by files that define WEIRI_VECTOR_BYTES (16, 32 or 64), the width of the instruction
 * set that it is compiled for.
 */
#ifndef WEIR_COMPUTE_REDUCE_VECTOR_H
#define WEIR_COMPUTE_REDUCE_VECTOR_H

#include "compute/numeric.h"
#include <weir/weir.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define VECTOR(type, bytes) type __attribute__((vector_size(bytes)))
typedef VECTOR(uint8_t, WEIRI_VECTOR_BYTES) vec_u8;
typedef VECTOR(int8_t, WEIRI_VECTOR_BYTES) vec_i8;
typedef VECTOR(uint32_t, WEIRI_VECTOR_BYTES) vec_u32;
typedef VECTOR(int32_t, WEIRI_VECTOR_BYTES) vec_i32;
typedef VECTOR(uint64_t, WEIRI_VECTOR_BYTES) vec_u64;
typedef VECTOR(int64_t, WEIRI_VECTOR_BYTES) vec_i64;
typedef VECTOR(float, WEIRI_VECTOR_BYTES) vec_f32;
typedef VECTOR(double, WEIRI_VECTOR_BYTES) vec_f64;
/* As many 16-bit and 8-bit lanes as a vec_f32 has. */
typedef VECTOR(uint16_t, WEIRI_VECTOR_BYTES / 2) vec_u16_half;
typedef VECTOR(int16_t, WEIRI_VECTOR_BYTES / 2) vec_i16_half;
typedef VECTOR(uint8_t, WEIRI_VECTOR_BYTES / 4) vec_u8_quarter;
#undef VECTOR

/* The same types in memory: any alignment, any effective type. */
#define IN_MEMORY __attribute__((aligned(1), may_alias))
typedef vec_u8 vec_u8_memory IN_MEMORY;
typedef vec_u32 vec_u32_memory IN_MEMORY;
typedef vec_u64 vec_u64_memory IN_MEMORY;
typedef vec_f32 vec_f32_memory IN_MEMORY;
typedef vec_f64 vec_f64_memory IN_MEMORY;
typedef vec_u16_half vec_u16_half_memory IN_MEMORY;
typedef vec_u8_quarter vec_u8_quarter_memory IN_MEMORY;
#undef IN_MEMORY

/* ------------------------------------------- widen, narrow, half: one ISA each */

#if defined(__AVX512F__) && WEIRI_VECTOR_BYTES == 64

WEIR_FN vec_u16_half load_u8_as_u16(const uint8_t *at)
{
    return (vec_u16_half)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at));
}

WEIR_FN vec_u32 widen_u16(vec_u16_half value)
{
    return (vec_u32)_mm512_cvtepu16_epi32((__m256i)value);
}

WEIR_FN vec_u16_half narrow_u32(vec_u32 value)
{
    return (vec_u16_half)_mm512_cvtepi32_epi16((__m512i)value);
}

WEIR_FN void store_u32_as_u8(uint8_t *at, vec_u32 value)
{
    _mm_storeu_si128((__m128i *)(void *)at, _mm512_cvtepi32_epi8((__m512i)value));
}

#define HALF_IN_HARDWARE 1

WEIR_FN vec_f32 f32_from_half(vec_u16_half half)
{
    return (vec_f32)_mm512_cvtph_ps((__m256i)half);
}

WEIR_FN vec_u16_half half_from_f32(vec_f32 value)
{
    return (vec_u16_half)_mm512_cvtps_ph((__m512)value,
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#elif defined(__AVX2__) && WEIRI_VECTOR_BYTES == 32

WEIR_FN vec_u16_half load_u8_as_u16(const uint8_t *at)
{
    return (vec_u16_half)_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)at));
}

WEIR_FN vec_u32 widen_u16(vec_u16_half value)
{
    return (vec_u32)_mm256_cvtepu16_epi32((__m128i)value);
}

/* Packs within each 128-bit lane, then joins the two lanes' results. */
WEIR_FN vec_u16_half narrow_u32(vec_u32 value)
{
    __m256i low_words = _mm256_and_si256((__m256i)value, _mm256_set1_epi32(0xffff));
    __m256i packed = _mm256_packus_epi32(low_words, low_words);
    return (vec_u16_half)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

WEIR_FN void store_u32_as_u8(uint8_t *at, vec_u32 value)
{
    __m128i words = (__m128i)narrow_u32(value);
    _mm_storel_epi64((__m128i *)(void *)at, _mm_packus_epi16(words, words));
}

#define HALF_IN_HARDWARE 1

WEIR_FN vec_f32 f32_from_half(vec_u16_half half)
{
    return (vec_f32)_mm256_cvtph_ps((__m128i)half);
}

WEIR_FN vec_u16_half half_from_f32(vec_f32 value)
{
    return (vec_u16_half)_mm256_cvtps_ph((__m256)value,
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#else

#define HALF_IN_HARDWARE 0

WEIR_FN vec_u16_half load_u8_as_u16(const uint8_t *at)
{
    return __builtin_convertvector(*(const vec_u8_quarter_memory *)(const void *)at, vec_u16_half);
}

WEIR_FN vec_u32 widen_u16(vec_u16_half value)
{
    return __builtin_convertvector(value, vec_u32);
}

WEIR_FN vec_u16_half narrow_u32(vec_u32 value)
{
    return __builtin_convertvector(value, vec_u16_half);
}

WEIR_FN void store_u32_as_u8(uint8_t *at, vec_u32 value)
{
    *(vec_u8_quarter_memory *)(void *)at =
        __builtin_convertvector(narrow_u32(value), vec_u8_quarter);
}

#endif

/* ----------------------------------------------- small floats, lane by lane */

/* Lanes of a where mask is all ones, of b where it is zero. */
WEIR_FN vec_u32 select_u32(vec_i32 mask, vec_u32 a, vec_u32 b)
{
    return ((vec_u32)mask & a) | (~(vec_u32)mask & b);
}

/* weiri_small_to_float_bits in every lane. */
WEIR_FN vec_u32 small_to_f32_bits(vec_u32 code, int mantissa_bits, int bias)
{
    vec_u32 normal = (code << (23 - mantissa_bits)) + ((uint32_t)(127 - bias) << 23);
    float unit = weiri_float_from_bits((uint32_t)(128 - bias - mantissa_bits) << 23);
    vec_f32 subnormal = __builtin_convertvector((vec_i32)code, vec_f32) * unit;
    return select_u32((vec_i32)code < (1 << mantissa_bits), (vec_u32)subnormal, normal);
}

/* weiri_small_from_float_bits in every lane. Codes and magnitudes are below
 * 2^31, so signed comparisons, which every instruction set has, order them;
 * a magnitude below the range wraps, but is then not selected. */
WEIR_FN vec_u32 small_from_f32_bits(vec_u32 magnitude, int mantissa_bits, int bias,
                                    int largest_code)
{
    int shift = 23 - mantissa_bits;
    uint32_t magic = (uint32_t)(151 - bias - mantissa_bits) << 23;
    vec_u32 subnormal = (vec_u32)((vec_f32)magnitude + weiri_float_from_bits(magic)) - magic;
    vec_u32 odd = magnitude >> shift & 1;
    uint32_t rebase = (1u << (shift - 1)) - 1 - ((uint32_t)(127 - bias) << 23);
    vec_u32 normal = (magnitude + rebase + odd) >> shift;
    vec_u32 code = select_u32((vec_i32)magnitude < (128 - bias) << 23, subnormal, normal);
    vec_u32 largest = code - code + (uint32_t)largest_code;
    return select_u32((vec_i32)code < largest_code, code, largest);
}

#if !HALF_IN_HARDWARE

WEIR_FN vec_f32 f32_from_half(vec_u16_half half)
{
    vec_u32 wide = widen_u16(half);
    vec_u32 code = wide & 0x7fff;
    vec_u32 bits = small_to_f32_bits(code, 10, 15);
    bits += (vec_u32)((vec_i32)code >= 0x7c00) & (112u << 23);
    bits |= (vec_u32)((vec_i32)code > 0x7c00) & 0x00400000u;
    return (vec_f32)(bits | (wide & 0x8000) << 16);
}

WEIR_FN vec_u16_half half_from_f32(vec_f32 value)
{
    vec_u32 bits = (vec_u32)value;
    vec_u32 magnitude = bits & 0x7fffffff;
    vec_u32 code = small_from_f32_bits(magnitude, 10, 15, 0x7c00);
    vec_u32 nan = 0x7e00 | (magnitude >> 13 & 0x1ff);
    code = select_u32((vec_i32)magnitude > 0x7f800000, nan, code);
    return narrow_u32(code | (bits >> 16 & 0x8000));
}

#endif

WEIR_FN vec_u16_half bf16_from_f32(vec_f32 value)
{
    vec_u32 bits = (vec_u32)value;
    vec_u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    vec_i32 is_nan = (vec_i32)(bits & 0x7fffffff) > 0x7f800000;
    return narrow_u32(select_u32(is_nan, bits | 0x00400000, rounded) >> 16);
}

/* If the hardware converts half, e4m3 is converted through half: shifted to a half's bit positions,
 * its exponent is 8 too small, which one exact multiplication corrects. */
WEIR_FN vec_f32 f32_from_e4m3(vec_u16_half code)
{
#if HALF_IN_HARDWARE
    vec_i16_half shifted = (vec_i16_half)(code << 8) >> 1;
    vec_u16_half is_nan = (vec_u16_half)((code & 0x7f) == 0x7f);
    return f32_from_half(((vec_u16_half)shifted & 0xbf80) | (is_nan & 0x7e00)) * 256.0f;
#else
    vec_u32 wide = widen_u16(code);
    vec_u32 magnitude = wide & 0x7f;
    vec_u32 bits = small_to_f32_bits(magnitude, 3, 7);
    bits |= (vec_u32)((vec_i32)magnitude == 0x7f) & 0x7fe00000u;
    return (vec_f32)(bits | (wide & 0x80) << 24);
#endif
}

WEIR_FN vec_u32 fp8_from_f32(vec_f32 value, int mantissa_bits, int bias, int largest_code)
{
    vec_u32 bits = (vec_u32)value;
    vec_u32 magnitude = bits & 0x7fffffff;
    vec_u32 code = small_from_f32_bits(magnitude, mantissa_bits, bias, largest_code);
    code |= bits >> 24 & 0x80;
    vec_i32 is_nan = (vec_i32)magnitude > 0x7f800000;
    return select_u32(is_nan, code - code + 0x7f, code);
}

/* ------------------------------------------------------------ float lanes */

/* As many elements of dtype, which is a floating-point type other than double,
 * as a vec_f32 has lanes. */
WEIR_FN vec_f32 load_f32(weir_dtype dtype, const uint8_t *at)
{
    switch (dtype) {
    case WEIR_HALF:
        return f32_from_half(*(const vec_u16_half_memory *)(const void *)at);
    case WEIR_BFLOAT16:
        return (vec_f32)(widen_u16(*(const vec_u16_half_memory *)(const void *)at) << 16);
    case WEIR_FP8_E5M2:
        return f32_from_half(load_u8_as_u16(at) << 8);
    case WEIR_FP8_E4M3:
        return f32_from_e4m3(load_u8_as_u16(at));
    default:
        return *(const vec_f32_memory *)(const void *)at;
    }
}

WEIR_FN void store_f32(weir_dtype dtype, uint8_t *at, vec_f32 value)
{
    switch (dtype) {
    case WEIR_HALF:
        *(vec_u16_half_memory *)(void *)at = half_from_f32(value);
        return;
    case WEIR_BFLOAT16:
        *(vec_u16_half_memory *)(void *)at = bf16_from_f32(value);
        return;
    case WEIR_FP8_E5M2:
        store_u32_as_u8(at, fp8_from_f32(value, 2, 15, 0x7b));
        return;
    case WEIR_FP8_E4M3:
        store_u32_as_u8(at, fp8_from_f32(value, 3, 7, 0x7e));
        return;
    default:
        *(vec_f32_memory *)(void *)at = value;
    }
}

/* ------------------------------------------------------ around the caches */

/* Stores `bytes` bytes (4 to WEIRI_VECTOR_BYTES, a power of two) without loading the line into a
 * cache. at is a multiple of bytes. */
WEIR_FN void stream_bytes(uint8_t *at, const uint8_t *value, size_t bytes)
{
#if defined(__x86_64__)
    int word;
    long long words;
    switch (bytes) {
    case 4:
        memcpy(&word, value, sizeof word);
        _mm_stream_si32((int *)(void *)at, word);
        return;
    case 8:
        memcpy(&words, value, sizeof words);
        _mm_stream_si64((long long *)(void *)at, words);
        return;
    case 16:
        _mm_stream_si128((__m128i *)(void *)at,
                         _mm_loadu_si128((const __m128i *)(const void *)value));
        return;
#if WEIRI_VECTOR_BYTES >= 32
    case 32:
        _mm256_stream_si256((__m256i *)(void *)at,
                            _mm256_loadu_si256((const __m256i *)(const void *)value));
        return;
#endif
#if WEIRI_VECTOR_BYTES >= 64
    case 64:
        _mm512_stream_si512((__m512i *)(void *)at, _mm512_loadu_si512(value));
        return;
#endif
    }
#endif
    memcpy(at, value, bytes);
}

/* Orders the stores of stream_bytes before every later store. */
WEIR_FN void streaming_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif
