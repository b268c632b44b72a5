/*
 * allreduce, reduce_scatter and reduce, ll128: each rank reduces one share of the buffer and sends
 * it to where it is wanted, all as LL128 lines (ll128.cuh). Two message latencies (one for
 * reduce_scatter) at nearly the rate of the links, with any memory: from where the doubled bytes of
 * packets cost more than a second latency, to where storing directly into peers' buffers is faster.
 *
 *   1. A warp sends a unit of every other rank's share of its input to that rank (phase 0).
 *   2. It waits for the same unit of its share from all peers, reduces them, sends the
 *      result to the peers that want it (phase 1), and stores it if this rank wants it.
 *   3. A rank that wants the peers' results waits for that unit of all other shares and stores
 *      them.
 *
 * All shares have the same number of units, at least one, even if the input ends before or within
 * them: so every rank receives from every other, and the parities of slots may alternate. A thread
 * has the same part of a unit in all phases, so it has read what it overwrites if the output is the
 * input. Lines carry their flags; there is no other memory ordering.
 *
 * The shares of reduce_scatter are its blocks. The last unit of a block may contain bytes of the
 * next block, which nobody stores.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll128.cuh"
#include "coll/cuda/device/types.cuh"

enum { LL128_THREADS_MAX = 512 };

static inline __host__ __device__ uint32_t ll128_units(const weiri_gpu_args &args, int nranks)
{
    const uint32_t shares = args.collective == WEIR_COLL_REDUCE_SCATTER ? 1 : (uint32_t)nranks;
    return weiri_gpu_ll128_share_units(args.bytes, shares);
}

/* What the warps of a launch have in common, and this thread's part. */
struct ll128_work {
    size_t bytes;         /* of the input */
    size_t share;         /* offset from share to share; the last ones may be shorter */
    size_t own;           /* offset of this rank's result in the output */
    uint32_t units;       /* of a share */
    uint32_t first, step; /* this warp's */
    unsigned outs;        /* bit mask of the ranks that want this rank's results */
    int gathers;          /* whether this rank wants the peers' results */
    int in_aligned, out_aligned;
    weiri_gpu_line_part part;
};

/* words[i]: of the share of the i-th rank after this one. */
template <int exact>
static __device__ __forceinline__ void ll128_load(const weiri_gpu_args &args, const ll128_work &w,
                                                  uint32_t unit,
                                                  uint64_t (&words)[WEIRI_GPU_RANKS_MAX][2])
{
    const int nranks = weiri_gpu_nranks<exact>(args.view);
#pragma unroll
    for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++) {
        if (i >= nranks)
            continue;
        const int r = weiri_gpu_nth_after(args.view.rank, i, nranks);
        weiri_gpu_vector data = weiri_gpu_line_load(
            w.part, args.in, w.bytes, (size_t)r * w.share + (size_t)unit * WEIRI_GPU_UNIT_DATA,
            w.in_aligned);
        words[i][0] = data.word[0];
        words[i][1] = data.word[1];
    }
}

template <int exact>
static __device__ __forceinline__ void
ll128_scatter(const weiri_gpu_args &args, const ll128_work &w, uint32_t unit, uint64_t epoch,
              const uint64_t (&words)[WEIRI_GPU_RANKS_MAX][2])
{
    const weiri_gpu_view &view = args.view;
    const int nranks = weiri_gpu_nranks<exact>(view);
    const size_t at = weiri_gpu_ll128_slot_at<exact>(view, view.rank, epoch, 0) +
                      (size_t)unit * WEIRI_GPU_UNIT_BYTES;
#pragma unroll
    for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++)
        if (i < nranks)
            weiri_gpu_send_lines(w.part,
                                 view.scratch[weiri_gpu_nth_after(view.rank, i, nranks)] + at,
                                 epoch, words[i][0], words[i][1]);
}

