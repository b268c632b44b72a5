/*
 * Checks of every timed iteration, between the times: before an iteration a
 * window of each block of the input gets data of that iteration alone, and after
 * it what came of the window is noted. Notes are compared with the exact oracle
 * when a block of iterations has ended, so an iteration pays two fills and a copy
 * of 16 elements a block, outside the time. A result that is stale, or wrong in
 * the window, shows in any iteration. Needs the exact oracle, and a candidate
 * whose result lies in the call's out.
 */
#ifndef BENCH_CHECK_SAMPLES_H
#define BENCH_CHECK_SAMPLES_H

#include "bench/trial/trial.h"

typedef struct bench_samples {
    bench_trial *trial;
    bench_candidate *candidate;
    int active, open; /* open: an iteration's window is not yet noted */
    uint64_t turn;    /* iterations so far */
    int step;         /* of the open iteration */
    unsigned char *notes;
    size_t entries;
    weirv_result found; /* this rank's */
    uint64_t first_turn;
    int first_is_stale;
} bench_samples;

/* NULL memory makes samples that stay inactive. Local. */
void bench_samples_open(bench_samples *samples, bench_trial *trial, bench_candidate *candidate,
                        unsigned char *notes);
/* Bytes of notes. */
size_t bench_samples_bytes(void);
/* Before each timed iteration, and after the last of a block, when input and
 * output become those of the block's own data again. step: alltoallv's, of the
 * iteration's last operation. Local. */
void bench_samples_next(bench_samples *samples, int step);
void bench_samples_end(bench_samples *samples);
/* Whether the second iteration of all is under way; the call as it is then made,
 * and the first element of out that is noted. Local. */
int bench_samples_is_second(const bench_samples *samples);
weirv_case bench_samples_case(const bench_samples *samples, size_t *at);
/* Adds what all ranks found to the result's check, and tells it. Collective. */
weir_status bench_samples_collect(bench_samples *samples, bench_result *result);

#endif
