/*
 * broadcast by lines (lines.cuh): the root sends each other rank a share, which that one
 * sends on to the others. A message latency of 2 ranks, two of more, and every link
 * carries the data once, or less.
 *
 *   1. The root's warps send their units of all shares, and store them if the output is
 *      elsewhere. The others answer the root with an empty unit, as slots may alternate
 *      only if every rank hears from every other.
 *   2. The others' warps wait for those units of the own share, send them on and store
 *      them; then they wait for the same units of the other shares.
 *
 * Shares have the same number of units, one at least, even where the input ends before
 * or within them. All send in phase 0: nobody sends a rank more than one share.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/lines.cuh"
#include "coll/cuda/device/types.cuh"

enum { THREADS_MAX = 512 };

/* What a launch's warps have in common, and this thread's part. */
struct work {
    uint32_t units; /* of a share */
    uint32_t first, step;
    int in_aligned, out_aligned;
    weiri_gpu_line_part part;
};

/* Where a unit lies of the share of the i-th rank after the root; i from 1. */
static __device__ __forceinline__ size_t place_of(const work &w, int i, uint32_t unit)
{
    return ((size_t)(i - 1) * w.units + unit) * WEIRI_GPU_UNIT_DATA;
}

/* A rank's number after the root. */
static __device__ __forceinline__ int place_after(int root, int rank, int nranks)
{
    return rank < root ? rank - root + nranks : rank - root;
}

static __device__ __forceinline__ void store(const weiri_gpu_args &args, const work &w, size_t at,
                                             const uint64_t (&data)[2])
{
    weiri_gpu_line_store(w.part, args.out, args.bytes, at, w.out_aligned, data);
}

template <int exact>
static __device__ __forceinline__ void scatter(const weiri_gpu_args &args, const work &w,
                                               uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    const int nranks = weiri_gpu_nranks<exact>(view);
    for (uint32_t unit = w.first; unit < w.units; unit += w.step) {
        const size_t slot = weiri_gpu_lines_at<exact>(view, view.rank, epoch, 0) +
                            (size_t)unit * WEIRI_GPU_UNIT_BYTES;
        weiri_gpu_vector data[WEIRI_GPU_RANKS_MAX];
#pragma unroll
        for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++)
            if (i < nranks)
                data[i] = weiri_gpu_line_load(w.part, args.in, args.bytes, place_of(w, i, unit),
                                              w.in_aligned);
#pragma unroll
        for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++)
            if (i < nranks)
                weiri_gpu_send_lines(w.part,
                                     view.scratch[weiri_gpu_nth_after(view.rank, i, nranks)] + slot,
                                     epoch, data[i].word[0], data[i].word[1]);
#pragma unroll
        for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++)
            if (i < nranks && args.out != args.in)
                store(args, w, place_of(w, i, unit), data[i].word);
    }
}

template <int exact>
static __device__ __forceinline__ void pass_on(const weiri_gpu_args &args, const work &w,
                                               uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    const int nranks = weiri_gpu_nranks<exact>(view), root = args.root;
    const unsigned from_root = 1u << root;
    uint64_t words[WEIRI_GPU_RANKS_MAX][2];
    for (uint32_t unit = w.first; unit < w.units; unit += w.step) {
        uint64_t data[2] = {0, 0};
        weiri_gpu_receive_lines<exact>(view, w.part, epoch, 0, unit, words, from_root);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++) {
            data[0] = r == root ? words[r][0] : data[0];
            data[1] = r == root ? words[r][1] : data[1];
        }
        weiri_gpu_send_lines_to<exact>(view, w.part, epoch, 0, unit, ~from_root, data);
        store(args, w, place_of(w, place_after(root, view.rank, nranks), unit), data);
    }
    for (uint32_t unit = w.first; unit < w.units && nranks > 2; unit += w.step) {
        weiri_gpu_receive_lines<exact>(view, w.part, epoch, 0, unit, words, ~from_root);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            if (r < nranks && r != root && r != view.rank)
                store(args, w, place_of(w, place_after(root, r, nranks), unit), words[r]);
    }
}

template <int exact>
static __global__ void __launch_bounds__(THREADS_MAX)
    broadcast_ll128(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const int is_root = view.rank == args.root;
    work w;
    w.units = weiri_gpu_share_units(args.bytes, weiri_gpu_nranks<exact>(view) - 1);
    w.first = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    w.step = gridDim.x * blockDim.x / 32;
    w.in_aligned = (uintptr_t)args.in % 16 == 0;
    w.out_aligned = (uintptr_t)args.out % 16 == 0;
    w.part = weiri_gpu_my_line_part();
    const uint64_t epoch = weiri_gpu_epoch(view);
    if (is_root)
        scatter<exact>(args, w, epoch);
    else if (!w.first)
        weiri_gpu_send_lines(
            w.part,
            view.scratch[args.root] + weiri_gpu_lines_at<exact>(view, view.rank, epoch, 0), epoch,
            0, 0);
    weiri_gpu_turn(view, epoch);
    if (!is_root) {
        pass_on<exact>(args, w, epoch);
    } else if (!w.first) {
        uint64_t answers[WEIRI_GPU_RANKS_MAX][2];
        weiri_gpu_receive_lines<exact>(view, w.part, epoch, 0, 0, answers);
    }
}

WEIRI_GPU_DEFINE_OF_RANKS(broadcast_ll128)

weiri_gpu_shape weiri_gpu_broadcast_ll128_shape(const weiri_gpu_args *args, int processors)
{
    const uint32_t units = weiri_gpu_share_units(args->bytes, args->view.nranks - 1);
    return weiri_gpu_packet_shape((uint64_t)units * 32, processors, THREADS_MAX);
}

int weiri_gpu_broadcast_ll128_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_BROADCAST &&
           weiri_gpu_lines_serve(
               args, weiri_gpu_share_units(args->bytes, args->view.nranks - 1), 1);
}
