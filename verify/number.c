/* Number formats: see number.h. Decoding processes whole blocks and is written so that compilers
 * vectorise it; encoding is for single values in tests. */
#include "verify/number.h"

#include <math.h>
#include <string.h>

static const weirv_format formats[WEIR_DTYPE_COUNT] = {
    [WEIR_HALF] = {5, 10, 15},   [WEIR_BFLOAT16] = {8, 7, 127}, [WEIR_FLOAT] = {8, 23, 127},
    [WEIR_FP8_E4M3] = {4, 3, 7}, [WEIR_FP8_E5M2] = {5, 2, 15},  [WEIR_DOUBLE] = {11, 52, 1023},
};

const weirv_format *weirv_format_of(weir_dtype dtype)
{
    return formats[dtype].exponent_bits ? &formats[dtype] : NULL;
}

double weirv_format_roundoff(const weirv_format *format)
{
    return ldexp(1.0, -(format->mantissa_bits + 1));
}

double weirv_format_tiniest(const weirv_format *format)
{
    return ldexp(1.0, 1 - format->bias - format->mantissa_bits);
}

/* The bits of a small format as a float, which represents them exactly. `special` is the first body
 * (all bits but the sign) that is infinite or NaN. Normal numbers only move their fields to the
 * places of a float; subnormal numbers are a multiple of the smallest number, which avoids
 * subnormal arithmetic. The choices are masks of 32-bit lanes, because compilers vectorise those.
 */
static inline float decode_bits(uint32_t bits, int exponent_bits, int mantissa_bits, int bias,
                                uint32_t special, float tiniest)
{
    int body_bits = exponent_bits + mantissa_bits;
    uint32_t body = bits & ((1u << body_bits) - 1);
    uint32_t sign = bits >> body_bits << 31;
    uint32_t fields = (body << (23 - mantissa_bits)) + ((uint32_t)(127 - bias) << 23);
    fields |= (uint32_t) - (body >= special) & 0xffu << 23;
    float count = (float)(int32_t)body * tiniest;
    uint32_t subnormal;
    memcpy(&subnormal, &count, sizeof subnormal);
    uint32_t is_subnormal = (uint32_t) - (body < 1u << mantissa_bits);
    uint32_t wide = sign | (subnormal & is_subnormal) | (fields & ~is_subnormal);
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static void decode_e4m3(const uint8_t *in, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = decode_bits(in[i], 4, 3, 7, 0x7f, 0x1p-9f);
}

static void decode_e5m2(const uint8_t *in, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = decode_bits(in[i], 5, 2, 15, 0x7c, 0x1p-16f);
}

static void decode_half(const uint8_t *in, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, sizeof bits);
        out[i] = decode_bits(bits, 5, 10, 15, 0x7c00, 0x1p-24f);
    }
}

static void decode_bfloat16(const uint8_t *in, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, sizeof bits);
        uint32_t wide = (uint32_t)bits << 16;
        float value;
        memcpy(&value, &wide, sizeof value);
        out[i] = value;
    }
}

static void decode_float(const uint8_t *in, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, in + 4 * i, sizeof value);
        out[i] = value;
    }
}

void weirv_decode(weir_dtype dtype, const void *elements, size_t count, double *values)
{
    switch (dtype) {
    case WEIR_FP8_E4M3:
        decode_e4m3(elements, count, values);
        break;
    case WEIR_FP8_E5M2:
        decode_e5m2(elements, count, values);
        break;
    case WEIR_HALF:
        decode_half(elements, count, values);
        break;
    case WEIR_BFLOAT16:
        decode_bfloat16(elements, count, values);
        break;
    case WEIR_FLOAT:
        decode_float(elements, count, values);
        break;
    default:
        memcpy(values, elements, count * sizeof *values);
        break;
    }
}

/* The body of a magnitude in a small format. e4m3 has no infinity: its largest body but one is 448,
 * and the largest is NaN. */
static uint32_t encode_body(const weirv_format *format, weir_dtype dtype, double magnitude)
{
    uint32_t all_ones = (1u << format->exponent_bits) - 1;
    uint32_t infinity = all_ones << format->mantissa_bits;
    uint32_t largest = dtype == WEIR_FP8_E4M3 ? 0x7e : infinity - 1;
    int saturates = dtype == WEIR_FP8_E4M3 || dtype == WEIR_FP8_E5M2;
    if (isnan(magnitude))
        return largest + (dtype == WEIR_FP8_E4M3 ? 1 : 2);
    if (isinf(magnitude))
        return saturates ? largest : infinity;
    int lowest = 1 - format->bias;
    int exponent = magnitude > 0 ? ilogb(magnitude) : lowest;
    if (exponent < lowest)
        exponent = lowest;
    /* In units in the last place. A carry out of the mantissa increments the exponent, because
     * bodies are consecutive. */
    double units = nearbyint(ldexp(magnitude, format->mantissa_bits - exponent));
    double body = units + ldexp(exponent - lowest, format->mantissa_bits);
    if (body > largest)
        return saturates ? largest : infinity;
    return (uint32_t)body;
}

void weirv_encode(weir_dtype dtype, double value, void *element)
{
    const weirv_format *format = weirv_format_of(dtype);
    if (dtype == WEIR_DOUBLE) {
        memcpy(element, &value, sizeof value);
        return;
    }
    if (dtype == WEIR_FLOAT) {
        float rounded = (float)value;
        memcpy(element, &rounded, sizeof rounded);
        return;
    }
    uint32_t sign = signbit(value) ? 1u << (format->exponent_bits + format->mantissa_bits) : 0;
    uint32_t bits = sign | encode_body(format, dtype, fabs(value));
    uint16_t two = (uint16_t)bits;
    uint8_t one = (uint8_t)bits;
    if (weir_dtype_bytes(dtype) == 2)
        memcpy(element, &two, sizeof two);
    else
        memcpy(element, &one, sizeof one);
}
