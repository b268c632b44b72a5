/*
 * allgather and alltoall by copy engines, and what allreduce by them stands on
 * (allreduce_ce_cuda.c). Copy engines push at the links' full rate (390 GB/s a GPU,
 * kernels 355) and leave the multiprocessors alone, but can neither wait nor look up
 * where a peer's buffer is, and need copies of 100 MB to reach that rate: shorter ones
 * of several GPUs get in each other's way, unless the ranks meet between them.
 *
 * So the output must be symmetric memory, and a call is: a kernel in which the ranks
 * meet (all outputs are free), a copy to each peer, beginning with the next rank so
 * that no two write to one at a time, and a kernel in which they meet again (all have
 * arrived). The own part is copied meanwhile on another stream.
 */
#include "coll/cuda/launch/copy_engine_cuda.h"

#include "base/error.h"
#include "coll/algos.h"
#include "comm/gpu/gpu_cuda.h"

#include <string.h>

weir_status weiri_engines_check(cudaError_t error)
{
    return error == cudaSuccess
               ? WEIR_OK
               : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot copy with the copy engines");
}

/* Where an output of so many bytes begins on every rank, if it is in symmetric memory. */
static int find_outputs(weiri_engines *engines, size_t bytes)
{
    const weiri_coll *coll = engines->coll;
    weiri_gpu_args *args = &engines->meeting;
    weir_comm *comm = coll->comm;
    weiri_desc own = weiri_region_describe(comm, engines->call->out, bytes);
    const weiri_desc *all = own.generation ? comm->regions[own.region].symmetric : NULL;
    for (int rank = 0; all && rank < coll->nranks; rank++) {
        weiri_desc desc = {all[rank].region, all[rank].generation, own.offset};
        if (rank == coll->rank)
            engines->outputs[rank] = engines->call->out;
        else if (weiri_region_pointer(comm, rank, desc, &engines->outputs[rank]) != WEIR_OK)
            return 0;
        args->pairs[rank].recv_at = weiri_cuda_desc(desc);
    }
    if (all)
        args->out_desc = args->pairs[coll->rank].recv_at;
    return all != NULL;
}

int weiri_engines_open(weiri_engines *engines, weiri_coll *coll, const weir_call *call,
                       size_t out_bytes, int *before, weir_status *status)
{
    memset(engines, 0, sizeof *engines);
    engines->coll = coll;
    engines->call = call;
    *status = WEIR_OK;
    if (coll->nranks == 1 || !find_outputs(engines, out_bytes))
        return 0;
    *status = weiri_cuda_ready(coll->comm, call->stream, before);
    if (*status != WEIR_OK)
        return 0;
    engines->meeting.view = weiri_cuda_of(coll->comm)->view;
    *status = weiri_cuda_check_input(coll, call);
    if (*status != WEIR_OK)
        weiri_cuda_leave(coll->comm, *before);
    return *status == WEIR_OK;
}

void weiri_engines_close(const weiri_engines *engines, int before)
{
    weiri_cuda_leave(engines->coll->comm, before);
}

weir_status weiri_engines_barrier(weiri_engines *engines)
{
    return weiri_cuda_launch(engines->coll, engines->call->stream, "ce", weiri_gpu_barrier_kernel(),
                             (weiri_gpu_shape){1, 32}, &engines->meeting);
}

weir_status weiri_engines_copy(const weiri_engines *engines, char *to, const char *from,
                               size_t bytes)
{
    if (!bytes)
        return WEIR_OK;
    return weiri_engines_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                               (cudaStream_t)engines->call->stream));
}

cudaStream_t weiri_engines_beside(const weiri_engines *engines)
{
    return weiri_cuda_of(engines->coll->comm)->beside;
}

/* Whatever is in one stream by now comes before what the other gets from now on. */
static weir_status order(const weiri_engines *engines, cudaStream_t first, cudaStream_t then)
{
    cudaEvent_t event = weiri_cuda_of(engines->coll->comm)->order;
    cudaError_t error = cudaEventRecord(event, first);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(then, event, 0);
    return weiri_engines_check(error);
}

weir_status weiri_engines_fork(const weiri_engines *engines)
{
    return order(engines, (cudaStream_t)engines->call->stream, weiri_engines_beside(engines));
}

weir_status weiri_engines_join(const weiri_engines *engines)
{
    return order(engines, weiri_engines_beside(engines), (cudaStream_t)engines->call->stream);
}

/* ----------------------------------------------------- allgather, alltoall */

/* What is for a rank's output. */
static const char *source_for(const weiri_engines *engines, int rank)
{
    const weir_call *call = engines->call;
    return call->collective == WEIR_COLL_ALLTOALL
               ? weiri_in_at(call, (size_t)rank * engines->coll->count_bytes)
               : call->in;
}

/* This rank's block of every output, the own one beside. */
static weir_status copy_all(const weiri_engines *engines)
{
    const weiri_coll *coll = engines->coll;
    const size_t bytes = engines->coll->count_bytes, at = (size_t)coll->rank * bytes;
    char *own = weiri_out_at(engines->call, at);
    const char *from = source_for(engines, coll->rank);
    int copies_own = own != from && bytes;
    weir_status status = copies_own ? weiri_engines_fork(engines) : WEIR_OK;
    if (copies_own && status == WEIR_OK)
        status = weiri_engines_check(cudaMemcpyAsync(own, from, bytes, cudaMemcpyDeviceToDevice,
                                                     weiri_engines_beside(engines)));
    for (int i = 1; i < coll->nranks && status == WEIR_OK; i++) {
        int peer = (coll->rank + i) % coll->nranks;
        status = weiri_engines_copy(engines, engines->outputs[peer] + at,
                                    source_for(engines, peer), bytes);
    }
    if (copies_own && status == WEIR_OK)
        status = weiri_engines_join(engines);
    return status;
}

weir_status weiri_cuda_copy_engine(weiri_coll *coll, const weir_call *call)
{
    weiri_engines engines;
    weir_status status;
    int before;
    if (!weiri_engines_open(&engines, coll, call, (size_t)coll->nranks * coll->count_bytes, &before,
                            &status))
        return status == WEIR_OK ? weiri_cuda_run_general(coll, call) : status;
    status = weiri_engines_barrier(&engines);
    if (status == WEIR_OK)
        status = copy_all(&engines);
    if (status == WEIR_OK)
        status = weiri_engines_barrier(&engines);
    weiri_engines_close(&engines, before);
    return status;
}
