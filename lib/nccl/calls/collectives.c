/*
 * The collectives: a call is checked when it is made, and runs then (run.c) or at the end of the
 * thread's group (group.c). Gather and scatter consist of sends and receives.
 */
#include "nccl/gpu/gpu.h"

#include "base/contract.h"

/* -------------------------------------------------------------------- checks */

static ncclResult_t nccl_call_refuse(const weiri_nccl_call *call, const char *what, int value)
{
    return weiri_nccl_fail(ncclInvalidArgument, "%s: unknown %s %d", weiri_nccl_function_of(call),
                           what, value);
}

static ncclResult_t nccl_call_refuse_rank(const weiri_nccl_comm *comm, const weiri_nccl_call *call,
                                          int rank)
{
    return weiri_nccl_fail(ncclInvalidArgument, "%s: %s %d, but the communicator has ranks 0 to %d",
                           weiri_nccl_function_of(call), weiri_nccl_is_p2p(call) ? "peer" : "root",
                           rank, comm->nranks - 1);
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
        return nccl_call_refuse(call, "data type", (int)call->call.dtype);
    if (weiri_contract_of((int)call->call.collective)->reduces && !nccl_call_resolve_op(comm, call))
        return nccl_call_refuse(call, "operation, or one of another type:", (int)call->call.op);
    if (root < 0 || root >= comm->nranks)
        return nccl_call_refuse_rank(comm, call, root);
    if (count > SIZE_MAX / 16 / (size_t)comm->nranks)
        return weiri_nccl_fail(ncclInvalidArgument, "%s: count %zu is too large",
                               weiri_nccl_function_of(call), count);
    const int lacks_in = nccl_call_reads(comm, call) && !call->call.in;
    if (count && (lacks_in || (nccl_call_writes(comm, call) && !call->call.out)))
        return weiri_nccl_fail(ncclInvalidArgument, "%s: %s is NULL", weiri_nccl_function_of(call),
                               lacks_in ? "sendbuff" : "recvbuff");
    int ended = atomic_load(&comm->async_error);
    if (ended)
        return weiri_nccl_fail((ncclResult_t)ended,
                               "%s: the communicator has failed before or was aborted",
                               weiri_nccl_function_of(call));
    return ncclSuccess;
}

ncclResult_t weiri_nccl_submit(weiri_nccl_call *call)
{
    weiri_nccl_comm *comm = weiri_nccl_enter(call->handle);
    if (!comm)
        return weiri_nccl_refuse(weiri_nccl_not_entered());
    if (comm->device < 0 && !comm->vendor)
        call->call.stream = NULL; /* the host backend has no streams */
    ncclResult_t result = nccl_call_check(comm, call);
    if (result != ncclSuccess)
        weiri_nccl_refuse(result);
    else if (weiri_nccl_in_group())
        result = weiri_nccl_keep(call);
    else if (weiri_nccl_is_p2p(call))
        result = weiri_nccl_result_of(comm, weiri_nccl_p2p_run(comm, call, 1));
    else
        result = weiri_nccl_run(comm, call);
    weiri_nccl_leave(comm);
    return result;
}

/* --------------------------------------------------------------- the interface */

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_ALLREDUCE, sendbuff, recvbuff, count, datatype, comm, stream);
    call.call.op = (weir_op)op;
    return weiri_nccl_submit(&call);
}
WEIRI_NCCL_ALIAS(AllReduce);

ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_REDUCE_SCATTER, sendbuff, recvbuff, recvcount, datatype, comm,
                    stream);
    call.call.op = (weir_op)op;
    return weiri_nccl_submit(&call);
}
WEIRI_NCCL_ALIAS(ReduceScatter);

ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_ALLGATHER, sendbuff, recvbuff, sendcount, datatype, comm,
                    stream);
    return weiri_nccl_submit(&call);
}
WEIRI_NCCL_ALIAS(AllGather);

ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_BROADCAST, sendbuff, recvbuff, count, datatype, comm, stream);
    call.call.root = root;
    return weiri_nccl_submit(&call);
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
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_REDUCE, sendbuff, recvbuff, count, datatype, comm, stream);
    call.call.op = (weir_op)op;
    call.call.root = root;
    return weiri_nccl_submit(&call);
}
WEIRI_NCCL_ALIAS(Reduce);

ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_ALLTOALL, sendbuff, recvbuff, count, datatype, comm, stream);
    return weiri_nccl_submit(&call);
}
WEIRI_NCCL_ALIAS(AlltoAll);

ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_SENDRECV, sendbuff, NULL, count, datatype, comm, stream);
    call.call.destination = peer;
    return weiri_nccl_submit(&call);
}
WEIRI_NCCL_ALIAS(Send);

ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_SENDRECV, NULL, recvbuff, 0, datatype, comm, stream);
    call.call.recv_count = count;
    call.call.source = peer == -1 ? -2 : peer; /* -1 would be a send; neither is a rank */
    return weiri_nccl_submit(&call);
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
    weiri_nccl_call call;
    weiri_nccl_fill(&call, WEIR_COLL_SENDRECV, sends ? buffer : NULL,
                    sends ? NULL : (void *)(size_t)buffer, sends ? all->count : 0, all->datatype,
                    all->handle, all->stream);
    call.call.recv_count = sends ? 0 : all->count;
    *(sends ? &call.call.destination : &call.call.source) = peer;
    call.event = all->event;
    all->event = NULL;
    weiri_nccl_submit(&call);
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

/* The root's buffers are laid out as in an allgather, or in a reduce_scatter. */
static weir_status star_check_buffers(const star *all, const char *name, int rank, int nranks)
{
    const weiri_contract *contract =
        weiri_contract_of(all->root_sends ? WEIR_COLL_REDUCE_SCATTER : WEIR_COLL_ALLGATHER);
    const size_t blocks_bytes = (size_t)nranks * all->block_bytes;
    const weiri_buffers gather = {all->own, all->blocks, all->block_bytes, blocks_bytes,
                                  all->block_bytes};
    const weiri_buffers scatter = {all->blocks, all->own, blocks_bytes, all->block_bytes,
                                   all->block_bytes};
    return weiri_contract_check_buffers(contract, "", name, WEIRI_IN_PLACE_CALLS, rank,
                                        all->root_sends ? &scatter : &gather);
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
    if (rank == all->root && star_check_buffers(all, name, rank, nranks) != WEIR_OK)
        return weiri_nccl_refuse(weiri_nccl_result(WEIR_ERR_INVALID));
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
