/*
 * The collectives: a call is checked when it is made, and runs then or at the end of the thread's
 * group. Gather and scatter consist of sends and receives.
 */
#include "nccl/gpu/gpu.h"
#include "nccl/gpu/nvtx.h"
#include "nccl/calls/scale.h"
#include "nccl/vendor/vendor.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* The name of the call's function. */
static const char *nccl_call_function(const weiri_nccl_call *call)
{
    if (weiri_nccl_is_p2p(call))
        return weiri_nccl_sends(call) ? "ncclSend" : "ncclRecv";
    return weiri_contract_of((int)call->call.collective)->nccl_function;
}

/* The same without "nccl". */
static const char *nccl_call_name(const weiri_nccl_call *call)
{
    return nccl_call_function(call) + 4;
}

/* Elements of the input. */
static size_t nccl_call_input_elements(const weiri_nccl_comm *comm, const weir_call *call)
{
    int has_blocks = weiri_contract_of((int)call->collective)->in_has_blocks;
    return has_blocks ? call->count * (size_t)comm->nranks : call->count;
}

/* Copies the call's input, and multiplies it if scale is not NULL. Release with copy_free. */
static weir_status copy_create(const weiri_nccl_comm *comm, const weir_call *call,
                              const weiri_nccl_scale *scale, void **made)
{
    size_t count = nccl_call_input_elements(comm, call), width = weir_dtype_bytes(call->dtype);
    size_t bytes = count * width;
    if (comm->device >= 0)
        return weiri_nccl_gpu_copy_of(comm, scale, call->in, bytes, call->stream, made);
    void *copy = malloc(bytes + 1);
    if (!copy)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a copy of %zu elements", count);
    memcpy(copy, call->in, bytes); /* neither the input nor the scalar need be aligned */
    if (scale) {
        uint64_t scalar = 0;
        memcpy(&scalar, scale->residence == ncclScalarDevice ? scale->there : scale->scalar,
               width);
        weiri_nccl_scale_span(copy, copy, &scalar, (int)call->dtype, 0, 1, count);
    }
    *made = copy;
    return WEIR_OK;
}

static void copy_free(const weiri_nccl_comm *comm, const weir_call *call, void *copy)
{
    if (comm->device >= 0)
        weiri_nccl_gpu_drop(copy, call->stream);
    else
        free(copy);
}

/* Runs the call on a copy of its input. */
static weir_status nccl_call_run_copied(weiri_nccl_comm *comm, const weir_call *call,
                              const weiri_nccl_scale *scale)
{
    void *copy = NULL;
    weir_call copied = *call;
    if (!call->count)
        return WEIR_OK;
    weir_status status = copy_create(comm, call, scale, &copy);
    if (status != WEIR_OK)
        return status;
    copied.in = copy;
    status = weir_run(comm->comm, &copied);
    copy_free(comm, call, copy);
    return status;
}

/* Whether received blocks would overwrite blocks that have not been sent yet. */
static int is_in_place_alltoall(const weir_call *call)
{
    return call->collective == WEIR_COLL_ALLTOALL && call->in == call->out;
}

ncclResult_t weiri_nccl_run(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    if (comm->vendor)
        return weiri_nccl_vendor_run(comm, call);
    const weiri_nccl_scale *scale = call->scale.used ? &call->scale : NULL;
    const weir_call *own = &call->call;
    weir_status status = WEIR_OK;
    weiri_nccl_nvtx_begin(comm, nccl_call_function(call),
                          own->count * weir_dtype_bytes(own->dtype));
    if (comm->device >= 0)
        status = weiri_nccl_gpu_order(comm, own->stream);
    if (status == WEIR_OK && call->event)
        status = weiri_nccl_gpu_record(comm, call->event, own->stream);
    if (status == WEIR_OK)
        status = scale || is_in_place_alltoall(own) ? nccl_call_run_copied(comm, own, scale)
                                                    : weir_run(comm->comm, own);
    if (status == WEIR_OK && comm->device >= 0)
        status = weiri_nccl_gpu_ordered(comm, own->stream);
    weiri_nccl_nvtx_end(comm);
    if (status == WEIR_OK && weiri_log_enabled(WEIRI_LOG_INFO))
        weiri_log(WEIRI_LOG_INFO, "nccl%s, rank %d of %d: %zu x %s by %s", nccl_call_name(call),
                  comm->rank, comm->nranks, own->count, weir_dtype_name(own->dtype),
                  weir_comm_last_algo(comm->comm));
    return weiri_nccl_result_of(comm, status);
}

/* -------------------------------------------------------------------- checks */

static ncclResult_t nccl_call_refuse(const weiri_nccl_call *call, const char *why)
{
    return weiri_nccl_fail(ncclInvalidArgument, "nccl%s: %s", nccl_call_name(call), why);
}

