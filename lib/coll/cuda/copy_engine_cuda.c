/*
 * allgather and alltoall by copy engines, which push at the links' full rate
 * and leave the multiprocessors alone, but can neither wait nor look up where a
 * peer's buffer is. So the output must be symmetric memory, and a call is: a
 * kernel in which the ranks meet (all outputs are free), a copy to each peer,
 * beginning with the next rank so that no two write to one at a time, and a
 * kernel in which they meet again (all have arrived). The own part is copied
 * meanwhile on another stream.
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

cudaError_t weiri_cuda_meet(const weiri_call *call, weiri_gpu_args *args)
{
    void *arguments[] = {args};
    return cudaLaunchKernel(weiri_gpu_meet_kernel(), (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments,
                            0, (cudaStream_t)call->stream);
}

/* The part that goes from this rank to rank, as it is sent and where it lands. */
static const char *part_for(const weiri_call *call, int rank)
{
    return call->collective == WEIR_COLL_ALLTOALL ? call->in + (size_t)rank * call->bytes
                                                  : call->in;
}

/* The own part, beside what the caller's stream does; joins it again. */
static weir_status copy_own(const weiri_coll *coll, const weiri_call *call)
{
    const weiri_cuda *cuda = weiri_cuda_of(coll->comm);
    cudaStream_t stream = (cudaStream_t)call->stream;
    char *to = call->out + (size_t)coll->rank * call->bytes;
    const char *from = part_for(call, coll->rank);
    if (to == from)
        return WEIR_OK;
    cudaStream_t beside = cuda->lanes[0];
    weir_status status = check(cudaEventRecord(cuda->order, stream));
    if (status == WEIR_OK)
        status = check(cudaStreamWaitEvent(beside, cuda->order, 0));
    if (status == WEIR_OK)
        status = check(cudaMemcpyAsync(to, from, call->bytes, cudaMemcpyDeviceToDevice, beside));
    return status == WEIR_OK ? check(cudaEventRecord(cuda->order, beside)) : status;
}

static weir_status copy_all(const weiri_coll *coll, const weiri_call *call, char *const *outputs)
{
    const weiri_cuda *cuda = weiri_cuda_of(coll->comm);
    size_t own = (size_t)coll->rank * call->bytes;
    weir_status status = copy_own(coll, call);
    for (int i = 1; i < coll->nranks && status == WEIR_OK; i++) {
        int peer = (coll->rank + i) % coll->nranks;
        status = check(cudaMemcpyAsync(outputs[peer] + own, part_for(call, peer), call->bytes,
                                       cudaMemcpyDeviceToDevice, (cudaStream_t)call->stream));
    }
    if (status == WEIR_OK && part_for(call, coll->rank) != call->out + own)
        status = check(cudaStreamWaitEvent((cudaStream_t)call->stream, cuda->order, 0));
    return status;
}

static weir_status meet(const weiri_coll *coll, const weiri_call *call, weiri_gpu_args *args)
{
    cudaError_t error = weiri_cuda_meet(call, args);
    return error == cudaSuccess ? WEIR_OK
                                : weiri_cuda_fail_launch(coll->comm, error);
}

weir_status weiri_cuda_copy_engine(weiri_coll *coll, const weiri_call *call)
{
    weiri_gpu_args args;
    char *outputs[WEIRI_GPU_RANKS_MAX];
    int before;
    memset(&args, 0, sizeof args);
    if (coll->nranks == 1 ||
        !weiri_cuda_find_outputs(coll, call->out, call->bytes * (size_t)coll->nranks, outputs,
                                 &args))
        return weiri_cuda_run_general(coll, call);
    weir_status status = weiri_cuda_ready(coll->comm, call->stream, &before);
    if (status != WEIR_OK)
        return status;
    args.view = weiri_cuda_of(coll->comm)->view;
    status = weiri_cuda_check_input(coll, call);
    if (status == WEIR_OK)
        status = meet(coll, call, &args);
    if (status == WEIR_OK)
        status = copy_all(coll, call, outputs);
    if (status == WEIR_OK)
        status = meet(coll, call, &args);
    weiri_cuda_leave(coll->comm, before);
    return status;
}
