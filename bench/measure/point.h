/* One round of a trial: checks in the first round, timed iterations in every round. */
#ifndef BENCH_MEASURE_POINT_H
#define BENCH_MEASURE_POINT_H

#include "bench/trial/trial.h"

/* Runs round trial->round of a trial, 0 first, with every candidate. The last planned round also
 * runs the rounds that --until adds, checks once more, and fills in the row's results. Collective;
 * agreed; a failure is reported on standard error. Wrong data is not a failure: see
 * bench_result_failed. */
weir_status bench_point_round(bench_trial *trial);

#endif
