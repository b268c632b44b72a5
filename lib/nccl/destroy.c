/*
 * Ending communicators. weir's end is a meeting of all ranks, and a program with
 * several ranks in one thread destroys one after the other: so a process's ranks
 * of one communicator wait in a list, and the last one to be destroyed ends all
 * of them at once. Ranks may also destroy several communicators in different
 * orders: so the meeting is a thread's, for which the caller waits a while only.
 * An aborted communicator ends without a meeting.
 */
#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "nccl/init.h"

#include "nccl/gpu.h"
#include "nccl/vendor.h"

#include "base/error.h"
#include "boot/tcp.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { PATIENCE_S = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weiri_nccl_comm *waiting;

static ncclResult_t run_bury(void *argument)
{
    weiri_nccl_bury(*(weiri_nccl_comm **)argument);
    return ncclSuccess;
}

/* Whether there is nobody to meet any more: it failed, or a sibling was aborted. */
static int has_ended(const weiri_nccl_comm *comm)
{
    return comm->async_error || (comm->comm && weir_load_acquire(comm->comm->guard.abort_word));
}

/* From now on it meets nobody. */
static void mark_ended(weiri_nccl_comm *comm)
{
    int none = ncclSuccess;
    atomic_compare_exchange_strong(&comm->async_error, &none, (int)ncclRemoteError);
}

/* Puts comm into the list; takes it and its siblings out, linked, if they are all there or
 * none needs the others. */
static weiri_nccl_comm *gather(weiri_nccl_comm *comm, int *count)
{
    weiri_nccl_comm *all = NULL;
    const int ended = has_ended(comm);
    int here = 0;
    pthread_mutex_lock(&lock);
    comm->next = waiting;
    waiting = comm;
    for (weiri_nccl_comm *one = waiting; one; one = one->next)
        here += one->job == comm->job;
    if (here == comm->local_nranks || ended) {
        for (weiri_nccl_comm **at = &waiting; *at;) {
            weiri_nccl_comm *one = *at;
            if (one->job != comm->job) {
                at = &one->next;
                continue;
            }
            *at = one->next;
            one->next = all;
            if (ended)
                mark_ended(one);
            all = one;
        }
        *count = here;
    }
    pthread_mutex_unlock(&lock);
    return all;
}

/* Communicators that end together. */
typedef struct funeral {
    int count;
    weiri_nccl_job jobs[];
} funeral;

static void *run_funeral(void *opaque)
{
    funeral *all = opaque;
    weiri_nccl_do_all(all->jobs, (size_t)all->count);
    free(all);
    return NULL;
}

/* The communicators of a list; NULL without memory. */
static funeral *prepare(weiri_nccl_comm *list, int count)
{
    funeral *all = calloc(1, sizeof *all + (size_t)count * sizeof *all->jobs);
    for (weiri_nccl_comm *one = list; all && one; one = one->next) {
        weiri_nccl_comm **argument = malloc(sizeof(weiri_nccl_comm *));
        if (!argument)
            continue; /* it is lost */
        *argument = one;
        all->jobs[all->count++] = (weiri_nccl_job){run_bury, argument, NULL};
    }
    return all;
}

/* Ends comm, whose handle is withdrawn, and perhaps its siblings. */
static ncclResult_t end(weiri_nccl_comm *comm)
{
    int count = 0;
    struct timespec until;
    pthread_t thread;
    if (comm->vendor) {
        weiri_nccl_vendor_end(comm, comm->async_error != ncclSuccess);
        weiri_nccl_bury(comm);
        return ncclSuccess;
    }
    weiri_nccl_comm *list = gather(comm, &count);
    if (!list)
        return ncclSuccess;
    funeral *all = prepare(list, count);
    if (!all)
        return weiri_nccl_fail(ncclSystemError, "no memory to end a communicator");
    if (pthread_create(&thread, NULL, run_funeral, all) != 0) {
        run_funeral(all);
        return ncclSuccess;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        pthread_detach(thread);
    return ncclSuccess;
}

static ncclResult_t withdraw(ncclComm_t handle, int aborts)
{
    weiri_nccl_comm *comm = weiri_nccl_withdraw(handle);
    if (!comm)
        return ncclInvalidArgument;
    if (aborts)
        mark_ended(comm);
    if (aborts && comm->comm) {
        weir_comm_abort(comm->comm);
        weiri_boot_tcp_shut(comm->boot); /* where it is divided */
    }
    weiri_nccl_await_users(comm);
    if (!aborts && comm->comm)
        weiri_comm_finish(comm->comm);
    weiri_nccl_recycle(comm);
    return end(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return comm ? withdraw(comm, 0) : ncclSuccess;
}
WEIRI_NCCL_ALIAS(CommDestroy);

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return comm ? withdraw(comm, 1) : ncclSuccess;
}
WEIRI_NCCL_ALIAS(CommAbort);

/* Calls have ended, or are in their streams, when they return. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    weiri_nccl_comm *own = comm ? weiri_nccl_enter(comm) : NULL;
    ncclResult_t result = ncclSuccess;
    if (!own)
        return comm ? ncclInvalidArgument : ncclSuccess;
    if (atomic_load(&own->is_revoked))
        result = weiri_nccl_fail(ncclInvalidUsage, "ncclCommFinalize: the communicator was "
                                                   "revoked; destroy it");
    else if (atomic_exchange(&own->is_finalized, 1))
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommFinalize: called before");
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommFinalize);

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags)
{
    weiri_nccl_comm *own = comm ? weiri_nccl_enter(comm) : NULL;
    ncclResult_t result = ncclSuccess;
    if (!own)
        return comm ? ncclInvalidArgument : ncclSuccess;
    if (revokeFlags || !own->comm) {
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommRevoke: flags %d, expected 0",
                                 revokeFlags);
    } else {
        mark_ended(own);
        atomic_store(&own->is_revoked, 1);
        weir_comm_abort(own->comm);
    }
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommRevoke);

/* A peer that is stopped may go on, and one that has ended may have done its part, unless this
 * rank's GPU waits. In memory of the process a call that waits finds out by itself. */
static int matters(const weiri_nccl_comm *comm, weir_status status)
{
    if (weir_load_acquire(comm->comm->guard.abort_word))
        return 1;
    if (status == WEIR_ERR_TIMEOUT)
        return 0;
    return status != WEIR_ERR_PEER || (comm->device >= 0 && weiri_nccl_gpu_is_busy(comm));
}

static ncclResult_t look(weiri_nccl_comm *comm)
{
    int known = atomic_load(&comm->async_error);
    if (atomic_load(&comm->is_revoked)) /* its caller waits until it is quiet */
        return comm->device >= 0 && weiri_nccl_gpu_is_busy(comm) ? ncclInProgress : ncclSuccess;
    if (known)
        return (ncclResult_t)known;
    weir_status status = weir_comm_check(comm->comm);
    if (status == WEIR_OK || !matters(comm, status))
        return ncclSuccess;
    if (status == WEIR_ERR_PEER)
        weir_comm_abort(comm->comm); /* its kernel shall end */
    return weiri_nccl_result_of(comm, status);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return ncclInvalidArgument;
    if (!asyncError)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: no place");
    else if (own->vendor)
        result = weiri_nccl_vendor_async(own, asyncError);
    else
        *asyncError = look(own);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommGetAsyncError);
