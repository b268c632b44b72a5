/*
 * broadcast, ll128: LL128 lines (ll128.cuh). The root sends each other rank one share, which that
 * rank forwards to the others. It takes one message latency with 2 ranks and two with more, and
 * every link carries the data at most once.
 *
 *   1. The root's warps send their units of all shares, and store them to the output if that
 *      is not the input. The other ranks send the root an empty unit, because slots may
 *      alternate only if every rank receives from every other.
 *   2. The other ranks' warps wait for those units of their share, forward and store
 *      them, and then wait for the same units of the other shares.
 *
 * All shares have the same number of units, at least one, even if the input ends before or within
 * them. All ranks send in phase 0, because nobody sends a rank more than one share. Lines carry
 * their flags; there is no other memory ordering.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll128.cuh"
#include "coll/cuda/device/types.cuh"

enum { BROADCAST_LL128_THREADS_MAX = 512 };

/* What the warps of a launch have in common, and this thread's part. */
struct broadcast_work {
    uint32_t units; /* of a share */
    uint32_t first, step;
    int in_aligned, out_aligned;
    weiri_gpu_line_part part;
};

/* Offset in the buffer of a unit of the share of the i-th rank after the root; i begins at 1. */
static __device__ __forceinline__ size_t unit_offset(const broadcast_work &w, int i, uint32_t unit)
{
    return ((size_t)(i - 1) * w.units + unit) * WEIRI_GPU_UNIT_DATA;
}

/* A rank's distance from the root. */
static __device__ __forceinline__ int rank_after_root(int root, int rank, int nranks)
{
    return rank < root ? rank - root + nranks : rank - root;
}

static __device__ __forceinline__ void store_unit(const weiri_gpu_args &args,
                                                  const broadcast_work &w, size_t at,
                                                  const uint64_t (&data)[2])
{
    weiri_gpu_line_store(w.part, args.out, args.bytes, at, w.out_aligned, data);
}

template <int exact>
static __device__ __forceinline__ void root_scatter(const weiri_gpu_args &args,
                                                    const broadcast_work &w, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    const int nranks = weiri_gpu_nranks<exact>(view);
    for (uint32_t unit = w.first; unit < w.units; unit += w.step) {
        const size_t slot = weiri_gpu_ll128_slot_at<exact>(view, view.rank, epoch, 0) +
                            (size_t)unit * WEIRI_GPU_UNIT_BYTES;
        weiri_gpu_vector data[WEIRI_GPU_RANKS_MAX];
#pragma unroll
        for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++)
            if (i < nranks)
                data[i] = weiri_gpu_line_load(w.part, args.in, args.bytes, unit_offset(w, i, unit),
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
                store_unit(args, w, unit_offset(w, i, unit), data[i].word);
    }
}

template <int exact>
static __device__ __forceinline__ void forward(const weiri_gpu_args &args, const broadcast_work &w,
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
        store_unit(args, w, unit_offset(w, rank_after_root(root, view.rank, nranks), unit), data);
    }
    for (uint32_t unit = w.first; unit < w.units && nranks > 2; unit += w.step) {
        weiri_gpu_receive_lines<exact>(view, w.part, epoch, 0, unit, words, ~from_root);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            if (r < nranks && r != root && r != view.rank)
                store_unit(args, w, unit_offset(w, rank_after_root(root, r, nranks), unit),
                           words[r]);
    }
}

template <int exact>
static __global__ void __launch_bounds__(BROADCAST_LL128_THREADS_MAX)
    broadcast_ll128(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const int is_root = view.rank == args.root;
    broadcast_work w;
    w.units = weiri_gpu_ll128_share_units(args.bytes, weiri_gpu_nranks<exact>(view) - 1);
    w.first = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    w.step = gridDim.x * blockDim.x / 32;
    w.in_aligned = (uintptr_t)args.in % 16 == 0;
    w.out_aligned = (uintptr_t)args.out % 16 == 0;
    w.part = weiri_gpu_line_part_of_thread();
    const uint64_t epoch = weiri_gpu_epoch(view);
    if (is_root)
        root_scatter<exact>(args, w, epoch);
    else if (!w.first)
        weiri_gpu_send_lines(w.part,
                             view.scratch[args.root] +
                                 weiri_gpu_ll128_slot_at<exact>(view, view.rank, epoch, 0),
                             epoch, 0, 0);
    weiri_gpu_advance_epoch(view, epoch);
    if (!is_root) {
        forward<exact>(args, w, epoch);
    } else if (!w.first) {
        uint64_t answers[WEIRI_GPU_RANKS_MAX][2];
        weiri_gpu_receive_lines<exact>(view, w.part, epoch, 0, 0, answers);
    }
}

WEIRI_GPU_DEFINE_OF_RANKS(broadcast_ll128)

weiri_gpu_shape weiri_gpu_broadcast_ll128_shape(const weiri_gpu_args *args, int processors)
{
    const uint32_t units = weiri_gpu_ll128_share_units(args->bytes, args->view.nranks - 1);
    return weiri_gpu_packet_shape((uint64_t)units * 32, processors, BROADCAST_LL128_THREADS_MAX);
}

int weiri_gpu_broadcast_ll128_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_BROADCAST &&
           weiri_gpu_ll128_serves_units(
               args, weiri_gpu_ll128_share_units(args->bytes, args->view.nranks - 1), 1);
}
