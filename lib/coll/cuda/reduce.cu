/*
 * reduce, packet: every rank sends its whole input to the root as LL packets, and the root reduces
 * it. Every rank sends each peer to which it sends no data an empty packet of phase 1, because the
 * parities of slots may alternate only if every rank receives from every other; the thread of the
 * grid with the peer's number does that. All accesses are relaxed; packets carry their flags.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll_reduce.cuh"
#include "coll/cuda/device/types.cuh"

enum { REDUCE_THREADS_MAX = 256 };

/* The root's part: waits for all peers' words and reduces them. */
template <int dtype, int exact>
static __device__ __forceinline__ void root_receive(const weiri_gpu_args &args, uint64_t epoch,
                                                    size_t first, size_t step)
{
    const bool even =
        weiri_gpu_word_aligned(args.in, args.bytes) && weiri_gpu_word_aligned(args.out, 0);
    const size_t nwords = (args.bytes + 7) / 8;
    for (size_t i = first; i < nwords; i += step) {
        uint64_t words[WEIRI_GPU_RANKS_MAX][1], total[1];
        uint64_t own = weiri_gpu_load_next(args.in + 8 * i, args.bytes - 8 * i, even);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            words[r][0] = own;
        weiri_gpu_receive_all<exact>(args.view, epoch, 0, i, words);
        weiri_gpu_reduce<dtype>(weiri_gpu_op_of<dtype>(args), weiri_gpu_nranks<exact>(args.view),
                                words, total);
        weiri_gpu_store_next(args.out + 8 * i, total[0], args.bytes - 8 * i, even);
    }
}

template <int dtype, int exact>
static __global__ void __launch_bounds__(REDUCE_THREADS_MAX)
    reduce_packet(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const size_t step = gridDim.x * blockDim.x, nwords = (args.bytes + 7) / 8;
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x;
    const int is_root = view.rank == args.root, peer = (int)first;
    /* Whether this thread exchanges an empty packet with `peer`. */
    const int sends_empty = first < (size_t)view.nranks && peer != view.rank;
    const bool even = weiri_gpu_word_aligned(args.in, args.bytes);
    uint64_t word = 0;
    if (first < nwords && !is_root)
        word = weiri_gpu_load_next(args.in + 8 * first, args.bytes - 8 * first, even);
    const uint64_t epoch = weiri_gpu_epoch(view);
    for (size_t i = first; i < nwords && !is_root; i += step) {
        if (i != first)
            word = weiri_gpu_load_next(args.in + 8 * i, args.bytes - 8 * i, even);
        weiri_gpu_send(weiri_gpu_slot(view, args.root, view.rank, epoch, 0), i, epoch, word);
    }
    if (sends_empty && peer != args.root)
        weiri_gpu_send(weiri_gpu_slot(view, peer, view.rank, epoch, 1), 0, epoch, 0);
    weiri_gpu_advance_epoch(view, epoch);
    if (is_root)
        root_receive<dtype, exact>(args, epoch, first, step);
    else if (sends_empty)
        weiri_gpu_receive(view, weiri_gpu_slot(view, view.rank, peer, epoch, 1), 0, epoch, peer);
}

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(reduce_packet)

weiri_gpu_shape weiri_gpu_reduce_packet_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape((args->bytes + 7) / 8, processors, REDUCE_THREADS_MAX);
}

int weiri_gpu_reduce_packet_serves(const weiri_gpu_args *args)
{
    return args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}
