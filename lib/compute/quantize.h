/*
 * The arithmetic of weir_allreduce_quantized, which the host and the kernels share, and the layout
 * of what travels. A pack holds neighbouring elements:
 *
 *   bytes    one for each element, then zeros up to a whole group
 *   scales   a float for each group of 128
 *
 * Bytes for what is not finite: fp8 e4m3 has a NaN; its largest number, 448, stands for infinity,
 * to which it saturates, since finite numbers are scaled to at most 416. int8 uses -128 for NaN,
 * and 127 and -127 for the infinities.
 */
#ifndef WEIR_COMPUTE_QUANTIZE_H
#define WEIR_COMPUTE_QUANTIZE_H

#include "compute/norm.h"
#include <weir/quantized.h>

/* One step of a call: each group of `count` elements is read, from elements or from packs, and
 * written as elements or to packs. */
typedef struct weiri_quantize_step {
    const char *in;  /* elements of dtype; or packs */
    char *out;       /* the same */
    uint64_t count;  /* elements in all */
    uint64_t part;   /* elements of a pack, whole groups */
    uint64_t pack;   /* bytes from one pack to the next */
    int32_t parts;   /* from packs: so many are added, all of the same elements; 1: each element
                        is in one pack */
    int32_t divisor; /* of sums; 1: none */
    int32_t from_packs, to_packs;
    int32_t dtype, format;
} weiri_quantize_step;

/* Bytes of a pack of so many elements, a multiple of 16. */
WEIR_FN uint64_t weiri_pack_bytes(uint64_t elements)
{
    const uint64_t groups = (elements + WEIR_QUANTIZED_GROUP - 1) / WEIR_QUANTIZED_GROUP;
    return (groups * (WEIR_QUANTIZED_GROUP + sizeof(float)) + 15) / 16 * 16;
}

/* Where the bytes and the scale of a step's group are, from the first pack's start. */
WEIR_FN uint64_t weiri_pack_codes_at(const weiri_quantize_step *step, uint64_t group)
{
    const uint64_t groups = step->part / WEIR_QUANTIZED_GROUP;
    return group / groups * step->pack + group % groups * WEIR_QUANTIZED_GROUP;
}

WEIR_FN uint64_t weiri_pack_scale_at(const weiri_quantize_step *step, uint64_t group)
{
    const uint64_t groups = step->part / WEIR_QUANTIZED_GROUP;
    return group / groups * step->pack + step->part + group % groups * sizeof(float);
}

/* What an element contributes to the largest magnitude of its group. */
WEIR_FN float weiri_quantize_magnitude(float x)
{
    const float magnitude = fabsf(x);
    return magnitude <= 3.402823466e38f ? magnitude : 0; /* FLT_MAX; not NaN */
}

WEIR_FN float weiri_quantize_scale(int format, float most)
{
    return most < 0x1p-100f ? 1.0f
                            : weiri_norm_over(most, format == WEIR_QUANTIZED_FP8 ? 416.0f : 126.0f);
}

/* The byte of y = x / scale, as int8. Rounds to nearest even by adding 1.5 * 2^23, whose last place
 * is 1. */
WEIR_FN uint8_t weiri_quantize_int8(float y)
{
    if (y != y)
        return 0x80;
    const float most = y > 127 ? 127 : y < -127 ? -127 : y;
    return (uint8_t)(int)weiri_norm_plus(weiri_norm_plus(most, 12582912.0f), -12582912.0f);
}

/* What bytes stand for, before the scale. */
WEIR_FN float weiri_dequantize_int8(uint8_t byte)
{
    const int number = (int8_t)byte;
    return number == -128   ? weiri_float_from_bits(0x7fc00000)
           : number == 127  ? weiri_float_from_bits(0x7f800000)
           : number == -127 ? weiri_float_from_bits(0xff800000)
                            : (float)number;
}

/* fp8: a number that was decoded. */
WEIR_FN float weiri_dequantize_fp8(float number)
{
    return number == 448    ? weiri_float_from_bits(0x7f800000)
           : number == -448 ? weiri_float_from_bits(0xff800000)
                            : number;
}

#ifdef __cplusplus
extern "C" {
#endif
/* Performs a step in host memory. */
void weiri_quantize_host(const weiri_quantize_step *step);
#ifdef __cplusplus
}
#endif

#endif
