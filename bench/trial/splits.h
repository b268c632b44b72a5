/*
 * The counts and displacements of alltoallv, as this rank passes them: for each step of the
 * distribution, packed blocks in rank order. They are also kept as MPI takes them, and with
 * --counts device on a GPU in its memory. Operations cycle through the steps, the same on all
 * ranks.
 */
#ifndef BENCH_TRIAL_SPLITS_H
#define BENCH_TRIAL_SPLITS_H

#include "bench/candidate/candidate.h"
#include "bench/sizes/dist.h"
#include "verify/verify.h"

typedef struct bench_splits {
    bench_job *job;
    const bench_dist *dist;
    int step;        /* the current step */
    int on_device;   /* --counts device */
    size_t *counts;  /* per step: send counts, send displacements, receive counts, receive
                        displacements, and where this rank's blocks start in the senders' inputs;
                        nranks each */
    int *mpi_counts; /* per step: the first four arrays */
    void *device;    /* a copy of counts in device memory; NULL: none */
} bench_splits;

/* Makes room for the steps of dist, which must outlive splits. on_device: for calls that read their
 * counts in device memory. Local. bench_splits_close is due even after a failure. */
weir_status bench_splits_open(bench_splits *splits, bench_job *job, const bench_dist *dist,
                              int on_device);
void bench_splits_close(bench_splits *splits);
/* Fills all steps for a count parameter (see bench_dist_elements) and selects the first step.
 * Local, blocking. */
weir_status bench_splits_fill(bench_splits *splits, size_t count, size_t element_bytes);
/* The same for gather or scatter of count elements for each rank, in one step. In place, the root's
 * own block stays where it is. */
weir_status bench_splits_fill_rooted(bench_splits *splits, const weirv_case *data);
/* Enters a step's counts into data and, if not NULL, into operation. Local. */
void bench_splits_point(const bench_splits *splits, int step, weirv_case *data,
                        bench_operation *operation);
/* The step that follows after so many operations. Pure. */
int bench_splits_after(const bench_splits *splits, int step, uint64_t operations);

#endif
