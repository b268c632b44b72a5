/*
 * What the kernels share that reduce from buffers of all ranks: exchanging the descriptors of the
 * buffers, reducing a range of all ranks' inputs into some of the outputs, and the staging buffers
 * that replace buffers which peers cannot map.
 *
 * The threads of a block or of the grid work on a range together, 16 bytes per thread and rank at a
 * time: one access if all buffers are aligned to 16, otherwise words assembled as alignment allows.
 *
 * Loads and stores are weak; weiri_gpu_barrier_buffers and weiri_gpu_barrier order them.
 */
#ifndef WEIR_COLL_CUDA_DIRECT_CUH
#define WEIR_COLL_CUDA_DIRECT_CUH

#include "coll/cuda/device/copy.cuh"
#include "coll/cuda/device/vector.cuh"

/* Every rank's buffers as this rank addresses them. In shared memory. */
struct weiri_gpu_buffers {
    const char *in[WEIRI_GPU_RANKS_MAX];
    char *out[WEIRI_GPU_RANKS_MAX];
};

/* Bytes [at, at + bytes). */
struct weiri_gpu_range {
    size_t at, bytes;
};

/* Part number `part` of `parts` of a range. Parts are whole lines of 128 bytes, which links carry
 * best, so the last parts may be shorter or empty. */
WEIRI_GPU_FN weiri_gpu_range weiri_gpu_part(weiri_gpu_range range, unsigned part, unsigned parts)
{
    size_t lines = (range.bytes + 127) / 128;
    size_t each = (lines + parts - 1) / parts * 128;
    size_t begin = each * part < range.bytes ? each * part : range.bytes;
    size_t left = range.bytes - begin;
    return {range.at + begin, left < each ? left : each};
}

/* Size of the pieces in which a long buffer passes through a staging buffer, at most `most` bytes:
 * equal but for the last one, which may be shorter. */
WEIRI_GPU_FN size_t weiri_gpu_equal_piece(size_t bytes, size_t most)
{
    size_t pieces = (bytes + most - 1) / most;
    return (bytes + 16 * pieces - 1) / (16 * pieces) * 16;
}

/* The part that this block handles of the piece that begins at `at`, relative to `at`. It is the
 * same part of the staging buffer in every piece, because blocks do not wait for each other and
 * other blocks may still be working on another piece. */
WEIRI_GPU_FN weiri_gpu_range weiri_gpu_block_part(size_t bytes, size_t at, size_t piece)
{
    weiri_gpu_range mine = weiri_gpu_part({0, piece}, blockIdx.x, gridDim.x);
    size_t left = bytes - at;
    size_t here = mine.at < left ? left - mine.at : 0;
    mine.bytes = mine.bytes < here ? mine.bytes : here;
    return mine;
}

/* ------------------------------------------------------------------ buffers */

/* Advances the epoch, exchanges buffer descriptors with all ranks and fills `buffers`. loads:
 * whether peers load this rank's input; outs: bit mask of the ranks whose outputs are stored to.
 * All threads call it. Returns 1, in all blocks of all ranks, if a buffer that peers access cannot
 * be mapped. */
WEIRI_GPU_FN int weiri_gpu_barrier_buffers(const weiri_gpu_args &args, uint64_t epoch, int loads,
                                           unsigned outs, weiri_gpu_buffers *buffers)
{
    const weiri_gpu_view &view = args.view;
    const int peer = (int)threadIdx.x;
    weiri_gpu_desc in = args.in_desc, out = args.out_desc;
    int plain = 0;
    if (peer < WEIRI_GPU_RANKS_MAX) {
        buffers->in[peer] = nullptr;
        buffers->out[peer] = nullptr;
    }
    if (peer < view.nranks && peer != view.rank)
        weiri_gpu_send_descs(view, peer, epoch, in, out);
    weiri_gpu_advance_epoch(view, epoch);
    if (peer < view.nranks) {
        if (peer != view.rank)
            weiri_gpu_receive_descs(view, peer, epoch, &in, &out);
        plain =
            (loads && in == WEIRI_GPU_UNMAPPED) || (outs >> peer & 1 && out == WEIRI_GPU_UNMAPPED);
        if (peer == view.rank) {
            buffers->in[peer] = args.in;
            buffers->out[peer] = args.out;
        } else {
            if (in != WEIRI_GPU_UNMAPPED)
                buffers->in[peer] = weiri_gpu_address(view, peer, in);
            if (out != WEIRI_GPU_UNMAPPED)
                buffers->out[peer] = weiri_gpu_address(view, peer, out);
        }
        weiri_gpu_fence();
    }
    return __syncthreads_or(plain);
}