template <int dtype, int exact>
static __device__ __forceinline__ void ll128_reduce(const weiri_gpu_args &args, const ll128_work &w,
                                                    uint32_t unit, uint64_t epoch)
{
    const size_t at = (size_t)unit * WEIRI_GPU_UNIT_DATA;
    uint64_t totals[2];
    weiri_gpu_reduce_lines<dtype, exact>(
        args.view, w.part, weiri_gpu_op_of<dtype>(args), epoch, unit,
        weiri_gpu_line_load(w.part, args.in, w.bytes, (size_t)args.view.rank * w.share + at,
                            w.in_aligned),
        totals);
    weiri_gpu_send_lines_to<exact>(args.view, w.part, epoch, 1, unit, w.outs, totals);
    if (w.outs >> args.view.rank & 1)
        weiri_gpu_line_store(w.part, args.out, args.bytes, w.own + at, w.out_aligned, totals);
}

template <int exact>
static __device__ __forceinline__ void ll128_gather(const weiri_gpu_args &args, const ll128_work &w,
                                                    uint32_t unit, uint64_t epoch)
{
    const weiri_gpu_view &view = args.view;
    const int nranks = weiri_gpu_nranks<exact>(view);
    uint64_t words[WEIRI_GPU_RANKS_MAX][2];
    weiri_gpu_receive_lines<exact>(view, w.part, epoch, 1, unit, words);
#pragma unroll
    for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
        if (r < nranks && r != view.rank)
            weiri_gpu_line_store(w.part, args.out, args.bytes,
                                 (size_t)r * w.share + (size_t)unit * WEIRI_GPU_UNIT_DATA,
                                 w.out_aligned, words[r]);
}

template <int dtype, int exact>
static __global__ void __launch_bounds__(LL128_THREADS_MAX)
    ll128(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const int nranks = weiri_gpu_nranks<exact>(view);
    const int scatters = args.collective == WEIR_COLL_REDUCE_SCATTER;
    ll128_work w;
    w.units = ll128_units(args, nranks);
    w.bytes = scatters ? (size_t)nranks * args.bytes : args.bytes;
    w.share = scatters ? args.bytes : (size_t)w.units * WEIRI_GPU_UNIT_DATA;
    w.own = scatters ? 0 : (size_t)view.rank * w.share;
    w.first = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    w.step = gridDim.x * blockDim.x / 32;
    w.outs = weiri_gpu_output_ranks(args);
    w.gathers = !scatters && w.outs >> view.rank & 1;
    w.in_aligned = ((uintptr_t)args.in | w.share) % 16 == 0;
    w.out_aligned = (uintptr_t)args.out % 16 == 0;
    w.part = weiri_gpu_line_part_of_thread();
    uint64_t words[WEIRI_GPU_RANKS_MAX][2];
    if (w.first < w.units)
        ll128_load<exact>(args, w, w.first, words);
    const uint64_t epoch = weiri_gpu_epoch(view);
    for (uint32_t unit = w.first; unit < w.units; unit += w.step) {
        if (unit != w.first)
            ll128_load<exact>(args, w, unit, words);
        ll128_scatter<exact>(args, w, unit, epoch, words);
    }
    weiri_gpu_advance_epoch(view, epoch);
    for (uint32_t unit = w.first; unit < w.units; unit += w.step)
        ll128_reduce<dtype, exact>(args, w, unit, epoch);
    for (uint32_t unit = w.first; unit < w.units && w.gathers; unit += w.step)
        ll128_gather<exact>(args, w, unit, epoch);
}

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(ll128)

weiri_gpu_shape weiri_gpu_ll128_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape((uint64_t)ll128_units(*args, args->view.nranks) * 32, processors,
                                  LL128_THREADS_MAX);
}

int weiri_gpu_ll128_serves(const weiri_gpu_args *args)
{
    const int phases = args->collective == WEIR_COLL_REDUCE_SCATTER ? 1 : 2;
    return weiri_gpu_ll128_serves_units(args, ll128_units(*args, args->view.nranks), phases);
}
