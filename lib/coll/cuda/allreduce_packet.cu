/*
 * allreduce, packet: every rank sends its whole input to every other as packets
 * and reduces what arrives. One message latency; for up to a few ten KiB.
 *
 *   1. A thread sends its words of the input to all peers (slots of phase 0).
 *   2. It waits for the same words of all peers, reduces them in rank order and
 *      stores the result.
 *
 * A thread reads the words that it writes later, so in may be out. Every rank
 * hears from every other: the buffers may alternate. All is relaxed; packets
 * carry their flags.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/packet.cuh"
#include "coll/cuda/types.cuh"

enum { THREADS_MAX = 256 };

template <int dtype>
static __global__ void __launch_bounds__(THREADS_MAX)
    allreduce_packet(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const size_t step = gridDim.x * blockDim.x, nwords = (args.bytes + 7) / 8;
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t words[WEIRI_GPU_RANKS_MAX][1], own = 0, total[1];
    if (first < nwords)
        own = weiri_gpu_load_word(args.in + 8 * first, args.bytes - 8 * first);
    const uint64_t epoch = weiri_gpu_epoch(view);
    if (first < nwords)
        weiri_gpu_send_all(view, epoch, 0, first, own);
    for (size_t i = first + step; i < nwords; i += step)
        weiri_gpu_send_all(view, epoch, 0, i,
                           weiri_gpu_load_word(args.in + 8 * i, args.bytes - 8 * i));
    weiri_gpu_turn(view, epoch);
    for (size_t i = first; i < nwords; i += step) {
        if (i != first)
            own = weiri_gpu_load_word(args.in + 8 * i, args.bytes - 8 * i);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            words[r][0] = own;
        weiri_gpu_receive_all(view, epoch, 0, i, words);
        weiri_gpu_reduce<dtype>(args.op, view.nranks, words, total);
        weiri_gpu_store_word(args.out + 8 * i, total[0], args.bytes - 8 * i);
    }
}

const void *weiri_gpu_allreduce_packet_kernel(weir_dtype dtype)
{
    static const void *const kernels[] = WEIRI_GPU_OF_TYPES(allreduce_packet);
    return weiri_gpu_of_type(kernels, dtype);
}

/* A word a thread, in many small blocks: one block up to 512 bytes. */
weiri_gpu_shape weiri_gpu_allreduce_packet_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape((args->bytes + 7) / 8, processors, THREADS_MAX);
}

int weiri_gpu_allreduce_packet_serves(const weiri_gpu_args *args)
{
    return args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}
