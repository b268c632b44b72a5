/*
 * --fuse: what follows an allreduce in a layer of a transformer. A candidate is either
 * weir_allreduce_norm, or another candidate's allreduce and then the norm alone, which is
 * weir_allreduce_norm on a communicator of one rank. All work on memory of their own: weights, a
 * residual, scales, and the other candidate's sums.
 */
#ifndef BENCH_CANDIDATE_FUSED_H
#define BENCH_CANDIDATE_FUSED_H

#include "bench/candidate/candidate.h"
#include <weir/norm.h>

/* The epsilon of all calls. */
#define BENCH_FUSED_EPSILON 1e-5f

/* The memory of a candidate; addresses as operations use them. */
typedef struct bench_fused {
    const bench_options *options;
    bench_candidate *inner;                 /* NULL: weir_allreduce_norm */
    weir_comm *alone;                       /* of this rank, with inner */
    weir_mem *registered;                   /* holds sums; NULL: unregistered */
    bench_operation operation;              /* inner's */
    char *weight, *residual, *first, *sums; /* first: what the residual is reset to */
    float *scales;
    size_t bytes; /* of the residual and its kin */
} bench_fused;

/* Opens a candidate, which owns inner on success. Collective with inner, else local. */
weir_status bench_candidate_fused_open(bench_job *job, const bench_options *options,
                                       bench_candidate *inner, bench_candidate **candidate);

/* The residual before an operation, and the weight of an element: small numbers that every type
 * holds exactly. Pure. */
double bench_fused_residual(size_t element);
double bench_fused_weight(size_t element);

/* Resets the residual. Enqueued on a GPU, else blocking. */
weir_status bench_fused_reset(bench_candidate *self);
/* Copies bytes of the candidate's memory to the host. Blocking. */
weir_status bench_fused_read(bench_candidate *self, void *to, const void *from, size_t bytes);

#endif
