/*
 * The job that this process is one rank of: its launcher and bootstrap, the rank's place and
 * binding, weir's communicator, and the rank's GPU. Barriers and agreement on errors are here.
 */
#ifndef BENCH_JOB_JOB_H
#define BENCH_JOB_JOB_H

#include "base/clock.h"
#include "bench/job/launch.h"
#include "bench/job/mpi.h"
#include "bench/job/note.h"
#include "bench/job/warnings.h"
#include "bench/job/watch.h"
#include "bench/options/split.h"
#include <weir/device.h>
#include <weir/weir.h>

/* A set of the kernel's cpus (cpu_set_t), for files without _GNU_SOURCE. */
typedef struct bench_cores {
    int known;
    unsigned long set[1024 / (8 * sizeof(unsigned long))];
} bench_cores;

/* Ranks that communicate with each other: all of the job, or those of one color (--split). */
typedef struct bench_group {
    int color, nranks, nnodes;
    int leader; /* the job's rank that is the group's rank 0 */
} bench_group;

typedef struct bench_job {
    const char *program; /* "bench_allreduce" */
    bench_launcher launcher;
    bench_mpi *mpi;     /* NULL: another launcher */
    const char *no_mpi; /* why a launcher of MPI has none; else empty */
    int rank, nranks, local_rank, local_nranks, nnodes;
    int cpu_rank, cpu_nranks; /* among the ranks of this kernel that may run on the same cpus */
    int has_common_cpus;      /* 1: these are all ranks of this kernel, and more than one */
    weir_boot *boot;
    double *values;               /* nranks values, for exchanges */
    bench_group *groups;          /* in the order of their leaders; the only one: the job */
    int *group_of;                /* the group of each rank, an index */
    int ngroups, group;           /* group: this rank's */
    int group_rank, group_nranks; /* this rank's place in its group */
    weir_comm *all;               /* of all ranks */
    weir_comm *comm;              /* of this rank's group; of one group `all` itself */
    struct bench_gpu *gpu;        /* this rank's; NULL on the host backend */
    int may_use_gpus;             /* 1: nobody has chosen the backend or hidden the GPUs */
    struct weir_plan *plan;  /* of --plan, read and proved; NULL: none, or a candidate has it */
    struct bench_nvml *nvml; /* reads the GPU's state; NULL on the host backend */
    double setup_ms;         /* time to create bootstrap and communicator, on the slowest rank */
    double boot_us, comm_us; /* the same apart, without binding and agreement, on this rank */
    char host[64];
    char kernel[40];   /* identifies the running kernel, which containers share; empty: unknown */
    char machine[160]; /* one line: processor, cores, NUMA nodes, devices */
    char place[160];   /* the binding of this rank */
    double cores;      /* of this rank, those that ranks share divided among them; 0: unknown. On
                          rank 0 once the run is described, of the rank that has the fewest */
    double process_cores;  /* the same of this rank's process; its own thread may have fewer */
    bench_cores all_cores; /* of the process */
    int starves_peers; /* 1: threads of peers have no core of their own, see bench_cores_check */
    int has_threads;   /* 1: set by the workload before ranks are bound: a rank's threads work at
                          the same time, on all cores that the rank has */
    const char *wanted_cpus; /* set by the workload before ranks are bound, "0-3,8": cpus for this
                                rank if it may run on them; NULL: weir chooses */
    const char *binding;     /* who bound this rank: "launcher", "weir", "none"; on rank 0 then, who
                                bound all ranks, or "mixed" */
    char digest[17];         /* of the node's topology */
    char peer_settings[512]; /* what peers in files report of themselves, with their names */
    bench_note note;         /* see bench_job_note */
    int timeout_ms;          /* deadline of every wait */
    bench_watch watch;
    bench_warnings warnings; /* on rank 0 */
} bench_job;

/* Starts the watchdog, and connects the ranks as launch says. timeout_s: the deadline of
 * everything; 0 means WEIR_TIMEOUT_MS. Collective. A failure is reported on standard error by each
 * rank that has one; the job must not be used then. */
weir_status bench_job_start(bench_job *job, const char *program, int timeout_s,
                            const bench_launch *launch);
/* Divides the ranks into groups, before bench_job_connect; without this call all ranks form one.
 * Collective; agreed; a failure is reported. */
weir_status bench_job_divide(bench_job *job, const bench_split *split);
/* 1 if all groups have the same number of ranks; the least number of a group. Pure. */
int bench_job_is_even(const bench_job *job);
int bench_job_least_nranks(const bench_job *job);
/* The job's rank that has the place group_rank in this rank's group. Pure. */
int bench_job_rank_of(const bench_job *job, int group_rank);
/* The largest number of nodes of a group, once the job is connected. Pure. */
int bench_job_most_nodes(const bench_job *job);
/* Places and binds the process, creates weir's communicator, and opens the rank's GPU
 * if the backend is CUDA. Collective; agreed; a failure is reported on standard error. */
weir_status bench_job_connect(bench_job *job, weir_backend backend);
/* Frees everything and ends MPI if it was started; the job is then empty. Collective. */
void bench_job_end(bench_job *job);

/* Keeps a line for the next bench_job_agree, to explain a failure of the benchmark itself; for
 * failures of weir, weir_last_error() is used. Returns status. Local. */
weir_status bench_job_note(bench_job *job, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Gives every rank the worst status of all. If that is an error, the lowest rank that has it prints
 * one line on standard error: "program: rank r: what: line". Does not return if the communicator
 * failed on this rank (deadline, dead peer or abort): the state of every rank is reported once, and
 * this process ends with exit code 4, as the others do. Collective. */
weir_status bench_job_agree(bench_job *job, weir_status mine, const char *what);
/* clang's analyzer would take these for functions that may turn a failure into WEIR_OK. */
#ifdef __clang_analyzer__
#define bench_job_note(job, status, ...) ((void)(bench_job_note)(job, status, __VA_ARGS__), status)
#define bench_job_agree(job, mine, what)                                                           \
    ({                                                                                             \
        const weir_status given = (mine), agreed = (bench_job_agree)(job, given, what);            \
        given != WEIR_OK ? given : agreed;                                                         \
    })
#endif
void bench_job_barrier(bench_job *job);
/* The same for timing: the ranks leave it as close together as the launcher's means allow. */
void bench_job_barrier_closely(bench_job *job);
/* 1 if all ranks are on one node and so share its monotonic clock. Pure. */
int bench_job_has_common_clock(const bench_job *job);
/* Flushes standard output. WEIR_ERR_SYSTEM, noted, if not everything could be written. Local. */
weir_status bench_job_check_output(bench_job *job);
/* Records what this rank is doing, for the watchdog and for reports: a phase (static storage) and a
 * number. A rank that records nothing new within its deadline and a few seconds, whether in MPI, in
 * weir or in a check, ends the job with exit code 4. Local; a few stores. */
void bench_job_phase(bench_job *job, const char *phase, uint64_t iteration);
/* The same for a phase that processes so many bytes. */
void bench_job_phase_bytes(bench_job *job, const char *phase, size_t bytes);
/* Prints one line on standard error, on rank 0 only. Local. */
void bench_job_say(const bench_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
