/*
 * allreduce, ll128_one: like packet, but with LL128 lines (ll128.cuh). It takes one message latency
 * and sends about half as many bytes as packet. It pays between the sizes at which the slightly
 * longer latency of lines, and then the second latency of ll128, cost more.
 *
 *   1. A warp sends its units of the input to all peers (phase 0).
 *   2. It waits for the same units of all peers, reduces them in rank order and stores the
 *      result.
 *
 * A thread reads what it later overwrites, so the output may be the input. Every rank receives from
 * every other in every launch, so the two parities of slots may alternate. Lines carry their flags;
 * there is no other memory ordering.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/ll128.cuh"
#include "coll/cuda/device/types.cuh"

enum { LL128_ONE_THREADS_MAX = 512 };

template <int dtype, int exact>
static __global__ void __launch_bounds__(LL128_ONE_THREADS_MAX, 1)
    allreduce_ll128_one(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const weiri_gpu_line_part part = weiri_gpu_line_part_of_thread();
    const uint32_t units = weiri_gpu_ll128_units(args.bytes), step = gridDim.x * blockDim.x / 32;
    const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int in_aligned = (uintptr_t)args.in % 16 == 0;
    const int out_aligned = (uintptr_t)args.out % 16 == 0;
    const auto load = [&](uint32_t unit) {
        return weiri_gpu_line_load(part, args.in, args.bytes, (size_t)unit * WEIRI_GPU_UNIT_DATA,
                                   in_aligned);
    };
    weiri_gpu_vector own = {{0, 0}}; /* of the first unit */
    if (first < units)
        own = load(first);
    const uint64_t epoch = weiri_gpu_epoch(view);
    for (uint32_t unit = first; unit < units; unit += step)
        weiri_gpu_send_lines_to<exact>(view, part, epoch, 0, unit, ~0u,
                                       (unit == first ? own : load(unit)).word);
    weiri_gpu_advance_epoch(view, epoch);
    for (uint32_t unit = first; unit < units; unit += step) {
        uint64_t totals[2];
        weiri_gpu_reduce_lines<dtype, exact>(view, part, weiri_gpu_op_of<dtype>(args), epoch, unit,
                                             unit == first ? own : load(unit), totals);
        weiri_gpu_line_store(part, args.out, args.bytes, (size_t)unit * WEIRI_GPU_UNIT_DATA,
                             out_aligned, totals);
    }
}

WEIRI_GPU_DEFINE_OF_TYPES_AND_RANKS(allreduce_ll128_one)

weiri_gpu_shape weiri_gpu_allreduce_ll128_one_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_packet_shape((uint64_t)weiri_gpu_ll128_units(args->bytes) * 32, processors,
                                  LL128_ONE_THREADS_MAX);
}

int weiri_gpu_allreduce_ll128_one_serves(const weiri_gpu_args *args)
{
    return weiri_gpu_ll128_serves_units(args, weiri_gpu_ll128_units(args->bytes), 1);
}
