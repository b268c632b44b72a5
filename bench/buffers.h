/*
 * The buffers of a run: one for input, one for output, large enough for the
 * largest size of the sweep with canaries around it. Each trial lays its own
 * size out in them.
 */
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include "bench/job.h"
#include "bench/options.h"
#include "bench/shape.h"
#include "verify/verify.h"

typedef struct bench_buffer {
    void *base;
    size_t bytes;
    size_t home_bytes, pool_bytes; /* --cold: where copies begin, and their room */
    weir_mem *mem;        /* library memory; NULL: base is malloc's */
    weir_mem *registered; /* -R 1 and 2; NULL otherwise */
    weir_mem **peers;     /* -R 2: nranks entries, the own one is registered itself */
} bench_buffer;

typedef struct bench_buffers {
    bench_buffer in, out;
} bench_buffers;

/* Where one trial's data lies. */
typedef struct bench_layout {
    weirv_guard guards[2];
    int nguards; /* in place: one buffer */
    void *in, *out;
    void *whole; /* in place: the buffer that in and out are parts of */
    size_t whole_bytes;
} bench_layout;

/* Allocates, and registers by -R. Collective. Agreed; told on standard error. */
weir_status bench_buffers_open(bench_job *job, const bench_options *options,
                               weir_collective collective, const bench_dist *dist,
                               bench_buffers *buffers);
/* Collective: ranks meet before anything is freed. */
void bench_buffers_close(bench_job *job, bench_buffers *buffers);
/* Lays out one size and writes the canaries. Visits other than 0 lie some pages
 * further on, chosen by the visit and the same on every rank. Local. */
void bench_buffers_place(const bench_buffers *buffers, const bench_shape *shape,
                         size_t element_bytes, size_t unalign_elements, int rank, int in_place,
                         int visit, bench_layout *layout);

#endif
