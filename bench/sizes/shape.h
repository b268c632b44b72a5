/*
 * What a size means for a collective: how many elements each rank sends and receives, where the
 * blocks of an in-place call lie, and the bus factor. Counts follow nccl-tests, whose -b and -e
 * bound the larger of the two buffers.
 */
#ifndef BENCH_SIZES_SHAPE_H
#define BENCH_SIZES_SHAPE_H

#include <weir/weir.h>

#include "bench/sizes/dist.h"
#include "bench/options/options.h"

typedef struct bench_shape {
    size_t count;                        /* the collective's count parameter, elements */
    size_t send_elements, recv_elements; /* this rank's; alltoallv: the largest of all steps */
    /* In place, input and output are parts of one buffer: a rank's block starts at rank times
     * these, in elements. */
    size_t send_stride_elements, recv_stride_elements;
    /* The larger of the two buffers: the size in the table, and S of algbw. alltoallv: the most
     * that any rank sends or receives in any step. */
    size_t bytes;
} bench_shape;

/* The shape for a size of at most bytes. count and bytes are the same on every rank; rank and dist
 * are used for alltoallv only. Pure. */
bench_shape bench_shape_make(weir_collective collective, size_t bytes, size_t element_bytes,
                             int rank, int nranks, const bench_dist *dist);

/* The call of the library that performs it: itself, but for gather and scatter. */
weir_collective bench_collective_call(weir_collective collective);
int bench_collective_has_op(weir_collective collective);
int bench_collective_has_root(weir_collective collective);
/* Whether it is measured in place; some collectives have a form in place only as plans. */
int bench_collective_in_place(weir_collective collective, int has_plan);

/* busbw / algbw, as base/contract.h defines it. */
double bench_bus_factor(weir_collective collective, int nranks);

/* The sizes of a sweep: from -b to -e, in steps of -f or -i. All functions are pure. */

/* The size after bytes; 0 after the last one. Sizes only grow. */
size_t bench_sizes_next(const bench_options *options, size_t bytes);
/* The last size. */
size_t bench_sizes_last(const bench_options *options);

#endif
