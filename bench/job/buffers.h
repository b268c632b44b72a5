/*
 * The buffers of a run: one for input, one for output, large enough for the largest size of the
 * sweep with canaries around it. Each trial lays out its own size in them.
 *
 * Data is written and checked in host memory. On the host backend, operations work on the same
 * memory. On a GPU, candidates work on operands in device memory: data is pushed to the operands
 * before an operation, and pulled back before a check. All addresses in a layout are in host
 * memory; bench_buffers_at translates them.
 */
#ifndef BENCH_JOB_BUFFERS_H
#define BENCH_JOB_BUFFERS_H

#include "bench/gpu/gpu.h"
#include "bench/job/job.h"
#include "bench/options/options.h"
#include "bench/sizes/shape.h"
#include "verify/verify.h"

/* The addresses of both buffers that a candidate's operations work on. */
typedef struct bench_operands {
    void *in, *out;
} bench_operands;

typedef struct bench_buffer {
    void *base; /* in host memory */
    size_t bytes;
    size_t room_bytes; /* of bytes, for one layout with its canaries; rounds shift it */
    size_t first_bytes, pool_bytes; /* --cold: where the copies begin, and their size */
    weir_mem *mem;                  /* memory of the library; NULL: from malloc or cudaMalloc */
    weir_mem *registered;           /* -R 1 and 2; NULL otherwise */
    weir_mem **peers;               /* -R 2: nranks entries; the rank's own is `registered` */
} bench_buffer;

typedef struct bench_buffers {
    bench_gpu *gpu; /* NULL: operations work on base itself */
    bench_buffer in, out;
    bench_operands operands; /* of weir, and of every candidate that sets none */
} bench_buffers;

/* Where a trial's data lies. */
typedef struct bench_layout {
    weirv_guard guards[2];
    int nguards; /* 1 in place: there is one buffer */
    void *in, *out;
    void *whole; /* in place: the buffer that contains in and out */
    size_t whole_bytes;
} bench_layout;

/* Memory that a rank needs for the sizes up to one. */
typedef struct bench_need {
    size_t host_bytes, gpu_bytes; /* both buffers, copies of --cold and of checks; GPU: 0 without */
} bench_need;

/* The need of one rank. Local. */
bench_need bench_buffers_need(const bench_job *job, const bench_options *options,
                              weir_collective collective, const bench_dist *dist, size_t bytes);
/* Allocates, and registers as -R says. Collective; agreed; a failure is reported on standard
 * error. */
weir_status bench_buffers_open(bench_job *job, const bench_options *options,
                               weir_collective collective, const bench_dist *dist,
                               bench_buffers *buffers);
/* Waits for all ranks, then frees. Collective. */
void bench_buffers_close(bench_job *job, bench_buffers *buffers);
/* 1 if a size fits the buffers; it always does unless the sweep goes beyond bench_sizes_last.
 * Pure. */
int bench_buffers_hold(const bench_buffers *buffers, const bench_shape *shape, size_t element_bytes,
                       size_t unalign_elements, int has_in_place);
/* Lays out one size, which must fit the buffers, and writes the canaries. Rounds other than 0 are
 * shifted by some pages, the same on every rank. Local. */
void bench_buffers_place(const bench_buffers *buffers, const bench_shape *shape,
                         size_t element_bytes, size_t unalign_elements, int rank, int in_place,
                         int round, bench_layout *layout);
/* The operands' address of an address in host memory. Pure. */
void *bench_buffers_at(const bench_buffers *buffers, const bench_operands *operands,
                       const void *address);
/* The reverse. Pure. */
void *bench_buffers_mirror(const bench_buffers *buffers, const bench_operands *operands,
                           const void *address);
/* Copies bytes at an address in host memory to the operands, or back. Local, blocking; nothing to
 * do on the host backend. */
weir_status bench_buffers_push(const bench_buffers *buffers, const bench_operands *operands,
                               const void *address, size_t bytes);
weir_status bench_buffers_pull(const bench_buffers *buffers, const bench_operands *operands,
                               void *address, size_t bytes);
/* The same for all memory of a layout, canaries included. */
weir_status bench_layout_push(const bench_buffers *buffers, const bench_operands *operands,
                              const bench_layout *layout);
weir_status bench_layout_pull(const bench_buffers *buffers, const bench_operands *operands,
                              const bench_layout *layout);

#endif
