/*
 * The argument of the kernels of expert parallelism, and the memory that they share: plain data.
 * Everything that changes from one replay of a captured launch to the next is in device memory.
 *
 * Window. Every rank has one window of device memory, mapped by all peers, whose parts are at the
 * offsets of moe_gpu_layout:
 *
 *   peers      [rank]: the headers of its calls, and what it has finished
 *   counts     [handle][rank][experts + nranks]: choices of each expert, then tokens of each rank
 *   choices    [handle][rank][max_tokens * topk]: that rank's choices, as they concern this one
 *   inbox, inbox_scales, arrivals    [rank][inbox_tokens]: tokens that are sent ahead
 *   returns, returned                [return_tokens][topk]: rows that combine adds, likewise
 *   tokens, scales, outputs, grads   staging, for buffers that peers cannot map and for fp8 rows
 *
 * Peers write to the first eight, each to the parts with its number or to the rows of its experts,
 * and read the last four. The rest of a window is private: the state of the group, and the routing
 * of each handle.
 *
 * Calls have numbers, equal on all ranks. Headers, counts and choices are packets, whose flag is
 * the number of their call: who reads them waits for this number. A header also says that the
 * rank's rows can be read. done = c: the rank has finished call c, and reads nothing more for it.
 */
#ifndef WEIR_MOE_CUDA_ARGS_H
#define WEIR_MOE_CUDA_ARGS_H

#include "coll/cuda/args.h"
#include <weir/moe.h>
#include <weir/target.h>

enum {
    MOE_GPU_CALLS = 4, /* headers: two calls under way, and those of slower ranks */
    MOE_GPU_SEND = 1,  /* phases of a launch: both for a whole call */
    MOE_GPU_COMPLETE = 2,
    MOE_GPU_SEGMENTS = 64, /* parts of the tokens that are counted at the same time, at most */
};

/* What a rank says about a call, as packets of 16 bytes (weir_packet16_write): moe_header of
 * device/call.cuh. */
enum { MOE_GPU_HEADER_PACKETS = 3 };
typedef struct moe_gpu_header {
    uint64_t packets[MOE_GPU_HEADER_PACKETS][2];
    int64_t values[3]; /* of the problem, if there is one: before the packets */
    uint64_t unused[7];
} moe_gpu_header;

/* What one rank writes into another's window. */
typedef struct moe_gpu_peer {
    uint64_t done, unused[15];
    moe_gpu_header headers[MOE_GPU_CALLS];
} moe_gpu_peer;

/* A choice of a token, as the rank that receives it needs it: a packet with the weight in its upper
 * half. The lower one is 0 if the choice is not for this rank; else a local expert + 1, and in the
 * lowest position_bits (moe_gpu_shape) the row among the source's rows of the expert, or of the
 * rank. */
typedef struct moe_gpu_choice {
    uint64_t packet[2];
} moe_gpu_choice;

/* Work whose units warps claim: rows that are sent ahead, rows that combine adds. */
enum { MOE_PUSHED, MOE_ADDED };

/* The state of a group. Only the block that ends last writes calls, under_way, staged. */
typedef struct moe_gpu_state {
    uint64_t calls;        /* number of the latest call that was sent */
    uint64_t under_way[2]; /* by kind: a call that was sent and not completed */
    uint64_t staged[2];    /* by kind: the latest call whose rows were staged or sent ahead */
    uint64_t arrived;      /* blocks of this launch that have sent what its header announces */
    uint64_t counted;      /* segments of this launch that have been counted, once for each range */
    uint64_t ended;        /* blocks of this launch */
    uint64_t placed;       /* 2 * the call whose rows are placed, + 1: it fails */
    uint64_t wrong;   /* an invalid choice of this call: 2^63 - the index of the first; 0: none */
    uint64_t refused; /* a call with a problem, sent while an earlier one was under way; 0: none */
    uint64_t claimed[2]; /* units of this launch that warps have claimed, by work */
    uint64_t unused[3];
} moe_gpu_state;

/* The private state of a handle. */
typedef struct moe_gpu_routing {
    uint64_t call;   /* that read the choices last */
    uint64_t choice; /* that wrote the choices */
    int32_t is_valid, tokens, has_weights;
    int32_t most_tokens; /* of a rank */
} moe_gpu_routing;

/* Offsets in a window in bytes, and lengths of one element of the arrays [handle] in bytes. */
typedef struct moe_gpu_layout {
    uint64_t peers, counts, choices, tokens, scales, outputs, grads;
    uint64_t inbox, inbox_scales, arrivals, returns, returned;
    uint64_t state, routings;
    uint64_t experts;   /* [handle][max_tokens * topk] int32_t: -1: none */
    uint64_t positions; /* likewise: as in moe_gpu_choice; ~position: the token's row on that rank
                           is that of an earlier choice */
    uint64_t
        first_row; /* [handle][bins] int32_t: this rank's first row, in the receiver's layout */
    uint64_t source_row; /* [handle][nranks * own bins]: each source's first row here */
    uint64_t bin_rows;   /* [handle][own bins]: rows of all sources */
    uint64_t segments; /* [segment][experts + nranks]: choices, tokens in a segment of the tokens */
    uint64_t bytes;
} moe_gpu_layout;

