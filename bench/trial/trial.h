/*
 * A trial: one size of one type, operation and root, in one placement (out of place or in place).
 * Every candidate of the run is checked and timed on the trial's buffers. The struct holds what a
 * call needs; trial/data.h prepares it, check/ and measure/ use it.
 */
#ifndef BENCH_TRIAL_TRIAL_H
#define BENCH_TRIAL_TRIAL_H

#include "bench/candidate/candidate.h"
#include "bench/job/buffers.h"
#include "bench/sizes/pattern.h"
#include "bench/statistics/result.h"
#include "bench/trial/series.h"
#include "bench/trial/splits.h"

/* --cold: the copies of the buffers that operations cycle through, see data.h. */
typedef struct bench_rotation {
    size_t count;    /* of copies; 0: operations use the buffers themselves */
    size_t at, step; /* the current copy; the distance to the next one */
    char *in, *out;  /* the first copies, in host memory; in place both are the whole buffer */
    size_t in_stride_bytes, out_stride_bytes;
} bench_rotation;

typedef struct bench_trial {
    bench_job *job;
    const bench_options *options;
    const bench_buffers *buffers;
    const bench_operands *operands; /* of the current candidate */
    bench_candidate *const *candidates;
    bench_row *row;
    bench_series *series; /* the row's, in this placement */
    int in_place, round;
    bench_layout layout;
    bench_rotation rotation;
    bench_operation operation; /* with addresses among the operands */
    weirv_case data;
    int injects;                    /* 1: the next run gets the fault of --inject */
    long planted;                   /* injected faults that changed something on this rank */
    uint64_t *next_seed;            /* the run's counter: no two fills have the same data */
    bench_determinism *determinism; /* the run's findings; NULL without --determinism */
    bench_splits *splits;           /* the run's, for alltoallv */
    const bench_pattern *pattern;   /* of sendrecv */
    const int *sources;             /* of each rank in it; -1: none */
    int turns;                      /* operations since the data were new; pingpong only */
} bench_trial;

#endif
