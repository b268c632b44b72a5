/*
 * What is measured: weir itself and its peers, each behind the same small ops
 * table. A contender is opened once a run, told about each call once before it
 * is checked or timed, and then run any number of times.
 */
#ifndef BENCH_CANDIDATE_CANDIDATE_H
#define BENCH_CANDIDATE_CANDIDATE_H

#include "bench/measure/buffers.h"
#include "bench/job/job.h"
#include "bench/options/options.h"
#include <weir/weir.h>
#include <weir/algo.h>

/* The operation that a trial repeats: the call as this rank makes it, with addresses where the
 * candidate works, and what only MPI and the measurement need. */
typedef struct bench_operation {
    weir_call call; /* alltoallv: with the splits of the current step, both kinds */
    int in_place;
    weir_splits splits;               /* alltoallv: what call.splits points to, */
    weir_device_splits device_splits; /* call.device_splits, which is NULL unless counts on the
                                         device are asked for, */
    const int *mpi_counts;            /* and the four arrays as MPI takes them, consecutively */
} bench_operation;

typedef struct bench_candidate bench_candidate;

typedef struct bench_candidate_ops {
    /* NULL if the contender can make this call, else why not (static or the
     * contender's storage). Local; the same answer on every rank. */
    const char *(*refuses)(bench_candidate *self, const bench_operation *operation);
    /* Makes the call current. Local. Called again before each timed block, when
     * another contender may have run in between. operation outlives its use. */
    weir_status (*prepare)(bench_candidate *self, const bench_operation *operation);
    /* Runs the current call once. Collective; blocking on the host backend, on GPUs
     * enqueued on the stream of job->gpu. If it fails, weir_last_error() or
     * bench_job_note() holds a line. */
    weir_status (*run)(bench_candidate *self);
    /* Where the current call leaves its result: out, unless the contender's own
     * notion of in place differs. Local. */
    const void *(*result)(bench_candidate *self);
    /* The algorithm of the last run; "" where that is not known. Local. */
    const char *(*algo)(bench_candidate *self);
    /* Frees self. Collective. */
    void (*close)(bench_candidate *self);
} bench_candidate_ops;

struct bench_candidate {
    const bench_candidate_ops *ops;
    char name[64];      /* CSV's contender: "weir", "mpi:openmpi-4.1.4" */
    char transport[16]; /* CSV's transport; "": not known */
    int peer;           /* 0: weir */
    int is_foreign;     /* 1: a plan or a kernel of a file, which is in no table */
    int divides_last;   /* 1: an average is a sum, rounded, and a division */
    int is_users;       /* 1: the user's code, of which weir promises no special values or bits */
    char forced[32];    /* the algorithm it is held to, "fused" or "packet:16x64" (blocks
                           and threads); empty: its own choice */
    size_t least_bytes, most_bytes; /* the sizes it takes part in; most 0: all */
    const bench_home *home; /* where it works, if not in the buffers' own home; else NULL */
    bench_job *job;
    const bench_operation *operation;
    void *state; /* the implementation's */
};

/* A contender with a cleared state of so many bytes, 0: none, which bench_candidate_free frees
 * with it: the close of those that hold nothing else. Local. */
weir_status bench_candidate_create(bench_job *job, const bench_candidate_ops *ops,
                                   size_t state_bytes, bench_candidate **contender);
void bench_candidate_free(bench_candidate *self);
/* The row of weir's table for the algorithm of a candidate's last run, as its ops' algo names it;
 * NULL where it is none of the table's: peers, plans, kernels of files. Local. */
const weir_algo_info *bench_candidate_info(const bench_candidate *self, const char *algo);
/* Its rows are weir's: contender and transport. Local. */
void bench_candidate_name_weir(bench_candidate *self);
/* For the ops' result, where that is in out; for their algo, if it is what it is held to. */
const void *bench_candidate_out(bench_candidate *self);
const char *bench_candidate_forced(bench_candidate *self);

/* weir, held to an algorithm unless algo (31 characters at most) is "auto". Local. */
weir_status bench_candidate_weir_open(bench_job *job, const char *algo,
                                      bench_candidate **contender);
/* An algorithm of any kind, which passes to the contender on success; name as in bench_algo_word.
 * Local. */
weir_status bench_candidate_algo_open(bench_job *job, weir_algo *algo, const char *name,
                                      bench_candidate **contender);
/* MPI's own collective of that name. Collective. */
weir_status bench_candidate_mpi_open(bench_job *job, bench_candidate **contender);

/* How a vendor's library is used, see contender_nccl.c. */
typedef enum bench_nccl_mode {
    BENCH_NCCL_DEFAULT,
    BENCH_NCCL_SYMMETRIC,
    BENCH_NCCL_ZERO_CTA,
    BENCH_NCCL_MODES
} bench_nccl_mode;

struct bench_vendor;
/* Whether this version has it. Pure. */
int bench_nccl_has_mode(const struct bench_vendor *vendor, bench_nccl_mode mode);
/* The library in one mode, on GPUs only. Collective; agreed and told. */
weir_status bench_candidate_nccl_open(bench_job *job, const bench_buffers *buffers,
                                      const struct bench_vendor *vendor, bench_nccl_mode mode,
                                      bench_candidate **contender);

#endif
