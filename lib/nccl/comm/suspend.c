/*
 * Suspending communicators. What a communicator has allocated belongs to weir's communicator, the
 * mailboxes and the words of one-sided calls. Suspending ends these and keeps the bootstrap,
 * registrations (without their mappings), custom operations and the counts of signals; resuming
 * creates them again over the bootstrap, and registers everything in the same order.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/comm/init.h"
#include "nccl/p2p/p2p_host.h"
#include "nccl/rma/rma.h"

#include "base/error.h"

#include <stdlib.h>

typedef struct weiri_nccl_saved {
    size_t count;              /* ranks of the node */
    uint64_t *words;           /* of one-sided calls */
    struct weiri_rma_net *net; /* one-sided calls between nodes; NULL: none */
} weiri_nccl_saved;

/* The argument of a job. */
typedef struct suspend_request {
    ncclComm_t comm;
} suspend_request;

static void saved_free(weiri_nccl_saved *saved)
{
    if (saved)
        free(saved->words);
    free(saved);
}

static weir_status suspend_registration(weiri_nccl_comm *comm, weiri_registration *one)
{
    weiri_window_part(comm, one);
    weir_mem_free(one->mem);
    one->mem = NULL;
    return WEIR_OK;
}

/* Waits for this rank's GPU and all peers, and saves what a communicator cannot create again. */
static weir_status suspend_save(weiri_nccl_comm *comm)
{
    weiri_nccl_saved *saved = calloc(1, sizeof *saved);
    if (comm->device >= 0)
        weiri_nccl_gpu_order_end(comm);
    weir_status status = weiri_comm_barrier(comm->comm);
    if (status == WEIR_OK && saved) {
        saved->count = (size_t)comm->p2p->count;
        saved->words = malloc(weiri_rma_words_bytes(&comm->settings, comm->p2p->count) + 1);
    }
    if (status == WEIR_OK && (!saved || !saved->words))
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "ncclCommSuspend: no memory");
    if (status == WEIR_OK)
        status = weiri_rma_save(comm, saved->words);
    status = weir_boot_agree(comm->boot, status);
    if (status != WEIR_OK) {
        saved_free(saved);
        return status;
    }
    weiri_rma_net_close(comm, 1);
    saved->net = comm->rma->net;
    comm->rma->net = NULL;
    comm->saved = saved;
    return WEIR_OK;
}

static ncclResult_t run_suspend(void *argument)
{
    const suspend_request *request = argument;
    weiri_nccl_comm *comm = weiri_nccl_enter(request->comm);
    if (!comm)
        return weiri_nccl_not_entered();
    ncclResult_t result = (ncclResult_t)atomic_load(&comm->async_error);
    if (comm->vendor || comm->beside)
        result = weiri_nccl_fail(ncclInvalidUsage, "ncclCommSuspend: not with a communicator of "
                                                   "the fallback library");
    else if (result != ncclSuccess)
        weiri_nccl_fail(result, "ncclCommSuspend: the communicator has failed before or was "
                                "aborted");
    else if (!weiri_nccl_claim(comm, WEIRI_NCCL_SUSPENDED))
        result = weiri_nccl_fail(ncclInvalidUsage, "ncclCommSuspend: it is suspended already");
    else if ((result = weiri_nccl_result_of(comm, suspend_save(comm))) != ncclSuccess)
        atomic_store(&comm->state, WEIRI_NCCL_READY);
    if (result == ncclSuccess) {
        weiri_registrations_each(comm, suspend_registration);
        weiri_nccl_comm_close(comm);
    }
    weiri_nccl_leave(comm);
    return result;
}

static ncclResult_t suspend_submit(ncclComm_t comm, ncclResult_t (*run)(void *argument))
{
    suspend_request *request = malloc(sizeof *request);
    if (!request)
        return weiri_nccl_refuse(weiri_nccl_fail(ncclSystemError, "no memory for a request"));
    *request = (suspend_request){comm};
    return weiri_nccl_do((weiri_nccl_job){run, request, comm, NULL, 0});
}

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    if (!own)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    weiri_nccl_leave(own);
    if (flags & ~NCCL_SUSPEND_MEM)
        return weiri_nccl_refuse(weiri_nccl_fail(
            ncclInvalidArgument, "ncclCommSuspend: flags are 0x%x, expected NCCL_SUSPEND_MEM",
            (unsigned)flags));
    return flags ? suspend_submit(comm, run_suspend) : ncclSuccess;
}
WEIRI_NCCL_ALIAS(CommSuspend);

