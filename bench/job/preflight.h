/*
 * Before anything is measured: what about this machine and this start will
 * distort the numbers. Each finding is one line on standard error with its
 * remedy; none stops the run. Ranks read facts about themselves, rank 0 judges
 * them all. (One rank a process under a launcher that started more is refused
 * by the bootstrap over MPI.)
 */
#ifndef BENCH_JOB_PREFLIGHT_H
#define BENCH_JOB_PREFLIGHT_H

#include "bench/job/job.h"

#include <sched.h>
#include <stdio.h>

typedef struct bench_preflight_facts {
    char host[64];
    cpu_set_t cores;      /* this process may run on; a core is its lowest hardware thread */
    char governor[32];    /* the first of its cpus' that is not performance; else empty */
    int governor_cpu;
    double quota_cores;   /* of the control groups; 0: none */
} bench_preflight_facts;

/* Reads the facts about a process that may run on cpus, from the files below
 * root ("" is this machine; tests have their own). host stays. Local. */
void bench_preflight_read(const char *root, const cpu_set_t *cpus, bench_preflight_facts *facts);
/* Writes a line, which begins with program, for each finding among the ranks'
 * facts; returns their number. Pure but for to. */
int bench_preflight_judge(const bench_preflight_facts *facts, int nranks, const char *program,
                          FILE *to);
/* Likewise where the library that runs is not the one that this was built with.
 * Both as MPI_Get_library_version says it; what built lacks is not compared. */
int bench_preflight_mpi(const char *built, const char *running, const char *program, FILE *to);
/* All of it. Collective. */
void bench_preflight(const bench_job *job);

#endif
