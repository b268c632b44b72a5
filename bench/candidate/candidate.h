/*
 * What is measured: weir and its peers, each behind the same small ops table. A candidate is
 * opened once per run, prepared for each call before the call is checked or timed, and then run
 * any number of times.
 */
#ifndef BENCH_CANDIDATE_CANDIDATE_H
#define BENCH_CANDIDATE_CANDIDATE_H

#include "bench/job/buffers.h"
#include "bench/job/job.h"
#include "bench/options/options.h"
#include <weir/weir.h>
#include <weir/algo.h>

/* The operation that a trial repeats: the call as this rank makes it, with addresses among the
 * candidate's operands, and what only MPI and the measurement need. */
typedef struct bench_operation {
    weir_collective collective; /* what is measured; call performs it: bench_collective_call */
    weir_call call;             /* alltoallv: with the splits of the current step, both kinds */
    int in_place;
    /* alltoallv: the arrays that call.splits and call.device_splits point to (the latter is NULL
     * without --counts device), and the same four arrays as MPI takes them, consecutively. */
    weir_splits splits;
    weir_device_splits device_splits;
    const int *mpi_counts;
} bench_operation;

typedef struct bench_candidate bench_candidate;

typedef struct bench_candidate_ops {
    /* NULL if the candidate can make this call, else the reason (static storage, or in the
     * candidate). Collective, because a peer in a file is tried; the same on every rank. */
    const char *(*refuses)(bench_candidate *self, const bench_operation *operation);
    /* Makes the operation current; also called before each timed block, because another candidate
     * may have run. operation must outlive its use. Local. */
    weir_status (*prepare)(bench_candidate *self, const bench_operation *operation);
    /* Runs the current operation once. Collective. Blocking on the host backend; on a GPU it
     * enqueues on the stream of job->gpu. On failure weir_last_error() or bench_job_note() has a
     * line. */
    weir_status (*run)(bench_candidate *self);
    /* Where the current operation puts its result: out, unless the in-place form differs. Pure. */
    const void *(*result)(bench_candidate *self);
    /* The algorithm of the last run; "" if unknown. Local. */
    const char *(*algo)(bench_candidate *self);
    /* Frees self. Collective. */
    void (*close)(bench_candidate *self);
} bench_candidate_ops;

struct bench_candidate {
    const bench_candidate_ops *ops;
    char name[64];      /* the CSV column contender: "weir", "mpi:openmpi-4.1.4" */
    char transport[16]; /* the CSV column transport; "": unknown */
    char settings[256]; /* of a peer in a file: what it reports of itself */
    int peer;           /* 0: weir; 1: a peer library */
    int runs_weir;      /* 1: weir's calls although peer is 1, because ratios compare
                           them with the first candidate */
    int has_threads;    /* 1: the library has threads of its own, which need cores */
    int follows_table;  /* 1: of a vendor's library, with the table of --verify-nccl */
    int is_foreign;     /* 1: a plan or a kernel of a file, which no table lists */
    int divides_last;   /* 1: an average is a sum, rounded, and a division */
    int is_users;       /* 1: a user's kernel, for which weir promises neither special values nor
                           equal bits */
    char forced[32];    /* the algorithm that is forced: "push", or "packet:16x64" with blocks
                           and threads; empty: weir's selection */
    size_t least_bytes, most_bytes; /* the sizes that it is measured at; most_bytes 0: no limit */
    double untimed_us;              /* time in run that is not the call's: a sum that only grows */
    const bench_operands *operands; /* the memory it works on; NULL: the buffers' operands */
    /* GPUs: times so many operations in one batch itself, as one graph or one by one; *us is the
     * time of one. Collective. NULL: bench_batch_run enqueues and times them. */
    weir_status (*batch)(bench_candidate *self, int operations, int is_graph, double *us);
    bench_job *job;
    const bench_operation *operation;
    struct bench_rivals *rivals; /* that run while it is timed; NULL: none */
    const char *plan_file;       /* of a plan; else NULL */
    void *state;                 /* the implementation's */
};

