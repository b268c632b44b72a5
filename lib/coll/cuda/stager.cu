/* The kernel of calls between nodes: coll/internode/stager_kernel.h describes it. */
#include "coll/cuda/device/copy.cuh"
#include "coll/cuda/kernels.h"

#define WEIRI_STAGER_FN WEIRI_GPU_FN
#define WEIRI_STAGER_SYNC() __syncthreads()
#define WEIRI_STAGER_SHARED(type, name) WEIRI_GPU_SHARED(type, name)
#define WEIRI_STAGER_COPY(to, from, bytes, worker, many)                                           \
    weiri_gpu_copy(to, from, bytes, worker, many)
#define WEIRI_STAGER_MOST(word, value)                                                             \
    atomicMax((unsigned long long *)(word), (unsigned long long)(value))
#define WEIRI_STAGER_END(state, epoch) stager_end(state, epoch)

WEIRI_GPU_FN void stager_end(struct weiri_gpu_state *state, uint64_t epoch)
{
    weiri_gpu_view view;
    view.state = state;
    weiri_gpu_advance_epoch(view, epoch);
}

#include "coll/internode/stager_kernel.h"

extern "C" __global__ void __launch_bounds__(WEIRI_STAGER_THREADS)
    weiri_stager_move(const __grid_constant__ weiri_stager_args args)
{
    weiri_stager_run(&args, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}

/* Counts of alltoallv on their way into device memory. */
extern "C" __global__ void weiri_stager_store(const __grid_constant__ weiri_stager_words words)
{
    for (uint32_t i = threadIdx.x; i < words.count; i += blockDim.x)
        words.to[i] = words.words[i];
}

extern "C" const void *weiri_stager_move_kernel(void)
{
    return (const void *)weiri_stager_move;
}

extern "C" const void *weiri_stager_store_kernel(void)
{
    return (const void *)weiri_stager_store;
}
