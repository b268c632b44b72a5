/*
 * Reduces contributions that copy engines have already brought into this GPU's memory; no rank
 * waits for another. Used by allreduce with copy engines, beside the copies.
 */
#include "coll/cuda/launch/copy_engine.h"
#include "coll/cuda/device/direct.cuh"
#include "coll/cuda/device/types.cuh"

template <int dtype>
static __global__ void __launch_bounds__(512)
    reduce_local(const __grid_constant__ weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(weiri_gpu_buffers, buffers);
    if (threadIdx.x < WEIRI_GPU_RANKS_MAX) {
        buffers.in[threadIdx.x] = (const char *)(uintptr_t)args.pairs[threadIdx.x].send_at;
        buffers.out[threadIdx.x] = args.out;
    }
    __syncthreads();
    weiri_gpu_reduce_range<dtype, 0>(args, &buffers, 1u << args.view.rank, {0, args.bytes},
                                     blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

extern "C" const void *weiri_gpu_reduce_local_kernel(weir_dtype dtype)
{
    static const void *const kernels[] = WEIRI_GPU_OF_TYPES(reduce_local);
    return weiri_gpu_of_type(kernels, dtype);
}
