/*
 * The job that this process is one rank of: MPI, where the rank sits and is
 * bound, and weir's communicator. Ranks meet and agree on errors here.
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "weir.h"

#include <mpi.h>

typedef struct bench_job {
    const char *program; /* "bench_allreduce" */
    MPI_Comm mpi;
    int rank, nranks;
    int local_rank, local_nranks, nnodes;
    weir_boot *boot;
    weir_comm *comm;
    double setup_ms; /* of weir: bootstrap and communicator, the slowest rank's */
    char host[64];
    char machine[160]; /* one line: processor, cores, memory nodes, devices */
    char place[160];   /* where this rank is bound */
    char digest[17];   /* of the machine's structure */
    char note[256];    /* see bench_job_note */
    int timeout_ms;    /* deadline of a wait */
} bench_job;

/* Starts MPI and learns rank and size. Collective. */
void bench_job_start(bench_job *job, const char *program);
/* Places and binds the process, then makes weir's bootstrap and communicator.
 * Collective. Agreed on every rank; the failure is told on standard error. */
weir_status bench_job_connect(bench_job *job, int timeout_s);
/* Frees everything and ends MPI; the job is then empty. Collective. */
void bench_job_end(bench_job *job);

/* Keeps a line for the next bench_job_agree, for failures that weir did not
 * meet; without it weir_last_error() is told. Local. Returns status. */
weir_status bench_job_note(bench_job *job, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Collective: every rank gets the worst status of all. If that is an error, the
 * lowest rank that has it prints one line on standard error: "program: rank r:
 * what: line"; after a passed deadline every failing rank prints its own. If
 * this rank's communicator failed and the others do not come within their own
 * deadline, the job is aborted with this rank's exit code. */
weir_status bench_job_agree(bench_job *job, weir_status mine, const char *what);
void bench_job_barrier(bench_job *job);
/* Says that the job goes on. A rank that does not say so for five deadlines, be
 * it in MPI, in weir or in a check, ends the job with exit code 4. Local, a few
 * instructions. */
void bench_job_progress(void);
/* One line on standard error from rank 0 alone. Local. */
void bench_job_say(const bench_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
