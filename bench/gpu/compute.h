/*
 * The computations of --beside, which run while a candidate is timed: a matrix product, a copy that
 * the bandwidth of memory limits, and arithmetic on registers. On GPUs, cuBLAS computes the
 * product; it is opened at run time. On the host, the calling thread computes.
 */
#ifndef BENCH_GPU_COMPUTE_H
#define BENCH_GPU_COMPUTE_H

#include "bench/gpu/gpu.h"
#include "bench/options/options.h"

typedef struct bench_compute bench_compute;

/* gpu: NULL on the host. note must outlive the computation. Local. WEIR_ERR_NO_MEMORY;
 * WEIR_ERR_UNSUPPORTED without cuBLAS, with a remedy in the note. */
weir_status bench_compute_open(bench_gpu *gpu, bench_note *note, const bench_with *with,
                               bench_compute **compute);
/* Computes once; complete on return. Local. */
weir_status bench_compute_run(bench_compute *compute);
/* compute may be NULL. */
void bench_compute_close(bench_compute *compute);

/* Of compute_cuda.c and compute_none.c: the same on a GPU, where operands are three buffers of so
 * many bytes. Enqueues only. */
typedef struct bench_gpu_compute_state bench_gpu_compute_state;
weir_status bench_gpu_compute_open(bench_gpu *gpu, bench_note *note, const bench_with *with,
                                   void *const operands[3], const size_t bytes[3],
                                   bench_gpu_compute_state **state);
weir_status bench_gpu_compute_enqueue(bench_gpu_compute_state *state);
void bench_gpu_compute_close(bench_gpu_compute_state *state);

#endif
