/*
 * allreduce, reduce_scatter and reduce, push: each rank reduces a share, which the others
 * have stored into its stages, and stores the result into all outputs that are wanted
 * (push.cuh); nothing is ever loaded over a link. From a few MiB on, and of any memory.
 * Blocks of one index tell each other at entry where their outputs are, and meet at the
 * end: all results have arrived.
 *
 * With chunk_bytes each rank has but the result of a chunk of its share, in its own
 * output, and copy engines do the rest of an allreduce (allreduce_ce_cuda.c). The ranks
 * meet in a kernel before and behind it.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/push.cuh"
#include "coll/cuda/device/types.cuh"

enum { THREADS_MAX = 512 };

/* Learns where results go, and takes the launch's turn. Whether peers cannot map some output
 * that they store to, or would have to store less than vectors there, which links carry at a
 * fraction of their rate; none is stored to where who reduces a share keeps it. All threads. */
static __device__ __forceinline__ int find_outputs(const weiri_gpu_args &args, unsigned outs,
                                                   uint64_t epoch, weiri_gpu_buffers *buffers)
{
    const int scatters = args.collective == WEIR_COLL_REDUCE_SCATTER;
    const unsigned stored_to = scatters || args.chunk_bytes ? 0 : outs;
    int lands = 0;
    if (args.chunk_bytes)
        weiri_gpu_turn(args.view, epoch);
    else
        lands = weiri_gpu_barrier_buffers(args, epoch, 0, stored_to, buffers);
    for (int r = 0; r < args.view.nranks; r++)
        lands |= stored_to >> r & 1 && weiri_gpu_misaligned(buffers->out[r], 16);
    if (!stored_to && threadIdx.x == 0) /* reduce_scatter's begins with the own block's result */
        buffers->out[args.view.rank] =
            args.out - (scatters ? (size_t)args.view.rank * args.bytes : 0);
    __syncthreads();
    return lands;
}

template <int dtype, int exact>
static __global__ void __launch_bounds__(THREADS_MAX)
    push(const __grid_constant__ weiri_gpu_args args)
{
    __shared__ weiri_gpu_buffers buffers;
    const unsigned outs = weiri_gpu_outs_of(args);
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    const int lands = find_outputs(args, outs, epoch, &buffers);
    const weiri_gpu_push plan = weiri_gpu_plan_push(args, outs, lands);
    weiri_gpu_push_all<dtype, exact>(args, plan, &buffers, epoch);
    if (!args.chunk_bytes) /* all blocks: they must have heard before peers tell again */
        weiri_gpu_barrier(args.view, epoch, 1);
}

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(push)

/* Two blocks a lane, and as many lanes as multiprocessors: registers suffice for two
 * blocks of 256 threads on each. */
weiri_gpu_shape weiri_gpu_push_shape(const weiri_gpu_args *args, int processors)
{
    enum { LANE_LEAST_BYTES = 8192 };
    uint64_t shares = (uint64_t)args->view.nranks;
    if (args->collective == WEIR_COLL_REDUCE)
        shares--;
    uint64_t share =
        args->collective == WEIR_COLL_REDUCE_SCATTER ? args->bytes : args->bytes / shares;
    uint64_t lanes = share / LANE_LEAST_BYTES;
    lanes = lanes < (uint64_t)processors ? lanes : (uint64_t)processors;
    return (weiri_gpu_shape){2 * (int)(lanes ? lanes : 1), 256};
}

int weiri_gpu_push_serves(const weiri_gpu_args *)
{
    return 1;
}
