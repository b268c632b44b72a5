/*
 * The progress of a sweep: how much of its expected time is behind it. Rank 0 shows it between the
 * rounds of sizes, never while an operation is timed. Local; rank 0 only.
 */
#ifndef BENCH_MEASURE_PACE_H
#define BENCH_MEASURE_PACE_H

#include "bench/job/run.h"
#include "programs/terminal.h"

typedef struct bench_pace {
    weiri_progress progress;
    double total, done; /* expected time, in units of a small size's round; total 0: -N 0 */
} bench_pace;

/* combinations: of type, operation, root and cycle; 0 if the sweep is repeated until stopped.
 * rounds: of a size in all its placements. Shows nothing with --quiet. */
void bench_pace_begin(bench_pace *pace, const bench_run *run, double combinations, int rounds);
/* Counts one round of a size as done, and shows the progress if it is time. */
void bench_pace_round(bench_pace *pace, size_t bytes);
/* Counts a size as done that the sweep leaves out. */
void bench_pace_skip(bench_pace *pace, size_t bytes, int rounds);

#endif
