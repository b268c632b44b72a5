/*
 * The arithmetic of normalisation, which the host and the kernels share, so that both return the
 * same bits. A row is divided into lines of 128 elements, and a line into 32 lanes of 4 elements.
 *
 *   1. A lane adds its elements one after the other. The lanes of a line are added in halves: lane
 *      i and lane i + 16, then i and i + 8, and so on. The lines of a row are distributed to 32
 *      lanes, each adds every 32nd line, and these lanes are again added in halves.
 *   2. RMSNorm adds squares. LayerNorm adds the elements of a line, and then the squares of their
 *      distances from the line's mean; the mean of the row and its variance follow from these sums
 *      and the distances of the lines' means from the row's.
 *
 * No product is fused with an addition: on the device by the functions below, on the host by
 * -ffp-contract=off.
 */
#ifndef WEIR_COMPUTE_NORM_H
#define WEIR_COMPUTE_NORM_H

#include "compute/numeric.h"
#include <weir/norm.h>

#include <math.h>

enum {
    WEIRI_NORM_LANE = 4,   /* elements of a lane */
    WEIRI_NORM_LINE = 128, /* elements of a line */
    WEIRI_NORM_LINES_MAX = 128,
};

/* A line: the sum of its elements (LayerNorm), and of the squares. */
typedef struct weiri_norm_line {
    float sum, squares;
} weiri_norm_line;

/* What a row is normalised by: y = (x - mean) * factor. */
typedef struct weiri_norm_row {
    float mean, factor;
} weiri_norm_row;

WEIR_FN float weiri_norm_times(float a, float b)
{
#if WEIR_ON_DEVICE
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

WEIR_FN float weiri_norm_plus(float a, float b)
{
#if WEIR_ON_DEVICE
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

WEIR_FN float weiri_norm_over(float a, float b)
{
#if WEIR_ON_DEVICE
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

/* How many elements line number `line` of a row has. */
WEIR_FN uint32_t weiri_norm_line_elements(uint32_t hidden, uint32_t line)
{
    const uint32_t left = hidden - line * WEIRI_NORM_LINE;
    return left < WEIRI_NORM_LINE ? left : (uint32_t)WEIRI_NORM_LINE;
}

WEIR_FN float weiri_norm_lane_sum(const float *x)
{
    return weiri_norm_plus(weiri_norm_plus(weiri_norm_plus(x[0], x[1]), x[2]), x[3]);
}

/* The squares of a lane's distances from the mean. */
WEIR_FN float weiri_norm_lane_squares(const float *x, float mean)
{
    float squares[WEIRI_NORM_LANE];
    for (int i = 0; i < WEIRI_NORM_LANE; i++) {
        const float distance = weiri_norm_plus(x[i], -mean);
        squares[i] = weiri_norm_times(distance, distance);
    }
    return weiri_norm_lane_sum(squares);
}

/* What a line adds to the squares of a row with this mean. */
WEIR_FN float weiri_norm_line_squares(weiri_norm_line line, uint32_t elements, float mean)
{
    const float count = (float)elements;
    const float distance = weiri_norm_plus(weiri_norm_over(line.sum, count), -mean);
    return weiri_norm_plus(line.squares,
                           weiri_norm_times(count, weiri_norm_times(distance, distance)));
}

WEIR_FN float weiri_norm_factor(float squares, uint32_t hidden, float epsilon)
{
    const float mean = weiri_norm_over(squares, (float)hidden);
#if WEIR_ON_DEVICE
    return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, epsilon)));
#else
    return 1.0f / sqrtf(mean + epsilon);
#endif
}

WEIR_FN float weiri_norm_apply(weiri_norm_row row, float x, float weight, float bias)
{
    const float y =
        weiri_norm_times(weiri_norm_times(weiri_norm_plus(x, -row.mean), row.factor), weight);
    return weiri_norm_plus(y, bias);
}

/* The scale of a group whose largest magnitude is `most`. */
WEIR_FN float weiri_norm_scale(float most)
{
    return most < 0x1p-100f ? 1.0f : weiri_norm_over(most, 448.0f);
}

#ifdef __cplusplus
extern "C" {
#endif
/* One row on the host. x: hidden elements as float, which become y; weight and bias: as float, or
 * NULL. */
void weiri_norm_host(const weir_norm_args *args, float *x, const float *weight, const float *bias);
/* Stores a row of y as args->output says. */
void weiri_norm_host_store(const weir_norm_args *args, size_t row, const float *y);
/* Converts elements of a type that weir_allreduce_norm takes to float, and back. */
void weiri_norm_host_load(weir_dtype dtype, const void *from, size_t count, float *to);
void weiri_norm_host_round(weir_dtype dtype, const float *from, size_t count, void *to);
#ifdef __cplusplus
}
#endif

#endif
