/*
 * The buffers of a run: one for input, one for output, large enough for the
 * largest size of the sweep with canaries around it. Each trial lays its own
 * size out in them.
 *
 * Data are written and checked in the process's memory. On the host backend that
 * is where the operations work, too. On a GPU it is a mirror: candidates have a home on
 * the device, to which the mirror is pushed before an operation, and from which it is
 * pulled before a check. Every address of a layout is one of the mirror;
 * bench_buffers_at gives the one at home.
 */
#ifndef BENCH_JOB_BUFFERS_H
#define BENCH_JOB_BUFFERS_H

#include "bench/gpu/gpu.h"
#include "bench/job/job.h"
#include "bench/options/options.h"
#include "bench/sizes/shape.h"
#include "verify/verify.h"

/* Where both buffers begin for the operations of one candidate. */
typedef struct bench_operands {
    void *in, *out;
} bench_operands;

typedef struct bench_buffer {
    void *base; /* in the process's memory */
    size_t bytes;
    size_t room_bytes; /* of them for one layout, canaries included; rounds shift it */
    size_t first_bytes, pool_bytes; /* --cold: where copies begin, and their room */
    weir_mem *mem;        /* library memory; NULL: malloc's, or the device's own */
    weir_mem *registered; /* -R 1 and 2; NULL otherwise */
    weir_mem **peers;     /* -R 2: nranks entries, the own one is registered itself */
} bench_buffer;

typedef struct bench_buffers {
    bench_gpu *gpu; /* NULL: operations work on base itself */
    bench_buffer in, out;
    bench_operands operands; /* weir's, and that of each candidate without its own */
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
/* Whether a size fits into what was allocated: it does unless the sweep goes beyond
 * bench_sizes_last. Pure. */
int bench_buffers_hold(const bench_buffers *buffers, const bench_shape *shape,
                       size_t element_bytes, size_t unalign_elements, int has_in_place);
/* Lays out one size, which the buffers must hold, and writes the canaries. Visits other
 * than 0 lie some pages further on, chosen by the round and the same on every rank. Local. */
void bench_buffers_place(const bench_buffers *buffers, const bench_shape *shape,
                         size_t element_bytes, size_t unalign_elements, int rank, int in_place,
                         int round, bench_layout *layout);
/* The address at home of one in the buffers. Pure. */
void *bench_buffers_at(const bench_buffers *buffers, const bench_operands *home, const void *address);
/* The reverse. Pure. */
void *bench_buffers_mirror(const bench_buffers *buffers, const bench_operands *home,
                           const void *address);
/* Brings bytes at an address of the buffers home, or back. Local, blocking; nothing
 * is to be done on the host backend. */
weir_status bench_buffers_push(const bench_buffers *buffers, const bench_operands *home,
                               const void *address, size_t bytes);
weir_status bench_buffers_pull(const bench_buffers *buffers, const bench_operands *home, void *address,
                               size_t bytes);
/* All that a layout has, canaries included. */
weir_status bench_layout_push(const bench_buffers *buffers, const bench_operands *home,
                              const bench_layout *layout);
weir_status bench_layout_pull(const bench_buffers *buffers, const bench_operands *home,
                              const bench_layout *layout);

#endif
