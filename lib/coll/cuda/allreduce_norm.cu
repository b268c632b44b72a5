/*
 * allreduce, residual and normalisation in one kernel (weir/norm.h). Every rank sends its rows to
 * all others, as LL packets for short calls and as LL128 lines beyond, and reduces what arrives.
 *
 *   1. A block sends its segments of all rows that it serves. In long calls the first blocks of the
 *      grid do nothing else, so that links are busy while the other blocks normalise.
 *   2. For each row it waits for its segment of all peers, reduces it in rank order, adds the
 *      residual, and keeps the result in shared memory and in the residual.
 *   3. It normalises the row, together with the other blocks of the row (norm.cuh).
 *
 * No line is stored after step 1, in which the threads of a warp do not diverge.
 *
 * A block reads its segments before it overwrites them, so the output may be the input; then no
 * other blocks send.
 * Sending waits for nothing. Every rank receives from every other in every launch, so the two
 * parities of slots may alternate. Packets and lines carry their flags; there is no other memory
 * ordering between ranks. A segment begins at a multiple of 16 bytes in its row, and at the start
 * of a packet or unit in its slot.
 */
#include "coll/cuda/device/ll128.cuh"
#include "coll/cuda/device/norm.cuh"

enum { NORM_THREADS_MAX = 512 };

/* A block's segment of a row. */
struct norm_segment {
    const char *in; /* this rank's contribution */
    char *residual; /* or NULL */
    uint32_t bytes;
    uint32_t slot; /* its first packet or unit */
};

template <int dtype, bool lines>
static __device__ __forceinline__ norm_segment norm_segment_of(const weiri_norm_launch &launch,
                                                               const weiri_norm_team &t,
                                                               uint32_t row)
{
    const uint32_t element = weiri_norm_lanes<dtype>::ELEMENT, line = WEIRI_NORM_LINE * element;
    const uint32_t row_bytes = launch.hidden * element, first = t.line * line;
    const uint32_t end = t.line_end * line < row_bytes ? t.line_end * line : row_bytes;
    const uint32_t each = (t.lines + t.parts - 1) / t.parts * line;
    const size_t at = (size_t)row * row_bytes + first;
    norm_segment s = {launch.in + at, launch.residual ? launch.residual + at : nullptr,
                      end > first ? end - first : 0, 0};
    s.slot =
        lines ? (row * t.parts + t.part) * ((each + WEIRI_GPU_UNIT_DATA - 1) / WEIRI_GPU_UNIT_DATA)
              : (row * row_bytes + first) / 8;
    return s;
}

template <int exact, bool lines>
static __device__ __forceinline__ void norm_send(const weiri_gpu_view &view, const norm_segment &s,
                                                 uint64_t epoch)
{
    if (!lines) {
        for (uint32_t i = threadIdx.x; i < s.bytes / 8; i += blockDim.x)
            weiri_gpu_send_all<exact>(view, epoch, 0, s.slot + i, weiri_gpu_load8(s.in + 8 * i));
        return;
    }
    const weiri_gpu_line_part part = weiri_gpu_line_part_of_thread();
    const uint32_t units = (s.bytes + WEIRI_GPU_UNIT_DATA - 1) / WEIRI_GPU_UNIT_DATA;
    for (uint32_t unit = threadIdx.x / 32; unit < units; unit += blockDim.x / 32)
        weiri_gpu_send_lines_to<exact>(
            view, part, epoch, 0, s.slot + unit, ~0u,
            weiri_gpu_line_load(part, s.in, s.bytes, (size_t)unit * WEIRI_GPU_UNIT_DATA, 1).word);
}

/* Adds the residual to word `at` of the segment's sum, and keeps the result. */
template <int dtype>
static __device__ __forceinline__ void norm_keep(const norm_segment &s, weiri_norm_block *block,
                                                 uint32_t at, uint64_t sum, uint64_t residual)
{
    const uint64_t x = s.residual ? weiri_norm_lanes<dtype>::add(sum, residual) : sum;
    *(uint64_t *)(block->segment + at) = x;
    if (s.residual)
        weiri_gpu_store8(s.residual + at, x);
}

