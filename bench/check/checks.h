/*
 * The checked runs of a trial. Before the timed loops every candidate runs and is checked; only
 * those whose results are right are timed. After the timed loops weir is checked once more.
 */
#ifndef BENCH_CHECK_CHECKS_H
#define BENCH_CHECK_CHECKS_H

#include "bench/trial/trial.h"

/* Runs and checks every candidate -c times, on special values, and with --determinism repeatedly.
 * Fills in the row's results except the times, and selects the candidate that the table shows.
 * Collective; agreed. Wrong data is not a failure here: see bench_result_failed. */
weir_status bench_checks_first(bench_trial *trial);
/* Checks the candidates of weir after their last timed round. The first candidate ran last: out of
 * place its last timed output is compared; the other outputs come from one more run. Collective;
 * agreed. */
weir_status bench_checks_last(bench_trial *trial);

#endif
