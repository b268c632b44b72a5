/*
 * What the files of groups share: the calls and jobs that a thread's group keeps, and functions
 * that run in threads.
 */
#ifndef WEIR_NCCL_PENDING_H
#define WEIR_NCCL_PENDING_H

#include "nccl/abi.h"

#include <pthread.h>

/* The calls and jobs of a group. */
typedef struct weiri_nccl_pending {
    ncclResult_t error; /* the result of the first call that was rejected */
    weiri_nccl_call *calls;
    size_t ncalls, calls_max; /* and how many fit */
    weiri_nccl_job *jobs;
    size_t njobs, jobs_max;
} weiri_nccl_pending;

/* Hands over what the thread's group has kept; the next group begins with nothing. Release with
 * weiri_nccl_pending_free. */
weiri_nccl_pending weiri_nccl_pending_take(void);
/* Frees the calls, and the jobs, which must not have run. */
void weiri_nccl_pending_free(const weiri_nccl_pending *all);

/* A function that runs in a thread. */
typedef struct weiri_nccl_worker {
    pthread_t thread;
    int started;
    ncclResult_t (*run)(void *argument);
    void *argument;
    ncclResult_t result;
} weiri_nccl_worker;

/* Runs all workers concurrently, or a single one in this thread. Returns the first failure. */
ncclResult_t weiri_nccl_workers_run(weiri_nccl_worker *workers, size_t count);

/* The first failure of two results; ncclInProgress is none, but is reported. */
static inline ncclResult_t weiri_nccl_worse_of(ncclResult_t first, ncclResult_t second)
{
    if (first == ncclSuccess || (first == ncclInProgress && second != ncclSuccess))
        return second;
    return first;
}

static inline int weiri_nccl_has_failed(ncclResult_t result)
{
    return result != ncclSuccess && result != ncclInProgress;
}

#endif
