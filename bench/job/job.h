/*
 * The job that this process is one rank of: MPI, where the rank sits and is
 * bound, and weir's communicator. Ranks meet and agree on errors here.
 */
#ifndef BENCH_JOB_JOB_H
#define BENCH_JOB_JOB_H

#include "bench/job/note.h"
#include "bench/job/watch.h"
#include <weir/weir.h>

#include <mpi.h>

typedef struct bench_job {
    const char *program; /* "bench_allreduce" */
    MPI_Comm mpi;
    int rank, nranks;
    int local_rank, local_nranks, nnodes;
    weir_boot *boot;
    weir_comm *comm;
    struct bench_gpu *gpu; /* this rank's; NULL on the host backend */
    struct bench_nvml *nvml; /* what tells of its state; NULL on the host backend */
    double setup_ms; /* of weir: bootstrap and communicator, the slowest rank's */
    char host[64];
    char machine[160]; /* one line: processor, cores, memory nodes, devices */
    char place[160];   /* where this rank is bound */
    char digest[17];   /* of the machine's structure */
    bench_note note;   /* see bench_job_note */
    int timeout_ms;    /* deadline of a wait */
    bench_watch watch;
} bench_job;

/* Starts the watch and MPI, and learns rank and size. timeout_s: the deadline
 * of everything, 0 for WEIR_TIMEOUT_MS. Collective. */
void bench_job_start(bench_job *job, const char *program, int timeout_s);
/* Places and binds the process, then makes weir's bootstrap and communicator, and
 * takes the rank's GPU where that is the backend. Collective. Agreed on every rank;
 * the failure is told on standard error. */
weir_status bench_job_connect(bench_job *job, weir_backend backend);
/* Frees everything and ends MPI; the job is then empty. Collective. */
void bench_job_end(bench_job *job);

/* Keeps a line for the next bench_job_agree, for failures that weir did not
 * meet; without it weir_last_error() is told. Local. Returns status. */
weir_status bench_job_note(bench_job *job, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Collective: every rank gets the worst status of all. If that is an error, the
 * lowest rank that has it prints one line on standard error: "program: rank r:
 * what: line". Does not return when the communicator failed here (a deadline, a
 * dead peer, an abort): where every rank stands is then reported, once for all,
 * and this process ends with exit code 4, as the others do. */
weir_status bench_job_agree(bench_job *job, weir_status mine, const char *what);
void bench_job_barrier(bench_job *job);
/* 1 if all ranks are on one node and so share its monotonic clock. Pure. */
int bench_job_has_common_clock(const bench_job *job);
/* A closed standard output becomes one that refuses what is written, lest the next file that
 * is opened gets it. Before anything is opened. Local. */
void bench_job_hold_output(void);
/* Whether standard output took all that was printed. WEIR_ERR_SYSTEM, noted: it did not. Local. */
weir_status bench_job_check_output(bench_job *job);
/* Says where this rank is, for the watch and for reports: a phase (static
 * storage) and a number. A rank that does not go on within its deadline and
 * a few seconds, be it in MPI, in weir or in a check, ends the job with exit code
 * 4. Local, a few stores. */
void bench_job_phase(bench_job *job, const char *phase, uint64_t iteration);
/* The same for a phase that works on so many bytes before it goes on. */
void bench_job_phase_bytes(bench_job *job, const char *phase, size_t bytes);
/* One line on standard error from rank 0 alone. Local. */
void bench_job_say(const bench_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