template <int dtype, int exact>
static __device__ __forceinline__ void norm_receive_packets(const weiri_gpu_view &view,
                                                            const norm_segment &s, uint64_t epoch,
                                                            weiri_norm_block *block)
{
    for (uint32_t at = 8 * threadIdx.x; at < s.bytes; at += 8 * blockDim.x) {
        uint64_t words[WEIRI_GPU_RANKS_MAX][1], total[1];
        const uint64_t own = weiri_gpu_load8(s.in + at);
        const uint64_t residual = s.residual ? weiri_gpu_load8(s.residual + at) : 0;
#pragma unroll
        for (int r = 0; r < WEIRI_GPU_RANKS_MAX; r++)
            words[r][0] = own;
        weiri_gpu_receive_all<exact>(view, epoch, 0, s.slot + at / 8, words);
        weiri_gpu_reduce<dtype>(WEIR_SUM, weiri_gpu_nranks<exact>(view), words, total);
        norm_keep<dtype>(s, block, at, total[0], residual);
    }
}

template <int dtype, int exact>
static __device__ __forceinline__ void norm_receive_lines(const weiri_gpu_view &view,
                                                          const norm_segment &s, uint64_t epoch,
                                                          weiri_norm_block *block)
{
    const weiri_gpu_line_part part = weiri_gpu_line_part_of_thread();
    const uint32_t units = (s.bytes + WEIRI_GPU_UNIT_DATA - 1) / WEIRI_GPU_UNIT_DATA;
    for (uint32_t unit = threadIdx.x / 32; unit < units; unit += blockDim.x / 32) {
        const size_t from = (size_t)unit * WEIRI_GPU_UNIT_DATA;
        const uint32_t at = (uint32_t)from + 16 * part.vector + 8 * part.is_high;
        uint64_t totals[2];
        weiri_gpu_vector residual = {{0, 0}};
        if (s.residual)
            residual = weiri_gpu_line_load(part, s.residual, s.bytes, from, 1);
        weiri_gpu_reduce_lines<dtype, exact>(view, part, WEIR_SUM, epoch, s.slot + unit,
                                             weiri_gpu_line_load(part, s.in, s.bytes, from, 1),
                                             totals);
        if (at < s.bytes)
            norm_keep<dtype>(s, block, at, totals[0], residual.word[0]);
        if (at + 8 < s.bytes && !part.is_last)
            norm_keep<dtype>(s, block, at + 8, totals[1], residual.word[1]);
        __syncwarp();
    }
}

/* Step 1 of the segments first, first + step, ..., counted row by row. */
template <int dtype, int exact, bool lines>
static __device__ __forceinline__ void norm_send_rows(const weiri_norm_launch &launch,
                                                      uint32_t first, uint32_t step, uint64_t epoch)
{
    const uint32_t end = launch.rows * launch.split;
    for (uint32_t i = first; i < end; i += step)
        norm_send<exact, lines>(
            launch.view,
            norm_segment_of<dtype, lines>(launch, weiri_norm_team_part(launch, i % launch.split),
                                          i / launch.split),
            epoch);
}

/* Two ranks: two blocks are resident on a multiprocessor. */
template <int dtype, int exact, bool lines>
static __global__ void __launch_bounds__(NORM_THREADS_MAX, exact == 2 ? 2 : 1)
    allreduce_norm(const __grid_constant__ weiri_norm_launch launch)
{
    WEIRI_GPU_SHARED(weiri_norm_block, block);
    const weiri_gpu_view &view = launch.view;
    const weiri_norm_team t = weiri_norm_team_of_block(launch);
    const bool sends_only = blockIdx.x < launch.senders;
    const uint64_t epoch = weiri_gpu_epoch(view);
    if (sends_only)
        norm_send_rows<dtype, exact, lines>(launch, blockIdx.x, launch.senders, epoch);
    else if (!launch.senders && t.first < launch.rows)
        norm_send_rows<dtype, exact, lines>(launch, t.first * t.parts + t.part, t.step * t.parts,
                                            epoch);
    weiri_gpu_advance_epoch(view, epoch);
    for (uint32_t row = t.first; row < launch.rows && !sends_only; row += t.step) {
        const norm_segment s = norm_segment_of<dtype, lines>(launch, t, row);
        if (lines)
            norm_receive_lines<dtype, exact>(view, s, epoch, &block);
        else
            norm_receive_packets<dtype, exact>(view, s, epoch, &block);
        __syncthreads();
        weiri_norm_finish<dtype>(launch, t, epoch, row, &block);
    }
}

