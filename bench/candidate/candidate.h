/*
 * What is measured: weir itself and its peers, each behind the same small ops
 * table. A candidate is opened once a run, told about each call once before it
 * is checked or timed, and then run any number of times.
 */
#ifndef BENCH_CANDIDATE_CANDIDATE_H
#define BENCH_CANDIDATE_CANDIDATE_H

#include "bench/job/buffers.h"
#include "bench/job/job.h"
#include "bench/options/options.h"
#include <weir/weir.h>
#include <weir/algo.h>

/* One call of one collective, as this rank makes it. All counts in elements. */
typedef struct bench_call {
    weir_collective collective;
    weir_dtype dtype;
    weir_op op;
    int root;
    size_t count;
    const void *in; /* at the candidate's home; in place: as weir/weir.h says for the collective */
    void *out;
    int in_place;
    /* alltoallv: of the current step, one after the other in memory. */
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
    const int *mpi_counts;         /* the same four arrays as MPI takes them */
    const uint64_t *device_counts; /* the same four where the backend's buffers are, for
                                      candidates that read them there; NULL: not asked for */
    size_t in_bytes, out_bytes;    /* of this rank's buffers */
} bench_call;

typedef struct bench_candidate bench_candidate;

typedef struct bench_candidate_ops {
    /* NULL if the candidate can make this call, else why not (static or the
     * candidate's storage). Local; the same answer on every rank. */
    const char *(*refuses)(bench_candidate *self, const bench_call *call);
    /* Makes the call current. Local. Called again before each timed block, when
     * another candidate may have run in between. call outlives its use. */
    weir_status (*prepare)(bench_candidate *self, const bench_call *call);
    /* Runs the current call once. Collective; blocking on the host backend, on GPUs
     * enqueued on the stream of job->gpu. If it fails, weir_last_error() or
     * bench_job_note() holds a line. */
    weir_status (*run)(bench_candidate *self);
    /* Where the current call leaves its result: out, unless the candidate's own
     * notion of in place differs. Local. */
    const void *(*result)(bench_candidate *self);
    /* The algorithm of the last run; "" where that is not known. Local. */
    const char *(*algo)(bench_candidate *self);
    /* Frees self. Collective. */
    void (*close)(bench_candidate *self);
} bench_candidate_ops;

struct bench_candidate {
    const bench_candidate_ops *ops;
    char name[64];      /* CSV's candidate: "weir", "mpi:openmpi-4.1.4" */
    char transport[16]; /* CSV's transport; "": not known */
    int peer;           /* 0: weir */
    int stores_partial; /* 1: may round partial results, as none of weir's own but ring does */
    int is_users;       /* 1: the user's code, of which weir promises no special values or bits */
    char forced[32];    /* the algorithm it is held to, "fused" or "packet:16x64" (blocks
                           and threads); empty: its own choice */
    size_t least_bytes, most_bytes; /* the sizes it takes part in; most 0: all */
    const bench_operands *operands; /* where it works, if not in the buffers' own home; else NULL */
    bench_job *job;
    const bench_call *call;
    void *state; /* the implementation's */
};

/* A candidate with a cleared state of so many bytes, 0: none, which bench_candidate_free frees
 * with it: the close of those that hold nothing else. Local. */
weir_status bench_candidate_create(bench_job *job, const bench_candidate_ops *ops,
                                   size_t state_bytes, bench_candidate **candidate);
void bench_candidate_free(bench_candidate *self);
/* Its rows are weir's: candidate and transport. Local. */
void bench_candidate_name_weir(bench_candidate *self);
/* For the ops' result, where that is in out; for their algo, if it is what it is held to. */
const void *bench_candidate_out(bench_candidate *self);
const char *bench_candidate_forced(bench_candidate *self);

/* weir, held to an algorithm unless algo (31 characters at most) is "auto". Local. */
weir_status bench_candidate_weir_open(bench_job *job, const char *algo,
                                      bench_candidate **candidate);
/* An algorithm of any kind, which passes to the candidate on success; name as in bench_algo_word.
 * Local. */
weir_status bench_candidate_algo_open(bench_job *job, weir_algo *algo, const char *name,
                                      bench_candidate **candidate);
/* MPI's own collective of that name. Collective. */
weir_status bench_candidate_mpi_open(bench_job *job, bench_candidate **candidate);

struct bench_vendor;
/* Whether this version has it. Pure. */
int bench_nccl_has_mode(const struct bench_vendor *vendor, bench_nccl_mode mode);
/* The library in one mode, on GPUs only. Collective; agreed and told. */
weir_status bench_candidate_nccl_open(bench_job *job, const bench_buffers *buffers,
                                      const struct bench_vendor *vendor, bench_nccl_mode mode,
                                      bench_candidate **candidate);

#endif
