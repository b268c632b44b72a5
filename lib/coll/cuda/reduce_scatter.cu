/*
 * reduce_scatter: the output of rank r is the reduction of block r of all inputs.
 *
 * packet: every rank sends each peer that peer's block as LL packets and reduces what arrives. A
 * thread reads the words of its block that it later overwrites, so the output may be that block
 * of the input. All accesses are relaxed.
 *
 * direct: the blocks of the same index exchange descriptors of the inputs; every rank loads and
 * reduces its block of all of them; a final barrier keeps every rank from leaving while others read
 * its input. If some input is unregistered, then piece by piece each thread block copies its part
 * of all blocks of data into its rank's staging buffer, executes a barrier, reduces from the
 * staging buffers, and executes another barrier, after which nobody reads them any more. Loads and
 * stores are weak; the barriers release and acquire.
 */
#include "coll/cuda/device/direct.cuh"
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll_reduce.cuh"
#include "coll/cuda/device/types.cuh"

enum { REDUCE_SCATTER_THREADS_MAX = 256 };

/* ------------------------------------------------------------------- packet */

/* Word i of all peers' blocks. */
template <int exact>
static __device__ __forceinline__ void load_blocks(const weiri_gpu_args &args, size_t i, bool even,
                                                   uint64_t (&words)[WEIRI_GPU_RANKS_MAX])
{
    const int nranks = weiri_gpu_nranks<exact>(args.view);
#pragma unroll
    for (int peer = 0; peer < WEIRI_GPU_RANKS_MAX; peer++)
        if (peer < nranks && peer != args.view.rank)
            words[peer] = weiri_gpu_load_next(args.in + (size_t)peer * args.bytes + 8 * i,
                                              args.bytes - 8 * i, even);
}

template <int dtype, int exact>
static __global__ void __launch_bounds__(REDUCE_SCATTER_THREADS_MAX)
    reduce_scatter_packet(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const size_t step = gridDim.x * blockDim.x, nwords = (args.bytes + 7) / 8;
    const size_t first = blockIdx.x * blockDim.x + threadIdx.x;
    const char *own_block = args.in + (size_t)view.rank * args.bytes;
    const bool even =
        weiri_gpu_word_aligned(args.in, args.bytes) && weiri_gpu_word_aligned(args.out, 0);
    uint64_t sent[WEIRI_GPU_RANKS_MAX];
    if (first < nwords)
        load_blocks<exact>(args, first, even, sent);
    const uint64_t epoch = weiri_gpu_epoch(view);
    for (size_t i = first; i < nwords; i += step) {
        if (i != first)
            load_blocks<exact>(args, i, even, sent);
        weiri_gpu_send_each<exact>(view, epoch, 0, i, sent);
    }
    weiri_gpu_advance_epoch(view, epoch);
    for (size_t i = first; i < nwords; i += step) {
        uint64_t words[WEIRI_GPU_RANKS_MAX][1], total[1];
        uint64_t own = weiri_gpu_load_next(own_block + 8 * i, args.bytes - 8 * i, even);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            words[r][0] = own;
        weiri_gpu_receive_all<exact>(view, epoch, 0, i, words);
        weiri_gpu_reduce<dtype>(weiri_gpu_op_of<dtype>(args), weiri_gpu_nranks<exact>(view), words,
                                total);
        weiri_gpu_store_next(args.out + 8 * i, total[0], args.bytes - 8 * i, even);
    }
}

/* ------------------------------------------------------------------- direct */

/* Points `buffers` to what the reduction of a piece reads and writes: this rank's block of the
 * inputs or of the staging buffers, and the output. All threads call it; a barrier must follow. */
static __device__ __forceinline__ void select_buffers(const weiri_gpu_args &args,
                                                      weiri_gpu_buffers *buffers, int staged,
                                                      size_t at, size_t piece)
{
    const weiri_gpu_view &view = args.view;
    if (staged)
        weiri_gpu_use_stages(view, buffers);
    if ((int)threadIdx.x < view.nranks)
        buffers->in[threadIdx.x] += (size_t)view.rank * piece;
    if ((int)threadIdx.x == view.rank)
        buffers->out[view.rank] = args.out + at;
}

template <int dtype, int exact>
static __global__ void __launch_bounds__(WEIRI_GPU_DIRECT_THREADS)
    reduce_scatter_direct(const __grid_constant__ weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(weiri_gpu_buffers, buffers);
    const weiri_gpu_view &view = args.view;
    const uint64_t epoch = weiri_gpu_epoch(view);
    const int staged = weiri_gpu_barrier_buffers(args, epoch, 1, 0, &buffers);
    char *stage = weiri_gpu_stage(view, view.rank, 0);
    weiri_gpu_range mine = {0, args.bytes};
    size_t piece = args.bytes, tid = blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = gridDim.x * blockDim.x;
    int barriers = 0;
    if (staged) {
        piece = weiri_gpu_equal_piece(args.bytes,
                                      WEIRI_GPU_STAGE_BYTES / (size_t)view.nranks / 16 * 16);
        tid = threadIdx.x;
        step = blockDim.x;
    }
    for (size_t at = 0; at < args.bytes; at += piece) {
        select_buffers(args, &buffers, staged, at, piece);
        if (staged) {
            mine = weiri_gpu_block_part(args.bytes, at, piece);
            for (int r = 0; r < view.nranks; r++)
                weiri_gpu_copy(stage + (size_t)r * piece + mine.at,
                               args.in + (size_t)r * args.bytes + at + mine.at, mine.bytes);
            weiri_gpu_barrier(view, epoch, ++barriers);
        } else {
            __syncthreads();
        }
        weiri_gpu_reduce_range<dtype, exact>(args, &buffers, 1u << view.rank, mine, tid, step);
        weiri_gpu_barrier(view, epoch, ++barriers);
    }
}

/* ------------------------------------------------------------------ the host */

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(reduce_scatter_packet)

weiri_gpu_shape weiri_gpu_reduce_scatter_packet_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape((args->bytes + 7) / 8, processors, REDUCE_SCATTER_THREADS_MAX);
}

int weiri_gpu_reduce_scatter_packet_serves(const weiri_gpu_args *args)
{
    return args->bytes <= WEIRI_GPU_SLOT_BYTES / 2;
}

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(reduce_scatter_direct)

weiri_gpu_shape weiri_gpu_reduce_scatter_direct_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_direct_shape(args->bytes, processors);
}

int weiri_gpu_reduce_scatter_direct_serves(const weiri_gpu_args *)
{
    return 1;
}
