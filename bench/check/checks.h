/*
 * The checked runs of a trial. Before the timed loops every candidate runs and is checked; only
 * those whose results are right are timed. After the timed loops weir is checked once more.
 */
#ifndef BENCH_CHECK_CHECKS_H
#define BENCH_CHECK_CHECKS_H

#include "bench/trial/trial.h"
#include "bench/options/faults.h"

#include <stdio.h>

/* Runs and checks every candidate -c times, on special values, and with --determinism repeatedly.
 * Fills in the row's results except the times, and selects the candidate that the table shows.
 * Collective; agreed. Wrong data is not a failure here: see bench_result_failed. */
weir_status bench_checks_first(bench_trial *trial);
/* Checks the candidates of weir after their last timed round. The first candidate ran last: out of
 * place its last timed output is compared; the other outputs come from one more run. Collective;
 * agreed. */
weir_status bench_checks_last(bench_trial *trial);

/* Writes a comment line for each part of timed iterations that these options leave unchecked. */
void bench_checks_write_limits(FILE *out, const bench_options *options);

/*
 * The comparison of a candidate's output with the references that --verify selects, of the input
 * with the data that was written, and of the canaries around both.
 */

/* Compares the output of the candidate's last call and adds the findings of all ranks to check.
 * Wrong data is explained on standard error, rank by rank. Collective; agreed. */
weir_status bench_compare_output(bench_trial *trial, bench_candidate *candidate,
                                 bench_result *result);
/* How often a value of 8 or 16 bits may be rounded on its way through the candidate at most. What
 * is not in weir's table (a peer, a plan, a kernel of a file) may round as often as there are
 * ranks. Pure. */
int bench_rounding_steps(const bench_trial *trial, bench_candidate *candidate);
/* 1 if the MPI reference compares only windows of an output of this size. Pure. */
int bench_compare_is_sampled(size_t bytes);

/*
 * --determinism: whether an algorithm produces the same bits each time that it is given the same
 * data, and on every rank. Data of full precision shows a change in the order of combination; in
 * each repeat another rank arrives last. If weir/weir.h promises equal bits, different bits count
 * as wrong data; for other algorithms and for peers they are only reported. Reductions are also
 * made of a few elements that repeat, in every message and place: see bench_embedded_try.
 */

/* Repeats the trial's call with a candidate whose result was right. Adds the findings to
 * trial->determinism and, if a promise is broken, to result->check. Holds a copy of the output
 * meanwhile. Collective; agreed. */
weir_status bench_determinism_try(bench_trial *trial, bench_candidate *candidate,
                                  bench_result *result);
/* Makes the trial's call on data that were filled with this status, with one rank late (-1: none)
 * and, if planted, the run's fault in weir's output. Collective; agreed. */
weir_status bench_determinism_call(bench_trial *trial, bench_candidate *candidate,
                                   weir_status status, int late_rank, int is_planted);
/* Makes the trial's call with the same few elements as every other message, and adds the elements
 * that became other bits than at another size or place, or by another algorithm that combines in
 * rank order, to differing. An element's bits are then those of its contributions alone.
 * Collective; agreed. */
weir_status bench_embedded_try(bench_trial *trial, bench_candidate *candidate,
                               const bench_result *result, weirv_result *differing);
/* Whether weir promises that. Pure. */
int bench_embedded_is_promised(const bench_trial *trial, bench_candidate *candidate,
                               const bench_result *result);

/*
 * Faults that --inject puts into a run of weir, to show that the checks catch them. When a call has
 * returned, the output, input or canaries of one rank (the victim) or of several are changed as a
 * broken collective would have left them; with skip-signal, the victim does not make the call.
 */

/* 1 if this rank does not make the call. Pure. */
int bench_inject_skips_call(bench_fault fault, const weirv_case *c);
/* Injects a fault into what the candidate's last call, described by c, left in the trial's buffers;
 * BENCH_FAULT_NONE does nothing. The fault lies in the part of the output that holds element `at`,
 * unless it concerns the whole buffer. Counts faults that changed something in trial->planted.
 * Local, blocking. */
weir_status bench_inject_trial(bench_trial *trial, bench_candidate *candidate, bench_fault fault,
                               const weirv_case *c, size_t at);
/* An element for `at`: one in the part of the output that a neighbour of the victim produces. The
 * same on every rank, except for alltoallv. Pure. */
size_t bench_inject_place(const weirv_case *c);

#endif
