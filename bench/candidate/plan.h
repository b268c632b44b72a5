/* --plan: a collective as data, measured and checked as an algorithm of weir. */
#ifndef BENCH_CANDIDATE_PLAN_H
#define BENCH_CANDIDATE_PLAN_H

#include "bench/candidate/candidate.h"

#include <stdio.h>

/* Whether the plan of --plan can be measured: it is read, its collective is this one, its
 * sizes include those of the options, and weir_plan_check finds no fault; nranks 0: not known
 * yet, and the last is left out. 0; else -1, and problem
 * (BENCH_PROBLEM_BYTES) is a line. Local. */
int bench_plan_check(const bench_options *options, weir_collective collective, int nranks,
                     char *problem);

/* Its line of --list-algos, if it can be read. Local. */
void bench_plan_print(FILE *to, const bench_options *options);

/* The plan as a candidate, named weir, its algorithm "plan:" and the plan's name (31
 * characters at most). Collective; not agreed. */
weir_status bench_candidate_plan_open(bench_job *job, const char *file,
                                      bench_candidate **candidate);

#endif
