/* The candidates of a run, in the order in which their blocks are timed. */
#ifndef BENCH_CANDIDATE_CANDIDATES_H
#define BENCH_CANDIDATE_CANDIDATES_H

#include "bench/candidate/candidate.h"
#include "bench/candidate/nccl_tuner.h"
#include "bench/statistics/result.h"
#include "bench/options/options.h"
#include <weir/plan.h>

#include <stdio.h>

typedef struct bench_candidates {
    bench_candidate *list[BENCH_CANDIDATES_MAX];
    int count;
    bench_nccl_tuner tuner; /* with --tune-nccl and --verify-nccl */
} bench_candidates;

/* Opens weir as --algo says (for "all": weir's selection, then each algorithm that supports this
 * number of ranks), then the peers. Collective; agreed; a failure is reported on standard error. */
weir_status bench_candidates_open(bench_job *job, const bench_options *options,
                                  weir_collective collective, const bench_buffers *buffers,
                                  bench_candidates *candidates);
/* Collective. */
void bench_candidates_close(bench_candidates *candidates);

/* The output of --list-algos. */

/* Prints a line for each built-in algorithm of the collective, for the plan of --plan, and for each
 * kernel file that --algo names. Local. */
void bench_listing_print(FILE *to, const bench_options *options, weir_collective collective);

/* --plan: a collective as data, measured and checked like an algorithm of weir. */

/* Checks whether the plan of --plan can be measured: it can be read, is for this collective and
 * number of ranks, covers the sizes of the options, and weir_plan_check finds no error (with
 * --unproved: it may). job NULL: neither the number of ranks nor the plan's correctness is checked.
 * Returns 0, and job->plan becomes the plan; or -1 with a line in problem (BENCH_PROBLEM_BYTES).
 * Local. */
int bench_plan_check(const bench_options *options, weir_collective collective, bench_job *job,
                     char *problem);

/* Whether a plan is for the collective. Pure. */
int bench_plan_is_for(const weir_plan *plan, weir_collective collective);

/* Adds each plan in the folder of --plan-dir that is for the collective, the number of ranks and
 * the root, is proved, and runs here; others are left out, faulty ones with a line on standard
 * error.
 * Collective; not agreed. */
weir_status bench_plan_dir_open(bench_job *job, const bench_options *options,
                                weir_collective collective, bench_candidates *candidates);

/* Prints the plan's line of --list-algos if it can be read. Local. */
void bench_plan_print(FILE *to, const bench_options *options);

/* The plan as a candidate named weir, with the algorithm "plan:" and the plan's name (31 characters
 * at most), of a file that has been read. The plan becomes the candidate's; on failure it is freed.
 * Collective; not agreed. */
weir_status bench_candidate_plan_open(bench_job *job, const char *file, weir_plan *plan,
                                      bench_candidate **candidate);
/* Lets the candidate's executor run a plan that is not proved (--unproved). Local. */
void bench_candidate_plan_skip_proof(bench_candidate *candidate);
/* Runs the plan once, at a short length, to find out whether these ranks can: their GPUs may not
 * hold its thread blocks, and nodes have no memory channels. Collective. WEIR_ERR_UNSUPPORTED or
 * WEIR_ERR_INVALID, on all ranks, if not; weir_last_error says why. */
weir_status bench_candidate_plan_try(bench_candidate *candidate, const bench_options *options,
                                     weir_collective collective);

#endif
