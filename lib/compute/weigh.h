/*
 * Rows of mixture-of-experts layers: weighted sums of rows, and rows as f8e4m3 with a scale for
 * each block of elements. weir/moe.h defines the arithmetic. The loops (weigh_body.h) are compiled
 * once for each instruction set and selected at run time; results do not depend on it, because no
 * product and sum are fused. Only the sign and payload of a NaN are unspecified.
 */
#ifndef WEIR_COMPUTE_WEIGH_H
#define WEIR_COMPUTE_WEIGH_H

#include <weir/weir.h>

enum { WEIRI_SCALE_BLOCK = 128 };

/* dst[i] = weights[0] * src[0][i] + ... + weights[nsrc - 1] * src[nsrc - 1][i] for i < count
 * elements, with each product and sum rounded to float and one rounding to the type of dst; without
 * multiplication if weights is NULL. nsrc is at least 1. dst is none of the sources. */
typedef void (*weiri_weigh_fn)(void *dst, const void *const *src, const float *weights, int nsrc,
                               size_t count);

/* Writes count elements of src as f8e4m3, and a scale for each WEIRI_SCALE_BLOCK of them. */
typedef void (*weiri_to_fp8_fn)(uint8_t *dst, float *scales, const void *src, size_t count);

typedef struct weiri_weigh {
    weir_dtype dtype; /* of the rows that are added or converted */
    weiri_weigh_fn sum;
    weiri_to_fp8_fn to_fp8;
} weiri_weigh;

/* Returns the fastest functions for this processor; NULL if dtype is neither WEIR_FLOAT, WEIR_HALF
 * nor WEIR_BFLOAT16. Thread-safe. */
const weiri_weigh *weiri_weigh_get(weir_dtype dtype);
/* The same for a named instruction set; NULL also if the processor lacks it. */
const weiri_weigh *weiri_weigh_get_isa(const char *isa, weir_dtype dtype);

/* ------------------------------------- between weigh.c and its loops only */

enum { WEIRI_WEIGH_TYPES = 3 };
extern const weiri_weigh weiri_weigh_plain[WEIRI_WEIGH_TYPES];
extern const weiri_weigh weiri_weigh_avx2[WEIRI_WEIGH_TYPES];
extern const weiri_weigh weiri_weigh_avx512[WEIRI_WEIGH_TYPES];

#endif
