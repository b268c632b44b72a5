/*
 * allgather and alltoall, ll128: every rank sends each peer a block as LL128 lines (ll128.cuh), the
 * same block or a different one, and stores what arrives. One message latency at nearly the rate of
 * the links, with any memory: from where the doubled bytes of packets cost more, to where storing
 * directly into peers' buffers is faster.
 *
 *   1. A warp sends its units of the blocks for all peers, and copies those of the block it keeps.
 *   2. It waits for the same units of all peers and stores them.
 *
 * Every rank receives from every other in every launch, so the parities of slots may alternate. A
 * thread has the same part of a unit in both phases, so it has read what it overwrites if the input
 * is part of the output. Lines carry their flags; there is no other memory ordering.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll128.cuh"
#include "coll/cuda/device/types.cuh"

enum { EXCHANGE_THREADS_MAX = 512, BLOCKS_EACH = 2 }; /* blocks per multiprocessor */

/* same: all peers get the same block. */
template <int exact, bool same>
static __device__ __forceinline__ void exchange_units(const weiri_gpu_args &args)
{
    const weiri_gpu_view &view = args.view;
    const int nranks = weiri_gpu_nranks<exact>(view);
    const size_t bytes = args.bytes;
    const uint32_t units = weiri_gpu_ll128_units(bytes), step = gridDim.x * blockDim.x / 32;
    const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const weiri_gpu_line_part part = weiri_gpu_line_part_of_thread();
    const int in_aligned = ((uintptr_t)args.in | (same ? 0 : bytes)) % 16 == 0;
    const int out_aligned = ((uintptr_t)args.out | bytes) % 16 == 0;
    const int in_place = args.in == args.out + (size_t)view.rank * bytes;
    /* Sent: words[i] for the i-th rank after this one, or words[0] for all. Received:
     * words[rank]. */
    uint64_t words[WEIRI_GPU_RANKS_MAX][2];
    const auto load = [&](uint32_t unit) {
#pragma unroll
        for (int i = 0; i < (same ? 1 : WEIRI_GPU_RANKS_MAX); i++) {
            if (i >= nranks)
                continue;
            const int r = same ? 0 : weiri_gpu_nth_after(view.rank, i, nranks);
            const weiri_gpu_vector data =
                weiri_gpu_line_load(part, args.in + (size_t)r * bytes, bytes,
                                    (size_t)unit * WEIRI_GPU_UNIT_DATA, in_aligned);
            words[i][0] = data.word[0];
            words[i][1] = data.word[1];
        }
    };
    const auto store = [&](int rank, uint32_t unit, const uint64_t(&data)[2]) {
        weiri_gpu_line_store(part, args.out + (size_t)rank * bytes, bytes,
                             (size_t)unit * WEIRI_GPU_UNIT_DATA, out_aligned, data);
    };
    if (first < units)
        load(first);
    const uint64_t epoch = weiri_gpu_epoch(view);
    for (uint32_t unit = first; unit < units; unit += step) {
        if (unit != first)
            load(unit);
        const size_t at = weiri_gpu_ll128_slot_at<exact>(view, view.rank, epoch, 0) +
                          (size_t)unit * WEIRI_GPU_UNIT_BYTES;
#pragma unroll
        for (int i = 1; i < WEIRI_GPU_RANKS_MAX; i++)
            if (i < nranks)
                weiri_gpu_send_lines(part,
                                     view.scratch[weiri_gpu_nth_after(view.rank, i, nranks)] + at,
                                     epoch, words[same ? 0 : i][0], words[same ? 0 : i][1]);
        if (!same || !in_place)
            store(view.rank, unit, words[0]);
    }
    weiri_gpu_advance_epoch(view, epoch);
    for (uint32_t unit = first; unit < units; unit += step) {
        weiri_gpu_receive_lines<exact>(view, part, epoch, 0, unit, words);
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            if (r < nranks && r != view.rank)
                store(r, unit, words[r]);
    }
}

template <int exact>
static __global__ void __launch_bounds__(EXCHANGE_THREADS_MAX, BLOCKS_EACH)
    allgather_ll128(const __grid_constant__ weiri_gpu_args args)
{
    exchange_units<exact, true>(args);
}

template <int exact>
static __global__ void __launch_bounds__(EXCHANGE_THREADS_MAX, BLOCKS_EACH)
    exchange_ll128(const __grid_constant__ weiri_gpu_args args)
{
    exchange_units<exact, false>(args);
}

static weiri_gpu_shape exchange_shape(const weiri_gpu_args *args, int processors)
{
    const uint64_t threads = (uint64_t)weiri_gpu_ll128_units(args->bytes) * 32;
    const int each = threads > (uint64_t)processors * EXCHANGE_THREADS_MAX ? BLOCKS_EACH : 1;
    return weiri_gpu_packet_shape(threads, each * processors, EXCHANGE_THREADS_MAX);
}

static int units_fit(const weiri_gpu_args *args)
{
    return weiri_gpu_ll128_serves_units(args, weiri_gpu_ll128_units(args->bytes), 1);
}

WEIRI_GPU_DEFINE_OF_RANKS(allgather_ll128)

weiri_gpu_shape weiri_gpu_allgather_ll128_shape(const weiri_gpu_args *args, int processors)
{
    return exchange_shape(args, processors);
}

int weiri_gpu_allgather_ll128_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_ALLGATHER && units_fit(args);
}

WEIRI_GPU_DEFINE_OF_RANKS(exchange_ll128)

weiri_gpu_shape weiri_gpu_exchange_ll128_shape(const weiri_gpu_args *args, int processors)
{
    return exchange_shape(args, processors);
}

int weiri_gpu_exchange_ll128_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_ALLTOALL && units_fit(args);
}
