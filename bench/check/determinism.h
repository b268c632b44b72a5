/*
 * --determinism: whether an algorithm produces the same bits each time that it is given the same
 * data, and on every rank. Data of full precision shows a change in the order of combination; in
 * each repeat another rank arrives last. If weir/weir.h promises equal bits, different bits count
 * as wrong data; for other algorithms and for peers they are only reported.
 */
#ifndef BENCH_CHECK_DETERMINISM_H
#define BENCH_CHECK_DETERMINISM_H

#include "bench/trial/trial.h"

/* Repeats the trial's call with a candidate whose result was right. Adds the findings to
 * trial->determinism and, if a promise is broken, to result->check. Holds a copy of the output
 * meanwhile. Collective; agreed. */
weir_status bench_determinism_try(bench_trial *trial, bench_candidate *candidate,
                                  bench_result *result);

#endif
