/*
 * How calls between nodes on GPU buffers run in the order of a stream: what the kernel
 * (stager_kernel.h), the proxy threads (stager.c) and the caller (streamed.c) share.
 *
 * A communicator has lanes. A lane is a proxy thread, a communicator of all ranks in host memory,
 * which only this thread uses, and pinned staging buffers. A call launches one kernel. The kernel
 * divides each block of the call into pieces, piece k of which belongs to lane k % lanes, copies
 * the pieces of the input to the staging buffers, and the result back. A lane's thread performs the
 * call for each of its pieces, from staging buffer to staging buffer. It makes no CUDA call, so
 * that nothing in CUDA blocks it. A lane has two buffers of each kind: while its thread works on a
 * piece, the kernel fills the next one.
 *
 * Words, all in pinned memory. A step is epoch << WEIRI_STAGER_STEP_SHIFT | pieces, where the epoch
 * numbers the launches.
 *
 *   asked    the kernel: the epoch of a request, which is in the lane by then
 *   filled   the kernel, each of its blocks: the step to which the input has been copied
 *   done     the thread: the step to which results are complete
 *
 * A block fills piece k + 2 of a lane after it has copied result k, and the thread begins a piece
 * when all blocks have filled it: so it overwrites neither inputs nor results in use.
 *
 * Of allgather, and at the root of broadcast, one block of the output equals the input. It is
 * staged in its place of the output's buffer, where the call is in place, and the kernel copies it
 * from the input to the output without the host. No block reads it back from there, so a block may
 * fill it while others copy results.
 *
 * Graphs. A launch carries its request in its parameters, and the epoch is in device memory, so a
 * launch that was captured can be replayed at any time.
 */
#ifndef WEIR_COLL_INTERNODE_STAGER_H
#define WEIR_COLL_INTERNODE_STAGER_H

#include "coll/cuda/args.h"

enum {
    WEIRI_STAGER_BLOCKS = 4, /* of the kernel, for each lane */
    WEIRI_STAGER_THREADS = 512,
    WEIRI_STAGER_SLOTS = 2, /* staging buffers of each kind and lane */
    WEIRI_STAGER_STEP_SHIFT = 24,
    WEIRI_STAGER_LEAST_BYTES = 64 << 10, /* of the pieces of a block, where there are several */
    WEIRI_STAGER_BYTES = 2 << 20,        /* of a staging buffer: the pieces of all blocks */
};

/* What a call moves. The blocks of all kinds but the first are exchanged between pairs of ranks;
 * blocks for ranks of the same node are not part of a request. */
enum {
    WEIRI_STAGER_BLOCKWISE, /* a collective whose buffers have one block, or one for each rank */
    WEIRI_STAGER_EQUAL,     /* alltoall */
    WEIRI_STAGER_SENDRECV,
    WEIRI_STAGER_SPLITS, /* alltoallv: counts are in device memory */
};

enum { WEIRI_STAGER_NOBODY = 0 }; /* ranks in a request are counted from 1 */

/* A call as the kernel hands it to the lanes' threads. */
typedef struct weiri_stager_request {
    uint64_t kind;
    uint64_t collective, dtype, op, root; /* of kind BLOCKWISE */
    uint64_t algo;                        /* the address of the algorithm's name */
    uint64_t blocks;                      /* of the kernel, for each lane */
    uint64_t in_blocks, out_blocks;       /* of kind BLOCKWISE */
    uint64_t own; /* of kind BLOCKWISE: the block of the output, from 1, that equals the input */
    uint64_t block_bytes;                                 /* of kinds BLOCKWISE and EQUAL */
    uint64_t most_bytes;                                  /* of the pieces of a block */
    uint64_t destination, send_bytes, source, recv_bytes; /* of kind SENDRECV */
} weiri_stager_request;

/* The words of a lane; its staging buffers follow. */
typedef struct weiri_stager_lane {
    uint64_t asked __attribute__((aligned(128)));
    weiri_stager_request request;
    uint64_t filled[WEIRI_STAGER_BLOCKS] __attribute__((aligned(128)));
    uint64_t done __attribute__((aligned(128)));
    uint64_t bytes[]
        __attribute__((aligned(128))); /* of kind SPLITS: to each rank, then from each rank */
} weiri_stager_lane;

/* The kernel's argument. */
typedef struct weiri_stager_args {
    weiri_stager_request request;
    int32_t rank, nranks, lanes; /* lanes: of the communicator */
    uint32_t element_bytes;      /* the unit of counts */
    int32_t copies_own;          /* this rank's block for itself, too */
    weiri_gpu_state *state;      /* device memory */
    const char *in;
    char *out;
    weiri_gpu_counts counts;       /* of kind SPLITS */
    char *memory;                  /* the lanes, lane_bytes apart */
    size_t lane_bytes, head_bytes; /* of a lane, and of its words */
    const unsigned char *remote;   /* nranks: whether the rank is on another node */
    weir_guard guard;
} weiri_stager_args;

