/*
 * allreduce, reduce_scatter and allgather, ring: the n parts of a buffer travel around a ring of
 * ranks, partial results first and results after that. Every link carries one stream, so long
 * buffers take as long as their bytes. With any memory, but for allgathers in symmetric memory,
 * where `direct` stores without staging buffers.
 *
 * Warps are lanes (device/lane.cuh); a lane has the same pieces of all parts. For each of them it
 * takes 2 n - 1 steps. In step s rank r works on part (r - s) mod n, and
 *
 *   0              sends its input to the successor,
 *   1 .. n-2       receives a partial result, reduces it with its input, sends the sum,
 *   n-1            the same, and keeps the sum, which is the result,
 *   n .. 2n-3      receives a result, keeps and sends it,
 *   2n-2           receives a result and keeps it.
 *
 * reduce_scatter takes steps 0 to n-1, which end with the rank's own part. allgather takes the
 * steps from n-1 on, the first of them with its input instead of a sum.
 *
 * Partial results have the data's type. Types that are rounded when stored are reduced for two
 * ranks only, where the result is rounded once. Of part p, rank p's input comes first in an
 * allreduce, and rank p + 1's in a reduce_scatter.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/lane.cuh"
#include "coll/cuda/device/types.cuh"

enum { NO_TYPE = -1 /* nothing is reduced */ };

/* What the warps of a launch have in common. */
struct ring {
    int before, after;
    int first, last; /* steps */
    int ahead;       /* in step s this rank works on part (rank + ahead - s) mod n */
    size_t part;     /* bytes of all parts but the last ones, which may be shorter or empty */
};

/* What a rank does with a piece in a step. */
struct ring_step {
    bool takes, reads, keeps, sends;
    const char *in; /* this rank's input, of which `left` bytes remain in the part */
    char *out;
    size_t left;
    int op;
};

static __device__ __forceinline__ ring plan_ring(const weiri_gpu_args &args)
{
    const int n = args.view.nranks;
    ring r;
    r.before = weiri_gpu_nth_after(args.view.rank, n - 1, n);
    r.after = weiri_gpu_nth_after(args.view.rank, 1, n);
    r.first = args.collective == WEIR_COLL_ALLGATHER ? n - 1 : 0;
    r.last = args.collective == WEIR_COLL_REDUCE_SCATTER ? n - 1 : 2 * n - 2;
    r.ahead = args.collective == WEIR_COLL_ALLREDUCE ? 0 : n - 1;
    r.part = args.collective == WEIR_COLL_ALLREDUCE
                 ? weiri_gpu_part({0, args.bytes}, 0, (unsigned)n).bytes
                 : args.bytes;
    return r;
}

/* in_part: where the piece begins in its part. */
template <int dtype>
static __device__ __forceinline__ ring_step step_of(const weiri_gpu_args &args, const ring &r,
                                                    size_t in_part, int step)
{
    const int n = args.view.nranks;
    const size_t at = (size_t)((args.view.rank + r.ahead + 2 * n - step) % n) * r.part + in_part;
    ring_step s;
    s.takes = step > r.first;
    s.reads = step < n;
    s.keeps = step >= n - 1;
    s.sends = step < r.last;
    s.in = args.in + (args.collective == WEIR_COLL_ALLGATHER ? in_part : at);
    s.out = args.out + (args.collective == WEIR_COLL_REDUCE_SCATTER ? in_part : at);
    s.left = r.part - in_part;
    if (args.collective == WEIR_COLL_ALLREDUCE) {
        const size_t to_end = at < args.bytes ? args.bytes - at : 0;
        s.left = s.left < to_end ? s.left : to_end;
    }
    s.op = 0;
    if constexpr (dtype != NO_TYPE)
        s.op = args.op == WEIR_AVG && step != n - 1 ? WEIR_SUM : weiri_gpu_op_of<dtype>(args);
    return s;
}

template <int dtype>
static __device__ __forceinline__ void combine(int op,
                                               const uint64_t (&words)[2][WEIRI_GPU_LANE_WORDS],
                                               uint64_t (&totals)[WEIRI_GPU_LANE_WORDS], int nranks)
{
    if constexpr (dtype != NO_TYPE)
        weiri_gpu_reduce_parts<dtype>(op, 2, words, totals, nranks);
}

