/*
 * Ending communicators. Destroying a weir communicator is collective, but a program with several
 * ranks in one thread destroys them one after the other. The ranks of one communicator in a process
 * therefore wait in a list, and when the last of them is destroyed, all are ended together. Ranks
 * may also destroy several communicators in different orders; so the collective part runs in a
 * thread, for which the caller waits a limited time only. An aborted communicator is freed without
 * communicating.
 */
#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "nccl/comm/init.h"

#include "nccl/gpu/gpu.h"
#include "nccl/vendor/vendor.h"

#include "base/error.h"
#include "boot/tcp.h"
#include "comm/comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { JOIN_TIMEOUT_S = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weiri_nccl_comm *waiting;

static ncclResult_t run_comm_free(void *argument)
{
    weiri_nccl_comm_free(*(weiri_nccl_comm **)argument);
    return ncclSuccess;
}

/* From now on the communicator waits for nobody. */
static void mark_ended(weiri_nccl_comm *comm)
{
    int none = ncclSuccess;
    atomic_compare_exchange_strong(&comm->async_error, &none, (int)ncclRemoteError);
}

/* Adds comm to the list. If all its siblings are there, or none needs the others, takes them all
 * from the list and returns them, linked. */
static weiri_nccl_comm *collect_siblings(weiri_nccl_comm *comm, int *count)
{
    weiri_nccl_comm *all = NULL;
    /* If the communicator failed, or a sibling was aborted, nobody is to be waited for. */
    const int ended =
        comm->async_error || (comm->comm && weir_load_acquire(comm->comm->guard.abort_word));
    int found = 0;
    pthread_mutex_lock(&lock);
    comm->next = waiting;
    waiting = comm;
    for (weiri_nccl_comm *one = waiting; one; one = one->next)
        found += one->job == comm->job;
    if (found == comm->local_nranks || ended) {
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
        *count = found;
    }
    pthread_mutex_unlock(&lock);
    return all;
}

/* Communicators that end together. */
typedef struct teardown {
    int count;
    weiri_nccl_job jobs[];
} teardown;

static void *run_teardown(void *opaque)
{
    teardown *all = opaque;
    weiri_nccl_do_all(all->jobs, (size_t)all->count);
    free(all);
    return NULL;
}

/* From the communicators of a list; NULL if memory is exhausted. */
static teardown *teardown_of(weiri_nccl_comm *list, int count)
{
    teardown *all = calloc(1, sizeof *all + (size_t)count * sizeof *all->jobs);
    for (weiri_nccl_comm *one = list; all && one; one = one->next) {
        weiri_nccl_comm **argument = malloc(sizeof(weiri_nccl_comm *));
        if (!argument)
            continue; /* leaked */
        *argument = one;
        all->jobs[all->count++] = (weiri_nccl_job){run_comm_free, argument, NULL, NULL, 0};
    }
    return all;
}

/* Ends comm, whose handle is withdrawn, and possibly its siblings. */
static ncclResult_t comm_end(weiri_nccl_comm *comm)
{
    int count = 0;
    struct timespec until;
    pthread_t thread;
    if (comm->vendor) {
        weiri_nccl_vendor_destroy(comm->vendor, comm->async_error != ncclSuccess);
        weiri_nccl_comm_free(comm);
        return ncclSuccess;
    }
    weiri_nccl_comm *list = collect_siblings(comm, &count);
    if (!list)
        return ncclSuccess;
    teardown *all = teardown_of(list, count);
    if (!all)
        return weiri_nccl_fail(ncclSystemError, "no memory to end a communicator");
    if (pthread_create(&thread, NULL, run_teardown, all) != 0) {
        run_teardown(all);
        return ncclSuccess;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_TIMEOUT_S;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0)
        pthread_detach(thread);
    return ncclSuccess;
}

static ncclResult_t comm_withdraw(ncclComm_t handle, int aborts)
{
    weiri_nccl_comm *comm = weiri_nccl_withdraw(handle);
    if (!comm)
        return ncclInvalidArgument;
    int state = WEIRI_NCCL_CREATING;
    if (atomic_compare_exchange_strong(&comm->state, &state, WEIRI_NCCL_ABANDONED)) {
        weiri_nccl_await_users(comm);
        weiri_nccl_recycle(comm);
        return ncclSuccess; /* the thread that creates it frees it */
    }
    if (aborts || state == WEIRI_NCCL_FAILED)
        mark_ended(comm);
    if (aborts && comm->comm) {
        weir_comm_abort(comm->comm);
        weiri_boot_tcp_shut(comm->boot); /* ends a division in progress */
    }
    weiri_nccl_await_users(comm);
    if (!aborts && comm->comm)
        weiri_comm_finish(comm->comm);
    weiri_nccl_recycle(comm);
    return comm_end(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return comm ? comm_withdraw(comm, 0) : ncclSuccess;
}
WEIRI_NCCL_ALIAS(CommDestroy);

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return comm ? comm_withdraw(comm, 1) : ncclSuccess;
}
WEIRI_NCCL_ALIAS(CommAbort);

/* Needs no work: when calls return, they have completed or are in their streams. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    weiri_nccl_comm *own = comm ? weiri_nccl_enter_opened(comm) : NULL;
    ncclResult_t result = ncclSuccess;
    if (!own)
        return comm ? weiri_nccl_not_entered() : ncclSuccess;
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
        return comm ? weiri_nccl_not_entered() : ncclSuccess;
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

/* Whether an error found by a check is final. A peer that is stopped may continue, and one that has
 * ended may have done its part, unless this rank's GPU is waiting. On the host, a waiting call
 * detects it by itself. */
static int is_final(const weiri_nccl_comm *comm, weir_status status)
{
    if (weir_load_acquire(comm->comm->guard.abort_word))
        return 1;
    if (status == WEIR_ERR_TIMEOUT)
        return 0;
    return status != WEIR_ERR_PEER || (comm->device >= 0 && weiri_nccl_gpu_is_busy(comm));
}

static ncclResult_t async_error_of(weiri_nccl_comm *comm)
{
    int known = atomic_load(&comm->async_error);
    if (atomic_load(&comm->state) == WEIRI_NCCL_CREATING)
        return ncclInProgress;
    if (atomic_load(&comm->state) != WEIRI_NCCL_READY) /* suspended, or known is set */
        return (ncclResult_t)known;
    if (atomic_load(&comm->is_revoked)) /* the caller of ncclCommRevoke polls until it is idle */
        return comm->device >= 0 && weiri_nccl_gpu_is_busy(comm) ? ncclInProgress : ncclSuccess;
    if (known)
        return (ncclResult_t)known;
    /* After ncclCommShrink the ranks left out may abort or end. A call that needs them still fails,
     * and a GPU that waits for them is found by the check. */
    if (atomic_load(&comm->is_shrunk) && !(comm->device >= 0 && weiri_nccl_gpu_is_busy(comm)))
        return ncclSuccess;
    weir_status status = weir_comm_check(comm->comm);
    if (status == WEIR_OK || !is_final(comm, status))
        return ncclSuccess;
    if (status == WEIR_ERR_PEER)
        weir_comm_abort(comm->comm); /* ends the kernel that waits */
    return weiri_nccl_result_of(comm, status);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    weiri_nccl_comm *own = weiri_nccl_enter_any(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return weiri_nccl_not_entered();
    if (!asyncError)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
    else if (atomic_load(&own->state) == WEIRI_NCCL_READY && own->vendor)
        result = weiri_nccl_vendor_async(own, asyncError);
    else
        *asyncError = async_error_of(own);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommGetAsyncError);
