/*
 * allgather, alltoall and broadcast by copy engines, and the functions that allreduce by copy
 * engines uses as well (allreduce_ce_cuda.c). Copy engines store at the full rate of the links,
 * which kernels do not reach, and leave the multiprocessors free. But they can neither wait for
 * peers nor look up where a peer's buffer is, and need copies of about 100 MB to reach that rate:
 * shorter copies of several GPUs collide unless a barrier separates them.
 *
 * So the output must be symmetric memory, and a call consists of a barrier kernel (all outputs may
 * be written), a copy to each peer, beginning with the next rank so that no two write to one at a
 * time, and another barrier kernel (all copies have arrived). This rank's own block is copied
 * meanwhile in a second stream.
 */
#include "coll/cuda/launch/copy_engine_cuda.h"

#include "base/error.h"
#include "coll/algos.h"
#include "comm/gpu/gpu_cuda.h"

#include <string.h>

/* Converts CUDA's result of a step. */
static weir_status engines_check(cudaError_t error)
{
    return error == cudaSuccess
               ? WEIR_OK
               : weiri_cuda_fail(WEIR_ERR_SYSTEM, error, "cannot copy with the copy engines");
}

/* Finds the address of the output on every rank. Returns 0 if it is not in symmetric memory. */
static int engines_find_outputs(weiri_engines *engines, size_t bytes)
{
    const weiri_coll *coll = engines->coll;
    weiri_gpu_args *args = &engines->barrier;
    weir_comm *comm = coll->comm;
    weiri_desc own = weiri_region_describe(comm, engines->task->call->out, bytes);
    const weiri_desc *all = weiri_cuda_symmetric(comm, own);
    for (int rank = 0; all && rank < coll->nranks; rank++) {
        weiri_desc desc = {all[rank].region, all[rank].generation, own.offset};
        if (rank == coll->rank)
            engines->outputs[rank] = engines->task->call->out;
        else if (weiri_region_pointer(comm, rank, desc, &engines->outputs[rank]) != WEIR_OK)
            return 0;
        args->pairs[rank].recv_at = weiri_cuda_desc(desc);
    }
    if (all)
        args->out_desc = args->pairs[coll->rank].recv_at;
    return all != NULL;
}

int weiri_engines_open(weiri_engines *engines, weiri_coll *coll, const weiri_task *task,
                       size_t out_bytes, int *before, weir_status *status)
{
    memset(engines, 0, sizeof *engines);
    engines->coll = coll;
    engines->task = task;
    *status = WEIR_OK;
    if (coll->nranks == 1 || !engines_find_outputs(engines, out_bytes))
        return 0;
    *status = weiri_cuda_ready(coll->comm, task->call->stream, before);
    if (*status != WEIR_OK)
        return 0;
    engines->barrier.view = weiri_cuda_of(coll->comm)->view;
    *status = weiri_cuda_check_input(coll, task);
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
    return weiri_cuda_launch(engines->coll->comm, engines->task->call->stream, "ce",
                             weiri_gpu_barrier_kernel(), (weiri_gpu_shape){1, 32},
                             &engines->barrier);
}

weir_status weiri_engines_copy(const weiri_engines *engines, char *to, const char *from,
                               size_t bytes)
{
    if (!bytes)
        return WEIR_OK;
    return engines_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                         (cudaStream_t)engines->task->call->stream));
}

cudaStream_t weiri_engines_second_stream(const weiri_engines *engines)
{
    return weiri_cuda_of(engines->coll->comm)->beside;
}

/* Later work in the stream `then` waits for the work that `first` holds now. */
static weir_status engines_order_streams(const weiri_engines *engines, cudaStream_t first,
                                         cudaStream_t then)
{
    cudaEvent_t event = weiri_cuda_of(engines->coll->comm)->order;
    cudaError_t error = cudaEventRecord(event, first);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(then, event, 0);
    return engines_check(error);
}

weir_status weiri_engines_fork(const weiri_engines *engines)
{
    return engines_order_streams(engines, (cudaStream_t)engines->task->call->stream,
                                 weiri_engines_second_stream(engines));
}

weir_status weiri_engines_join(const weiri_engines *engines)
{
    return engines_order_streams(engines, weiri_engines_second_stream(engines),
                                 (cudaStream_t)engines->task->call->stream);
}

/* ------------------------------------------- allgather, alltoall, broadcast */

/* This rank's block for a rank's output. */
static const char *engines_source(const weiri_engines *engines, int rank)
{
    const weiri_task *task = engines->task;
    return task->call->collective == WEIR_COLL_ALLTOALL
               ? weiri_in_at(task, (size_t)rank * engines->task->count_bytes)
               : task->call->in;
}

/* Copies this rank's block into every output, into its own in the second stream. */
static weir_status engines_copy_all(const weiri_engines *engines)
{
    const weiri_coll *coll = engines->coll;
    const int is_broadcast = engines->task->call->collective == WEIR_COLL_BROADCAST;
    const size_t bytes = engines->task->count_bytes;
    const size_t at = is_broadcast ? 0 : (size_t)coll->rank * bytes;
    if (is_broadcast && coll->rank != engines->task->call->root)
        return WEIR_OK;
    char *own = weiri_out_at(engines->task, at);
    const char *from = engines_source(engines, coll->rank);
    int copies_own = own != from && bytes;
    weir_status status = copies_own ? weiri_engines_fork(engines) : WEIR_OK;
    if (copies_own && status == WEIR_OK)
        status = engines_check(cudaMemcpyAsync(own, from, bytes, cudaMemcpyDeviceToDevice,
                                               weiri_engines_second_stream(engines)));
    for (int i = 1; i < coll->nranks && status == WEIR_OK; i++) {
        int peer = (coll->rank + i) % coll->nranks;
        status = weiri_engines_copy(engines, engines->outputs[peer] + at,
                                    engines_source(engines, peer), bytes);
    }
    if (copies_own && status == WEIR_OK)
        status = weiri_engines_join(engines);
    return status;
}

weir_status weiri_cuda_copy_engine(weiri_coll *coll, const weiri_task *task)
{
    weiri_engines engines;
    weir_status status;
    int before;
    const int is_broadcast = task->call->collective == WEIR_COLL_BROADCAST;
    const size_t out_bytes = task->count_bytes * (size_t)(is_broadcast ? 1 : coll->nranks);
    if (!weiri_engines_open(&engines, coll, task, out_bytes, &before, &status))
        return status == WEIR_OK ? weiri_cuda_run_kernel(coll, task) : status;
    status = weiri_engines_barrier(&engines);
    if (status == WEIR_OK)
        status = engines_copy_all(&engines);
    if (status == WEIR_OK)
        status = weiri_engines_barrier(&engines);
    weiri_engines_close(&engines, before);
    return status;
}
