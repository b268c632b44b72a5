/* Whether all ranks were started alike: a launcher can give each its own command line. */
#ifndef BENCH_JOB_CONSISTENCY_H
#define BENCH_JOB_CONSISTENCY_H

#include "bench/job/job.h"
#include "bench/options/options.h"

/* A usage error of any rank becomes that of all: problem (BENCH_PROBLEM_BYTES) of the lowest
 * rank that has one, empty if none has. Collective. */
void bench_consistency_share(const bench_job *job, char *problem);
/* Writes a problem, the same on every rank, if a rank runs another program than rank 0, or has
 * other options. Left out are those that rank 0 alone reads (--csv, -J, -I, ...), deadlines,
 * where a plan's file lies, and --transport, about which the library agrees. Collective. */
void bench_consistency_check(const bench_job *job, const bench_options *options, char *problem);

#endif