/* What is constant for a group. A bin is an expert in layout expert, else a rank. */
typedef struct moe_gpu_shape {
    int32_t experts, local_experts, topk, max_tokens, recv_rows;
    int32_t bins, own_bins;
    int32_t layout; /* weir_moe_layout */
    int32_t position_bits;
    int32_t is_fp8, alignment, expert_capacity, scales_per_row, row_values;
    int32_t inbox_tokens;  /* of a call that sends them ahead, at most; -1: none does */
    int32_t return_tokens; /* likewise, of each rank in a combine */
    uint32_t row_bytes, sent_row_bytes;
    moe_gpu_layout at;
} moe_gpu_shape;

/* Failures that a kernel finds, for the host, in host memory. The kernel writes the first one; the
 * host clears problem. */
typedef struct moe_gpu_report {
    uint64_t problem; /* moe_problem, written last; 0: none */
    uint64_t kind, rank;
    int64_t values[3];
} moe_gpu_report;

typedef struct moe_gpu_dispatch_part {
    const void *topk_experts; /* NULL: the routing of the handle */
    const float *topk_weights;
    char *rows;
    float *row_scales, *row_weights;
    int32_t *row_experts, *expert_counts, *expert_offsets, *source_counts;
    int32_t has_wide_ids; /* int64_t */
} moe_gpu_dispatch_part;

typedef struct moe_gpu_combine_part {
    const float *row_weight_grads, *weights;
    char *out;
    float *weight_grads;
} moe_gpu_combine_part;

/* One launch. */
typedef struct moe_gpu_args {
    weiri_gpu_view view; /* its state and the scratch segments are not used */
    moe_gpu_shape shape;
    char *windows[WEIRI_GPU_RANKS_MAX];
    moe_gpu_report *report;
    int32_t phases, kind, handle, tokens;
    int32_t problem; /* moe_problem: this rank cannot take part; the launch only says so */
    int32_t is_other_under_way; /* with a problem: a call of the other kind is */
    int64_t values[3];          /* of the problem */
    const char *in;             /* tokens, or expert outputs */
    weiri_gpu_desc desc;        /* of in */
    moe_gpu_dispatch_part dispatch;
    moe_gpu_combine_part combine;
} moe_gpu_args;

/* Whether this rank sends the rows of a dispatch ahead of their counts. */
WEIR_FN int moe_sends_ahead(const moe_gpu_args *a)
{
    return a->tokens <= a->shape.inbox_tokens;
}

/* Of the blocks of a launch that sends rows ahead, one in so many sends them; or casts and sends
 * them. */
enum { MOE_PUSH_SHARE = 4, MOE_CAST_SHARE = 3 };

/* Rows are moved in slices of so many vectors for each lane of a warp. */
enum { MOE_WARP = 32, MOE_VECTORS = 4 };

/* Bytes of a vector by which rows of this length are moved. */
WEIR_FN uint32_t moe_vector_bytes(uint32_t row_bytes)
{
    return row_bytes % 16 ? 4 : 16;
}

WEIR_FN uint32_t moe_slice_bytes(uint32_t row_bytes)
{
    return MOE_VECTORS * MOE_WARP * moe_vector_bytes(row_bytes);
}

WEIR_FN int moe_slices(uint32_t row_bytes)
{
    const uint32_t slice = moe_slice_bytes(row_bytes);
    return (int)((row_bytes + slice - 1) / slice);
}

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the shape of a group; config has its defaults resolved. most_inbox_bytes: of inboxes. */
void weiri_moe_gpu_shape_make(const weir_moe_config *config, int nranks, int recv_rows,
                              uint64_t most_inbox_bytes, moe_gpu_shape *shape);

/* Whether a packet can name all choices: max_tokens * topk, rounded up to a power of 2, times the
 * experts of a rank must be below 2^32. */
int weiri_moe_gpu_shape_fits(const moe_gpu_shape *shape);

/* The host addresses of the kernels, whose only argument is a moe_gpu_args: for the type of the
 * rows; NULL for other types. */
const void *weiri_moe_gpu_dispatch_kernel(weir_dtype dtype, int is_fp8);
const void *weiri_moe_gpu_combine_kernel(weir_dtype dtype);
/* The default numbers of threads of a block, multiples of 32: those of combine need more registers.
 */
enum { MOE_GPU_DISPATCH_THREADS = 512, MOE_GPU_COMBINE_THREADS = 384 };

#ifdef __cplusplus
}
#endif

#endif