/* ------------------------------------------------------------------- resuming */

/* Restores the counts before any peer can change them. */
static weir_status resume_restore(weiri_nccl_comm *comm)
{
    weiri_nccl_saved *saved = comm->saved;
    weir_status status = WEIR_OK;
    if (saved->count != (size_t)comm->p2p->count)
        status = weiri_fail(WEIR_ERR_INTERNAL, "ncclCommResume: the node has %d ranks, and had %zu",
                            comm->p2p->count, saved->count);
    if (status == WEIR_OK)
        status = weiri_rma_restore(comm, saved->words);
    status = weir_boot_agree(comm->boot, status);
    if (status != WEIR_OK)
        return status;
    comm->rma->net = saved->net;
    saved->net = NULL;
    return weiri_registrations_each(comm, weiri_registration_enrol);
}

/* Back to the suspended state after a failure, which all ranks have. */
static void resume_undo(weiri_nccl_comm *comm)
{
    if (comm->comm)
        weir_comm_abort(comm->comm);
    if (comm->comm && comm->rma) {
        if (comm->rma->net)
            weiri_rma_net_close(comm, 1);
        if (comm->rma->net)
            comm->saved->net = comm->rma->net;
        comm->rma->net = NULL;
        weiri_registrations_each(comm, suspend_registration);
    }
    weiri_nccl_comm_close(comm);
}

static ncclResult_t run_resume(void *argument)
{
    const suspend_request *request = argument;
    weiri_nccl_comm *comm = weiri_nccl_enter_opened(request->comm);
    if (!comm)
        return weiri_nccl_not_entered();
    ncclResult_t result = ncclSuccess;
    if (atomic_load(&comm->state) != WEIRI_NCCL_SUSPENDED) {
        result = weiri_nccl_fail(ncclInvalidUsage,
                                 "ncclCommResume: communicator %p is not "
                                 "suspended",
                                 (void *)request->comm);
    } else {
        weir_status status = weiri_nccl_comm_open(comm);
        if (status == WEIR_OK)
            status = resume_restore(comm);
        result = weiri_nccl_result(status);
        if (result == ncclSuccess) {
            saved_free(comm->saved);
            comm->saved = NULL;
            atomic_store(&comm->state, WEIRI_NCCL_READY);
        } else {
            resume_undo(comm);
        }
    }
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclCommResume(ncclComm_t comm)
{
    weiri_nccl_comm *own = weiri_nccl_enter_opened(comm);
    if (!own)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    weiri_nccl_leave(own);
    return suspend_submit(comm, run_resume);
}
WEIRI_NCCL_ALIAS(CommResume);

void weiri_nccl_saved_free(weiri_nccl_comm *comm)
{
    if (comm->saved && comm->saved->net)
        weiri_rma_net_discard(comm->saved->net);
    saved_free(comm->saved);
    comm->saved = NULL;
}

/* ----------------------------------------------------------------- statistics */

static uint64_t suspendable_bytes(const weiri_nccl_comm *comm)
{
    if (!comm->comm || comm->vendor)
        return 0;
    return weir_comm_scratch_bytes(comm->comm) + weir_mem_bytes(comm->p2p->own);
}

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
    weiri_nccl_comm *own = weiri_nccl_enter_opened(comm);
    ncclResult_t result = ncclSuccess;
    if (!own)
        return weiri_nccl_not_entered();
    if (!value)
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommMemStats: value is NULL");
    else if (stat == ncclStatGpuMemSuspend || stat == ncclStatGpuMemTotal)
        *value = suspendable_bytes(own);
    else if (stat == ncclStatGpuMemSuspended)
        *value = atomic_load(&own->state) == WEIRI_NCCL_SUSPENDED;
    else if (stat == ncclStatGpuMemPersist)
        *value = 0;
    else
        result = weiri_nccl_fail(ncclInvalidArgument, "ncclCommMemStats: unknown statistic %d",
                                 (int)stat);
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(CommMemStats);
