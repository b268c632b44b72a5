/*
 * Small non-negative integers in every data type, for tests that compare bit
 * for bit: an encoder that knows nothing of the library's conversions. Exact as
 * long as the value has no more significant bits than the type.
 */
#ifndef WEIR_TESTS_SMALL_NUMBERS_H
#define WEIR_TESTS_SMALL_NUMBERS_H

#include "weir.h"

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
    int64_t integer = value;
    float single = (float)value;
    double wide = value;
    uint16_t sixteen = (uint16_t)small_number_bits(value, dtype == WEIR_HALF ? 10 : 7,
                                                   dtype == WEIR_HALF ? 15 : 127);
    int e4m3 = dtype == WEIR_FP8_E4M3;
    uint8_t eight = (uint8_t)small_number_bits(value, e4m3 ? 3 : 2, e4m3 ? 7 : 15);
    const void *from = &integer; /* little endian: the low bytes come first */
    if (dtype == WEIR_FLOAT)
        from = &single;
    else if (dtype == WEIR_DOUBLE)
        from = &wide;
    else if (dtype == WEIR_HALF || dtype == WEIR_BFLOAT16)
        from = &sixteen;
    else if (dtype == WEIR_FP8_E4M3 || dtype == WEIR_FP8_E5M2)
        from = &eight;
    memcpy(to, from, weir_dtype_bytes(dtype));
}

#endif
