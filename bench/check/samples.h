/*
 * Checks of every timed iteration, outside the timed region. Before an iteration, a window of 16
 * elements in each block of the input gets data that only this iteration uses; after it, the
 * corresponding windows of the output are recorded. The records are compared with the exact oracle
 * when a block of iterations has ended. A stale result is found in any iteration, wrong data
 * wherever it hits a window. Needs the exact oracle; out of place, a candidate whose result lies in
 * the call's out; in place, ranks whose result lies elsewhere are not checked.
 */
#ifndef BENCH_CHECK_SAMPLES_H
#define BENCH_CHECK_SAMPLES_H

#include "bench/trial/trial.h"

typedef struct bench_samples {
    bench_trial *trial;
    bench_candidate *candidate;
    int active, open;    /* open: the windows of an iteration are not recorded yet */
    uint64_t iterations; /* iterations so far */
    int step;            /* of the open iteration */
    int operations;      /* --fuse: that the open iteration performs */
    unsigned char *records;
    size_t entries;
    weirv_result found; /* this rank's */
    weir_status status; /* --fuse: of copies */
    uint64_t first_iteration;
    int first_is_stale;
} bench_samples;

enum { BENCH_SAMPLES_BYTES = 1 << 20 }; /* of the records */

/* Prepares checks; with records NULL they stay inactive. Local. */
void bench_samples_open(bench_samples *samples, bench_trial *trial, bench_candidate *candidate,
                        unsigned char *records);
/* Called before each timed iteration, and after the last one of a block, which restores the
 * block's data in input and output. step: the step of alltoallv in the iteration's last
 * operation. operations: how many the iteration performs. Local. */
void bench_samples_next(bench_samples *samples, int step, int operations);
void bench_samples_end(bench_samples *samples);
/* 1 while the second iteration of all is under way; the call with its data, and the first recorded
 * element of out. Local. */
int bench_samples_is_second(const bench_samples *samples);
weirv_case bench_samples_case(const bench_samples *samples, size_t *at);
/* Adds the findings of all ranks to the result's check and reports them. Collective; agreed. */
weir_status bench_samples_collect(bench_samples *samples, bench_result *result);

#endif
