/*
 * The collectives: a call is checked when it is made, and runs then or at the end of the thread's
 * group. Gather and scatter consist of sends and receives.
 */
#include "nccl/gpu.h"
#include "nccl/scale.h"
#include "nccl/vendor.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                                    "Reduce",    "AlltoAll",      "Send",      "Recv"};

static int reduces(weiri_nccl_kind kind)
{
    return kind == WEIRI_NCCL_ALLREDUCE || kind == WEIRI_NCCL_REDUCE_SCATTER ||
           kind == WEIRI_NCCL_REDUCE;
}

/* Elements of the input, which a copy has. */
static size_t elements_of(const weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    int blocks = call->kind == WEIRI_NCCL_REDUCE_SCATTER || call->kind == WEIRI_NCCL_ALLTOALL;
    return blocks ? call->count * (size_t)comm->nranks : call->count;
}

static weir_status dispatch(weir_comm *comm, const weiri_nccl_call *call, const void *in,
                            weir_op op, weir_stream stream)
{
    weir_dtype dtype = (weir_dtype)call->datatype;
    switch (call->kind) {
    case WEIRI_NCCL_ALLREDUCE:
        return weir_allreduce(comm, in, call->out, call->count, dtype, op, stream);
    case WEIRI_NCCL_REDUCE_SCATTER:
        return weir_reduce_scatter(comm, in, call->out, call->count, dtype, op, stream);
    case WEIRI_NCCL_ALLGATHER:
        return weir_allgather(comm, in, call->out, call->count, dtype, stream);
    case WEIRI_NCCL_BROADCAST:
        return weir_broadcast(comm, in, call->out, call->count, dtype, call->root, stream);
    case WEIRI_NCCL_REDUCE:
        return weir_reduce(comm, in, call->out, call->count, dtype, op, call->root, stream);
    case WEIRI_NCCL_ALLTOALL:
        return weir_alltoall(comm, in, call->out, call->count, dtype, stream);
    case WEIRI_NCCL_SEND:
    case WEIRI_NCCL_RECV:
        break;
    }
    return weiri_fail(WEIR_ERR_INTERNAL, "no collective");
}

/* A copy of the call's input; scale: multiplied, or NULL. */
static weir_status copy_input(const weiri_nccl_comm *comm, const weiri_nccl_call *call,
                              const weiri_nccl_scale *scale, void **made)
{
    size_t count = elements_of(comm, call);
    size_t bytes = count * weir_dtype_bytes((weir_dtype)call->datatype);
    if (comm->device >= 0)
        return weiri_nccl_gpu_copy_of(comm, scale, call->in, bytes, call->stream, made);
    void *copy = malloc(bytes + 1);
    if (!copy)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a copy of %zu elements", count);
    memcpy(copy, call->in, bytes); /* which may not be aligned, nor the scalar */
    if (scale) {
        uint64_t scalar = 0;
        memcpy(&scalar, scale->residence == ncclScalarDevice ? scale->there : scale->scalar,
               weir_dtype_bytes((weir_dtype)call->datatype));
        weiri_nccl_scale_span(copy, copy, &scalar, (int)call->datatype, 0, 1, count);
    }
    *made = copy;
    return WEIR_OK;
}

static void drop_copy(const weiri_nccl_comm *comm, const weiri_nccl_call *call, void *copy)
{
    if (comm->device >= 0)
        weiri_nccl_gpu_drop(copy, call->stream);
    else
        free(copy);
}

static weir_status run_copied(weiri_nccl_comm *comm, const weiri_nccl_call *call,
                              const weiri_nccl_scale *scale, weir_stream stream)
{
    void *copy = NULL;
    if (!call->count)
        return WEIR_OK;
    weir_status status = copy_input(comm, call, scale, &copy);
    if (status != WEIR_OK)
        return status;
    status = dispatch(comm->comm, call, copy, WEIR_SUM, stream);
    drop_copy(comm, call, copy);
    return status;
}

/* Whether blocks would overwrite blocks that are yet to leave. */
static int is_in_place_alltoall(const weiri_nccl_call *call)
{
    return call->kind == WEIRI_NCCL_ALLTOALL && call->in == call->out;
}