static int nccl_call_reads(const weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    if (weiri_nccl_is_p2p(call))
        return weiri_nccl_sends(call);
    return weiri_contract_reads(weiri_contract_of((int)call->call.collective), comm->rank,
                                call->call.root);
}

static int nccl_call_writes(const weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    if (weiri_nccl_is_p2p(call))
        return !weiri_nccl_sends(call);
    return weiri_contract_writes(weiri_contract_of((int)call->call.collective), comm->rank,
                                 call->call.root);
}

/* Checks the operation of a reduction, and copies a custom operation's scalar into the call.
 * Returns 0 if the operation is unknown or of another type. */
static int nccl_call_resolve_op(const weiri_nccl_comm *comm, weiri_nccl_call *call)
{
    if (comm->vendor || (unsigned)call->call.op < ncclNumOps)
        return 1;
    const weiri_nccl_scale *scale = weiri_nccl_scale_of(comm, (ncclRedOp_t)call->call.op);
    if (!scale || (int)scale->datatype != (int)call->call.dtype)
        return 0;
    call->scale = *scale;
    call->call.op = WEIR_SUM;
    return 1;
}

/* Checks a call when it is made, because NCCL reports invalid arguments there, also in a group,
 * whose calls weir_run receives only at the end. Calls outside of a group are checked here, too, so
 * that error texts name NCCL's function; weir_run repeats these few comparisons. */
static ncclResult_t nccl_call_check(const weiri_nccl_comm *comm, weiri_nccl_call *call)
{
    const int root = weiri_nccl_is_p2p(call) ? weiri_nccl_peer(call) : call->call.root;
    const size_t count = weiri_nccl_count(call);
    if ((unsigned)call->call.dtype >= ncclNumTypes)
        return nccl_call_refuse(call, "unknown data type");
    if (weiri_contract_of((int)call->call.collective)->reduces && !nccl_call_resolve_op(comm, call))
        return nccl_call_refuse(call, "unknown operation, or one of another type");
    if (root < 0 || root >= comm->nranks)
        return nccl_call_refuse(call, "root or peer is outside the communicator");
    if (count > SIZE_MAX / 16 / (size_t)comm->nranks)
        return nccl_call_refuse(call, "count is too large");
    if (count && ((nccl_call_reads(comm, call) && !call->call.in) ||
                  (nccl_call_writes(comm, call) && !call->call.out)))
        return nccl_call_refuse(call, "a buffer is NULL");
    int ended = atomic_load(&comm->async_error);
    if (ended)
        return weiri_nccl_fail((ncclResult_t)ended,
                               "nccl%s: the communicator has failed before or was aborted",
                               nccl_call_name(call));
    return ncclSuccess;
}

static ncclResult_t nccl_call_run_now(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    if (!weiri_nccl_is_p2p(call))
        return weiri_nccl_run(comm, call);
    return weiri_nccl_result_of(comm, weiri_nccl_p2p_run(comm, call, 1));
}

ncclResult_t weiri_nccl_submit(ncclComm_t handle, const weir_call *given, cudaEvent_t event)
{
    weiri_nccl_call call = {.call = *given, .handle = handle, .event = event};
    weiri_nccl_comm *comm = weiri_nccl_enter(handle);
    if (!comm)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    if (comm->device < 0 && !comm->vendor)
        call.call.stream = NULL; /* the host backend has no streams */
    ncclResult_t result = nccl_call_check(comm, &call);
    if (result != ncclSuccess)
        weiri_nccl_refuse(result);
    else if (weiri_nccl_in_group())
        result = weiri_nccl_keep(&call);
    else
        result = nccl_call_run_now(comm, &call);
    weiri_nccl_leave(comm);
    return result;
}

static ncclResult_t nccl_call_submit(ncclComm_t handle, const weir_call *given)
{
    return weiri_nccl_submit(handle, given, NULL);
}

/* --------------------------------------------------------------- the interface */

