/*
 * allreduce, reduce_scatter and reduce, push: each rank reduces one share, which the others have
 * stored into its staging buffers, and stores the result into all outputs that want it (phases and
 * memory order: push.cuh). Nothing is loaded over a link. From a few MiB on, with any memory; it
 * also serves every call that other algorithms of these collectives decline. At entry the blocks of
 * the same index exchange descriptors of their outputs; at the end they execute a barrier, after
 * which all results have arrived.
 *
 * With chunk_bytes each rank keeps the result of one chunk of its share in its own output, and copy
 * engines do the rest of the allreduce (allreduce_ce_cuda.c). The barriers before and after are
 * then separate kernels.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/push.cuh"
#include "coll/cuda/device/types.cuh"

enum { PUSH_THREADS_MAX = 512 };

/* Finds out where results go, and advances the epoch. Returns whether some output that peers store
 * to cannot be mapped, or is not aligned to 16 bytes (links carry shorter stores at a fraction of
 * their rate). Nobody stores to peers if each rank keeps its result. All threads call it. */
static __device__ __forceinline__ int push_find_outputs(const weiri_gpu_args &args, unsigned outs,
                                                        uint64_t epoch, weiri_gpu_buffers *buffers)
{
    const int scatters = args.collective == WEIR_COLL_REDUCE_SCATTER;
    const unsigned stored_to = scatters || args.chunk_bytes ? 0 : outs;
    int stages_results = 0;
    if (args.chunk_bytes)
        weiri_gpu_advance_epoch(args.view, epoch);
    else
        stages_results = weiri_gpu_barrier_buffers(args, epoch, 0, stored_to, buffers);
    for (int r = 0; r < args.view.nranks; r++)
        stages_results |= stored_to >> r & 1 && weiri_gpu_misaligned(buffers->out[r], 16);
    if (!stored_to && threadIdx.x == 0) /* the output of reduce_scatter begins with this rank's
                                         * block */
        buffers->out[args.view.rank] =
            args.out - (scatters ? (size_t)args.view.rank * args.bytes : 0);
    __syncthreads();
    return stages_results;
}

template <int dtype, int exact>
static __global__ void __launch_bounds__(PUSH_THREADS_MAX)
    push(const __grid_constant__ weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(weiri_gpu_buffers, buffers);
    const unsigned outs = weiri_gpu_output_ranks(args);
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    const int stages_results = push_find_outputs(args, outs, epoch, &buffers);
    const weiri_gpu_push plan = weiri_gpu_plan_push(args, outs, stages_results);
    weiri_gpu_push_all<dtype, exact>(args, plan, &buffers, epoch);
    if (!args.chunk_bytes) /* in all blocks: they must have received the descriptors before peers
                            * send the next ones */
        weiri_gpu_barrier(args.view, epoch, 1);
}

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(push)

/* Two blocks per lane, and as many lanes as multiprocessors: there are registers for two blocks of
 * 256 threads on each. */
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
