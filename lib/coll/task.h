/*
 * A task: one call on its way from weir_run (api.c) to the algorithm that serves it. It is made on
 * the stack when the call has been checked, and constant from then on. What outlives a call is in
 * the communicator's state, weiri_coll (coll.h). An algorithm that divides a call, or runs it on
 * other buffers, makes a second call and a second task for it (weiri_task_part).
 */
#ifndef WEIR_COLL_TASK_H
#define WEIR_COLL_TASK_H

#include "comm/comm.h"

typedef struct weiri_coll weiri_coll;
typedef struct weiri_task weiri_task;

/* Runs a task; collective. */
typedef weir_status (*weiri_algo_run)(weiri_coll *coll, const weiri_task *task);

/* A row of the algorithm table (table.c). */
typedef struct weiri_algo {
    weir_algo_info info; /* the part that users see */
    weiri_algo_run run;
    const struct weiri_gpu_algo *gpu; /* cuda: coll/cuda/kernels.h */
    /* Between nodes: from so many bytes on, phases within a node run on its GPUs. That is faster if
     * they take less time than the copies that they save: in allreduce and reduce_scatter from
     * about 128 KiB on; in reduce, whose root copies everything anyway, never (SIZE_MAX). */
    size_t gpu_phases_from;
} weiri_algo;

/* The algorithm for calls of up to max_bytes, on GPUs with this grid (0: its default). */
typedef struct weiri_choice {
    uint64_t max_bytes;
    const weiri_algo *algo;        /* NULL: a plan */
    struct weiri_planned *planned; /* a row with a plan (planned.h); calls that it cannot serve go
                                    * to the next choice */
    int blocks, threads;
    char name[32]; /* of the algorithm, with the grid if there is one: "packet:16x64" */
} weiri_choice;

/* What this rank exchanges with one peer in alltoall(v) and sendrecv. */
typedef struct weiri_pair {
    const char *from;
    char *to;
    size_t send_bytes, recv_bytes;
    int sends, receives; /* whether there is a message at all, which may be empty */
} weiri_pair;

/* Where the buffers are that an algorithm works on. */
typedef enum weiri_task_memory {
    WEIRI_TASK_AS_GIVEN,       /* where the communicator's backend has them */
    WEIRI_TASK_STAGED,         /* GPUs of several nodes: copies in host memory */
    WEIRI_TASK_OF_OTHER_NODES, /* pairs: only those with ranks of other nodes */
    WEIRI_TASK_ON_HOST,        /* GPUs of several nodes: the caller's buffers are in host memory */
} weiri_task_memory;

struct weiri_task {
    const weir_call *call;
    size_t elements;            /* the call's count; sendrecv: the larger one; alltoallv: 0 */
    size_t element_bytes;       /* of one of them */
    size_t count_bytes;         /* of all of them */
    size_t size_bytes;          /* by which the algorithm is selected: of the larger buffer */
    const weiri_choice *choice; /* the entry that serves the call */
    const weiri_pair *pairs;    /* nranks; of alltoall, alltoallv and sendrecv */
    weiri_task_memory memory;
};

/* A task of WEIRI_TASK_OF_OTHER_NODES: its pairs are pieces of blocks. */
typedef struct weiri_pieces {
    weiri_task task;
    const uint64_t *more; /* bytes of the rest of the blocks to each rank, then from each rank */
} weiri_pieces;

/* The bytes of a pair's whole block, by which its two ends agree. */
static inline size_t weiri_block_bytes(const weiri_task *task, int peer, int nranks, int receives)
{
    const weiri_pair *pair = &task->pairs[peer];
    const size_t bytes = receives ? pair->recv_bytes : pair->send_bytes;
    return task->memory == WEIRI_TASK_OF_OTHER_NODES
               ? bytes + ((const weiri_pieces *)(const void *)task)
                             ->more[receives ? nranks + peer : peer]
               : bytes;
}

static inline size_t weiri_call_elements(const weir_call *call)
{
    if (call->collective == WEIR_COLL_ALLTOALLV)
        return 0;
    return call->collective == WEIR_COLL_SENDRECV && call->recv_count > call->count
               ? call->recv_count
               : call->count;
}

/* The task for a part of another task's call, or for the call on other buffers: the sizes are
 * derived from call, everything else is the other task's. */
static inline weiri_task weiri_task_part(const weiri_task *of, const weir_call *call)
{
    weiri_task part = *of;
    part.call = call;
    part.elements = weiri_call_elements(call);
    part.count_bytes = part.elements * part.element_bytes;
    return part;
}

/* Positions in a task's buffers, in bytes. */
static inline const char *weiri_in_at(const weiri_task *task, size_t offset_bytes)
{
    return (const char *)task->call->in + offset_bytes;
}

static inline char *weiri_out_at(const weiri_task *task, size_t offset_bytes)
{
    return (char *)task->call->out + offset_bytes;
}

/* Whether a task has pairs. */
static inline int weiri_is_pairwise(const weiri_task *task)
{
    return task->call->collective == WEIR_COLL_ALLTOALL ||
           task->call->collective == WEIR_COLL_ALLTOALLV ||
           task->call->collective == WEIR_COLL_SENDRECV;
}

#endif
