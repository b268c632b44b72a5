/*
 * A barrier of all ranks in one block, run before and after copies by copy engines, which cannot
 * wait for other ranks. At entry each rank sends the descriptor of its output, and says whether its
 * input is in the same place. A rank that finds a peer's output elsewhere than symmetric memory
 * promises aborts the communicator, because copies into it would follow. A launch is an epoch of
 * its own. Descriptors are packets (relaxed); the barrier releases and acquires.
 */
#include "coll/cuda/launch/copy_engine.h"
#include "coll/cuda/device/protocol.cuh"

extern "C" __global__ void weiri_gpu_barrier_ranks(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    uint64_t epoch = weiri_gpu_epoch(view);
    int peer = (int)threadIdx.x;
    int signals = peer < view.nranks && peer != view.rank;
    if (signals)
        weiri_gpu_send_descs(view, peer, epoch, args.in_desc, args.out_desc);
    weiri_gpu_advance_epoch(view, epoch);
    if (signals) {
        weiri_gpu_desc in, out;
        weiri_gpu_receive_descs(view, peer, epoch, &in, &out);
        const weiri_gpu_desc promised = args.pairs[peer].recv_at;
        const int in_place = args.in_desc != WEIRI_GPU_UNMAPPED;
        if (promised && (out != promised || in_place != (in != WEIRI_GPU_UNMAPPED)))
            weiri_gpu_fail(view, WEIR_ERR_TIMEOUT, peer, WEIR_WAIT_WORD, promised, out);
    }
    weiri_gpu_barrier(view, epoch, 1);
}

const void *weiri_gpu_barrier_kernel(void)
{
    return (const void *)weiri_gpu_barrier_ranks;
}
