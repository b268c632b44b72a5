/*
 * The counts and displacements of a size's alltoallv, as this rank passes them: for
 * each step of the distribution, packed blocks in the order of ranks. As MPI takes
 * them too, and on a GPU with --counts device in its memory. Operations take the
 * steps in turn, alike on all ranks.
 */
#ifndef BENCH_SIZES_SPLITS_H
#define BENCH_SIZES_SPLITS_H

#include "bench/candidate/candidate.h"
#include "bench/sizes/dist.h"
#include "verify/verify.h"

typedef struct bench_splits {
    bench_job *job;
    const bench_dist *dist;
    int step;        /* the current one */
    int on_device;   /* --counts device */
    size_t *counts;  /* a step: send counts, displacements, receive likewise, and where this
                        rank's blocks lie in the senders' inputs; nranks each */
    int *mpi_counts; /* a step: the first four */
    void *device;    /* a copy of counts on the GPU; NULL: none */
} bench_splits;

/* Room for the steps of dist, which outlives it. on_device: for calls that take their
 * counts there. Local; splits is to be closed even if that fails. */
weir_status bench_splits_open(bench_splits *splits, bench_job *job, const bench_dist *dist,
                              int on_device);
void bench_splits_close(bench_splits *splits);
/* Fills all steps for a count parameter, as bench_dist_elements has it; the first
 * one is current then. Local, blocking. */
weir_status bench_splits_fill(bench_splits *splits, size_t count, size_t element_bytes);
/* A step's counts, in a case and, if not NULL, a call. Local. */
void bench_splits_point(const bench_splits *splits, int step, weirv_case *data, bench_operation *operation);
/* The step that is so many operations behind another. */
int bench_splits_after(const bench_splits *splits, int step, uint64_t operations);

#endif
