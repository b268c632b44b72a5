/*
 * What a GPU kernel is given: plain data, filled by the host (coll/cuda/), by
 * value in the launch. Everything that changes from one replay of a captured
 * launch to the next lives in device memory (weiri_gpu_state).
 *
 * Scratch. Every rank has one scratch segment of device memory that all peers
 * map; its layout is the same everywhere:
 *
 *   cells     [block][rank]: a line for each block of the grid and each sender,
 *             where blocks of one index meet: where buffers are, and signals
 *   packets   [parity][phase][rank]: slots of packets, written by that rank
 *   lines     the same of packets of 128 bytes (lines.cuh), whose slots are longer
 *             the fewer ranks there are
 *   stage     plain memory that stands in for buffers which peers cannot map
 *
 * Every word of it has one writer. Epochs number the launches of a
 * communicator; flags grow with them and are never reset, so a grid that
 * differs from the last one finds flags that are merely old.
 */
#ifndef WEIR_COLL_CUDA_ARGS_H
#define WEIR_COLL_CUDA_ARGS_H

#include "comm/gpu/gpu_view.h"

enum {
    WEIRI_GPU_BLOCKS_MAX = 512,
    WEIRI_GPU_PHASES = 2,
    WEIRI_GPU_SIGNAL_SHIFT = 20, /* signals of one launch: a million */
    WEIRI_GPU_STEP_SHIFT = 24,   /* pieces of one launch */
};

/* Bytes of the parts of a scratch segment. */
#define WEIRI_GPU_SLOT_BYTES ((size_t)1 << 19)   /* packets of one sender, phase and parity */
#define WEIRI_GPU_LINES_BYTES ((size_t)72 << 20) /* of all senders, phases and parities */
#if defined(WEIR_EMULATED)
#define WEIRI_GPU_STAGE_BYTES ((size_t)4096) /* tests cross the pieces' borders soon */
#else
#define WEIRI_GPU_STAGE_BYTES ((size_t)20 << 20) /* each of the two stages: in and out */
#endif

/* Where blocks with one index meet: one line a sender. */
typedef struct weiri_gpu_cell {
    uint64_t in[2];    /* a 16-byte packet: where the sender's input is */
    uint64_t out[2];   /* likewise, its output, or the part of it that the reader fills */
    uint64_t signal;   /* epoch << WEIRI_GPU_SIGNAL_SHIFT | how many of it were given */
    uint64_t staged;   /* epoch << 24 | pieces that the sender has stored */
    uint64_t taken;    /* likewise, pieces of the reader's that the sender has used up */
    uint64_t drained;  /* likewise, the reader's results that the sender has copied out */
    uint64_t unused[8];
} weiri_gpu_cell;

#define WEIRI_GPU_CELLS_BYTES \
    (sizeof(weiri_gpu_cell) * WEIRI_GPU_BLOCKS_MAX * WEIRI_GPU_RANKS_MAX)
#define WEIRI_GPU_PACKETS_AT WEIRI_GPU_CELLS_BYTES
#define WEIRI_GPU_PACKETS_BYTES \
    (WEIRI_GPU_SLOT_BYTES * WEIRI_GPU_RANKS_MAX * WEIRI_GPU_PHASES * 2)
#define WEIRI_GPU_LINES_AT (WEIRI_GPU_PACKETS_AT + WEIRI_GPU_PACKETS_BYTES)
#define WEIRI_GPU_STAGE_AT (WEIRI_GPU_LINES_AT + WEIRI_GPU_LINES_BYTES)
#define WEIRI_GPU_SCRATCH_BYTES (WEIRI_GPU_STAGE_AT + 2 * WEIRI_GPU_STAGE_BYTES)

/* Where a buffer is: (region + 1) << 48 | offset. The owner gives it only once
 * every peer has mapped the region; else WEIRI_GPU_PLAIN. */
typedef uint64_t weiri_gpu_desc;
#define WEIRI_GPU_PLAIN ((weiri_gpu_desc)0)

/* What this rank exchanges with one peer in a pairwise collective. */
typedef struct weiri_gpu_pair {
    uint64_t send_at, send_bytes; /* in this rank's input */
    uint64_t recv_at, recv_bytes; /* in this rank's output */
} weiri_gpu_pair;

/* The same where it is known on the device only: arrays of nranks numbers in
 * device memory, in elements of the data type. send_counts is NULL where the
 * host knows, and the pairs say it. A split must end within its buffer. */
typedef struct weiri_gpu_counts {
    const uint64_t *send_counts, *send_displs, *recv_counts, *recv_displs;
    uint64_t in_elements, out_elements; /* of the buffers */
} weiri_gpu_counts;

/* One call of a collective; sizes in bytes unless they say count. */
typedef struct weiri_gpu_args {
    weiri_gpu_view view;
    const char *in;
    char *out;
    weiri_gpu_desc in_desc, out_desc;
    uint64_t count; /* elements: the collective's count parameter */
    uint64_t bytes; /* count times the element */
    uint64_t chunk_bytes; /* allreduce, push: not 0: each rank reduces so much of its share, and
                             keeps the result */
    int32_t dtype, op, root;
    int32_t collective; /* weir_collective */
    uint32_t element_bytes;
    uint32_t packet_bytes; /* pairs that exchange no more than that do so by packets;
                              the same on all ranks; 0: the algorithm's default */
    weiri_gpu_pair pairs[WEIRI_GPU_RANKS_MAX]; /* pairwise collectives */
    weiri_gpu_counts counts;                   /* alltoallv */
    int32_t nvlink; /* weiri_gpu's, for the choice of a kernel */
} weiri_gpu_args;

#endif
