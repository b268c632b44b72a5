/*
 * allreduce, push: a reduce-scatter by pushing (push.cuh) whose results each rank
 * stores into all outputs at once; nothing is ever loaded over a link. From a few
 * MiB on. Blocks of one index tell each other at entry where their outputs are, and
 * meet at the end: all results have arrived. If some output is plain, the call is
 * served as fused serves it.
 *
 * With chunk_bytes each rank has but the result of a chunk of its share, in its own
 * output, and copy engines do the rest (allreduce_ce_cuda.c). The ranks meet in a
 * kernel before and behind it.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/push.cuh"
#include "coll/cuda/shared_reduce.cuh"
#include "coll/cuda/types.cuh"

enum { THREADS_MAX = 512 };

/* Where results go: everywhere, or to the own output only. Whether there is a way. */
static __device__ __forceinline__ int find_outputs(const weiri_gpu_args &args, unsigned outs,
                                                   uint64_t epoch, weiri_gpu_buffers *buffers)
{
    if (!args.chunk_bytes)
        return !weiri_gpu_meet_buffers(args, epoch, outs, buffers);
    if (threadIdx.x == 0)
        buffers->out[args.view.rank] = args.out;
    weiri_gpu_turn(args.view, epoch);
    __syncthreads();
    return 1;
}

template <int dtype>
static __global__ void __launch_bounds__(THREADS_MAX)
    allreduce_push(const __grid_constant__ weiri_gpu_args args)
{
    __shared__ weiri_gpu_buffers buffers;
    const unsigned nranks = (unsigned)args.view.nranks;
    const unsigned outs = args.chunk_bytes ? 1u << args.view.rank : (1u << nranks) - 1;
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    if (!find_outputs(args, outs, epoch, &buffers)) {
        weiri_gpu_reduce_staged<dtype>(args, epoch, outs, &buffers);
        return;
    }
    weiri_gpu_push plan = weiri_gpu_plan_push(args);
    uintptr_t places = 0;
    for (unsigned r = 0; r < nranks; r++)
        places |= outs >> r & 1 ? (uintptr_t)buffers.out[r] : 0;
    plan.out_aligned = places % 16 == 0;
    if (nranks == 4)
        weiri_gpu_push_all<dtype, 4>(args, plan, &buffers, outs, epoch);
    else
        weiri_gpu_push_all<dtype, 0>(args, plan, &buffers, outs, epoch);
    if (!args.chunk_bytes) /* pushers, too: they must have heard before peers tell again */
        weiri_gpu_meet(args.view, epoch, 1);
}

const void *weiri_gpu_allreduce_push_kernel(weir_dtype dtype)
{
    static const void *const kernels[] = WEIRI_GPU_OF_TYPES(allreduce_push);
    return weiri_gpu_of_type(kernels, dtype);
}

/* Two blocks a lane, and as many lanes as multiprocessors: registers suffice for two
 * blocks of 256 threads on each. */
weiri_gpu_shape weiri_gpu_allreduce_push_shape(const weiri_gpu_args *args, int processors)
{
    enum { LANE_LEAST_BYTES = 8192 };
    uint64_t share = args->bytes / (uint64_t)args->view.nranks, lanes = share / LANE_LEAST_BYTES;
    lanes = lanes < (uint64_t)processors ? lanes : (uint64_t)processors;
    return (weiri_gpu_shape){2 * (int)(lanes ? lanes : 1), 256};
}

int weiri_gpu_allreduce_push_serves(const weiri_gpu_args *)
{
    return 1;
}
