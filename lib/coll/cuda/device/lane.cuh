/*
 * Warps as lanes: each warp of a launch passes pieces of a few KiB to the warps of the same number
 * on other ranks, through their staging buffers, by bulk stores (bulk.cuh). The kernel decides for
 * each piece who sends it to whom, such that the k-th piece which a lane receives is the k-th one
 * that its sender has sent in that lane.
 *
 *     weiri_gpu_lane_load, _keep   a thread's part of a portion: vectors of 16 bytes
 *     weiri_gpu_lane_send          stores a portion into the receiver's staging buffer
 *     weiri_gpu_lane_await         waits for the next piece
 *     weiri_gpu_lane_credit        lets a sender use the places of the pieces taken so far
 *
 * A piece consists of one portion, for which a thread has registers, or of two if there are enough
 * pieces to keep all lanes busy: flags count pieces, and fewer flags leave more of the link to the
 * data.
 *
 * Each lane has `depth` places for its pieces in every staging buffer, in rotation, and two words
 * in the cells, which contain the epoch and only grow:
 *
 *   - arrived: pieces that the sender has stored (release after the store has been performed). It
 *     is given late, right before the warp waits or sends again, so that the store has time.
 *     Whenever a warp waits for another rank it has given it, so no rank waits in vain.
 *   - credit: pieces that the receiver has used, given each half rotation to everyone who sends one
 *     of the next `depth` pieces. What the warp's threads have loaded has been used before the
 *     credit is stored, so that needs no fence.
 *
 * Before a lane sends its k-th piece it must have taken k - 1. Then ranks do not wait for room in a
 * circle: the one that has sent the fewest, k - 1, waits for a credit of k - depth pieces, from a
 * rank that has taken k - 1 or more, and given credit for k - depth / 2 or more.
 *
 * A barrier at entry ensures that nobody stores into a staging buffer that an earlier launch still
 * reads.
 */
#ifndef WEIR_COLL_CUDA_LANE_CUH
#define WEIR_COLL_CUDA_LANE_CUH

#include "coll/cuda/device/bulk.cuh"
#include "coll/cuda/device/direct.cuh"

enum {
    WEIRI_GPU_LANE_WARPS = 8, /* the most of a block; two blocks of a multiprocessor suffice */
#if defined(WEIR_EMULATED)
    WEIRI_GPU_LANE_VECTORS = 1,
#else
    WEIRI_GPU_LANE_VECTORS = 8, /* of a thread */
#endif
    WEIRI_GPU_LANE_PORTION = 32 * 16 * WEIRI_GPU_LANE_VECTORS,
    WEIRI_GPU_LANE_BUSY = 3, /* portions of a part for each lane, from which on pieces have two */
    WEIRI_GPU_LANE_WORDS = 2 * WEIRI_GPU_LANE_VECTORS,
};

/* The shared memory of a block's lanes. */
struct __align__(128) weiri_gpu_lane_buffers
{
    char portion[WEIRI_GPU_LANE_WARPS][WEIRI_GPU_LANE_PORTION];
};

struct weiri_gpu_lane {
    uint32_t index, count; /* this lane, of how many; warps with index >= count have none */
    uint32_t piece;        /* bytes of a piece */
    uint32_t depth;        /* even */
    uint32_t taken, sent;  /* pieces so far */
    int receiver;          /* of a piece that has yet to be announced; -1: there is none */
    uint64_t epoch;
    char *buffer; /* in shared memory */
    weiri_gpu_bulk bulk;
};

/* A portion of a part of `part_bytes`, which begins `at` bytes into the part. */
WEIRI_GPU_FN uint32_t weiri_gpu_lane_bytes(size_t part_bytes, size_t at)
{
    const size_t left = at < part_bytes ? part_bytes - at : 0;
    return left < WEIRI_GPU_LANE_PORTION ? (uint32_t)left : (uint32_t)WEIRI_GPU_LANE_PORTION;
}

WEIRI_GPU_FN uint32_t weiri_gpu_lane_pieces(const weiri_gpu_lane &lane, size_t part_bytes)
{
    return (uint32_t)((part_bytes + lane.piece - 1) / lane.piece);
}

/* Advances the epoch and waits until all ranks have begun. All threads of the block call it.
 * part_bytes: of the longest part, the same on all ranks. */
