/*
 * The argument of a GPU kernel: plain data, filled in by the host and passed by value in the
 * launch. Everything that changes from one replay of a captured launch to the next is in device
 * memory (weiri_gpu_state).
 *
 * Scratch. Every rank has one scratch segment of device memory, mapped by all peers, with the same
 * layout everywhere:
 *
 *   cells     [block][rank]: 192 bytes for each block of the grid and each sender, in
 *             which blocks of the same index exchange buffer descriptors and signals
 *   packets   [parity][phase][rank]: slots of LL packets, written by that rank
 *   lines     likewise slots of LL128 lines (ll128.cuh); the fewer ranks, the longer
 *             the slots
 *   stage     two staging buffers, used for buffers that peers cannot map
 *
 * Every word has one writer. Epochs number the launches of a communicator. Flags contain the epoch,
 * grow with it and are never reset, so flags left by a different grid are merely old.
 */
#ifndef WEIR_COLL_CUDA_ARGS_H
#define WEIR_COLL_CUDA_ARGS_H

#include "comm/gpu/gpu_view.h"

enum {
    WEIRI_GPU_BLOCKS_MAX = 512,
    WEIRI_GPU_PHASES = 2,
    WEIRI_GPU_SIGNAL_SHIFT = 20, /* up to a million signals per launch */
    WEIRI_GPU_STEP_SHIFT = 24,   /* up to 2^24 - 1 pieces per launch */
};

/* Sizes of the parts of a scratch segment. */
#define WEIRI_GPU_SLOT_BYTES ((size_t)1 << 19)   /* packets of one sender, phase and parity */
#define WEIRI_GPU_LINES_BYTES ((size_t)72 << 20) /* of all senders, phases and parities */
#if defined(WEIR_EMULATED)
#define WEIRI_GPU_STAGE_BYTES ((size_t)4096) /* small, so that tests use several pieces */
#else
#define WEIRI_GPU_STAGE_BYTES ((size_t)20 << 20) /* each of the two staging buffers: in and out */
#endif

/* What one sender writes for the block of one index on the reader's side. */
typedef struct weiri_gpu_cell {
    uint64_t in[2];  /* an LL packet: the descriptor of the sender's input */
    uint64_t out[2]; /* an LL packet: the descriptor of the sender's output, or of the part that the
                        reader fills */
    uint64_t signal; /* epoch << WEIRI_GPU_SIGNAL_SHIFT | signals given in this epoch */
    uint64_t staged; /* epoch << WEIRI_GPU_STEP_SHIFT | pieces that the sender has stored */
    uint64_t taken;  /* as `staged`: pieces of the reader that the sender has used */
    uint64_t drained;    /* as `staged`: results of the reader that the sender has copied out */
    uint64_t credit[8];  /* reduce_ll128_chain.cu, lane.cuh: as `staged`, what the reader's warps
                            have sent and the sender has used */
    uint64_t arrived[8]; /* lane.cuh: as `staged`, pieces that the sender's warps have stored */
} weiri_gpu_cell;

#define WEIRI_GPU_CELLS_BYTES (sizeof(weiri_gpu_cell) * WEIRI_GPU_BLOCKS_MAX * WEIRI_GPU_RANKS_MAX)
#define WEIRI_GPU_PACKETS_AT WEIRI_GPU_CELLS_BYTES
#define WEIRI_GPU_PACKETS_BYTES (WEIRI_GPU_SLOT_BYTES * WEIRI_GPU_RANKS_MAX * WEIRI_GPU_PHASES * 2)
#define WEIRI_GPU_LINES_AT (WEIRI_GPU_PACKETS_AT + WEIRI_GPU_PACKETS_BYTES)
#define WEIRI_GPU_STAGE_AT (WEIRI_GPU_LINES_AT + WEIRI_GPU_LINES_BYTES)
#define WEIRI_GPU_SCRATCH_BYTES (WEIRI_GPU_STAGE_AT + 2 * WEIRI_GPU_STAGE_BYTES)

/* Descriptor of a buffer: (region + 1) << 48 | offset. Given only once every peer has mapped the
 * region, otherwise WEIRI_GPU_UNMAPPED. */
typedef uint64_t weiri_gpu_desc;
#define WEIRI_GPU_UNMAPPED ((weiri_gpu_desc)0)

/* What this rank exchanges with one peer in a pairwise collective. */
typedef struct weiri_gpu_pair {
    uint64_t send_at, send_bytes; /* in this rank's input */
    uint64_t recv_at, recv_bytes; /* in this rank's output */
} weiri_gpu_pair;

/* Counts of alltoallv that are known on the device only: arrays of nranks numbers in device memory,
 * in elements of the data type. send_counts is NULL if the host knows the splits and `pairs` holds
 * them. A split must end within its buffer. */
typedef struct weiri_gpu_counts {
    const uint64_t *send_counts, *send_displs, *recv_counts, *recv_displs;
    uint64_t in_elements, out_elements; /* of the buffers */
} weiri_gpu_counts;

/* One call of a collective. Sizes are in bytes unless they are called counts. */
typedef struct weiri_gpu_args {
    weiri_gpu_view view;
    const char *in;
    char *out;
    weiri_gpu_desc in_desc, out_desc;
    uint64_t count;       /* elements: the collective's count parameter */
    uint64_t bytes;       /* count times the size of an element */
    uint64_t chunk_bytes; /* push for allreduce by copy engines: if not 0, each rank reduces so much
                           * of its share and keeps the result */
    int32_t dtype, op, root;
    int32_t collective; /* weir_collective */
    uint32_t element_bytes;
    uint32_t packet_bytes; /* messages up to this length travel as packets; the same on all ranks;
                            * 0: the default */
    weiri_gpu_pair pairs[WEIRI_GPU_RANKS_MAX]; /* pairwise collectives */
    weiri_gpu_counts counts;                   /* alltoallv */
    int32_t nvlink;    /* whether NVLink joins all GPUs; for the choice of an algorithm */
    int32_t symmetric; /* whether the output is in symmetric memory on all ranks; for the choice of
                          an algorithm */
} weiri_gpu_args;

#endif
