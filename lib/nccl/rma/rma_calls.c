/*
 * The one-sided functions: arguments are checked when a call is made; it runs then, or at the end
 * of the thread's group.
 */
#include "nccl/rma/rma.h"

#include "nccl/p2p/p2p_host.h"
#include "nccl/rma/rma_quick.h"
#include "nccl/comm/users.h"

#include <stdlib.h>

static const char *rma_path_reason(const weiri_nccl_comm *comm, const weiri_window_peer *to)
{
    (void)to;
    return comm->device >= 0 ? "is not mapped on this GPU"
                             : "is neither memory of ncclMemAlloc nor may this process write to it";
}

static ncclResult_t rma_refuse(const char *name, const weiri_nccl_comm *comm, const char *what)
{
    return weiri_nccl_fail(ncclInvalidArgument, "%s, rank %d of %d: %s", name, comm->rank,
                           comm->nranks, what);
}

/* Converts a signal index and a context. */
static ncclResult_t rma_index(const char *name, const weiri_nccl_comm *comm, int signal,
                              int context, int *index)
{
    const weiri_nccl_settings *have = &comm->settings;
    if (!have->contexts)
        return weiri_nccl_fail(ncclInvalidUsage,
                               "%s: the communicator was created with numRmaCtx 0", name);
    if (context < 0 || context >= have->contexts)
        return weiri_nccl_fail(ncclInvalidArgument, "%s: context %d, expected 0 to %d (numRmaCtx)",
                               name, context, have->contexts - 1);
    if (signal < 0 || signal >= have->signals)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "%s: signal index %d, expected 0 to %d (numRmaSig)", name, signal,
                               have->signals - 1);
    *index = context * have->signals + signal;
    return ncclSuccess;
}

/* Between nodes signals need what the first window sets up. */
static ncclResult_t rma_check_peer(const char *name, const weiri_nccl_comm *comm, int peer)
{
    if (peer < 0 || peer >= comm->nranks)
        return rma_refuse(name, comm, "the peer is outside the communicator");
    if (weiri_p2p_is_remote(comm, peer) && !comm->rma->net)
        return weiri_nccl_fail(ncclInvalidUsage,
                               "%s: rank %d is on another node; register a window with "
                               "ncclCommWindowRegister first",
                               name, peer);
    return ncclSuccess;
}

static ncclResult_t rma_check_comm(const char *name, const weiri_nccl_comm *comm)
{
    const int ended = atomic_load(&comm->async_error);
    if (comm->vendor)
        return weiri_nccl_fail(ncclInvalidUsage,
                               "%s: not with a communicator of the fallback library", name);
    if (ended)
        return weiri_nccl_fail((ncclResult_t)ended,
                               "%s: the communicator has failed before or was aborted", name);
    return ncclSuccess;
}

static ncclResult_t rma_check_put(const weiri_nccl_comm *comm, const weiri_nccl_onesided *call)
{
    static const char name[] = "ncclPutSignal";
    const weiri_registration *window = weiri_registration_find(comm->handle, call->window);
    if (!window || !window->is_window)
        return rma_refuse(name, comm,
                          "peerWin is not a window of this communicator, or was "
                          "deregistered");
    const weiri_window_peer *to = &window->peers[call->peer];
    if (call->offset > to->bytes || call->bytes > to->bytes - call->offset)
        return weiri_nccl_fail(ncclInvalidArgument,
                               "%s: %llu bytes at offset %llu exceed the window of rank %d, which "
                               "has %llu",
                               name, (unsigned long long)call->bytes,
                               (unsigned long long)call->offset, call->peer,
                               (unsigned long long)to->bytes);
    if (call->bytes && !call->from)
        return rma_refuse(name, comm, "localbuff is NULL");
    if (call->bytes && to->path == WEIRI_RMA_UNREACHABLE)
        return weiri_nccl_fail(ncclInvalidUsage, "%s: the window of rank %d %s", name, call->peer,
                               rma_path_reason(comm, to));
    return ncclSuccess;
}

/* Runs a call or keeps it; takes ownership of it. */
static ncclResult_t rma_submit(weiri_nccl_comm *comm, ncclComm_t handle, weiri_nccl_onesided *call)
{
    weiri_nccl_call kept = {.call = WEIR_CALL_INIT, .handle = handle, .onesided = call};
    kept.call.stream = call->stream;
    if (weiri_nccl_in_group()) {
        ncclResult_t result = weiri_nccl_keep(&kept);
        if (result != ncclSuccess)
            free(call);
        return result;
    }
    weiri_nccl_user_prepare(); /* the next call may be quick */
    ncclResult_t result = weiri_nccl_rma_run(comm, &kept);
    free(call);
    return result;
}

