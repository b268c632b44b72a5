/*
 * broadcast, chain: the root's data travel from rank to rank. Every link carries the buffer once,
 * so a long buffer takes as long as one link needs for it, and the time to fill the chain. With any
 * memory.
 *
 * The other ranks follow each other cyclically, and lane by lane another one of them follows the
 * root, so that all of them pass on the last pieces at the same time. (A reduction along such
 * chains is not faster, because several ranks would send to its root.)
 *
 * The steps of a round are those of device/chain.cuh. In step 2 a rank stores the piece
 *
 *   - into the successor's output, if this rank can map it and it is aligned to 16; the successor
 *     then reads the piece there, and gives no taken signal, because nothing is overwritten,
 *   - otherwise into the successor's staging buffer, from which the successor copies it also to its
 *     own output.
 *
 * Each link decides for itself: both ends know the receiver's descriptor and alignment. The length
 * of pieces does not depend on it.
 *
 * At entry each rank but the root sends its predecessor the descriptor of its output. The
 * predecessor reads it before it stores a piece, for which the sender waits, so it is not
 * overwritten unread. A rank whose output is stored into ends after it has awaited all pieces.
 */
#include "coll/cuda/kernels.h"
#include "coll/cuda/device/chain.cuh"
#include "coll/cuda/device/types.cuh"

enum {
    BROADCAST_CHAIN_THREADS_MAX = 256,
    /* for each link of the chain, which adds one piece of latency */
    BROADCAST_CHAIN_ROUNDS_WANTED = 8,
    BROADCAST_CHAIN_LEAST_BYTES = 8 << 10, /* of a piece */
};

/* What the blocks of a launch have in common. */
struct relay : weiri_gpu_chain {
    char *next;         /* the successor's output; NULL: its staging buffer */
    bool through_stage; /* whether this rank's pieces arrive in its staging buffer */
};

/* The nth of the other ranks in this lane's chain. */
static __device__ __forceinline__ int other_rank(const weiri_gpu_args &args, int nth)
{
    const int nranks = args.view.nranks, others = nranks - 1;
    const int place = nth + (int)(blockIdx.x % (uint32_t)others);
    return weiri_gpu_nth_after(args.root, 1 + (place < others ? place : place - others), nranks);
}

/* Sets this rank's neighbours in the lane's chain. */
static __device__ __forceinline__ void join_chain(relay *c, const weiri_gpu_args &args)
{
    const int rank = args.view.rank, root = args.root, others = args.view.nranks - 1;
    const int after_root = rank < root ? rank + others - root : rank - root - 1;
    const int place = after_root - (int)(blockIdx.x % (uint32_t)others);
    const int nth = rank == root ? -1 : place < 0 ? place + others : place;
    c->before = nth > 0 ? other_rank(args, nth - 1) : nth == 0 ? root : -1;
    c->after = nth + 1 < others ? other_rank(args, nth + 1) : -1;
}

static __device__ __forceinline__ bool takes_stores(const char *out, weiri_gpu_desc desc)
{
    return desc != WEIRI_GPU_UNMAPPED && !weiri_gpu_misaligned(out, 16);
}

/* Sends and receives descriptors, decides how pieces travel, and begins. All threads of the block
 * call it. */
static __device__ __forceinline__ void exchange_descs(const weiri_gpu_args &args, relay *c,
                                                      uint64_t epoch)
{
    WEIRI_GPU_SHARED(char *, next);
    const weiri_gpu_view &view = args.view;
    if (c->before >= 0 && threadIdx.x == 0)
        weiri_gpu_send_descs(view, c->before, epoch, WEIRI_GPU_UNMAPPED, args.out_desc);
    weiri_gpu_advance_epoch(view, epoch);
    if (c->after >= 0 && threadIdx.x == 0) {
        const weiri_gpu_cell *cell = weiri_gpu_cell_of(view, view.rank, c->after);
        const weiri_gpu_desc desc = weiri_gpu_receive(view, (const char *)cell->out, 0, epoch,
                                                      c->after, WEIRI_GPU_UNMAPPED);
        char *out = desc == WEIRI_GPU_UNMAPPED ? NULL : weiri_gpu_address(view, c->after, desc);
        next = takes_stores(out, desc) ? out : NULL;
    }
    weiri_gpu_chain_begin(view, *c, epoch);
    c->next = c->after < 0 ? NULL : next;
    c->through_stage = c->before >= 0 && !takes_stores(args.out, args.out_desc);
}

/* Step 2. Pieces that have been stored into this rank's output are only passed on. */
static __device__ __forceinline__ void pass_on(const weiri_gpu_args &args, const relay &c,
                                               uint32_t round, weiri_gpu_range piece)
{
    const weiri_gpu_view &view = args.view;
    const char *from = (c.before < 0 ? args.in : args.out) + piece.at;
    char *to[2] = {NULL, NULL}; /* the successor's, and this rank's own */
    if (c.through_stage)
        from = weiri_gpu_chain_slot(view, c, view.rank, round);
    if (c.after >= 0)
        to[0] = c.next ? c.next + piece.at : weiri_gpu_chain_slot(view, c, c.after, round);
    if (c.through_stage || (c.before < 0 && args.out != args.in))
        to[1] = args.out + piece.at;
    weiri_gpu_copy_to<2>(to, from, piece.bytes, threadIdx.x, blockDim.x);
}

static __global__ void __launch_bounds__(BROADCAST_CHAIN_THREADS_MAX, 2)
    broadcast_chain(const __grid_constant__ weiri_gpu_args args)
{
    const weiri_gpu_view &view = args.view;
    const uint64_t epoch = weiri_gpu_epoch(view);
    relay c;
    weiri_gpu_cut_chain(&c, args, BROADCAST_CHAIN_ROUNDS_WANTED * (uint32_t)(view.nranks - 1),
                        WEIRI_GPU_LEAST_PIECE(BROADCAST_CHAIN_LEAST_BYTES));
    join_chain(&c, args);
    if (c.before < 0) {
        const weiri_gpu_range piece = weiri_gpu_piece_at(c, blockIdx.x, 0);
        weiri_gpu_prefetch(args.in + piece.at, piece.bytes, threadIdx.x, blockDim.x);
    }
    exchange_descs(args, &c, epoch);
    for (uint32_t round = 0; round < c.rounds; round++) {
        const weiri_gpu_range piece = weiri_gpu_piece_at(c, blockIdx.x, round);
        weiri_gpu_chain_await(view, c, epoch, round, !c.next);
        pass_on(args, c, round, piece);
        weiri_gpu_chain_signal(view, c, epoch, round, c.through_stage);
    }
    weiri_gpu_chain_end(view, epoch);
}

WEIRI_GPU_DEFINE_OF_BYTES(broadcast_chain)

weiri_gpu_shape weiri_gpu_broadcast_chain_shape(const weiri_gpu_args *args, int processors)
{
    return weiri_gpu_chain_shape(args->bytes, processors, BROADCAST_CHAIN_THREADS_MAX);
}

int weiri_gpu_broadcast_chain_serves(const weiri_gpu_args *args)
{
    return args->collective == WEIR_COLL_BROADCAST && args->bytes > 0 && args->view.nranks > 1;
}
