/*
 * allgather, alltoall and the second half of allreduce by copy engines, which push at
 * the links' full rate (390 GB/s a GPU, kernels 355) and leave the multiprocessors
 * alone, but can neither wait nor look up where a peer's buffer is, and need copies
 * of 100 MB to reach that rate: shorter ones of several GPUs get in each other's way.
 * So the output must be symmetric memory, and a call is: a kernel in which the ranks
 * meet (all outputs are free), for allreduce one that leaves each rank its share of
 * the result, a copy to each peer, beginning with the next rank so that no two write
 * to one at a time, and a kernel in which they meet again (all have arrived). The own
 * part is copied meanwhile on another stream.
 */
#include "coll/cuda/copy_engine.h"

#include "base/error.h"
#include "coll/algos.h"
#include "coll/cuda/run_cuda.h"
#include "comm/gpu_cuda.h"

#include <string.h>

static weir_status check(cudaError_t error)
{
    return error == cudaSuccess
               ? WEIR_OK
               : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot copy with the copy engines");
}

int weiri_cuda_find_outputs(weiri_coll *coll, char *out, size_t bytes, char **outputs,
                            weiri_gpu_args *args)
{
    weir_comm *comm = coll->comm;
    weiri_desc own = weiri_region_describe(comm, out, bytes);
    const weiri_desc *all = own.generation ? comm->regions[own.region].symmetric : NULL;
    for (int rank = 0; all && rank < coll->nranks; rank++) {
        weiri_desc desc = {all[rank].region, all[rank].generation, own.offset};
        if (rank == coll->rank)
            outputs[rank] = out;
        else if (weiri_region_pointer(comm, rank, desc, &outputs[rank]) != WEIR_OK)
            return 0;
        args->pairs[rank].recv_at = weiri_cuda_desc(desc);
    }
    if (all)
        args->out_desc = args->pairs[coll->rank].recv_at;
    return all != NULL;
}

/* Bytes [at, at + bytes) of every rank's output, which this rank writes. */
typedef struct part {
    size_t at, bytes;
} part;

static part own_part(const weiri_coll *coll, const weiri_call *call)
{
    size_t rank = (size_t)coll->rank, share = call->bytes;
    if (call->collective != WEIR_COLL_ALLREDUCE)
        return (part){rank * share, share};
    share = weiri_gpu_share_bytes(call->bytes, coll->nranks);
    size_t at = rank * share < call->bytes ? rank * share : call->bytes;
    return (part){at, call->bytes - at < share ? call->bytes - at : share};
}

/* Where that part is for a rank's output. */
static const char *source_for(const weiri_coll *coll, const weiri_call *call, int rank)
{
    if (call->collective == WEIR_COLL_ALLREDUCE)
        return call->out + own_part(coll, call).at;
    return call->collective == WEIR_COLL_ALLTOALL ? call->in + (size_t)rank * call->bytes
                                                  : call->in;
}

/* The own output's, beside what the caller's stream does. */
static weir_status copy_own(const weiri_coll *coll, const weiri_call *call)
{
    const weiri_cuda *cuda = weiri_cuda_of(coll->comm);
    part own = own_part(coll, call);
    const char *from = source_for(coll, call, coll->rank);
    if (call->out + own.at == from)
        return WEIR_OK;
    weir_status status = check(cudaEventRecord(cuda->order, (cudaStream_t)call->stream));
    if (status == WEIR_OK)
        status = check(cudaStreamWaitEvent(cuda->beside, cuda->order, 0));
    if (status == WEIR_OK)
        status = check(cudaMemcpyAsync(call->out + own.at, from, own.bytes,
                                       cudaMemcpyDeviceToDevice, cuda->beside));
    return status == WEIR_OK ? check(cudaEventRecord(cuda->order, cuda->beside)) : status;
}

static weir_status copy_all(const weiri_coll *coll, const weiri_call *call, char *const *outputs)
{
    const weiri_cuda *cuda = weiri_cuda_of(coll->comm);
    part own = own_part(coll, call);
    weir_status status = copy_own(coll, call);
    for (int i = 1; i < coll->nranks && own.bytes && status == WEIR_OK; i++) {
        int peer = (coll->rank + i) % coll->nranks;
        status =
            check(cudaMemcpyAsync(outputs[peer] + own.at, source_for(coll, call, peer), own.bytes,
                                  cudaMemcpyDeviceToDevice, (cudaStream_t)call->stream));
    }
    if (status == WEIR_OK && call->out + own.at != source_for(coll, call, coll->rank))
        status = check(cudaStreamWaitEvent((cudaStream_t)call->stream, cuda->order, 0));
    return status;
}

/* Before the copies of an allreduce: each rank gets its share of the result. */
static weir_status reduce(const weiri_coll *coll, const weiri_call *call)
{
    const weiri_cuda *cuda = weiri_cuda_of(coll->comm);
    weiri_gpu_args args;
    if (call->collective != WEIR_COLL_ALLREDUCE)
        return WEIR_OK;
    memset(&args, 0, sizeof args);
    args.view = cuda->view;
    args.in = call->in;
    args.out = call->out;
    args.bytes = call->bytes;
    args.op = (int32_t)call->op;
    args.keeps_share = 1;
    return weiri_cuda_launch(coll, call, "ce", weiri_gpu_allreduce_push_kernel(call->dtype),
                             weiri_gpu_allreduce_push_shape(&args, cuda->processors), &args);
}

/* A kernel in which the ranks meet (meet.cu). */
static weir_status meet(const weiri_coll *coll, const weiri_call *call, weiri_gpu_args *args)
{
    return weiri_cuda_launch(coll, call, "ce", weiri_gpu_meet_kernel(), (weiri_gpu_shape){1, 32},
                             args);
}

weir_status weiri_cuda_copy_engine(weiri_coll *coll, const weiri_call *call)
{
    weiri_gpu_args args;
    char *outputs[WEIRI_GPU_RANKS_MAX];
    size_t blocks = call->collective == WEIR_COLL_ALLREDUCE ? 1 : (size_t)coll->nranks;
    size_t out_bytes = blocks * call->bytes;
    int before;
    memset(&args, 0, sizeof args);
    if (coll->nranks == 1 || !weiri_cuda_find_outputs(coll, call->out, out_bytes, outputs, &args))
        return weiri_cuda_run_general(coll, call);
    weir_status status = weiri_cuda_ready(coll->comm, call->stream, &before);
    if (status != WEIR_OK)
        return status;
    args.view = weiri_cuda_of(coll->comm)->view;
    status = weiri_cuda_check_input(coll, call);
    if (status == WEIR_OK)
        status = meet(coll, call, &args);
    if (status == WEIR_OK)
        status = reduce(coll, call);
    if (status == WEIR_OK)
        status = copy_all(coll, call, outputs);
    if (status == WEIR_OK)
        status = meet(coll, call, &args);
    weiri_cuda_leave(coll->comm, before);
    return status;
}
