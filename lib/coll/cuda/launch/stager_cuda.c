/* The part of calls between nodes that calls CUDA: memory and launches (coll/internode/stager.h).
 */
#include "base/error.h"
#include "coll/cuda/kernels.h"
#include "coll/cuda/launch/run_cuda.h"
#include "coll/internode/stager.h"
#include "comm/gpu/gpu_cuda.h"

#include <string.h>

static weir_status stager_allocate(const weiri_cuda *cuda, weiri_gpu_state **state,
                                   uint64_t **words, size_t nwords)
{
    const weiri_gpu_state first = {.turns = (uint64_t)1 << WEIRI_GPU_EPOCH_SHIFT};
    weir_status status =
        weiri_cuda_check(cudaMalloc((void **)state, sizeof **state), "no GPU memory");
    if (status == WEIR_OK)
        status =
            weiri_cuda_check(cudaMalloc((void **)words, nwords * sizeof **words), "no GPU memory");
    if (status == WEIR_OK)
        status = weiri_cuda_check(
            cudaMemcpyAsync(*state, &first, sizeof first, cudaMemcpyHostToDevice, cuda->side),
            "cannot copy to GPU memory");
    if (status == WEIR_OK)
        status = weiri_cuda_check(cudaStreamSynchronize(cuda->side), "cannot copy to GPU memory");
    return status;
}

static weir_status stager_open(weir_comm *comm, void *memory, size_t bytes, char **there,
                               weiri_gpu_state **state, uint64_t **words, size_t nwords)
{
    int before;
    void *mapped = NULL;
    weir_status status = weiri_cuda_enter(comm, &before);
    if (status != WEIR_OK)
        return status;
    const enum cudaStreamCaptureMode mode = weiri_cuda_relax();
    status = comm->gpu->ops->pin(comm, memory, bytes, &mapped);
    if (status == WEIR_OK)
        *there = mapped;
    if (status == WEIR_OK)
        status = stager_allocate(weiri_cuda_of(comm), state, words, nwords);
    weiri_cuda_restore(mode);
    weiri_cuda_leave(comm, before);
    return status;
}

static void stager_close(weir_comm *comm, void *memory, weiri_gpu_state *state, uint64_t *words)
{
    int before;
    if (weiri_cuda_enter(comm, &before) != WEIR_OK)
        return;
    cudaDeviceSynchronize();
    if (memory && cudaHostUnregister(memory) != cudaSuccess)
        cudaGetLastError(); /* it was not pinned */
    cudaFree(state);
    cudaFree(words);
    weiri_cuda_leave(comm, before);
}

static weir_status stager_store(weir_comm *comm, weir_stream stream, uint64_t *to,
                                const uint64_t *words, size_t count)
{
    int before;
    weir_status status = weiri_cuda_ready(comm, stream, &before);
    if (status != WEIR_OK)
        return status;
    for (size_t at = 0; at < count && status == WEIR_OK; at += WEIRI_STAGER_WORDS) {
        weiri_stager_words some = {.to = to + at, .count = count - at};
        if (some.count > WEIRI_STAGER_WORDS)
            some.count = WEIRI_STAGER_WORDS;
        memcpy(some.words, words + at, some.count * sizeof *words);
        status = weiri_cuda_launch(comm, stream, "stager", weiri_stager_store_kernel(),
                                   (weiri_gpu_shape){1, 128}, &some);
    }
    weiri_cuda_leave(comm, before);
    return status;
}

static weir_status stager_launch(weir_comm *comm, weir_stream stream, int lanes,
                                 weiri_stager_args *args)
{
    int before;
    weir_status status = weiri_cuda_ready(comm, stream, &before);
    if (status != WEIR_OK)
        return status;
    const weiri_gpu_shape shape = {lanes * (int)args->request.blocks, WEIRI_STAGER_THREADS};
    status = weiri_cuda_launch(comm, stream, "stager", weiri_stager_move_kernel(), shape, args);
    weiri_cuda_leave(comm, before);
    return status;
}

const weiri_stager_ops weiri_stager_cuda = {
    .open = stager_open,
    .close = stager_close,
    .store = stager_store,
    .launch = stager_launch,
};
