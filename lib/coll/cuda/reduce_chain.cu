/*
 * reduce, chain: partial results travel from rank to rank, beginning after the root and ending at
 * it. Every link carries the buffer once, and no rank receives two streams, so a long buffer takes
 * as long as one link needs for it. With any memory.
 *
 * The steps of a round are those of device/chain.cuh. In step 2 a rank reduces the piece with its
 * own input and stores the result into the successor's staging buffer; the first rank stores its
 * input, and the root stores into its output.
 *
 * Partial results have the data's type. Types that are rounded when stored are served for two ranks
 * only, where the result is rounded once.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/chain.cuh"
#include "coll/cuda/device/types.cuh"

enum {
    REDUCE_CHAIN_THREADS_MAX = 256,
    /* for each rank of the chain, which adds one piece of latency */
    REDUCE_CHAIN_ROUNDS_WANTED = 8,
    REDUCE_CHAIN_LEAST_BYTES = 32 << 10, /* of the pieces that all ranks pass on at a time */
    MOST_KIB = 24,                       /* of a piece that a rank between others passes on */
};

/* What the blocks of a launch have in common. */
struct chain : weiri_gpu_chain {
    int op; /* the operation on this rank: only the root divides an average */
    int in_aligned, out_aligned;
};

/* All lanes have the same chain, from the rank after the root to the root. */
static __device__ __forceinline__ void join_chain(chain *c, const weiri_gpu_args &args)
{
    const int rank = args.view.rank, nranks = args.view.nranks;
    const int next = weiri_gpu_nth_after(rank, 1, nranks);
    const int last = weiri_gpu_nth_after(rank, nranks - 1, nranks);
    c->before = last == args.root ? -1 : last;
    c->after = rank == args.root ? -1 : next;
}

/* A long buffer has more rounds: a rank ends a piece later than its predecessor, and begins its
 * next launch as much later. */
static __device__ __forceinline__ uint32_t rounds_wanted(const weiri_gpu_args &args)
{
    const uint32_t least = REDUCE_CHAIN_ROUNDS_WANTED * (uint32_t)(args.view.nranks - 1);
    if (args.view.nranks == 2)
        return least;
    const uint32_t rounds = (uint32_t)(args.bytes >> 10) / (gridDim.x * MOST_KIB);
    return rounds > least ? rounds : least;
}

template <int dtype> static __device__ __forceinline__ chain plan_chain(const weiri_gpu_args &args)
{
    chain c;
    weiri_gpu_cut_chain(&c, args, rounds_wanted(args),
                        WEIRI_GPU_LEAST_PIECE(REDUCE_CHAIN_LEAST_BYTES / args.view.nranks));
    join_chain(&c, args);
    c.op = args.op == WEIR_AVG && c.after >= 0 ? WEIR_SUM : weiri_gpu_op_of<dtype>(args);
    c.in_aligned = (uintptr_t)args.in % 16 == 0;
    c.out_aligned = c.after >= 0 || (uintptr_t)args.out % 16 == 0;
    return c;
}

/* Step 2 for a rank with a predecessor. full: all vectors are whole and aligned. Bytes of this
 * rank's input after the piece may be read. */
template <int dtype, bool full>
static __device__ __forceinline__ void
chain_reduce_piece(const weiri_gpu_args &args, const chain &c, char *to, const char *received,
                   weiri_gpu_range piece)
{
    constexpr int VECTORS = WEIRI_GPU_VECTORS_OF_TWO<dtype>;
    const char *own = args.in + piece.at;
    const size_t left = c.length - piece.at, step = 16 * blockDim.x;
    for (size_t first = 16 * threadIdx.x; first < piece.bytes; first += VECTORS * step) {
        uint64_t words[2][2 * VECTORS] = {}, totals[2 * VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const size_t at = first + v * step;
            if (at >= piece.bytes)
                continue;
            const weiri_gpu_vector earlier = weiri_gpu_load16(received + at);
            const weiri_gpu_vector later =
                full ? weiri_gpu_load16(own + at)
                     : weiri_gpu_load_vector(own + at, left - at, c.in_aligned);
            words[0][2 * v] = earlier.word[0];
            words[0][2 * v + 1] = earlier.word[1];
            words[1][2 * v] = later.word[0];
            words[1][2 * v + 1] = later.word[1];
        }
        weiri_gpu_reduce_parts<dtype>(c.op, 2, words, totals, args.view.nranks);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const size_t at = first + v * step;
            const weiri_gpu_vector total = {{totals[2 * v], totals[2 * v + 1]}};
            if (at >= piece.bytes)
                continue;
            if (full)
                weiri_gpu_store16(to + at, total);
            else
                weiri_gpu_store_vector(to + at, total, piece.bytes - at, c.out_aligned);
        }
    }
}

template <int dtype>
static __device__ __forceinline__ void chain_round(const weiri_gpu_args &args, const chain &c,
                                                   uint64_t epoch, uint32_t round)
{
    const weiri_gpu_view &view = args.view;
    const weiri_gpu_range piece = weiri_gpu_piece_at(c, blockIdx.x, round);
    weiri_gpu_chain_await(view, c, epoch, round, true);
    char *to = c.after < 0 ? args.out + piece.at : weiri_gpu_chain_slot(view, c, c.after, round);
    const char *received = weiri_gpu_chain_slot(view, c, view.rank, round);
    if (c.before < 0)
        weiri_gpu_copy(to, args.in + piece.at, piece.bytes);
    else if (c.in_aligned && c.out_aligned && piece.bytes % 16 == 0)
        chain_reduce_piece<dtype, true>(args, c, to, received, piece);
    else
        chain_reduce_piece<dtype, false>(args, c, to, received, piece);
    weiri_gpu_chain_signal(view, c, epoch, round, true);
}

template <int dtype>
static __global__ void __launch_bounds__(REDUCE_CHAIN_THREADS_MAX, 2)
    reduce_chain(const __grid_constant__ weiri_gpu_args args)
{
    const uint64_t epoch = weiri_gpu_epoch(args.view);
    const chain c = plan_chain<dtype>(args);
    weiri_gpu_advance_epoch(args.view, epoch);
    weiri_gpu_chain_begin(args.view, c, epoch);
    for (uint32_t round = 0; round < c.rounds; round++)
        chain_round<dtype>(args, c, epoch, round);
    weiri_gpu_chain_end(args.view, epoch);
}

WEIRI_GPU_DEFINE_OF_TYPES(reduce_chain)

weiri_gpu_shape weiri_gpu_reduce_chain_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_chain_shape(args->bytes, processors, REDUCE_CHAIN_THREADS_MAX);
}

int weiri_gpu_reduce_chain_serves(const weiri_gpu_args *args)
{
    return args->bytes && (args->view.nranks == 2 || !weiri_is_rounded(args->dtype));
}
