/*
 * The comparison of a candidate's output with the references that --verify selects, of the input
 * with the data that was written, and of the canaries around both.
 */
#ifndef BENCH_CHECK_COMPARE_H
#define BENCH_CHECK_COMPARE_H

#include "bench/trial/trial.h"

/* Compares the output of the candidate's last call and adds the findings of all ranks to check.
 * Wrong data is explained on standard error, rank by rank. Collective; agreed. */
weir_status bench_compare_output(bench_trial *trial, bench_candidate *candidate,
                                 weirv_result *check);
/* How often a value of 8 or 16 bits may be rounded on its way through the candidate at most. What
 * is not in weir's table (a peer, a plan, a kernel of a file) may round as often as there are
 * ranks. Pure. */
int bench_rounding_steps(const bench_trial *trial, bench_candidate *candidate);
/* 1 if the MPI reference compares only windows of an output of this size. Pure. */
int bench_compare_is_sampled(size_t bytes);

#endif