/* Checks and submits a put or signal that was not quick. */
static ncclResult_t rma_out(const char *name, weiri_nccl_onesided *call, int signal, int context,
                            unsigned flags, ncclComm_t handle)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(handle);
    if (!comm)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    ncclResult_t result = rma_check_comm(name, comm);
    if (result == ncclSuccess)
        result = rma_index(name, comm, signal, context, &call->index);
    if (result == ncclSuccess && flags)
        result = rma_refuse(name, comm, "flags must be 0");
    if (result == ncclSuccess)
        result = rma_check_peer(name, comm, call->peer);
    if (result == ncclSuccess && call->kind == WEIRI_ONESIDED_PUT)
        result = rma_check_put(comm, call);
    weiri_nccl_onesided *made = NULL;
    if (result == ncclSuccess && !(made = malloc(sizeof *made)))
        result = weiri_nccl_fail(ncclSystemError, "%s: no memory", name);
    if (result != ncclSuccess) {
        weiri_nccl_refuse(result);
    } else {
        *made = *call;
        if (comm->device < 0)
            made->stream = NULL;
        result = rma_submit(comm, handle, made);
    }
    weiri_nccl_leave(comm);
    return result;
}

ncclResult_t ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                           unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
    if ((unsigned)datatype >= ncclNumTypes || count > SIZE_MAX / 16)
        return weiri_nccl_refuse(weiri_nccl_fail(
            ncclInvalidArgument, "ncclPutSignal: data type %d or count %zu is out of range",
            (int)datatype, count));
    const uint64_t bytes = count * weir_dtype_bytes((weir_dtype)datatype);
    if (!flags &&
        weiri_rma_quick_put(comm, peer, peerWin, peerWinOffset, localbuff, bytes, sigIdx, ctx))
        return ncclSuccess;
    weiri_nccl_onesided call = {.kind = WEIRI_ONESIDED_PUT,
                                .from = localbuff,
                                .window = peerWin,
                                .offset = peerWinOffset,
                                .bytes = bytes,
                                .peer = peer,
                                .stream = stream};
    return rma_out("ncclPutSignal", &call, sigIdx, ctx, flags, comm);
}
WEIRI_NCCL_ALIAS(PutSignal);

ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream)
{
    if (!flags && weiri_rma_quick_signal(comm, peer, sigIdx, ctx))
        return ncclSuccess;
    weiri_nccl_onesided call = {.kind = WEIRI_ONESIDED_SIGNAL, .peer = peer, .stream = stream};
    return rma_out("ncclSignal", &call, sigIdx, ctx, flags, comm);
}
WEIRI_NCCL_ALIAS(Signal);

static ncclResult_t rma_read_waits(const weiri_nccl_comm *comm, const ncclWaitSignalDesc_t *descs,
                                   weiri_nccl_onesided *call)
{
    static const char name[] = "ncclWaitSignal";
    ncclResult_t result = rma_check_comm(name, comm);
    for (int i = 0; i < call->nwaits && result == ncclSuccess; i++) {
        weiri_onesided_wait *wait = &call->waits[i];
        wait->peer = descs[i].peer;
        wait->count = (uint64_t)descs[i].opCnt;
        if (descs[i].opCnt < 1)
            result = weiri_nccl_fail(ncclInvalidArgument,
                                     "%s: descriptor %d has opCnt %d, expected at least 1", name, i,
                                     descs[i].opCnt);
        if (result == ncclSuccess)
            result = rma_index(name, comm, descs[i].sigIdx, descs[i].ctx, &wait->index);
        if (result == ncclSuccess)
            result = rma_check_peer(name, comm, wait->peer);
    }
    return result;
}

ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
                            cudaStream_t stream)
{
    if (nDesc < 1 || !signalDescs)
        return weiri_nccl_refuse(weiri_nccl_fail(
            ncclInvalidArgument, "ncclWaitSignal: %d descriptors, expected at least 1", nDesc));
    ncclResult_t result = ncclSystemError;
    if (nDesc == 1 && weiri_rma_quick_wait(comm, signalDescs, &result))
        return result;
    weiri_nccl_comm *own = weiri_nccl_enter(comm);
    if (!own)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    weiri_nccl_onesided *call = malloc(sizeof *call + (size_t)nDesc * sizeof *call->waits);
    if (call) {
        *call = (weiri_nccl_onesided){.kind = WEIRI_ONESIDED_WAIT,
                                      .nwaits = nDesc,
                                      .stream = own->device < 0 ? NULL : stream};
        result = rma_read_waits(own, signalDescs, call);
    } else {
        result = weiri_nccl_fail(ncclSystemError, "ncclWaitSignal: no memory");
    }
    if (result == ncclSuccess) {
        result = rma_submit(own, comm, call);
    } else {
        weiri_nccl_refuse(result);
        free(call);
    }
    weiri_nccl_leave(own);
    return result;
}
WEIRI_NCCL_ALIAS(WaitSignal);
