/* One round of a trial: checks in the first round; in every round timed iterations, interleaved, of
 * the candidates that ran in the first one and were never found wrong. */
#ifndef BENCH_MEASURE_POINT_H
#define BENCH_MEASURE_POINT_H

#include "bench/trial/trial.h"
#include "bench/measure/engine.h"

/* Runs round trial->round of a bench_trial, 0 first, with every candidate. The last planned round
 * also runs the rounds that --until adds, checks once more, and fills in the row's results.
 * Collective; agreed; a failure is reported on standard error. Wrong data is not a failure: see
 * bench_result_failed. */
weir_status bench_point_round(void *trial);

/* Statistics of a trial's times. */

/* Gathers the times of every member of trial->series that no check found wrong, and fills in the
 * results of the row; statistics are on rank 0 only. The series' times are overwritten. Collective;
 * agreed. */
weir_status bench_collect(bench_trial *trial);
/* On rank 0: which rank ends last. mine_us: when this rank saw each iteration end, by a clock that
 * the ranks share; median_us: as for bench_lateness_make. A rank sees the end of its GPU's work by
 * a call to CUDA, a few microseconds late, which differ between ranks. Collective; agreed. */
weir_status bench_collect_lateness(bench_job *job, const double *mine_us, int count,
                                   double median_us, bench_lateness *late);
/* On rank 0: the errors of each of several groups, of results that failed. Collective. */
void bench_collect_wrong(bench_trial *trial);

/*
 * How many iterations a trial has, how the timing engine runs them, and what that costs. Without
 * -n every candidate gets the same number of iterations, as many of the slowest candidate as fit a
 * time budget, which a short probe estimates. On a GPU iterations are batches of operations, and
 * the probe finds the length of a batch too.
 */

/* Probes if need be, sets the batch length, and restarts the series with the number of iterations
 * of all planned rounds. Collective; agreed; the same on every rank. */
weir_status bench_iterations_plan(bench_trial *trial, const bench_barrier *barrier,
                                  bench_subject *subjects, int nsubjects);
/* The engine's settings for so many iterations. Pure. */
bench_timing bench_iterations_timing(const bench_trial *trial, int iterations);
/* The smallest difference between two times that the clock can show. Pure. */
double bench_iterations_resolution_us(const bench_trial *trial);

/* The wall time of one run of the engine. */
typedef struct bench_cost_clock {
    double began_s, reading_s; /* the start; the time spent in NVML until then */
} bench_cost_clock;

/* Local. */
bench_cost_clock bench_cost_start(const bench_trial *trial);
/* Adds the time since the start to the row's cost: what the subjects did between timed regions
 * counts as verification, and reading the GPU's clocks counts as neither. Local. */
void bench_cost_stop(bench_trial *trial, const bench_cost_clock *clock,
                     const bench_subject *subjects, int nsubjects);

#endif
