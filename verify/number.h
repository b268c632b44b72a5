/*
 * Conversion of floating-point formats to and from double, by their bits alone. The library's
 * conversions are under test, so nothing here may come from lib/.
 */
#ifndef VERIFY_NUMBER_H
#define VERIFY_NUMBER_H

#include <weir/weir.h>

/* sign, exponent and mantissa from the top bit down. */
typedef struct weirv_format {
    int exponent_bits, mantissa_bits, bias;
} weirv_format;

/* The format of a floating type; NULL for an integer. Static storage. */
const weirv_format *weirv_format_of(weir_dtype dtype);
/* The unit roundoff 2^-(mantissa_bits + 1), and the smallest subnormal. */
double weirv_format_roundoff(const weirv_format *format);
double weirv_format_tiniest(const weirv_format *format);

/* Writes count elements of a floating type as doubles; exact. elements needs
 * no alignment. Local. */
void weirv_decode(weir_dtype dtype, const void *elements, size_t count, double *values);
/* Rounds a value to the nearest element of a floating type, ties to even; fp8
 * saturates, wider types overflow to infinity. Local. */
void weirv_encode(weir_dtype dtype, double value, void *element);

#endif