/* Creates a candidate with a zeroed state of so many bytes. bench_candidate_free frees both; it
 * serves as the close of candidates that hold nothing else. Local. */
weir_status bench_candidate_create(bench_job *job, const bench_candidate_ops *ops,
                                   size_t state_bytes, bench_candidate **candidate);
void bench_candidate_free(bench_candidate *self);
/* The row of weir's algorithm table for the algorithm of the candidate's last run, as its ops' algo
 * names it; NULL if the table has none: peers, plans, kernels of files. Local. */
const weir_algo_info *bench_candidate_info(const bench_candidate *self, const char *algo);
/* Gives the candidate weir's name and transport. Local. */
void bench_candidate_name_weir(bench_candidate *self);
/* "needs two buffers" for a call in place that only plans offer, else NULL. Pure. */
const char *bench_candidate_needs_two(const bench_operation *operation);
/* Implementations of the ops result (the result is in out) and algo (the forced one). */
const void *bench_candidate_out(bench_candidate *self);
const char *bench_candidate_forced(bench_candidate *self);

/* weir; forced to an algorithm (31 characters at most) unless algo is "auto". Local. */
weir_status bench_candidate_weir_open(bench_job *job, const char *algo,
                                      bench_candidate **candidate);
/* A candidate, which stays the caller's, or weir's selection (NULL),
 * while what --with or --beside names runs. Collective; agreed; a failure is reported. */
weir_status bench_candidate_with_open(bench_job *job, const bench_options *options,
                                      bench_candidate *inner, bench_candidate **candidate);
/* An algorithm object, which the candidate owns on success; name as in bench_algo_word. Local. */
weir_status bench_candidate_algo_open(bench_job *job, weir_algo *algo, const char *name,
                                      bench_candidate **candidate);
/* MPI's own collective. Collective. */
weir_status bench_candidate_mpi_open(bench_job *job, bench_candidate **candidate);

/* Copies into the receivers' memory, for sendrecv (--peer copies). Collective; agreed; a failure is
 * reported on standard error. */
weir_status bench_candidate_copies_open(bench_job *job, const bench_buffers *buffers,
                                        bench_candidate **candidate);

/* A peer in a file (weir/peer.h), which refuses every call with the reason if it cannot be used.
 * Collective; agreed. */
weir_status bench_candidate_file_open(bench_job *job, const bench_buffers *buffers,
                                      const bench_peer *peer, bench_candidate **candidate);

/* A peer in a Python file. Collective; agreed; a failure is reported on standard
 * error. */
weir_status bench_candidate_python_open(bench_job *job, const bench_buffers *buffers,
                                        const bench_peer *peer, bench_candidate **candidate);
/* Names a peer by what it reports, at most 20 characters each, with control characters escaped, so
 * that rows stay lines: "gloo:0.5.0:ring". Local. */
void bench_candidate_name_peer(bench_candidate *self, const char *name, const char *version,
                               const char *mode);
/* Keeps what a peer reports of its settings for the header and for its rows. Local. */
void bench_candidate_keep_settings(bench_candidate *self, const char *settings);

struct bench_vendor;
/* 1 if this version of the library has the mode. Pure. */
int bench_nccl_has_mode(const struct bench_vendor *vendor, bench_nccl_mode mode);
/* The library in one mode, on GPUs only. Collective; agreed; a failure is reported on standard
 * error. */
weir_status bench_candidate_nccl_open(bench_job *job, const bench_buffers *buffers,
                                      const struct bench_vendor *vendor, bench_nccl_mode mode,
                                      bench_candidate **candidate);

struct bench_nccl_setting;
/* The library in default mode with a setting, or with the tuner's table if setting is NULL. Its
 * communicator is that of nccl, whose vendor has a tuner; both are closed together. Local. */
weir_status bench_candidate_nccl_tuned(bench_candidate *nccl,
                                       const struct bench_nccl_setting *setting,
                                       bench_candidate **candidate);

#endif
