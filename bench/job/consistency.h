/*
 * Checks that all ranks run the same program with the same options: a launcher can give each rank
 * its own command line.
 */
#ifndef BENCH_JOB_CONSISTENCY_H
#define BENCH_JOB_CONSISTENCY_H

#include "bench/job/job.h"
#include "bench/options/options.h"

/* Gives every rank the problem (BENCH_PROBLEM_BYTES) of the lowest rank that has one; empty if none
 * has. Collective. */
void bench_consistency_share(const bench_job *job, char *problem);
/* Writes a problem, the same on every rank, if a rank runs another program or has other options
 * than rank 0. Not compared: options that only rank 0 reads (--csv, -J, -I, ...), deadlines, the
 * path of a plan, and --transport, which the library agrees on. Collective. */
void bench_consistency_check(const bench_job *job, const bench_options *options, char *problem);

#endif
