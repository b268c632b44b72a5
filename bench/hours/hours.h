/*
 * --for: one size, repeated over hours in windows. Each window gets a row with the distribution of
 * its times, and its outliers, each with what explains it: what changed on any rank in the part of
 * a second in which it happened. The end is a verdict, also after SIGTERM.
 */
#ifndef BENCH_HOURS_HOURS_H
#define BENCH_HOURS_HOURS_H

#include "bench/trial/trial.h"

/* Runs the first candidate of a trial whose checks have passed, for options->for_s seconds, and
 * writes rows, on rank 0, to standard output and next to --csv. Collective; agreed; a failure is
 * reported on standard error. */
weir_status bench_hours_run(bench_trial *trial);

#endif