ncclResult_t weiri_nccl_run(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    if (comm->vendor)
        return weiri_nccl_vendor_run(comm, call);
    const weiri_nccl_scale *scale = call->scale.used ? &call->scale : NULL;
    weir_stream stream = comm->device >= 0 ? call->stream : NULL;
    weir_status status = WEIR_OK;
    if (comm->device >= 0)
        status = weiri_nccl_gpu_order(comm, call->stream);
    if (status == WEIR_OK)
        status = scale || is_in_place_alltoall(call)
                     ? run_copied(comm, call, scale, stream)
                     : dispatch(comm->comm, call, call->in,
                                reduces(call->kind) ? (weir_op)call->op : WEIR_SUM, stream);
    if (status == WEIR_OK && comm->device >= 0)
        status = weiri_nccl_gpu_ordered(comm, call->stream);
    if (status == WEIR_OK && weiri_log_enabled(WEIRI_LOG_INFO))
        weiri_log(WEIRI_LOG_INFO, "nccl%s, rank %d of %d: %zu x %s by %s", names[call->kind],
                  comm->rank, comm->nranks, call->count,
                  weir_dtype_name((weir_dtype)call->datatype), weir_comm_last_algo(comm->comm));
    return weiri_nccl_result_of(comm, status);
}

/* -------------------------------------------------------------------- checks */

static ncclResult_t refuse(const weiri_nccl_call *call, const char *why)
{
    return weiri_nccl_fail(ncclInvalidArgument, "nccl%s: %s", names[call->kind], why);
}

static int reads(const weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    return call->kind != WEIRI_NCCL_RECV &&
           (call->kind != WEIRI_NCCL_BROADCAST || call->root == comm->rank);
}

static int writes(const weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    return call->kind != WEIRI_NCCL_SEND &&
           (call->kind != WEIRI_NCCL_REDUCE || call->root == comm->rank);
}

/* Whether a reduction's operation is one, of its type; puts a custom one's scalar into the call. */
static int take_op(const weiri_nccl_comm *comm, weiri_nccl_call *call)
{
    if (comm->vendor || (unsigned)call->op < ncclNumOps)
        return 1;
    const weiri_nccl_scale *scale = weiri_nccl_scale_of(comm, call->op);
    if (!scale || scale->datatype != call->datatype)
        return 0;
    call->scale = *scale;
    return 1;
}

static ncclResult_t check(const weiri_nccl_comm *comm, weiri_nccl_call *call)
{
    if ((unsigned)call->datatype >= ncclNumTypes)
        return refuse(call, "unknown data type");
    if (reduces(call->kind) && !take_op(comm, call))
        return refuse(call, "unknown operation, or one of another type");
    if (call->root < 0 || call->root >= comm->nranks)
        return refuse(call, "root or peer is outside the communicator");
    if (call->count > SIZE_MAX / 16 / (size_t)comm->nranks)
        return refuse(call, "count is too large");
    if (call->count && ((reads(comm, call) && !call->in) || (writes(comm, call) && !call->out)))
        return refuse(call, "a buffer is NULL");
    int ended = atomic_load(&comm->async_error);
    if (ended)
        return weiri_nccl_fail((ncclResult_t)ended,
                               "nccl%s: the communicator has failed before or was aborted",
                               names[call->kind]);
    return ncclSuccess;
}

static ncclResult_t run_alone(weiri_nccl_comm *comm, const weiri_nccl_call *call)
{
    if (call->kind != WEIRI_NCCL_SEND && call->kind != WEIRI_NCCL_RECV)
        return weiri_nccl_run(comm, call);
    return weiri_nccl_result_of(comm, weiri_nccl_p2p_run(comm, call, 1));
}

static ncclResult_t submit(weiri_nccl_call call)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(call.handle);
    if (!comm)
        return weiri_nccl_refuse(ncclInvalidArgument);
    ncclResult_t result = check(comm, &call);
    if (result != ncclSuccess)
        weiri_nccl_refuse(result);
    else if (weiri_nccl_in_group())
        result = weiri_nccl_keep(&call);
    else
        result = run_alone(comm, &call);
    weiri_nccl_leave(comm);
    return result;
}

