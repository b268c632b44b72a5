/*
 * allreduce, packet: every rank sends its whole input to every other as LL packets and reduces what
 * arrives. One message latency; for up to a few tens of KiB.
 *
 *   1. A thread sends its words of the input to all peers (slots of phase 0).
 *   2. It waits for the same words of all peers, reduces them in rank order and stores the
 *      result.
 *
 * A thread reads the words that it later overwrites, so the output may be the input. Every rank
 * receives from every other in every launch, so the two parities of slots may alternate. All
 * accesses are relaxed; packets carry their flags.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll_reduce.cuh"
#include "coll/cuda/device/types.cuh"

enum { ALLREDUCE_THREADS_MAX = 256 };

/* Reduces this rank's word with the words of all peers. */
template <int dtype, int exact>
static __device__ __forceinline__ uint64_t reduce_word(const weiri_gpu_args &args, uint64_t epoch,
                                                       size_t index, uint64_t own)
{
    uint64_t words[WEIRI_GPU_RANKS_MAX][1], total[1];
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
        words[r][0] = own;
    weiri_gpu_receive_all<exact>(args.view, epoch, 0, index, words);
    weiri_gpu_reduce<dtype>(weiri_gpu_op_of<dtype>(args), weiri_gpu_nranks<exact>(args.view), words,
                            total);
    return total[0];
}

/* At most one word per thread, by the shortest path. even: input, output and length are
 * word-aligned. */
template <int dtype, int exact>
static __device__ __forceinline__ void reduce_one(const weiri_gpu_args &args, unsigned i, bool even)
{
    const weiri_gpu_view &view = args.view;
    const bool has_word = i < (unsigned)((args.bytes + 7) / 8);
    const size_t at = 8 * i, left = args.bytes - at;
    uint64_t own = 0;
    if (has_word)
        own = weiri_gpu_load_next(args.in + at, left, even);
    const uint64_t epoch = weiri_gpu_epoch(view);
    if (has_word)
        weiri_gpu_send_all<exact>(view, epoch, 0, i, own);
    weiri_gpu_advance_epoch(view, epoch);
    if (has_word)
        weiri_gpu_store_next(args.out + at, reduce_word<dtype, exact>(args, epoch, i, own), left,
                             even);
}

/* Any number of words per thread, at any alignment. */
template <int dtype, int exact>
static __device__ __forceinline__ void reduce_many(const weiri_gpu_args &args, size_t first)
{
    const weiri_gpu_view &view = args.view;
    const size_t step = gridDim.x * blockDim.x, nwords = (args.bytes + 7) / 8;
    const uint64_t epoch = weiri_gpu_epoch(view);
    for (size_t i = first; i < nwords; i += step)
        weiri_gpu_send_all<exact>(view, epoch, 0, i,
                                  weiri_gpu_load_word(args.in + 8 * i, args.bytes - 8 * i));
    weiri_gpu_advance_epoch(view, epoch);
    for (size_t i = first; i < nwords; i += step) {
        uint64_t own = weiri_gpu_load_word(args.in + 8 * i, args.bytes - 8 * i);
        weiri_gpu_store_word(args.out + 8 * i, reduce_word<dtype, exact>(args, epoch, i, own),
                             args.bytes - 8 * i);
    }
}

template <int dtype, int exact>
static __global__ void __launch_bounds__(ALLREDUCE_THREADS_MAX)
    allreduce_packet(const __grid_constant__ weiri_gpu_args args)
{
    const unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
    const bool even =
        weiri_gpu_word_aligned(args.in, args.bytes) && weiri_gpu_word_aligned(args.out, 0);
    if (args.bytes <= (uint64_t)8 * gridDim.x * blockDim.x)
        reduce_one<dtype, exact>(args, first, even);
    else
        reduce_many<dtype, exact>(args, first);
}

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(allreduce_packet)

/* One word per thread, in many small blocks; one block up to 512 bytes. */
weiri_gpu_shape weiri_gpu_allreduce_packet_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape((args->bytes + 7) / 8, processors, ALLREDUCE_THREADS_MAX);
}

int weiri_gpu_allreduce_packet_serves(const weiri_gpu_args *args)
{
    return args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}
