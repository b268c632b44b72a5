/*
 * Scalar conversions between float and the small floating-point types, which need neither
 * hardware support for those types nor compiler extensions:
 *
 *   half      1 sign, 5 exponent, 10 mantissa bits; IEEE 754 binary16
 *   bfloat16  1, 8, 7: the upper half of a float
 *   fp8 e5m2  1, 5, 2: the upper byte of a half
 *   fp8 e4m3  1, 4, 3: bias 7, no infinities, 0x7f and 0xff are NaN
 *
 * Conversions to float are exact. Conversions from float round once, to nearest even; half and
 * bfloat16 overflow to infinity; fp8 saturates at its largest finite value, infinities included,
 * and has one NaN, 0x7f. A half or bfloat16 NaN keeps its sign and the upper bits of its payload
 * and becomes quiet. The vector code in reduce_vector.h returns the same bits.
 */
#ifndef WEIR_COMPUTE_NUMERIC_H
#define WEIR_COMPUTE_NUMERIC_H

#include <weir/target.h>
#include <weir/weir.h>

#include <string.h>

/* Whether values of a type (weir_dtype) are rounded when they are stored: they are combined as
 * float. */
WEIR_FN int weiri_is_rounded(int dtype)
{
    return dtype == WEIR_HALF || dtype == WEIR_BFLOAT16 || dtype == WEIR_FP8_E4M3 ||
           dtype == WEIR_FP8_E5M2;
}

WEIR_FN uint32_t weiri_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

WEIR_FN float weiri_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The float bits of a finite, unsigned code with the given layout. A subnormal is its mantissa
 * times 2^(1 - bias - mantissa_bits); the product is exact. */
WEIR_FN uint32_t weiri_small_to_float_bits(uint32_t code, int mantissa_bits, int bias)
{
    if (code >> mantissa_bits)
        return (code << (23 - mantissa_bits)) + ((uint32_t)(127 - bias) << 23);
    float unit = weiri_float_from_bits((uint32_t)(128 - bias - mantissa_bits) << 23);
    return weiri_float_bits((float)code * unit);
}

/*
 * The unsigned code nearest to a magnitude (float bits without the sign, not NaN), at most
 * largest_code. A normal result is rounded by adding just under half a unit in the last place, plus
 * one if the last bit that is kept is odd; the carry may reach the exponent. A subnormal result is
 * rounded by adding the power of two whose unit in the last place is the smallest subnormal.
 */
WEIR_FN uint32_t weiri_small_from_float_bits(uint32_t magnitude, int mantissa_bits, int bias,
                                             uint32_t largest_code)
{
    int shift = 23 - mantissa_bits;
    uint32_t code;
    if (magnitude < (uint32_t)(128 - bias) << 23) {
        uint32_t magic = (uint32_t)(151 - bias - mantissa_bits) << 23;
        float sum = weiri_float_from_bits(magnitude) + weiri_float_from_bits(magic);
        code = weiri_float_bits(sum) - magic;
    } else {
        uint32_t odd = magnitude >> shift & 1;
        uint32_t rebased = magnitude - ((uint32_t)(127 - bias) << 23);
        code = (rebased + (1u << (shift - 1)) - 1 + odd) >> shift;
    }
    return code < largest_code ? code : largest_code;
}

WEIR_FN float weiri_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t code = half & 0x7fff;
    if (code < 0x7c00)
        return weiri_float_from_bits(sign | weiri_small_to_float_bits(code, 10, 15));
    uint32_t quiet = code > 0x7c00 ? 0x00400000 : 0;
    return weiri_float_from_bits(sign | 0x7f800000 | (code & 0x3ff) << 13 | quiet);
}

WEIR_FN uint16_t weiri_half_from_float(float value)
{
    uint32_t bits = weiri_float_bits(value);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    return (uint16_t)(sign | weiri_small_from_float_bits(magnitude, 10, 15, 0x7c00));
}

WEIR_FN float weiri_bf16_to_float(uint16_t bf16)
{
    return weiri_float_from_bits((uint32_t)bf16 << 16);
}

WEIR_FN uint16_t weiri_bf16_from_float(float value)
{
    uint32_t bits = weiri_float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

WEIR_FN float weiri_fp8e5m2_to_float(uint8_t fp8)
{
    return weiri_half_to_float((uint16_t)(fp8 << 8));
}

WEIR_FN uint8_t weiri_fp8e5m2_from_float(float value)
{
    uint32_t bits = weiri_float_bits(value);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7f;
    return (uint8_t)((bits >> 24 & 0x80) | weiri_small_from_float_bits(magnitude, 2, 15, 0x7b));
}

WEIR_FN float weiri_fp8e4m3_to_float(uint8_t fp8)
{
    uint32_t sign = (uint32_t)(fp8 & 0x80) << 24;
    uint32_t code = fp8 & 0x7f;
    if (code == 0x7f)
        return weiri_float_from_bits(sign | 0x7fe00000);
    return weiri_float_from_bits(sign | weiri_small_to_float_bits(code, 3, 7));
}

WEIR_FN uint8_t weiri_fp8e4m3_from_float(float value)
{
    uint32_t bits = weiri_float_bits(value);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7f;
    return (uint8_t)((bits >> 24 & 0x80) | weiri_small_from_float_bits(magnitude, 3, 7, 0x7e));
}

#endif
