/*
 * How the ranks of this job were started: by a launcher, which its environment variables show, or
 * by this process itself, which forks them (-g N). MPI is opened only if an MPI launcher started
 * this process.
 */
#ifndef BENCH_JOB_LAUNCH_H
#define BENCH_JOB_LAUNCH_H

#include "base/job_identity.h"
#include "bench/options/options.h"
#include <weir/weir.h>

typedef enum bench_launcher {
    BENCH_LAUNCHER_MPI,      /* an MPI launcher, whose library is open */
    BENCH_LAUNCHER_PMIX,     /* prterun, srun --mpi=pmix, mpirun of Open MPI */
    BENCH_LAUNCHER_SLURM,    /* srun without a PMI: SLURM_PROCID, ... */
    BENCH_LAUNCHER_TORCHRUN, /* RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT */
    BENCH_LAUNCHER_FORK      /* this process */
} bench_launcher;

typedef struct bench_launch {
    bench_launcher launcher;
    const char *variable; /* that shows the launcher; NULL: no launcher */
    int rank, nranks;     /* as the launcher's variables say; 0 of 1 if they do not */
    weir_boot *boot;      /* of a forked rank, which does not own it; else NULL */
    char no_mpi[768];     /* why no MPI library was opened under a launcher of MPI; else empty */
    int is_refused;       /* the environment, not the command line, forbids the run */
} bench_launch;

/* "mpi", "pmix", "slurm", "torchrun" or "fork". Pure. */
const char *bench_launcher_name(bench_launcher launcher);
/* Finds out how this process was started and what it starts. Local. Returns 0, or -1 with a line in
 * problem (BENCH_PROBLEM_BYTES) if variables contradict each other, or belong to a launcher of MPI
 * for which there is no library; is_refused then is 1. */
int bench_launch_find(bench_launch *launch, char *problem);
/* Checks -g, which no launcher's ranks may have. Local. Returns 0, or -1 with a line in problem. */
int bench_launch_check_ngpus(const bench_launch *launch, const bench_options *options,
                             char *problem);
/* Checks the options for MPI, which depend on the launcher, and selects the reference of --verify.
 * Local. Returns 0, or -1 with a line in problem. */
int bench_launch_check(const bench_launch *launch, bench_options *options, char *problem);
/* The launch of a forked rank, from that of the process that forked it. Local. */
bench_launch bench_launch_of_fork(const bench_launch *launch, weir_boot *boot);
/* Finds what is the same in all ranks of this job on this node and differs between jobs. The first
 * call decides: MPI_Init may change the launcher's variables. Local. */
void bench_launch_identity(weiri_job_identity *identity);
/* Forks nranks ranks and runs body in each. Reports ranks that a signal ended on standard error.
 * Local; blocks until all have ended. Returns the program's exit code: the highest of the ranks'
 * codes, or 3 if a rank was killed and no other rank reported an error. */
int bench_launch_fork(const char *program, int nranks, int (*body)(weir_boot *boot, void *argument),
                      void *argument);
/* For bench_launch_fork, which follows: passes a SIGTERM on to the ranks, as launchers do. Without
 * memory it ends only this process, as usual. Local. */
void bench_launch_pass_term(int nranks);
/* In a forked rank: takes part in that, if it was asked for. Local. */
void bench_launch_note_child(int rank);

#endif
