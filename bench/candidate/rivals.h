/*
 * Competing calls (--with) and computations (--beside). A thread of each rank runs them while a
 * candidate is timed, to show what both cost each other; calls are collectives on communicators of
 * their own. After each block of the candidate they run alone, so that their two kinds of times
 * alternate. The outputs of calls are checked after each block.
 *
 * A rank's thread begins iterations up to a limit. To stop, all ranks first forbid new ones, then
 * agree on the largest number that one of them has begun, which all then complete. On GPUs a thread
 * has a stream of its own, and waits for each call.
 */
#ifndef BENCH_CANDIDATE_RIVALS_H
#define BENCH_CANDIDATE_RIVALS_H

#include "bench/candidate/candidate.h"
#include "bench/job/job.h"
#include "bench/options/options.h"
#include "bench/statistics/result.h"

typedef struct bench_rivals bench_rivals;

/* Creates communicators, buffers and threads. Collective; agreed; a failure is reported. */
weir_status bench_rivals_open(bench_job *job, const bench_options *options, bench_rivals **rivals);
/* Frees all; NULL is allowed. Collective. */
void bench_rivals_close(bench_rivals *rivals);
/* Lets the calls run until bench_rivals_stop. Local. A failure is noted. */
weir_status bench_rivals_start(bench_rivals *rivals);
/* Stops them, runs each alone, and computations also next to one call of the candidate; adds the
 * times to the result, and what is wrong in their outputs to its errors. Collective. A failure is
 * agreed and reported. */
weir_status bench_rivals_stop(bench_rivals *rivals, bench_candidate *candidate,
                              bench_result *result);
/* On rank 0: medians of the slowest ranks' times, and their ratio. Collective; agreed. */
weir_status bench_rivals_collect(bench_job *job, bench_result *result);

#endif