/* --------------------------------------------------------------- host side */

template <int exact, bool lines> static const void *norm_kernel_of(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_FLOAT:
        return (const void *)&allreduce_norm<WEIR_FLOAT, exact, lines>;
#if !WEIR_FEW_KERNELS
    case WEIR_HALF:
        return (const void *)&allreduce_norm<WEIR_HALF, exact, lines>;
    case WEIR_BFLOAT16:
        return (const void *)&allreduce_norm<WEIR_BFLOAT16, exact, lines>;
#endif
    default:
        return nullptr;
    }
}

template <bool lines> static const void *norm_kernel_for(weir_dtype dtype, int nranks)
{
#if !WEIR_FEW_KERNELS
    if (nranks == 2)
        return norm_kernel_of<2, lines>(dtype);
    if (nranks == 4)
        return norm_kernel_of<4, lines>(dtype);
    if (nranks == 8)
        return norm_kernel_of<8, lines>(dtype);
#endif
    return norm_kernel_of<0, lines>(dtype);
}

const void *weiri_gpu_norm_kernel(weiri_norm_protocol protocol, weir_dtype dtype, int nranks)
{
    return protocol == WEIRI_NORM_LINES ? norm_kernel_for<true>(dtype, nranks)
                                        : norm_kernel_for<false>(dtype, nranks);
}

enum { NORM_SPLIT_MOST = 16 };

/* A row that is split may need up to three more units for each of its blocks. A single rank sends
 * nothing; blocks that share a row exchange a few packets, and then there are few rows. */
uint32_t weiri_gpu_norm_rows(weiri_norm_protocol protocol, size_t row_bytes, int nranks)
{
    enum { ROWS_ALONE = 1 << 20 };
    const size_t units = (row_bytes + WEIRI_GPU_UNIT_DATA - 1) / WEIRI_GPU_UNIT_DATA;
    const size_t room =
        WEIRI_GPU_PHASES * weiri_gpu_ll128_slot_units(nranks) - 3 * WEIRI_GPU_BLOCKS_MAX;
    const size_t packets = WEIRI_GPU_SLOT_BYTES / 16;
    if (nranks == 1)
        return ROWS_ALONE;
    return (uint32_t)(protocol == WEIRI_NORM_LINES ? room / units : packets / (row_bytes / 8));
}

/* As many blocks for each row as there are multiprocessors, down to a few lines for each; a warp
 * for each line if there are enough. If blocks have several rows, others send. */
weiri_gpu_shape weiri_gpu_norm_shape(weiri_norm_launch *launch, int processors, int blocks_most)
{
    enum { WARPS_LEAST = 4, WARPS_MOST = NORM_THREADS_MAX / 32 };
    const uint32_t lines = (launch->hidden + WEIRI_NORM_LINE - 1) / WEIRI_NORM_LINE;
    const uint32_t all = 2 * (uint32_t)processors;
    const uint32_t most =
        blocks_most > 0 && (uint32_t)blocks_most < all ? (uint32_t)blocks_most : all;
    uint32_t split = 1;
    while (split < NORM_SPLIT_MOST && 4 * split * launch->rows <= most &&
           2 * split * WARPS_LEAST <= lines)
        split *= 2;
    const uint32_t each = (lines + split - 1) / split;
    const uint32_t warps = each < WARPS_MOST ? each : (uint32_t)WARPS_MOST;
    launch->split = split;
    launch->senders =
        launch->view.nranks > 1 && launch->rows > most && launch->in != launch->out ? most / 4 : 0;
    const uint32_t teams = (most - launch->senders) / split;
    const uint32_t blocks = (teams < launch->rows ? teams : launch->rows) * split;
    return {(int)(launch->senders + blocks), (int)(32 * warps)};
}
