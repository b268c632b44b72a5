/*
 * Before measuring: conditions of the nodes and of this run that will distort the results. Each
 * finding is one line on standard error with its remedy; none stops the run. Each rank reads facts
 * about itself, rank 0 judges them.
 */
#ifndef BENCH_JOB_PREFLIGHT_H
#define BENCH_JOB_PREFLIGHT_H

#include "bench/job/run.h"

#include <sched.h>
#include <stdio.h>

typedef struct bench_preflight_facts {
    char host[64];
    char kernel[40];   /* identifies the kernel, whose cores its containers share; empty: unknown */
    cpu_set_t cores;   /* that this process may run on; a core is represented by its lowest
                          hardware thread */
    char governor[32]; /* of the first cpu whose governor is not "performance"; else empty */
    int governor_cpu;
    double quota_cores; /* the limit of the control groups; 0: none */
    int idle_gpus;      /* GPUs that the process sees; 0 if it uses one, or was told to use none */
} bench_preflight_facts;

/* Reads the facts about a process that may run on cpus, from files below root ("" for this machine;
 * tests use recorded ones). Leaves host and kernel unchanged. Local. */
void bench_preflight_read(const char *root, const cpu_set_t *cpus, bench_preflight_facts *facts);
/* Writes a line, which begins with program, for each finding among the ranks' facts. Returns the
 * number of findings. Pure except for `to`. */
int bench_preflight_judge(const bench_preflight_facts *facts, int nranks, const char *program,
                          FILE *to);
/* Reads, gathers, judges and reports. Collective. */
void bench_preflight(bench_job *job);

/*
 * Checks that all ranks run the same program with the same options: a launcher can give each rank
 * its own command line.
 */

/* Gives every rank the problem (BENCH_PROBLEM_BYTES) of the lowest rank that has one; empty if none
 * has. Collective. */
void bench_consistency_share(const bench_job *job, char *problem);
/* Writes a problem, the same on every rank, if a rank runs another program or has other options
 * than rank 0. Not compared: options that only rank 0 reads (--csv, -J, -I, ...), deadlines, the
 * path of a plan, and --transport, which the library agrees on. Collective. */
void bench_consistency_check(const bench_run *run, char *problem);

#endif