/* The portion that begins `at` bytes into the piece. */
template <int dtype>
static __device__ __forceinline__ void pass_portion(const weiri_gpu_view &view, const ring &r,
                                                    weiri_gpu_lane *lane, const ring_step &s,
                                                    uint32_t at)
{
    const size_t left = s.left > at ? s.left - at : 0;
    const uint32_t bytes = weiri_gpu_lane_bytes(left, 0);
    uint64_t words[2][WEIRI_GPU_LANE_WORDS] = {}, totals[WEIRI_GPU_LANE_WORDS];
    if (s.reads)
        weiri_gpu_lane_load(words[1], s.in + at, left, bytes);
    if (s.takes)
        weiri_gpu_lane_take(words[0], view, *lane, at);
    if (dtype != NO_TYPE && s.takes && s.reads) {
        combine<dtype>(s.op, words, totals, view.nranks);
    } else {
#pragma unroll
        for (int i = 0; i < WEIRI_GPU_LANE_WORDS; i++)
            totals[i] = s.takes ? words[0][i] : words[1][i];
    }
    if (s.sends)
        weiri_gpu_lane_send(view, lane, r.after, at, totals, bytes);
    if (s.keeps)
        weiri_gpu_lane_keep(s.out + at, totals, bytes);
}

template <int dtype>
static __device__ __forceinline__ void pass_piece(const weiri_gpu_view &view, const ring &r,
                                                  weiri_gpu_lane *lane, const ring_step &s)
{
    if (s.takes)
        weiri_gpu_lane_await(view, lane, r.before);
#pragma unroll 1
    for (uint32_t at = 0; at < lane->piece; at += WEIRI_GPU_LANE_PORTION)
        pass_portion<dtype>(view, r, lane, s, at);
    __syncwarp();
    if (s.takes && weiri_gpu_lane_owes_credit(*lane))
        weiri_gpu_lane_credit(view, *lane, r.before);
}

/* The whole launch. All threads of the block call it. */
template <int dtype> static __device__ __forceinline__ void go_around(const weiri_gpu_args &args)
{
    WEIRI_GPU_SHARED(weiri_gpu_lane_buffers, buffers);
    const ring r = plan_ring(args);
    weiri_gpu_lane lane = weiri_gpu_lane_begin(args.view, &buffers, r.part);
    const uint32_t pieces = weiri_gpu_lane_pieces(lane, r.part);
    if (lane.index >= lane.count)
        return;
    for (uint32_t piece = lane.index; piece < pieces; piece += lane.count)
        for (int step = r.first; step <= r.last; step++)
            pass_piece<dtype>(args.view, r, &lane,
                              step_of<dtype>(args, r, (size_t)piece * lane.piece, step));
    weiri_gpu_lane_announce(args.view, &lane);
}

template <int dtype>
static __global__ void __launch_bounds__(32 * WEIRI_GPU_LANE_WARPS, 2)
    reduce_ring(const __grid_constant__ weiri_gpu_args args)
{
    go_around<dtype>(args);
}

static __global__ void __launch_bounds__(32 * WEIRI_GPU_LANE_WARPS, 2)
    allgather_ring(const __grid_constant__ weiri_gpu_args args)
{
    go_around<NO_TYPE>(args);
}

WEIRI_GPU_DEFINE_OF_TYPES(reduce_ring)
WEIRI_GPU_DEFINE_OF_BYTES(allgather_ring)

/* Bytes of a part, but for the rounding to whole lines. */
static uint64_t part_bytes(const weiri_gpu_args *args)
{
    const int parts = args->collective == WEIR_COLL_ALLREDUCE ? args->view.nranks : 1;
    return (args->bytes + (uint64_t)parts - 1) / (uint64_t)parts;
}

weiri_gpu_shape weiri_gpu_reduce_ring_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_lane_shape(part_bytes(args), processors);
}

weiri_gpu_shape weiri_gpu_allgather_ring_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_lane_shape(args->bytes, processors);
}

int weiri_gpu_reduce_ring_serves(const weiri_gpu_args *args)
{
    return weiri_gpu_lane_counts(part_bytes(args), 2 * args->view.nranks) &&
           (args->view.nranks == 2 || !weiri_is_rounded(args->dtype));
}

int weiri_gpu_allgather_ring_serves(const weiri_gpu_args *args)
{
    return weiri_gpu_lane_counts(args->bytes, args->view.nranks) && !args->symmetric;
}