WEIRI_GPU_FN weiri_gpu_lane weiri_gpu_lane_begin(const weiri_gpu_view &view,
                                                 weiri_gpu_lane_buffers *buffers, size_t part_bytes)
{
    const uint32_t warp = threadIdx.x / 32, warps = gridDim.x * (blockDim.x / 32);
    const uint64_t epoch = weiri_gpu_epoch(view);
    weiri_gpu_lane lane;
    lane.index = blockIdx.x * (blockDim.x / 32) + warp;
    const size_t busy = (size_t)warps * WEIRI_GPU_LANE_BUSY * WEIRI_GPU_LANE_PORTION;
    lane.piece = (part_bytes < busy ? 1 : 2) * WEIRI_GPU_LANE_PORTION;
    const uint32_t half = (uint32_t)WEIRI_GPU_STAGE_BYTES / lane.piece;
    lane.count = warps < half ? warps : half;
    lane.depth = half / lane.count * 2;
    lane.taken = lane.sent = 0;
    lane.receiver = -1;
    lane.epoch = epoch;
    lane.buffer = buffers->portion[warp];
    lane.bulk = {};
    weiri_gpu_advance_epoch(view, epoch);
    weiri_gpu_barrier(view, epoch, 1);
    return lane;
}

/* The place of the lane's k-th piece (from 1) in a rank's staging buffer. */
WEIRI_GPU_FN char *weiri_gpu_lane_place(const weiri_gpu_view &view, const weiri_gpu_lane &lane,
                                        int rank, uint32_t k)
{
    return weiri_gpu_stage(view, rank, 0) +
           ((size_t)(k % lane.depth) * lane.count + lane.index) * lane.piece;
}

/* Announces the last piece to its receiver, by the warp's first thread. A kernel ends with this,
 * otherwise the last receiver would wait in vain. */
WEIRI_GPU_FN void weiri_gpu_lane_announce(const weiri_gpu_view &view, weiri_gpu_lane *lane)
{
    if (threadIdx.x % 32 == 0 && lane->receiver >= 0) {
        weiri_gpu_bulk_await(&lane->bulk);
        weir_store_release(
            &weiri_gpu_cell_of(view, lane->receiver, view.rank)->arrived[threadIdx.x / 32],
            weiri_gpu_step(lane->epoch, lane->sent));
    }
    lane->receiver = -1;
}

/* Waits for the next piece, which this rank sends. */
WEIRI_GPU_FN void weiri_gpu_lane_await(const weiri_gpu_view &view, weiri_gpu_lane *lane, int from)
{
    const uint64_t *word = &weiri_gpu_cell_of(view, view.rank, from)->arrived[threadIdx.x / 32];
    const uint64_t target = weiri_gpu_step(lane->epoch, ++lane->taken);
    if (__any_sync(0xffffffff, weir_load_acquire(word) < target)) {
        weiri_gpu_lane_announce(view, lane);
        weiri_gpu_await_word(view, word, target, from);
    }
    __syncwarp();
}

/* Lets a sender use the places of all pieces taken so far. All threads of the warp must have used
 * theirs before a __syncwarp that precedes the call. */
WEIRI_GPU_FN void weiri_gpu_lane_credit(const weiri_gpu_view &view, const weiri_gpu_lane &lane,
                                        int to)
{
    if (threadIdx.x % 32 == 0)
        weir_store_relaxed(&weiri_gpu_cell_of(view, to, view.rank)->credit[threadIdx.x / 32],
                           weiri_gpu_step(lane.epoch, lane.taken));
}

/* Whether a credit is due after the piece that was taken last. */
WEIRI_GPU_FN bool weiri_gpu_lane_owes_credit(const weiri_gpu_lane &lane)
{
    return lane.taken % (lane.depth / 2) == 0;
}

/* ----------------------------------------------- a thread's part of a portion */

/* Loads it of a whole portion; first: this thread's first vector, aligned to 16. */
WEIRI_GPU_FN void weiri_gpu_lane_load_whole(uint64_t (&words)[WEIRI_GPU_LANE_WORDS],
                                            const char *first)
{
#pragma unroll
    for (int v = 0; v < WEIRI_GPU_LANE_VECTORS; v++) {
        const weiri_gpu_vector vector = weiri_gpu_load16(first + 512 * v);
        words[2 * v] = vector.word[0];
        words[2 * v + 1] = vector.word[1];
    }
}

/* Loads it from a buffer of which `left` bytes remain; the portion is the first `bytes` of them. */
WEIRI_GPU_FN void weiri_gpu_lane_load(uint64_t (&words)[WEIRI_GPU_LANE_WORDS], const char *from,
                                      size_t left, uint32_t bytes)
{
    const uint32_t first = 16 * (threadIdx.x % 32);
    const int aligned = !weiri_gpu_misaligned(from, 16);
    if (aligned && bytes == WEIRI_GPU_LANE_PORTION) {
        weiri_gpu_lane_load_whole(words, from + first);
        return;
    }
#pragma unroll
    for (int v = 0; v < WEIRI_GPU_LANE_VECTORS; v++) {
        const uint32_t at = first + 512 * v;
        weiri_gpu_vector vector = {{0, 0}};
        if (at < bytes)
            vector = weiri_gpu_load_vector(from + at, left - at, aligned);
        words[2 * v] = vector.word[0];
        words[2 * v + 1] = vector.word[1];
    }
}