/* A call with the arguments that all functions have in common. */
static weir_call nccl_call_make(weir_collective collective, const void *in, void *out, size_t count,
                         ncclDataType_t datatype, cudaStream_t stream)
{
    weir_call call = WEIR_CALL_INIT;
    call.collective = collective;
    call.in = in;
    call.out = out;
    call.count = count;
    call.dtype = (weir_dtype)datatype;
    call.stream = stream;
    return call;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    weir_call call =
        nccl_call_make(WEIR_COLL_ALLREDUCE, sendbuff, recvbuff, count, datatype, stream);
    call.op = (weir_op)op;
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(AllReduce);

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    weir_call call =
        nccl_call_make(WEIR_COLL_REDUCE_SCATTER, sendbuff, recvbuff, recvcount, datatype, stream);
    call.op = (weir_op)op;
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(ReduceScatter);

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    const weir_call call =
        nccl_call_make(WEIR_COLL_ALLGATHER, sendbuff, recvbuff, sendcount, datatype, stream);
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(AllGather);

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    weir_call call =
        nccl_call_make(WEIR_COLL_BROADCAST, sendbuff, recvbuff, count, datatype, stream);
    call.root = root;
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(Broadcast);

ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}
WEIRI_NCCL_ALIAS(Bcast);

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    weir_call call = nccl_call_make(WEIR_COLL_REDUCE, sendbuff, recvbuff, count, datatype, stream);
    call.op = (weir_op)op;
    call.root = root;
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(Reduce);

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    const weir_call call =
        nccl_call_make(WEIR_COLL_ALLTOALL, sendbuff, recvbuff, count, datatype, stream);
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(AlltoAll);

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    weir_call call = nccl_call_make(WEIR_COLL_SENDRECV, sendbuff, NULL, count, datatype, stream);
    call.destination = peer;
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(Send);

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    weir_call call = nccl_call_make(WEIR_COLL_SENDRECV, NULL, recvbuff, 0, datatype, stream);
    call.recv_count = count;
    call.source = peer == -1 ? -2 : peer; /* -1 would be a send; neither is a rank */
    return nccl_call_submit(comm, &call);
}
WEIRI_NCCL_ALIAS(Recv);

/* A gather or scatter, as one rank makes it. */
typedef struct star {
    int root_sends;     /* a scatter */
    const char *blocks; /* on root: nranks of them */
    const char *own;    /* each rank's block */
    size_t count, block_bytes;
    ncclDataType_t datatype;
    int root;
    ncclComm_t handle;
    cudaStream_t stream;
    cudaEvent_t event; /* NULL once a call has it */
} star;

static void star_transfer(star *all, int sends, const char *buffer, int peer)
{
    weir_call call = nccl_call_make(WEIR_COLL_SENDRECV, sends ? buffer : NULL,
                                    sends ? NULL : (void *)(size_t)buffer, sends ? all->count : 0,
                                    all->datatype, all->stream);
    call.recv_count = sends ? 0 : all->count;
    *(sends ? &call.destination : &call.source) = peer;
    weiri_nccl_submit(all->handle, &call, all->event);
    all->event = NULL;
}

static void star_transfer_all(star *all, int rank, int nranks)
{
    int in_place = all->own == all->blocks + (size_t)rank * all->block_bytes;
    for (int peer = 0; rank == all->root && peer < nranks; peer++)
        if (peer != rank || !in_place)
            star_transfer(all, all->root_sends, all->blocks + (size_t)peer * all->block_bytes,
                          peer);
    if (rank != all->root || !in_place)
        star_transfer(all, !all->root_sends, all->own, all->root);
}

static ncclResult_t run_star(star *all, const char *name)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(all->handle);
    if (!comm)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    int rank = comm->rank, nranks = comm->nranks;
    weir_status recorded = WEIR_OK;
    if (all->event && (!all->count || nranks == 1)) { /* there may be no message to have it */
        recorded = weiri_nccl_gpu_record(comm, all->event, all->stream);
        all->event = NULL;
    }
    weiri_nccl_leave(comm);
    if (recorded != WEIR_OK)
        return weiri_nccl_refuse(weiri_nccl_result(recorded));
    if (all->root < 0 || all->root >= nranks || (unsigned)all->datatype >= ncclNumTypes ||
        all->count > SIZE_MAX / 16 / (size_t)nranks ||
        (all->count && (!all->own || (rank == all->root && !all->blocks))))
        return weiri_nccl_refuse(weiri_nccl_fail(
            ncclInvalidArgument, "%s: root, type, count or a buffer is out of range", name));
    all->block_bytes = all->count * weir_dtype_bytes((weir_dtype)all->datatype);
    ncclGroupStart();
    if (all->count) /* of empty blocks it cannot be determined which is in place */
        star_transfer_all(all, rank, nranks);
    return ncclGroupEnd();
}

ncclResult_t weiri_nccl_gather(const void *sendbuff, void *recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, cudaEvent_t event)
{
    star all = {0, recvbuff, sendbuff, count, 0, datatype, root, comm, stream, event};
    return run_star(&all, "ncclGather");
}

ncclResult_t weiri_nccl_scatter(const void *sendbuff, void *recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream, cudaEvent_t event)
{
    star all = {1, sendbuff, recvbuff, count, 0, datatype, root, comm, stream, event};
    return run_star(&all, "ncclScatter");
}

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    return weiri_nccl_gather(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}
WEIRI_NCCL_ALIAS(Gather);

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    return weiri_nccl_scatter(sendbuff, recvbuff, count, datatype, root, comm, stream, NULL);
}
WEIRI_NCCL_ALIAS(Scatter);
