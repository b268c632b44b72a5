/*
 * Encodes small non-negative integers in every data type, independently of the library's
 * conversions, for tests that compare bit for bit. Exact as long as the value has no more
 * significant bits than the type.
 */
#ifndef VERIFY_TESTS_SUPPORT_SMALL_NUMBERS_H
#define VERIFY_TESTS_SUPPORT_SMALL_NUMBERS_H

#include <weir/weir.h>

#include <string.h>

/* Whether the type holds all integers up to 2^16. */
static inline int small_number_is_wide(weir_dtype dtype)
{
    return dtype == WEIR_INT32 || dtype == WEIR_UINT32 || dtype == WEIR_INT64 ||
           dtype == WEIR_UINT64 || dtype == WEIR_FLOAT || dtype == WEIR_DOUBLE;
}

/* Sign 0, exponent and fraction of a binary floating-point format. */
static inline unsigned small_number_bits(unsigned value, int fraction_bits, int bias)
{
    if (value == 0)
        return 0;
    int exponent = 31 - __builtin_clz(value);
    unsigned rest = value - (1u << exponent);
    unsigned fraction = exponent <= fraction_bits ? rest << (fraction_bits - exponent)
                                                  : rest >> (exponent - fraction_bits);
    return (unsigned)(exponent + bias) << fraction_bits | fraction;
}

static inline void small_number_encode(unsigned char *to, weir_dtype dtype, unsigned value)
{
    const float single = (float)value;
    const double wide = value;
    uint64_t bits = value; /* little endian: the low bytes come first */
    switch (dtype) {
    case WEIR_FLOAT:
        memcpy(to, &single, sizeof single);
        return;
    case WEIR_DOUBLE:
        memcpy(to, &wide, sizeof wide);
        return;
    case WEIR_HALF:
        bits = small_number_bits(value, 10, 15);
        break;
    case WEIR_BFLOAT16:
        bits = small_number_bits(value, 7, 127);
        break;
    case WEIR_FP8_E4M3:
        bits = small_number_bits(value, 3, 7);
        break;
    case WEIR_FP8_E5M2:
        bits = small_number_bits(value, 2, 15);
        break;
    default:
        break;
    }
    memcpy(to, &bits, weir_dtype_bytes(dtype));
}

#endif
