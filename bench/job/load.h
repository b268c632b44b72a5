/*
 * Load of other processes during a run: the time that the ranks' cpus were busy, from /proc/stat,
 * without the processor time of the ranks themselves. It is measured from before the sweep to after
 * it, so it costs nothing while operations are timed.
 */
#ifndef BENCH_JOB_LOAD_H
#define BENCH_JOB_LOAD_H

#include "bench/job/job.h"

#include <sched.h>
#include <stdio.h>

enum { BENCH_LOAD_CPUS = 1024 }; /* as many as a cpu_set_t has */

/* What every cpu of a node has done so far; all 0 if it cannot be read. */
typedef struct bench_load_sample {
    float busy_s[BENCH_LOAD_CPUS];
    float stolen_s[BENCH_LOAD_CPUS]; /* by the hypervisor for other machines */
    double own_s, at_s;              /* processor time of this process, and the time */
} bench_load_sample;

/* The difference of two samples, as one rank sees it. */
typedef struct bench_load_facts {
    char host[64];
    cpu_set_t cpus; /* that this rank may run on */
    bench_load_sample spent;
} bench_load_facts;

/* Reads a sample from files below root ("" for this machine; tests use made-up ones). Local. */
void bench_load_read(const char *root, bench_load_sample *sample);
/* Subtracts the sample of the start. Pure. */
void bench_load_subtract(bench_load_sample *spent, const bench_load_sample *start);
/* Describes the host whose ranks lost most of their cpus' time to others, if that is more than a
 * tenth in a run of at least a second. Returns 1 if there is one, else 0. Pure. */
int bench_load_judge(const bench_load_facts *facts, int nranks, char *text, size_t bytes);
/* Gathers what has been spent since the start, judges, and warns. Collective. */
void bench_load_end(bench_job *job, const bench_load_sample *start);

#endif
