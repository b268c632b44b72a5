/*
 * The kernels of one-sided calls. A put's threads copy; after the block's barrier one thread stores
 * the signal with release semantics at system scope, which makes the copies of all threads visible
 * to a thread that loads the signal with acquire. A longer put is a copy in the stream before the
 * kernel. A wait's threads each wait for one count; what comes later in the stream sees the data.
 */
#ifndef WEIR_NCCL_RMA_CUH
#define WEIR_NCCL_RMA_CUH

#include "coll/cuda/device/protocol.cuh"
#include "nccl/rma/rma_gpu.h"

WEIRI_GPU_FN void weiri_rma_put(const weiri_rma_out_args &args)
{
    weir_copy_shared(args.to, args.from, args.bytes, threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x)
        return;
    weir_fence_system();
    weir_store_release(args.arrived, ++*args.sent);
}

/* A wait that fails aborts the communicator, and is recorded for the host. */
WEIRI_GPU_FN void weiri_rma_wait_one(const weiri_rma_wait_args &args, int i)
{
    weiri_gpu_view view;
    view.guard = args.guard;
    view.guard.peer = args.wait[i].peer;
    view.guard.record = NULL; /* of many threads only the one that fails reports */
    const uint64_t *arrived = args.wait[i].arrived;
    const uint64_t target = *args.wait[i].taken + args.wait[i].count;
    const int status = weir_wait_at_least(arrived, target, &view.guard);
    view.guard.record = args.guard.record;
    if (status)
        weiri_gpu_fail(view, status, args.wait[i].peer, WEIR_WAIT_SEMAPHORE, target,
                       weir_load_relaxed(arrived));
    else
        *args.wait[i].taken = target;
}

WEIRI_GPU_FN void weiri_rma_wait(const weiri_rma_wait_args &args)
{
    for (int i = (int)threadIdx.x; i < args.count; i += (int)blockDim.x)
        weiri_rma_wait_one(args, i);
}

#endif
