/*
 * allreduce and reduce without copies: every rank reduces one share of all
 * ranks' inputs, read where they are, and writes it into all outputs that are
 * wanted. Each byte crosses a link once for reading and once for writing.
 *
 *   1. At entry blocks of one index tell each other where their buffers are.
 *   2. The grid's threads reduce the own share.
 *   3. Blocks of one index meet again: all have written, and nobody reads any
 *      more; so nobody leaves while others use its buffers.
 *
 * Nobody but the share's reducer touches that share of any input or output, so
 * in may be out.
 *
 * Some buffer is plain: piece after piece, each block copies its part of the
 * input into its rank's stage, meets, reduces its rank's share of that part from
 * stage to stages, meets, and copies its part of the output out. The next piece
 * overwrites an input's stage after the second meeting, when nobody reads it, and
 * an output's after the first one of that piece, when it has been copied out.
 */
#ifndef WEIR_COLL_CUDA_SHARED_REDUCE_CUH
#define WEIR_COLL_CUDA_SHARED_REDUCE_CUH

#include "coll/cuda/device/direct.cuh"

/* When the ranks have met and some buffer is plain. outs: the ranks that want the
 * result, a bit each. */
template <int dtype>
WEIRI_GPU_FN void weiri_gpu_reduce_staged(const weiri_gpu_args &args, uint64_t epoch, unsigned outs,
                                          weiri_gpu_buffers *buffers)
{
    const weiri_gpu_view &view = args.view;
    const unsigned rank = (unsigned)view.rank, nranks = (unsigned)view.nranks;
    char *in = weiri_gpu_stage(view, view.rank, 0), *out = weiri_gpu_stage(view, view.rank, 1);
    const size_t piece = weiri_gpu_even_piece(args.bytes, WEIRI_GPU_STAGE_BYTES);
    int meetings = 0;
    weiri_gpu_use_stages(view, buffers);
    for (size_t at = 0; at < args.bytes; at += piece) {
        const weiri_gpu_range mine = weiri_gpu_block_part(args.bytes, at, piece);
        weiri_gpu_copy(in + mine.at, args.in + at + mine.at, mine.bytes);
        weiri_gpu_barrier(view, epoch, ++meetings);
        weiri_gpu_reduce_range<dtype, 0>(args, buffers, outs, weiri_gpu_part(mine, rank, nranks),
                                         threadIdx.x, blockDim.x);
        weiri_gpu_barrier(view, epoch, ++meetings);
        if (outs >> rank & 1)
            weiri_gpu_copy(args.out + at + mine.at, out + mine.at, mine.bytes);
    }
}

/* The whole kernel. */
template <int dtype>
WEIRI_GPU_FN void weiri_gpu_shared_reduce(const weiri_gpu_args &args, unsigned outs,
                                          weiri_gpu_buffers *buffers)
{
    const weiri_gpu_view &view = args.view;
    const uint64_t epoch = weiri_gpu_epoch(view);
    if (weiri_gpu_barrier_buffers(args, epoch, 1, outs, buffers)) {
        weiri_gpu_reduce_staged<dtype>(args, epoch, outs, buffers);
        return;
    }
    const weiri_gpu_range mine =
        weiri_gpu_part({0, args.bytes}, (unsigned)view.rank, (unsigned)view.nranks);
    weiri_gpu_reduce_range<dtype, 0>(args, buffers, outs, mine,
                                     blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
    weiri_gpu_barrier(view, epoch, 1);
}

#endif
