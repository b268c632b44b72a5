/* --plan: a collective as data, measured and checked like an algorithm of weir. */
#ifndef BENCH_CANDIDATE_PLAN_H
#define BENCH_CANDIDATE_PLAN_H

#include "bench/candidate/candidate.h"

#include <stdio.h>

/* Checks whether the plan of --plan can be measured: it can be read, is for this collective and
 * number of ranks, covers the sizes of the options, and weir_plan_check finds no error. nranks 0:
 * unknown, and neither the number of ranks nor the plan's correctness is checked. Returns 0, or -1
 * with a line in problem (BENCH_PROBLEM_BYTES). Local. */
int bench_plan_check(const bench_options *options, weir_collective collective, int nranks,
                     char *problem);

/* Prints the plan's line of --list-algos if it can be read. Local. */
void bench_plan_print(FILE *to, const bench_options *options);

/* The plan as a candidate named weir, with the algorithm "plan:" and the plan's name (31 characters
 * at most). Collective; not agreed. */
weir_status bench_candidate_plan_open(bench_job *job, const char *file,
                                      bench_candidate **candidate);

#endif
