/*
 * What the files of the NCCL-shaped library share: a communicator behind its
 * handle, errors in NCCL's terms, and calls as data, which a group keeps until
 * it ends.
 *
 * A handle is a number, not an address: the place in a table and how often that
 * place was used. So a handle that is garbage, or was destroyed, is found out
 * without following it. Whoever works on a communicator has entered it; who
 * destroys it withdraws the handle first and waits until all have left.
 */
#ifndef WEIR_NCCL_ABI_H
#define WEIR_NCCL_ABI_H

#include "nccl/weir_nccl.h"
#include <weir/weir.h>

#include <stdatomic.h>
#include <stdint.h>

/* The same function under MCCL's name; behind the definition, in its file. */
#define WEIRI_NCCL_ALIAS(name)                                                                     \
    extern __typeof__(nccl##name) mccl##name                                                       \
        __attribute__((alias("nccl" #name), visibility("default")))

enum { WEIRI_NCCL_TEXT_BYTES = 512 };

/* The scalar of a custom operation. */
typedef struct weiri_nccl_scale {
    int used;                 /* 0: there is none */
    ncclDataType_t datatype;
    ncclScalarResidence_t residence;
    const void *there;        /* ncclScalarDevice: read when the collective runs */
    unsigned char scalar[8];  /* else: its value */
} weiri_nccl_scale;

/* A capture in which calls of a communicator are. */
typedef struct weiri_nccl_capture {
    uint64_t id;
    int has_call;
    void *stream; /* of its last call, */
    void *event;  /* an event behind that, */
    void *tip;    /* the node that it ended with, NULL where there were several, */
    void *record; /* and the node behind it that records the communicator's last event */
} weiri_nccl_capture;

enum { WEIRI_NCCL_CAPTURES = 4 };

/* GPUs: where calls went, so that the next one comes behind them. */
typedef struct weiri_nccl_order {
    int has_stream;
    void *stream;     /* of the last call that was not captured in a graph */
    int is_unmarked;  /* which no event is behind */
    void *last;       /* the event behind the last call or graph, where one is needed */
    int has_graphs;
    uint64_t present; /* the capture that the present call is in; 0: none */
    weiri_nccl_capture captures[WEIRI_NCCL_CAPTURES]; /* the last ones, */
    unsigned ncaptures;                               /* of so many */
    void *join;       /* an event between the streams of one group */
} weiri_nccl_order;

struct weiri_nccl_p2p;

typedef struct weiri_nccl_comm {
    weir_boot *boot;
    weir_comm *comm;
    int rank, nranks;
    int device;               /* as CUDA counts; -1: memory of the process */
    int local_nranks;         /* ranks in this process */
    uint64_t job;             /* the same random number on all ranks, and no other communicator's */
    void *vendor;             /* not NULL: another library's communicator serves all calls */
    struct weiri_nccl_p2p *p2p;
    atomic_int async_error;   /* ncclResult_t of what ended it */
    atomic_int is_revoked;    /* by this rank */
    atomic_int is_finalized;
    weiri_nccl_scale *scales; /* of custom operations, nscales */
    int nscales;
    weiri_nccl_order order;
    ncclComm_t handle;
    unsigned slot;            /* of the table of handles */
    struct weiri_nccl_comm *next; /* of those that wait for their siblings' destruction */
} weiri_nccl_comm;

/* ------------------------------------------------------------------- handles */

/* The handle of a new communicator; NULL if there are too many. */
ncclComm_t weiri_nccl_publish(weiri_nccl_comm *comm);
/* The communicator of a handle, which stays until weiri_nccl_leave. NULL, with an error text,
 * if there is none. */
weiri_nccl_comm *weiri_nccl_enter(ncclComm_t handle);
void weiri_nccl_leave(weiri_nccl_comm *comm);
/* The handle is no more; its communicator is the caller's alone after
 * weiri_nccl_await_users. NULL likewise. */
weiri_nccl_comm *weiri_nccl_withdraw(ncclComm_t handle);
void weiri_nccl_await_users(weiri_nccl_comm *comm);
/* After that: the place in the table may be used again. */
void weiri_nccl_recycle(weiri_nccl_comm *comm);

/* -------------------------------------------------------------------- errors */

/* Stores the line for ncclGetLastError and returns result. */
ncclResult_t weiri_nccl_fail(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A status of weir's as a result, its text as the last error. */
ncclResult_t weiri_nccl_result(weir_status status);
/* The same; what ends the communicator becomes its asynchronous error. comm may be NULL. */
ncclResult_t weiri_nccl_result_of(weiri_nccl_comm *comm, weir_status status);

/* --------------------------------------------------------------------- calls */

/* A call as a group keeps it. */
typedef struct weiri_nccl_call {
    weir_call call;         /* a send is a sendrecv without a source, a receive one without a
                               destination; types and operations have NCCL's numbers, which are
                               weir's; op: sum where scale is used */
    ncclComm_t handle;
    weiri_nccl_scale scale; /* of a custom operation, which may be destroyed before the call runs */
} weiri_nccl_call;

static inline int weiri_nccl_is_p2p(const weiri_nccl_call *call)
{
    return call->call.collective == WEIR_COLL_SENDRECV;
}

/* Whether a call is a send; of those that are sends or receives. */
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

/* Runs a collective now. The call is checked, and has its scale. */
ncclResult_t weiri_nccl_run(weiri_nccl_comm *comm, const weiri_nccl_call *call);

/* Microseconds that calls of one communicator would take in a group; negative: unknown. */
float weiri_nccl_estimate(const weiri_nccl_comm *comm, const weiri_nccl_call *calls,
                          size_t count);

/* Whether the thread is in a group. */
int weiri_nccl_in_group(void);
/* Keeps a checked call for the end of the thread's group. */
ncclResult_t weiri_nccl_keep(const weiri_nccl_call *call);
/* Makes the end of the thread's group, if it is in one, fail with result; returns it. */
ncclResult_t weiri_nccl_refuse(ncclResult_t result);

/* Work that meets other ranks on the host, which may be in this thread's group. */
typedef struct weiri_nccl_job {
    ncclResult_t (*run)(void *argument);
    void *argument; /* from malloc; freed when it has run */
    ncclComm_t on;  /* jobs on one communicator run in order; NULL: beside all others */
} weiri_nccl_job;
/* Runs it at the end of the thread's group, beside the group's other jobs; now if there is none. */
ncclResult_t weiri_nccl_do(weiri_nccl_job job);
/* Runs all, in threads if there are several communicators, and frees their arguments. */
ncclResult_t weiri_nccl_do_all(const weiri_nccl_job *jobs, size_t count);

/* ---------------------------------------------------------- sends, receives */

weir_status weiri_nccl_p2p_create(weiri_nccl_comm *comm);
void weiri_nccl_p2p_destroy(weiri_nccl_comm *comm);
/* All sends and receives among the calls, at once; other kinds are passed over. */
weir_status weiri_nccl_p2p_run(weiri_nccl_comm *comm, const weiri_nccl_call *calls, size_t count);

/* -------------------------------------------------------------------- memory */

/* Ends the registrations of a communicator that ends. */
void weiri_nccl_forget_memory(ncclComm_t handle);

/* ------------------------------------------------------------------- scalars */

/* The scalar of a custom operation; NULL where op is none of the communicator's. */
const weiri_nccl_scale *weiri_nccl_scale_of(const weiri_nccl_comm *comm, ncclRedOp_t op);

#endif
