/*
 * What the files of libweir_nccl share: a communicator behind its handle, errors in NCCL's terms,
 * and calls as data, which a group keeps until it ends.
 *
 * A handle is a number, not an address: a slot in a table, and the slot's generation. A handle that
 * is garbage, or whose communicator was destroyed, is therefore recognised without following it.
 * Code that works on a communicator has entered it; code that destroys one withdraws the handle
 * first and waits until all have left.
 */
#ifndef WEIR_NCCL_ABI_H
#define WEIR_NCCL_ABI_H

#include "nccl/weir_nccl.h"
#include <weir/weir.h>

#include "comm/budget.h"

#include <stdatomic.h>
#include <stdint.h>

/* Defines the same function with the prefixes mccl and pnccl. Placed after the definition, in its
 * file. */
#define WEIRI_NCCL_ALIAS(name)                                                                     \
    extern __typeof__(nccl##name) mccl##name                                                       \
        __attribute__((alias("nccl" #name), visibility("default")));                               \
    extern __typeof__(nccl##name) pnccl##name                                                      \
        __attribute__((alias("nccl" #name), visibility("default")))

enum { WEIRI_NCCL_TEXT_BYTES = 512 };

/* The scalar of a custom operation. */
typedef struct weiri_nccl_scale {
    int used; /* 0: no scalar */
    ncclDataType_t datatype;
    ncclScalarResidence_t residence;
    const void *there;       /* ncclScalarDevice: its address, read when the collective runs */
    unsigned char scalar[8]; /* otherwise its value */
} weiri_nccl_scale;

/* A stream capture that contains calls of a communicator. */
typedef struct weiri_nccl_capture {
    uint64_t id;
    int has_call;
    void *stream; /* of the communicator's last call in it */
    void *event;  /* an event after that call */
    void *tip;    /* the node it ended with; NULL if there were several */
    void *record; /* the node after it, which records the communicator's last event */
} weiri_nccl_capture;

enum { WEIRI_NCCL_CAPTURES = 4 };

/* GPUs: where the communicator's calls went, so that the next one is ordered after them. */
typedef struct weiri_nccl_order {
    int has_stream;
    void *stream;    /* of the last call that was not captured in a graph */
    int is_unmarked; /* no event was recorded after that call */
    void *last;      /* the event after the last call or graph, if one is needed */
    int has_graphs;
    uint64_t present;                                 /* the capture of the current call; 0: none */
    weiri_nccl_capture captures[WEIRI_NCCL_CAPTURES]; /* the most recent ones */
    unsigned ncaptures;                               /* how many there have been */
    void *join; /* an event between the streams of one group */
} weiri_nccl_order;

struct weiri_nccl_p2p;
struct weiri_nccl_rma;
struct weiri_nccl_beside;

/* What a communicator can be used for. */
enum {
    WEIRI_NCCL_CREATING = 1, /* it is being created in the background: only to be queried, ended */
    WEIRI_NCCL_READY,
    WEIRI_NCCL_SUSPENDED, /* only to be queried, ended or resumed; comm is NULL */
    WEIRI_NCCL_FAILED,    /* its creation in the background has failed; comm may be NULL */
    WEIRI_NCCL_ABANDONED, /* it was ended while it was being created; the creator frees it */
};

/* What a communicator takes from an ncclConfig_t. */
typedef struct weiri_nccl_settings {
    int blocking;
    int contexts, signals; /* of one-sided calls */
    weiri_budget budget;   /* of collectives' thread blocks */
} weiri_nccl_settings;

typedef struct weiri_nccl_comm {
    weir_boot *boot;
    weir_comm *comm;
    int rank, nranks;
    int device;       /* CUDA's number; -1: host memory */
    int local_nranks; /* ranks in this process */
    uint64_t job;     /* a random number, the same on all ranks and different from other
                       * communicators' */
    void *vendor;     /* not NULL: a communicator of another library, which serves all
                       * calls */
    struct weiri_nccl_beside *beside; /* device_api.c; NULL until it is needed */
    struct weiri_nccl_p2p *p2p;
    struct weiri_nccl_rma *rma; /* one-sided calls */
    weiri_nccl_settings settings;
    weir_unique_id grow_id; /* has_grow_id: of ncclCommGetUniqueId, and not used yet */
    int has_grow_id;
    struct weiri_nccl_saved *saved; /* suspend.c: while it is suspended */
    atomic_uint turns_taken, turn;  /* of jobs on it; see weiri_nccl_turn_take */
    atomic_int jobs;                /* threads that run a job on it, or wait for their turn to */
    atomic_int state;               /* WEIRI_NCCL_READY, ... */
    atomic_int async_error;         /* ncclResult_t of the error that ended it */
    atomic_int is_revoked;          /* by this rank */
    atomic_int is_finalized;
    atomic_int is_shrunk;     /* a communicator of a part of its ranks has replaced it */
    weiri_nccl_scale *scales; /* scalars of custom operations; nscales of them */
    int nscales;
    weiri_nccl_order order;
    ncclComm_t handle;
    unsigned slot;                /* in the table of handles */
    struct weiri_nccl_comm *next; /* in the list of communicators whose sibling ranks have not been
                                   * destroyed yet */
} weiri_nccl_comm;

/* ------------------------------------------------------------------- handles */

/* Creates a handle. Returns NULL if there are too many communicators. */
ncclComm_t weiri_nccl_publish(weiri_nccl_comm *comm);
/* The communicator of a handle; it stays valid until weiri_nccl_leave. Returns NULL, with an error
 * text, if the handle is not valid or the communicator is not ready. */
weiri_nccl_comm *weiri_nccl_enter(ncclComm_t handle);
/* As weiri_nccl_enter, for a communicator that is ready or suspended, and in any state. */
weiri_nccl_comm *weiri_nccl_enter_opened(ncclComm_t handle);
weiri_nccl_comm *weiri_nccl_enter_any(ncclComm_t handle);
/* The result for the caller after the thread's latest entry has returned NULL; never success. */
ncclResult_t weiri_nccl_not_entered(void);
void weiri_nccl_leave(weiri_nccl_comm *comm);
/* Invalidates a handle. After weiri_nccl_await_users its communicator belongs to the caller alone.
 * Returns NULL, with an error text, if the handle is not valid. */
weiri_nccl_comm *weiri_nccl_withdraw(ncclComm_t handle);
void weiri_nccl_await_users(weiri_nccl_comm *comm);
/* Changes the state of a communicator that the caller, a job, has entered from READY, and waits
 * until all others have left, except for jobs that wait for their turn. Returns 0 if it was not
 * ready. */
int weiri_nccl_claim(weiri_nccl_comm *comm, int state);
/* After that: frees the slot in the table. */
void weiri_nccl_recycle(weiri_nccl_comm *comm);

/* -------------------------------------------------------------------- errors */

/* Stores the text for ncclGetLastError and returns result. */
ncclResult_t weiri_nccl_fail(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Converts a weir_status, whose text becomes the last error. */
ncclResult_t weiri_nccl_result(weir_status status);
/* As weiri_nccl_result; an error that ends the communicator also becomes its asynchronous error.
 * comm may be NULL. */
ncclResult_t weiri_nccl_result_of(weiri_nccl_comm *comm, weir_status status);

/* clang's analyzer sees one file at a time (base/error.h). */
#ifdef __clang_analyzer__
#define weiri_nccl_fail(result, ...) ((void)(weiri_nccl_fail)(result, __VA_ARGS__), result)
#define weiri_nccl_not_entered() ((void)(weiri_nccl_not_entered)(), ncclInvalidArgument)
#endif

/* --------------------------------------------------------------------- calls */

/* A call as a group keeps it. */
typedef struct weiri_nccl_call {
    weir_call call; /* a send is a sendrecv without a source, a receive one without a
                       destination; types and operations have NCCL's numbers, which are
                       weir's; op: sum where scale is used */
    ncclComm_t handle;
    weiri_nccl_scale scale; /* of a custom operation, which may be destroyed before the call runs */
    cudaEvent_t event;      /* GPUs: recorded before the call; NULL: none */
    struct weiri_nccl_onesided *onesided; /* not NULL: this one-sided call instead of `call`; owned
                                           * by the group */
} weiri_nccl_call;

static inline int weiri_nccl_is_p2p(const weiri_nccl_call *call)
{
    return call->call.collective == WEIR_COLL_SENDRECV;
}

/* Whether a send or receive is a send. */
static inline int weiri_nccl_sends(const weiri_nccl_call *call)
{
    return call->call.source == -1;
}

/* Its peer, and the elements that it moves. */
static inline int weiri_nccl_peer(const weiri_nccl_call *call)
{
    return weiri_nccl_sends(call) ? call->call.destination : call->call.source;
}

static inline size_t weiri_nccl_count(const weiri_nccl_call *call)
{
    return weiri_nccl_is_p2p(call) && !weiri_nccl_sends(call) ? call->call.recv_count
                                                              : call->call.count;
}

/* Fills a call with the arguments that all functions have in common; the other members of
 * call->call have their defaults. */
static inline void weiri_nccl_fill(weiri_nccl_call *call, weir_collective collective,
                                   const void *in, void *out, size_t count, ncclDataType_t datatype,
                                   ncclComm_t comm, cudaStream_t stream)
{
    call->call = (weir_call){.size = sizeof(weir_call),
                             .collective = collective,
                             .dtype = (weir_dtype)datatype,
                             .destination = -1,
                             .source = -1,
                             .in = in,
                             .out = out,
                             .count = count,
                             .stream = stream};
    call->handle = comm;
    call->scale.used = 0;
    call->event = NULL;
    call->onesided = NULL;
}

/* The name of a call's function ("ncclAllReduce"). */
const char *weiri_nccl_function_of(const weiri_nccl_call *call);
/* Checks a collective and runs it, or keeps it for the end of the thread's group. The call becomes
 * complete: a custom operation's scalar is copied into it, and the host has no stream. */
ncclResult_t weiri_nccl_submit(weiri_nccl_call *call);
/* ncclGather, ncclScatter with an event. */
ncclResult_t weiri_nccl_gather(const void *sendbuff, void *recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, cudaEvent_t event);
ncclResult_t weiri_nccl_scatter(const void *sendbuff, void *recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream, cudaEvent_t event);
/* Runs a collective now. The call is checked, and has its scale. */
ncclResult_t weiri_nccl_run(weiri_nccl_comm *comm, const weiri_nccl_call *call);

/* Estimated microseconds of one communicator's calls in a group; negative: unknown. */
float weiri_nccl_estimate(const weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);

/* What calls need of their thread, in one variable, because each has to be looked up. */
typedef struct weiri_nccl_thread {
    int group_depth;              /* how many groups it is in */
    struct weiri_nccl_user *user; /* users.h; NULL: none */
} weiri_nccl_thread;
extern _Thread_local weiri_nccl_thread weiri_nccl_this_thread __attribute__((visibility("hidden")));

static inline int weiri_nccl_in_group(void)
{
    return weiri_nccl_this_thread.group_depth > 0;
}
/* Keeps a checked call for the end of the thread's group. */
ncclResult_t weiri_nccl_keep(const weiri_nccl_call *call);
/* Makes the end of the thread's group, if it is in one, fail with result. Returns result. */
ncclResult_t weiri_nccl_refuse(ncclResult_t result);

/* Work that communicates with other ranks on the host; it may be part of a group. */
typedef struct weiri_nccl_job {
    ncclResult_t (*run)(void *argument);
    void *argument; /* from malloc; freed after it has run */
    ncclComm_t on;  /* jobs on one communicator run in order; NULL: concurrently with all others */
    void (*drop)(void *argument); /* may be NULL: called instead of run if the group fails */
    int takes_turn;               /* run itself calls weiri_nccl_turn_take */
} weiri_nccl_job;
/* Runs the job at the end of the thread's group, concurrently with the group's other jobs; or now
 * if the thread is in no group. */
ncclResult_t weiri_nccl_do(weiri_nccl_job job);
/* Jobs on a communicator use its bootstrap, so they run one after another, including jobs in the
 * background. weiri_nccl_turn_take enters the communicator and takes the next turn, for which
 * weiri_nccl_turn_begin waits; weiri_nccl_turn_end lets the next job begin, and leaves. Returns
 * NULL if the handle is not valid. */
weiri_nccl_comm *weiri_nccl_turn_take(ncclComm_t handle, unsigned *turn);
void weiri_nccl_turn_begin(weiri_nccl_comm *comm, unsigned turn);
void weiri_nccl_turn_end(weiri_nccl_comm *comm);
/* Runs all jobs, in threads if there are several communicators, and frees their arguments. */
ncclResult_t weiri_nccl_do_all(const weiri_nccl_job *jobs, size_t count);

/* ---------------------------------------------------------- sends, receives */

weir_status weiri_nccl_p2p_create(weiri_nccl_comm *comm);
void weiri_nccl_p2p_destroy(weiri_nccl_comm *comm);
/* Runs all sends and receives among the calls at once; calls of other kinds are skipped. */
weir_status weiri_nccl_p2p_run(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);

/* ------------------------------------------------------------------ suspended */

/* Frees what a suspended communicator has saved, if it is one. */
void weiri_nccl_saved_free(weiri_nccl_comm *comm);

/* ---------------------------------------------------------- one-sided calls */

/* Their state; collective. */
weir_status weiri_nccl_rma_create(weiri_nccl_comm *comm);
void weiri_nccl_rma_destroy(weiri_nccl_comm *comm);
/* Runs one. */
ncclResult_t weiri_nccl_rma_run(weiri_nccl_comm *comm, const weiri_nccl_call *call);

/* -------------------------------------------------------------------- memory */

/* Frees the registrations of a communicator that ends. */
void weiri_nccl_registrations_free(weiri_nccl_comm *comm);

/* ------------------------------------------------------------------- scalars */

/* The scalar of a custom operation; NULL if op is not one of the communicator's. */
const weiri_nccl_scale *weiri_nccl_scale_of(const weiri_nccl_comm *comm, ncclRedOp_t op);

#endif
