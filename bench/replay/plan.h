/*
 * A recorded job as one rank runs it: its steps with their places in memory, and classes of calls,
 * which become rows of the results. Candidates (replay_candidate) run the steps.
 */
#ifndef BENCH_REPLAY_PLAN_H
#define BENCH_REPLAY_PLAN_H

#include "bench/job/job.h"
#include "bench/replay/match.h"
#include "bench/replay/replay_options.h"

/* Calls that are one row: the same collective, type, operation, placement and number of ranks, and
 * sizes between two powers of two. */
typedef struct replay_class {
    uint8_t kind; /* replay_kind or REPLAY_EXCHANGE */
    uint8_t dtype, op, in_place, log2_bytes;
    int nranks;
    double calls, bytes, elements; /* in all; bytes: the larger buffer, of the busiest rank */
    double mine;                   /* calls of this rank */
} replay_class;

enum { REPLAY_CLASSES_MAX = 1024, REPLAY_GUARD_BYTES = 64 };

/* A step of this rank, ready to run. */
typedef struct replay_work {
    const replay_step *step;
    const replay_call *call; /* the first one of an exchange */
    char *in, *out;          /* as the candidate sees them; in place as weir.h defines it */
    size_t *splits; /* steps between pairs of ranks, else NULL: elements sent to each rank of
                       the set, their displacements, elements received, displacements;
                       then where each message of an exchange begins, in bytes */
    size_t in_elements, out_elements;
    float gap_s;    /* computation before the call, if --gaps; else 0 */
    uint16_t klass; /* index in replay_plan.classes */
    uint8_t dtype;  /* weir_dtype; exchanges: bytes */
    uint8_t in_place;
    uint8_t lane;
    uint8_t is_first;    /* of its class on its set */
    uint8_t is_sendrecv; /* an exchange of at most one message to and from each rank */
    int to, from;        /* its peers in the set; -1: none */
    uint32_t memory;     /* index in replay_plan.memory */
    int rank;            /* of the set */
} replay_work;

/* Memory of one kind. The calls of a lane that use it take the parts of the lane's part in turn. */
typedef struct replay_memory {
    size_t bytes;
    char *pointer;        /* on the host, or on the GPU */
    weir_mem *registered; /* NULL: malloc'd, or from CUDA */
} replay_memory;

typedef struct replay_plan {
    replay_pool pool; /* of what follows, and of times */
    bench_job *job;
    const replay_trace *trace;
    const replay_schedule *schedule;
    const replay_comm *const *sets;
    replay_work *works;                 /* lane by lane */
    size_t lanes[REPLAY_LANES_MAX + 1]; /* where each begins; the last one ends */
    size_t nworks;
    int nlanes;
    replay_class classes[REPLAY_CLASSES_MAX];
    int nclasses;
    weir_comm **comms;     /* weir's communicator of each set; NULL: this rank is not in it */
    replay_memory *memory; /* of each set's communicator, then unregistered memory */
    char *mirror;          /* GPU: a place on the host for one call's buffers; else NULL */
    size_t mirror_bytes;
    size_t *splits;
} replay_plan;

/* Lays out the steps of this rank, creates communicators of weir, and allocates memory. Collective;
 * agreed; a failure is reported. Release with replay_plan_close. */
weir_status replay_plan_open(replay_plan *plan, bench_job *job, const replay_options *options,
                             const replay_trace *trace, const replay_schedule *schedule);
void replay_plan_close(replay_plan *plan);
/* For who runs all lanes from one thread, in the order of the recording: at is where each lane is,
 * at first a copy of lanes; *lane is the last one's, at first -1. Returns the next work's index,
 * and SIZE_MAX after the last one. Pure. */
size_t replay_plan_next(const replay_plan *plan, size_t *at, int *lane);
/* The set of a step, and how a message or a row names the kind of a step. Pure. */
const replay_comm *replay_work_set(const replay_plan *plan, const replay_work *work);
const char *replay_step_name(int kind);
/* The collective of weir that serves a kind of step: alltoallv where it has none. Pure. */
weir_collective replay_step_collective(int kind);
/* The call of that collective, on the stream of the step's lane. Steps between pairs of ranks have
 * splits, which then become those of the step: displacements in elements. A barrier is an allreduce
 * of one element. Pure. */
weir_call replay_work_call(const replay_plan *plan, const replay_work *work, weir_splits *splits);

/* A message of an exchange. */
typedef struct replay_message {
    void *data;
    size_t bytes;
    int peer; /* of the set */
    int is_send;
} replay_message;

/* The nth message of an exchange. Pure. */
replay_message replay_message_of(const replay_plan *plan, const replay_work *work, uint32_t n);

/* Creates weir's communicators of all sets, or destroys them. Collective; agreed. */
weir_status replay_comms_open(replay_plan *plan);
void replay_comms_close(replay_plan *plan);

/* ------------------------------------------------------------- candidates */

typedef struct replay_candidate replay_candidate;

typedef struct replay_candidate_ops {
    /* Creates the communicators; NULL: there is nothing to do. Collective; not agreed. */
    weir_status (*open)(replay_candidate *self);
    /* NULL, or why it cannot run the step: static, or in the candidate. Local. NULL: it can run
     * all. */
    const char *(*refuses)(replay_candidate *self, const replay_work *work);
    /* Runs a step. Blocking on the host, where steps of other lanes may run at the same time; else
     * enqueued on the lane's stream. A failure has a line in weir_last_error or a note. */
    weir_status (*run)(replay_candidate *self, const replay_work *work);
    /* Where the result of a step is; NULL: in out. */
    char *(*result)(const replay_work *work);
    /* Frees the communicators. Collective. NULL: there is nothing to do. */
    void (*close)(replay_candidate *self);
} replay_candidate_ops;

struct replay_candidate {
    const replay_candidate_ops *ops;
    char name[64];     /* "weir", "mpi:openmpi-4.1.4" */
    const char *title; /* in sentences: "NCCL" */
    replay_plan *plan;
    const bench_peer *peer; /* NULL: weir */
    void *state;
};

extern const replay_candidate_ops replay_weir, replay_mpi, replay_vendor;

#endif