/* --------------------------------------------------------------- the interface */

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_ALLREDUCE,
                                    .handle = comm,
                                    .in = sendbuff,
                                    .out = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .op = op,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(AllReduce);

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_REDUCE_SCATTER,
                                    .handle = comm,
                                    .in = sendbuff,
                                    .out = recvbuff,
                                    .count = recvcount,
                                    .datatype = datatype,
                                    .op = op,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(ReduceScatter);

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_ALLGATHER,
                                    .handle = comm,
                                    .in = sendbuff,
                                    .out = recvbuff,
                                    .count = sendcount,
                                    .datatype = datatype,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(AllGather);

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_BROADCAST,
                                    .handle = comm,
                                    .in = sendbuff,
                                    .out = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = root,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(Broadcast);

ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_BROADCAST,
                                    .handle = comm,
                                    .in = buff,
                                    .out = buff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = root,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(Bcast);

ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_REDUCE,
                                    .handle = comm,
                                    .in = sendbuff,
                                    .out = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .op = op,
                                    .root = root,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(Reduce);

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_ALLTOALL,
                                    .handle = comm,
                                    .in = sendbuff,
                                    .out = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(AlltoAll);

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_SEND,
                                    .handle = comm,
                                    .in = sendbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = peer,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(Send);

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return submit((weiri_nccl_call){.kind = WEIRI_NCCL_RECV,
                                    .handle = comm,
                                    .out = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = peer,
                                    .stream = stream});
}
WEIRI_NCCL_ALIAS(Recv);

/* One end of a gather or scatter: kind is what root does with the blocks. */
typedef struct star {
    weiri_nccl_kind kind;
    const char *blocks; /* on root: nranks of them */
    const char *own;    /* each rank's block */
    size_t count, block_bytes;
    ncclDataType_t datatype;
    int root;
    ncclComm_t handle;
    cudaStream_t stream;
} star;

static ncclResult_t transfer(const star *all, weiri_nccl_kind kind, const char *buffer, int peer)
{
    return kind == WEIRI_NCCL_SEND
               ? ncclSend(buffer, all->count, all->datatype, peer, all->handle, all->stream)
               : ncclRecv((void *)(size_t)buffer, all->count, all->datatype, peer, all->handle,
                          all->stream);
}

static void transfer_all(const star *all, int rank, int nranks)
{
    weiri_nccl_kind other = all->kind == WEIRI_NCCL_SEND ? WEIRI_NCCL_RECV : WEIRI_NCCL_SEND;
    int in_place = all->own == all->blocks + (size_t)rank * all->block_bytes;
    for (int peer = 0; rank == all->root && peer < nranks; peer++)
        if (peer != rank || !in_place)
            transfer(all, all->kind, all->blocks + (size_t)peer * all->block_bytes, peer);
    if (rank != all->root || !in_place)
        transfer(all, other, all->own, all->root);
}

static ncclResult_t run_star(star *all, const char *name)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(all->handle);
    if (!comm)
        return weiri_nccl_refuse(ncclInvalidArgument);
    int rank = comm->rank, nranks = comm->nranks;
    weiri_nccl_leave(comm);
    if (all->root < 0 || all->root >= nranks || (unsigned)all->datatype >= ncclNumTypes ||
        all->count > SIZE_MAX / 16 / (size_t)nranks ||
        (all->count && (!all->own || (rank == all->root && !all->blocks))))
        return weiri_nccl_refuse(weiri_nccl_fail(
            ncclInvalidArgument, "%s: root, type, count or a buffer is out of range", name));
    all->block_bytes = all->count * weir_dtype_bytes((weir_dtype)all->datatype);
    ncclGroupStart();
    if (all->count) /* of empty blocks it cannot be determined which is in place */
        transfer_all(all, rank, nranks);
    return ncclGroupEnd();
}

ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    star all = {WEIRI_NCCL_RECV, recvbuff, sendbuff, count, 0, datatype, root, comm, stream};
    return run_star(&all, "ncclGather");
}
WEIRI_NCCL_ALIAS(Gather);

ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    star all = {WEIRI_NCCL_SEND, sendbuff, recvbuff, count, 0, datatype, root, comm, stream};
    return run_star(&all, "ncclScatter");
}
WEIRI_NCCL_ALIAS(Scatter);