/* A part of a rank's staging buffer: 0 for inputs, 1 for outputs. */
WEIRI_GPU_FN char *weiri_gpu_stage(const weiri_gpu_view &view, int rank, int part)
{
    return view.scratch[rank] + WEIRI_GPU_STAGE_AT + (size_t)part * WEIRI_GPU_STAGE_BYTES;
}

/* Points `buffers` to the staging buffers. All threads call it; a barrier must follow before
 * use. */
WEIRI_GPU_FN void weiri_gpu_use_stages(const weiri_gpu_view &view, weiri_gpu_buffers *buffers)
{
    const int peer = (int)threadIdx.x;
    if (peer >= view.nranks)
        return;
    buffers->in[peer] = weiri_gpu_stage(view, peer, 0);
    buffers->out[peer] = weiri_gpu_stage(view, peer, 1);
}

/* ----------------------------------------------------------------- reducing */

/* Loads a vector of 16 bytes of every rank into words[rank]. The addresses are read first, so that
 * all loads are in flight at once. */
WEIRI_GPU_FN void weiri_gpu_load_all(const weiri_gpu_buffers *buffers, int nranks, size_t at,
                                     size_t bytes, int aligned,
                                     uint64_t (&words)[WEIRI_GPU_RANKS_MAX][2])
{
    const char *in[WEIRI_GPU_RANKS_MAX];
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
        in[r] = buffers->in[r] + at;
    if (aligned && bytes >= 16) {
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++) {
            if (r >= nranks)
                continue;
            weiri_gpu_vector vector = weiri_gpu_load16(in[r]);
            words[r][0] = vector.word[0];
            words[r][1] = vector.word[1];
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++) {
        if (r >= nranks)
            continue;
        const weiri_gpu_vector vector = weiri_gpu_load_vector(in[r], bytes, 0);
        words[r][0] = vector.word[0];
        words[r][1] = vector.word[1];
    }
}

/* Stores a vector into every output of `outs`, beginning at rank `first`, which differs from rank
 * to rank so that not all of them store to one GPU at a time. */
WEIRI_GPU_FN void weiri_gpu_store_all(const weiri_gpu_buffers *buffers, unsigned outs, int first,
                                      int nranks, size_t at, size_t bytes, int aligned,
                                      const weiri_gpu_vector &total)
{
    if (aligned && bytes >= 16) {
#pragma unroll
        for (int i = 0; i < WEIRI_GPU_RANKS_MAX; i++) {
            const int r = weiri_gpu_nth_after(first, i, nranks);
            if (i < nranks && outs >> r & 1)
                weiri_gpu_store16(buffers->out[r] + at, total);
        }
        return;
    }
#pragma unroll 1
    for (int r = 0; r < nranks; r++) {
        char *to = buffers->out[r] + at;
        if (outs >> r & 1)
            weiri_gpu_store_vector(to, total, bytes, !weiri_gpu_misaligned(to, 16));
    }
}

/* Whether the 16 bytes at `at` are aligned in all the buffers. */
WEIRI_GPU_FN int weiri_gpu_all_aligned(const weiri_gpu_buffers *buffers, int nranks, unsigned outs,
                                       size_t at)
{
    uintptr_t places = at;
    for (int r = 0; r < nranks; r++)
        places |= (uintptr_t)buffers->in[r] | (outs >> r & 1 ? (uintptr_t)buffers->out[r] : 0);
    return places % 16 == 0;
}

/* Reduces a range of all ranks' inputs into the same range of the outputs in `outs`. Executed by
 * `step` threads, of which this one is number tid. A thread has one vector per rank in flight,
 * which is enough with a full grid. */
template <int dtype, int exact>
WEIRI_GPU_FN void weiri_gpu_reduce_range(const weiri_gpu_args &args,
                                         const weiri_gpu_buffers *buffers, unsigned outs,
                                         weiri_gpu_range range, size_t tid, size_t step)
{
    const int nranks = weiri_gpu_nranks<exact>(args.view);
    const int op = weiri_gpu_op_of<dtype>(args);
    const int aligned = weiri_gpu_all_aligned(buffers, nranks, outs, range.at);
    for (size_t done = 16 * tid; done < range.bytes; done += 16 * step) {
        uint64_t words[WEIRI_GPU_RANKS_MAX][2], totals[2];
        const size_t at = range.at + done, left = range.bytes - done;
        weiri_gpu_load_all(buffers, nranks, at, left, aligned, words);
        weiri_gpu_reduce<dtype>(op, nranks, words, totals);
        weiri_gpu_store_all(buffers, outs, args.view.rank, nranks, at, left, aligned,
                            {{totals[0], totals[1]}});
    }
}

#endif
