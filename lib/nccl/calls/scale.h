/*
 * Multiplication by a scalar, element by element, for custom reductions; one source for host and
 * kernels. Integers wrap; half, bfloat16 and fp8 multiply in float and round once. Elements and the
 * scalar must be aligned.
 */
#ifndef WEIR_NCCL_SCALE_H
#define WEIR_NCCL_SCALE_H

#include <weir/target.h>
#include "compute/numeric.h"
#include <weir/weir.h>

/* One element of an integer type, float or double, as its C type. */
#define WEIRI_NCCL_SCALE_AS(type, product)                                                         \
    do {                                                                                           \
        type *into = (type *)to;                                                                   \
        const type *from_all = (const type *)from;                                                 \
        const type by = *(const type *)scalar;                                                     \
        for (size_t i = first; i < count; i += step) {                                             \
            const type x = from_all[i];                                                            \
            into[i] = (type)(product);                                                             \
        }                                                                                          \
    } while (0)

/* Processes elements first, first + step, ... below count. */
WEIR_FN void weiri_nccl_scale_span(void *to, const void *from, const void *scalar, int dtype,
                                   size_t first, size_t step, size_t count)
{
    switch (dtype) {
    case WEIR_INT8:
    case WEIR_UINT8:
        WEIRI_NCCL_SCALE_AS(uint8_t, (uint32_t)x * by);
        break;
    case WEIR_INT32:
    case WEIR_UINT32:
        WEIRI_NCCL_SCALE_AS(uint32_t, x * by);
        break;
    case WEIR_INT64:
    case WEIR_UINT64:
        WEIRI_NCCL_SCALE_AS(uint64_t, x * by);
        break;
    case WEIR_HALF:
        WEIRI_NCCL_SCALE_AS(
            uint16_t, weiri_half_from_float(weiri_half_to_float(x) * weiri_half_to_float(by)));
        break;
    case WEIR_BFLOAT16:
        WEIRI_NCCL_SCALE_AS(
            uint16_t, weiri_bf16_from_float(weiri_bf16_to_float(x) * weiri_bf16_to_float(by)));
        break;
    case WEIR_FP8_E4M3:
        WEIRI_NCCL_SCALE_AS(uint8_t, weiri_fp8e4m3_from_float(weiri_fp8e4m3_to_float(x) *
                                                              weiri_fp8e4m3_to_float(by)));
        break;
    case WEIR_FP8_E5M2:
        WEIRI_NCCL_SCALE_AS(uint8_t, weiri_fp8e5m2_from_float(weiri_fp8e5m2_to_float(x) *
                                                              weiri_fp8e5m2_to_float(by)));
        break;
    case WEIR_FLOAT:
        WEIRI_NCCL_SCALE_AS(float, x *by);
        break;
    case WEIR_DOUBLE:
        WEIRI_NCCL_SCALE_AS(double, x *by);
        break;
    }
}

#endif
