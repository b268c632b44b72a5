/*
 * allreduce, fused: each rank reads its share of all inputs, reduces it and
 * writes it into all outputs (shared_reduce.cuh). For everything that is longer
 * than packets serve well.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/shared_reduce.cuh"
#include "coll/cuda/device/types.cuh"

template <int dtype>
static __global__ void __launch_bounds__(WEIRI_GPU_DIRECT_THREADS)
    allreduce_fused(const __grid_constant__ weiri_gpu_args args)
{
    __shared__ weiri_gpu_buffers buffers;
    weiri_gpu_shared_reduce<dtype>(args, (1u << args.view.nranks) - 1, &buffers);
}

WEIRI_GPU_DEFINE_OF_TYPES(allreduce_fused)

weiri_gpu_shape weiri_gpu_allreduce_fused_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_direct_shape(args->bytes / (uint64_t)args->view.nranks, processors);
}

int weiri_gpu_allreduce_fused_serves(const weiri_gpu_args *)
{
    return 1;
}