/* Words on their way into device memory, as the argument of a kernel. */
enum { WEIRI_STAGER_WORDS = 400 };
typedef struct weiri_stager_words {
    uint64_t *to;
    uint64_t count;
    uint64_t words[WEIRI_STAGER_WORDS];
} weiri_stager_words;

/* The part of the stager that calls CUDA. All functions are local. */
typedef struct weiri_stager_ops {
    /* Pins memory, whose address for kernels becomes *there, and allocates device memory: a state,
     * and a number of words. May be called while a stream is captured. */
    weir_status (*open)(weir_comm *gpu_comm, void *memory, size_t bytes, char **there,
                        weiri_gpu_state **state, uint64_t **words, size_t nwords);
    /* Undoes open, even if it has failed, after waiting until the GPU is idle. */
    void (*close)(weir_comm *gpu_comm, void *memory, weiri_gpu_state *state, uint64_t *words);
    /* Enqueues stores of words, which are read before it returns, to device memory. */
    weir_status (*store)(weir_comm *gpu_comm, weir_stream stream, uint64_t *to,
                         const uint64_t *words, size_t count);
    /* Enqueues the kernel; lanes: how many are launched. */
    weir_status (*launch)(weir_comm *gpu_comm, weir_stream stream, int lanes,
                          weiri_stager_args *args);
} weiri_stager_ops;

/* How many bytes of each block a piece has. */
WEIR_FN uint64_t weiri_stager_piece(uint64_t block_bytes, uint64_t most_bytes, int lanes)
{
    const uint64_t share = (block_bytes + (uint64_t)lanes - 1) / (uint64_t)lanes;
    uint64_t piece = (share + 127) / 128 * 128;
    if (piece < WEIRI_STAGER_LEAST_BYTES)
        piece = WEIRI_STAGER_LEAST_BYTES;
    return piece < most_bytes ? piece : most_bytes;
}

WEIR_FN uint64_t weiri_stager_pieces(uint64_t block_bytes, uint64_t most_bytes, int lanes)
{
    const uint64_t piece = weiri_stager_piece(block_bytes, most_bytes, lanes);
    return (block_bytes + piece - 1) / piece;
}

/* Where piece k of a block begins in it, and how long it is. */
typedef struct weiri_stager_span {
    uint64_t at, bytes;
} weiri_stager_span;

WEIR_FN weiri_stager_span weiri_stager_span_of(uint64_t block_bytes, uint64_t most_bytes, int lanes,
                                               uint64_t k)
{
    const uint64_t piece = weiri_stager_piece(block_bytes, most_bytes, lanes);
    weiri_stager_span span = {k * piece, 0};
    if (span.at < block_bytes)
        span.bytes = block_bytes - span.at < piece ? block_bytes - span.at : piece;
    return span;
}

/* The bytes that a rank sends to (or, receives: receives from) another one in requests of pairs. */
WEIR_FN uint64_t weiri_stager_pair_bytes(const weiri_stager_request *of, const uint64_t *bytes,
                                         int nranks, int peer, int receives)
{
    const uint64_t number = (uint64_t)peer + 1;
    if (of->kind == WEIRI_STAGER_EQUAL)
        return of->block_bytes;
    if (of->kind == WEIRI_STAGER_SPLITS)
        return bytes[receives ? nranks + peer : peer];
    if (receives)
        return of->source == number ? of->recv_bytes : 0;
    return of->destination == number ? of->send_bytes : 0;
}

/* Where the block of a pair is in a staging buffer. */
WEIR_FN uint64_t weiri_stager_pair_at(const weiri_stager_request *of, int peer)
{
    return of->kind == WEIRI_STAGER_SENDRECV ? 0 : of->most_bytes * (uint64_t)peer;
}

/* A lane's staging buffer for piece k. */
WEIR_FN char *weiri_stager_buffer(char *lane, size_t head_bytes, uint64_t k, int lanes, int is_out)
{
    const uint64_t slot = k / (uint64_t)lanes % WEIRI_STAGER_SLOTS;
    return lane + head_bytes + (slot * 2 + (uint64_t)is_out) * (uint64_t)WEIRI_STAGER_BYTES;
}

WEIR_FN uint64_t weiri_stager_step(uint64_t epoch, uint64_t pieces)
{
    return epoch << WEIRI_STAGER_STEP_SHIFT | pieces;
}

#endif