/* Loads it from this rank's staging buffer, where the portion begins `at` bytes into the piece.
 * What lies behind a short portion is loaded, too. */
WEIRI_GPU_FN void weiri_gpu_lane_take(uint64_t (&words)[WEIRI_GPU_LANE_WORDS],
                                      const weiri_gpu_view &view, const weiri_gpu_lane &lane,
                                      uint32_t at)
{
    const char *place = weiri_gpu_lane_place(view, lane, view.rank, lane.taken);
    weiri_gpu_lane_load_whole(words, place + at + 16 * (threadIdx.x % 32));
}

/* Stores the portion's first `bytes` into a buffer. */
WEIRI_GPU_FN void weiri_gpu_lane_keep(char *to, const uint64_t (&words)[WEIRI_GPU_LANE_WORDS],
                                      uint32_t bytes)
{
    const uint32_t first = 16 * (threadIdx.x % 32);
    const int aligned = !weiri_gpu_misaligned(to, 16);
    if (aligned && bytes == WEIRI_GPU_LANE_PORTION) {
#pragma unroll
        for (int v = 0; v < WEIRI_GPU_LANE_VECTORS; v++)
            weiri_gpu_store16(to + first + 512 * v, {{words[2 * v], words[2 * v + 1]}});
        return;
    }
#pragma unroll
    for (int v = 0; v < WEIRI_GPU_LANE_VECTORS; v++) {
        const uint32_t at = first + 512 * v;
        if (at < bytes)
            weiri_gpu_store_vector(to + at, {{words[2 * v], words[2 * v + 1]}}, bytes - at,
                                   aligned);
    }
}

/* Begins a piece, after it has waited for room. All threads of the warp call it. */
WEIRI_GPU_FN void weiri_gpu_lane_begin_piece(const weiri_gpu_view &view, weiri_gpu_lane *lane,
                                             int to)
{
    weiri_gpu_lane_announce(view, lane);
    lane->sent++;
    if (threadIdx.x % 32 == 0 && lane->sent > lane->depth)
        weiri_gpu_await_step(view,
                             &weiri_gpu_cell_of(view, view.rank, to)->credit[threadIdx.x / 32],
                             lane->epoch, lane->sent - lane->depth, to);
    lane->receiver = to;
}

/* Sends the first `bytes` of the portion that begins `at` bytes into a piece. The portion at 0
 * comes first, and begins the piece. */
WEIRI_GPU_FN void weiri_gpu_lane_send(const weiri_gpu_view &view, weiri_gpu_lane *lane, int to,
                                      uint32_t at, const uint64_t (&words)[WEIRI_GPU_LANE_WORDS],
                                      uint32_t bytes)
{
    char *part = lane->buffer + 16 * (threadIdx.x % 32);
    if (!at)
        weiri_gpu_lane_begin_piece(view, lane, to);
    else if (threadIdx.x % 32 == 0)
        weiri_gpu_bulk_await_read(&lane->bulk);
    __syncwarp(); /* the buffer has been read */
#pragma unroll
    for (int v = 0; v < WEIRI_GPU_LANE_VECTORS; v++)
        *(weiri_gpu_vector *)(part + 512 * v) = {{words[2 * v], words[2 * v + 1]}};
    weiri_gpu_bulk_store(&lane->bulk, weiri_gpu_lane_place(view, *lane, to, lane->sent) + at,
                         lane->buffer, (bytes + 15) / 16 * 16);
}

/* Whether one lane alone could count all pieces of a part, each in `steps` steps. */
static inline int weiri_gpu_lane_counts(uint64_t part_bytes, int steps)
{
    const uint64_t most = ((uint64_t)1 << WEIRI_GPU_STEP_SHIFT) / (uint64_t)steps;
    return part_bytes > 0 && part_bytes / WEIRI_GPU_LANE_PORTION + 1 < most;
}

/* The grid: a warp for each portion, and two blocks per multiprocessor. */
static inline weiri_gpu_shape weiri_gpu_lane_shape(uint64_t part_bytes, int processors)
{
    const uint64_t blocks = part_bytes / (WEIRI_GPU_LANE_PORTION * WEIRI_GPU_LANE_WARPS);
    const uint64_t most = 2 * (uint64_t)processors;
    return {blocks < 1 ? 1 : blocks < most ? (int)blocks : (int)most, 32 * WEIRI_GPU_LANE_WARPS};
}

#endif
