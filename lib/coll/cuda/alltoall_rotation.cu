/*
 * alltoall, rotation: every rank sends its block to one peer after the other, in phase p to the pth
 * rank after it, while it receives that of the pth rank before it. So every GPU sends one stream
 * and receives one at a time. For memory that peers cannot map: in symmetric memory `direct` stores
 * without staging buffers, which is faster.
 *
 * Warps are lanes (device/lane.cuh), each with the same pieces of all blocks. A lane sends a piece
 * and takes one; the pieces of two phases follow each other without a pause. The rank's own block
 * is copied during the last phase.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/lane.cuh"
#include "coll/cuda/device/types.cuh"

/* A place in the order of a lane's pieces. */
struct turn {
    int phase;      /* from 1 */
    uint32_t piece; /* of the block, in lanes: 0, 1, ... */
};

static __device__ __forceinline__ void turn_on(turn *t, uint32_t pieces)
{
    const bool ends = ++t->piece == pieces;
    t->phase += ends;
    t->piece = ends ? 0 : t->piece;
}

/* Bytes into a block. */
static __device__ __forceinline__ size_t place_in_block(const weiri_gpu_lane &lane, const turn &t)
{
    return ((size_t)t.piece * lane.count + lane.index) * lane.piece;
}

static __device__ __forceinline__ void copy_own(const weiri_gpu_args &args, size_t at,
                                                uint32_t bytes)
{
    const size_t block = (size_t)args.view.rank * args.bytes;
    uint64_t words[WEIRI_GPU_LANE_WORDS];
    weiri_gpu_lane_load(words, args.in + block + at, args.bytes - at, bytes);
    weiri_gpu_lane_keep(args.out + block + at, words, bytes);
}

static __device__ __forceinline__ void send_next(const weiri_gpu_args &args, weiri_gpu_lane *lane,
                                                 const turn &t)
{
    const weiri_gpu_view &view = args.view;
    const int to = weiri_gpu_nth_after(view.rank, t.phase, view.nranks);
    const char *block = args.in + (size_t)to * args.bytes;
#pragma unroll 1
    for (uint32_t in_piece = 0; in_piece < lane->piece; in_piece += WEIRI_GPU_LANE_PORTION) {
        const size_t at = place_in_block(*lane, t) + in_piece;
        const uint32_t bytes = weiri_gpu_lane_bytes(args.bytes, at);
        uint64_t words[WEIRI_GPU_LANE_WORDS];
        weiri_gpu_lane_load(words, block + at, args.bytes - at, bytes);
        weiri_gpu_lane_send(view, lane, to, in_piece, words, bytes);
        if (t.phase == view.nranks - 1)
            copy_own(args, at, bytes);
    }
}

static __device__ __forceinline__ void take_next(const weiri_gpu_args &args, weiri_gpu_lane *lane,
                                                 const turn &t)
{
    const weiri_gpu_view &view = args.view;
    const int from = weiri_gpu_nth_after(view.rank, view.nranks - t.phase, view.nranks);
    char *block = args.out + (size_t)from * args.bytes;
    weiri_gpu_lane_await(view, lane, from);
#pragma unroll 1
    for (uint32_t in_piece = 0; in_piece < lane->piece; in_piece += WEIRI_GPU_LANE_PORTION) {
        const size_t at = place_in_block(*lane, t) + in_piece;
        uint64_t words[WEIRI_GPU_LANE_WORDS];
        weiri_gpu_lane_take(words, view, *lane, in_piece);
        weiri_gpu_lane_keep(block + at, words, weiri_gpu_lane_bytes(args.bytes, at));
    }
    __syncwarp();
}

/* Gives a credit to the senders of the next `depth` pieces, of which t is the first one. */
static __device__ __forceinline__ void
credit_next(const weiri_gpu_view &view, const weiri_gpu_lane &lane, const turn &t, uint32_t pieces)
{
    const int last = t.phase + (int)((t.piece + lane.depth - 1) / pieces);
    for (int phase = t.phase; phase <= last && phase < view.nranks; phase++)
        weiri_gpu_lane_credit(view, lane,
                              weiri_gpu_nth_after(view.rank, view.nranks - phase, view.nranks));
}

static __global__ void __launch_bounds__(32 * WEIRI_GPU_LANE_WARPS, 2)
    alltoall_rotation(const __grid_constant__ weiri_gpu_args args)
{
    WEIRI_GPU_SHARED(weiri_gpu_lane_buffers, buffers);
    const weiri_gpu_view &view = args.view;
    weiri_gpu_lane lane = weiri_gpu_lane_begin(view, &buffers, args.bytes);
    const uint32_t all = weiri_gpu_lane_pieces(lane, args.bytes);
    if (lane.index >= lane.count || lane.index >= all)
        return;
    const uint32_t pieces = (all - lane.index - 1) / lane.count + 1;
    for (turn t = {1, 0}; t.phase < view.nranks;) {
        send_next(args, &lane, t);
        take_next(args, &lane, t);
        turn_on(&t, pieces);
        if (weiri_gpu_lane_owes_credit(lane))
            credit_next(view, lane, t, pieces);
    }
    weiri_gpu_lane_announce(view, &lane);
}

WEIRI_GPU_DEFINE_OF_BYTES(alltoall_rotation)

weiri_gpu_shape weiri_gpu_alltoall_rotation_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_lane_shape(args->bytes, processors);
}

int weiri_gpu_alltoall_rotation_serves(const weiri_gpu_args *args)
{
    return args->view.nranks > 1 && weiri_gpu_lane_counts(args->bytes, args->view.nranks) &&
           !args->symmetric;
}
