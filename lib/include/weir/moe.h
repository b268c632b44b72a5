/*
 * Expert parallelism: dispatch and combine of mixture-of-experts layers. The conventions of weir.h
 * apply.
 *
 * In such a layer each token, a row of `hidden` numbers, goes to its `topk` experts. The experts
 * are divided evenly among the ranks of a communicator: of E experts, rank r has experts r * E / n
 * to (r + 1) * E / n - 1. Dispatch brings each token's row to the ranks of its experts; combine
 * brings the experts' outputs back to the token's rank and adds them, weighted.
 *
 *     weir_moe_dispatch(group, &dispatch);   rows, counts: what the experts of this rank received
 *     ... the experts compute one output row for each received row ...
 *     weir_moe_combine(group, &combine);     out: one row for each token
 *
 * Layouts. A group is created for one of three layouts of received rows:
 *
 *   WEIR_MOE_EXPERT_MAJOR  one row for each token and expert; the rows of an expert are contiguous,
 *                          ordered by source rank, then by token. With expert_capacity C the rows
 *                          of local expert l begin at row l * C ([L, C, H]). Without, experts
 *                          follow each other, each beginning at a multiple of alignment, as grouped
 *                          GEMMs need it. Rows from an expert's last one to the next multiple of
 *                          alignment are set to zero.
 *   WEIR_MOE_RANK_MAJOR    one row for each token that has an expert on this rank; those of source
 *                          rank r begin at row r * max_tokens ([R, Tmax, H])
 *   WEIR_MOE_FLAT          the same rows without gaps ([N, H])
 *
 * In the last two, row_experts and row_weights say which local experts a row goes to. The caller
 * adds the weighted outputs of these experts into one row, which combine brings back and adds to
 * the rows of the token's other ranks. In all layouts a token's row is transferred once for each
 * rank.
 *
 * Backward pass. The gradient of combine is a dispatch: dispatch the gradients of out by the same
 * routing (topk_experts NULL); row_weights holds each row's weight. The gradient of dispatch is a
 * combine without weights: pass the gradients of the received rows, and the gradients of their
 * weights as row_weight_grads, which arrive as weight_grads.
 *
 * Arithmetic. Combine converts to float, multiplies by the weight and rounds, adds in the order of
 * the token's choices (ranks in order of their first choice, in the last two layouts), and rounds
 * once to the group's type. Results are equal in every run and on every place. NaN and infinity
 * pass through, in rows and in weights. A token without experts gets zeros.
 *
 * fp8. With dispatch_dtype WEIR_FP8_E4M3 rows are sent as f8e4m3 with one float scale for each 128
 * elements (fewer in the last block of a row whose length is not a multiple of 128):
 * scale = m / 448, where m is the largest magnitude of the block, but at least 2^-100, and element
 * = f8e4m3(x * (448 / m)); both divisions are float divisions. The value is element * scale. A
 * block with an infinity decodes to NaN.
 *
 * Failures. If one rank's arguments are invalid (an expert that does not exist, too many tokens, a
 * buffer that is too small, a structure that is NULL or whose size is wrong), or if received rows
 * exceed a capacity, the call fails on every rank with the same reason, nothing is written to any
 * rank's rows, and the group remains usable. Dispatch must succeed on a handle before combine can
 * use it. Two mistakes are no calls of the group, which other ranks cannot notice: they fail on the
 * rank that makes them, and the others wait there for its call. These are a group that is NULL, and
 * halves out of order: a second send of a kind before complete, or complete without send.
 *
 * Places. The host backend and the cuda backend, on one node or several. max_blocks and stream are
 * for GPUs; the host accepts max_blocks and requires stream to be NULL. Across nodes a token is
 * sent once to each node that has experts of it; registered has no effect.
 *
 * GPUs of several nodes. All buffers are GPU memory. The host moves the data, through copies of the
 * buffers in pinned memory, which the group allocates when it is created (weir_moe_info has its
 * length): a call, or complete, begins when its stream has passed what was enqueued before, and
 * returns when the results are in GPU memory. Failures are returned by the call. A stream that is
 * being captured is refused on all ranks; max_blocks has no effect.
 *
 * GPUs of one node. All buffers are GPU memory; tokens, received rows, expert outputs and results
 * are aligned to 16 bytes. max_tokens * topk, rounded up to a power of 2, times the experts of a
 * rank must be below 2^32. A call enqueues one kernel on its stream and returns; the calls of a
 * group must be ordered, by one stream or by events. The host is not synchronised: counts are in
 * GPU memory, and a call that is captured in a graph uses, at each replay, the experts and weights
 * that are then in memory (mask unused tokens with negative experts). What a kernel finds - an
 * expert that does not exist, a capacity that is exceeded, a rank without weights, another rank's
 * invalid arguments - is reported by weir_moe_check after the stream has been synchronised; such a
 * dispatch writes no rows and counts of 0, such a combine writes nothing. A structure that is NULL
 * or whose size is wrong names no stream: the kernel that refuses the call goes to the stream of
 * the group's call before, or to the default stream if there is none. Memory of weir_mem_alloc is
 * read in place once all peers have mapped it, which two calls of weir_comm_barrier after the
 * allocation ensure.
 */
#ifndef WEIR_MOE_H
#define WEIR_MOE_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEIR_MOE_TOPK_MAX = 16,     /* choices of a token */
    WEIR_MOE_SCALE_BLOCK = 128, /* elements that share a scale */
};

typedef enum weir_moe_layout {
    WEIR_MOE_EXPERT_MAJOR, /* "expert" */
    WEIR_MOE_RANK_MAJOR,   /* "rank" */
    WEIR_MOE_FLAT,         /* "flat" */
    WEIR_MOE_LAYOUT_COUNT
} weir_moe_layout;

/* Returns the name of a layout ("expert"); NULL for an invalid value. */
WEIR_API const char *weir_moe_layout_name(weir_moe_layout layout);

/* Configuration of a group, equal on all ranks. Initialise it with WEIR_MOE_CONFIG_INIT and set at
 * least experts, topk, max_tokens and hidden; size works as in weir_comm_config. */
typedef struct weir_moe_config {
    size_t size;               /* sizeof(weir_moe_config), set by WEIR_MOE_CONFIG_INIT */
    int experts;               /* on all ranks together; a multiple of the number of ranks */
    int topk;                  /* choices of each token, 1 to WEIR_MOE_TOPK_MAX */
    int max_tokens;            /* most tokens that a rank dispatches in one call, at least 1 */
    int hidden;                /* elements of a row, whose length is a multiple of 16 bytes */
    weir_dtype dtype;          /* of tokens, expert outputs and results: WEIR_BFLOAT16 (default),
                                  WEIR_HALF or WEIR_FLOAT */
    weir_dtype dispatch_dtype; /* of received rows: dtype or WEIR_FP8_E4M3; WEIR_DTYPE_COUNT, the
                                  default, means dtype */
    weir_moe_layout layout;    /* default: WEIR_MOE_EXPERT_MAJOR */
    int alignment;             /* expert-major: rows; 0: 1 */
    int expert_capacity; /* expert-major: rows of each expert, rounded up to alignment; 0: experts
                            follow each other */
    int recv_capacity;   /* rows that a rank can receive in all; 0: as many as there can be.
                            Must be 0 for rank-major, and with expert_capacity */
    int handles;         /* routings that are kept at a time; 0: 2 */
    int registered;      /* 1: tokens and expert outputs are in registered memory of this
                            communicator. The group then stages only short inputs (up to 64 KiB)
                            and fp8 rows, and needs less memory; longer inputs elsewhere fail */
    int max_blocks;      /* GPUs: most thread blocks of a kernel, at most two for each
                            multiprocessor; 0: the default */
} weir_moe_config;

#define WEIR_MOE_CONFIG_INIT                                                                       \
    {                                                                                              \
        sizeof(weir_moe_config), 0, 0, 0, 0, WEIR_BFLOAT16, WEIR_DTYPE_COUNT,                      \
            WEIR_MOE_EXPERT_MAJOR, 0, 0, 0, 0, 0, 0                                                \
    }

/* What follows from a configuration: sizes of the caller's buffers and memory of the group. */
typedef struct weir_moe_info {
    int local_experts;  /* experts of each rank */
    int first_expert;   /* this rank's first expert */
    int recv_rows;      /* rows of the receive buffer */
    int expert_stride;  /* expert-major with expert_capacity: rows from one expert to the next; else
                           0 */
    int scales_per_row; /* floats; 0 unless dispatch_dtype is WEIR_FP8_E4M3 */
    size_t row_bytes;   /* of a token, an expert output, or a result */
    size_t recv_row_bytes; /* of a received row */
    size_t recv_bytes;     /* of the receive buffer */
    size_t memory_bytes;   /* that this rank holds for the group */
} weir_moe_info;

typedef struct weir_moe weir_moe;

/* Creates a group for the ranks of comm. Collective; all ranks get the same status. Release with
 * weir_moe_free before comm is destroyed. WEIR_ERR_INVALID if a field is out of range, experts is
 * no multiple of the number of ranks, or hidden gives no multiple of 16 bytes; WEIR_ERR_MISMATCH if
 * ranks' configurations differ, with the field's name; WEIR_ERR_UNSUPPORTED for GPUs if
 * there are too many choices; WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_moe_create(weir_comm *comm, const weir_moe_config *config,
                                     weir_moe **group);
/* Releases a group. Collective; waits until every rank has called it. NULL is allowed. */
WEIR_API void weir_moe_free(weir_moe *group);
/* Returns sizes that follow from the configuration. Thread-safe. */
WEIR_API weir_moe_info weir_moe_get_info(const weir_moe *group);

/* The arguments of a dispatch. Initialise with WEIR_MOE_DISPATCH_ARGS_INIT. Members marked "may be
 * NULL" are not written, or not read, if they are NULL. L is the number of local experts, R that of
 * ranks, K is topk, N is recv_rows of weir_moe_info. */
typedef struct weir_moe_dispatch_args {
    size_t size;              /* sizeof(weir_moe_dispatch_args), set by the macro */
    int handle;               /* the routing is kept under this number, 0 to handles - 1 */
    int tokens;               /* of this rank, 0 to max_tokens; ranks may differ */
    const void *x;            /* [tokens, hidden] */
    const void *topk_experts; /* [tokens, K]: an expert, or a negative number: none. NULL: the
                                 routing of the handle's latest dispatch, whose tokens must be as
                                 many; hence not NULL for a new routing without tokens */
    weir_dtype topk_dtype;    /* WEIR_INT32 or WEIR_INT64 */
    const float
        *topk_weights;      /* [tokens, K]; may be NULL if row_weights is NULL on all ranks; ignored
                               with topk_experts NULL: the handle keeps the weights, too */
    void *rows;             /* out: [N, hidden] of dispatch_dtype */
    size_t rows_bytes;      /* length of rows, at least recv_bytes of weir_moe_info */
    float *row_scales;      /* out: [N, scales_per_row]; required for fp8 */
    float *row_weights;     /* out, may be NULL: [N] (expert-major) or [N, K] */
    int32_t *row_experts;   /* out, may be NULL: [N, K], a local expert (0 to L - 1) or -1; not for
                               expert-major */
    int32_t *expert_counts; /* out, may be NULL: [L], token and expert pairs of each local expert */
    int32_t *expert_offsets; /* out, may be NULL: [L], the first row of each local expert;
                                expert-major only */
    int32_t *source_counts;  /* out, may be NULL: [R], rows received from each rank */
    weir_stream stream;      /* of CUDA; NULL on the host */
} weir_moe_dispatch_args;

#define WEIR_MOE_DISPATCH_ARGS_INIT                                                                \
    {                                                                                              \
        sizeof(weir_moe_dispatch_args), 0, 0, NULL, NULL, WEIR_INT32, NULL, NULL, 0, NULL, NULL,   \
            NULL, NULL, NULL, NULL, NULL                                                           \
    }

/* The arguments of a combine. Initialise with WEIR_MOE_COMBINE_ARGS_INIT. */
typedef struct weir_moe_combine_args {
    size_t size;                   /* sizeof(weir_moe_combine_args), set by the macro */
    int handle;                    /* of the dispatch whose rows come back */
    const void *rows;              /* [N, hidden] of dtype, in the layout of the dispatch */
    const float *row_weight_grads; /* may be NULL: [N] (expert-major) or [N, K]; NULL on all ranks
                                      or on none */
    const float *weights;          /* [tokens, K], expert-major only; NULL: add without weights */
    void *out;                     /* out: [tokens, hidden] of dtype */
    size_t out_bytes;              /* length of out */
    float *weight_grads;           /* out, may be NULL: [tokens, K], 0 for choices without expert */
    weir_stream stream;            /* NULL on the host */
} weir_moe_combine_args;

#define WEIR_MOE_COMBINE_ARGS_INIT                                                                 \
    {                                                                                              \
        sizeof(weir_moe_combine_args), 0, NULL, NULL, NULL, NULL, 0, NULL, NULL                    \
    }

/* Dispatch and combine. Collective: every rank makes the same calls on a group in the same order.
 * On the host they block until the outputs are complete and the inputs may be changed; on the GPUs
 * of a node this is so when the stream has passed the call. They allocate nothing, and wait for
 * other ranks only until the data have arrived and, for inputs in registered memory, until they
 * have been read; small inputs are copied instead. Errors: see "Failures" above, and
 * WEIR_ERR_MISMATCH if ranks make different calls; WEIR_ERR_TIMEOUT, WEIR_ERR_ABORTED and
 * WEIR_ERR_PEER, after which the communicator is aborted. */
WEIR_API weir_status weir_moe_dispatch(weir_moe *group, const weir_moe_dispatch_args *args);
WEIR_API weir_status weir_moe_combine(weir_moe *group, const weir_moe_combine_args *args);

/*
 * The halves of the same calls: send makes this rank's data available and does not wait for data of
 * others; complete receives. Computation between them overlaps with the transfer. The structure,
 * all that it points to, and above all the inputs must stay unchanged until complete returns. A
 * group can have one dispatch and one combine under way; they must be completed in the order in
 * which they were sent. After a failed send the call is over, on this rank: do not complete it. On
 * the other ranks complete fails. Across nodes send only records the call, and complete does all.
 */
WEIR_API weir_status weir_moe_dispatch_send(weir_moe *group, const weir_moe_dispatch_args *args);
WEIR_API weir_status weir_moe_dispatch_complete(weir_moe *group);
WEIR_API weir_status weir_moe_combine_send(weir_moe *group, const weir_moe_combine_args *args);
WEIR_API weir_status weir_moe_combine_complete(weir_moe *group);

/* Returns the first failure that kernels of this group have found since the last call, or the
 * failure of the communicator (weir_comm_check). Local; call it after the stream has been
 * synchronised. On the host calls return their failures themselves. */
WEIR_API weir_status weir_moe_check(weir_moe *group);

/* Returns where a token of this rank went: the rank of its choice-th expert, and its row in that
 * rank's receive buffer. For diagnosis and validation; on GPUs after the stream has been
 * synchronised, and blocking. Local. WEIR_ERR_INVALID if the handle holds no routing or the choice
 * has no expert. */
WEIR_API weir_status weir_moe_locate(const weir_moe *group, int handle, int token, int choice,
                                     int *rank, int *row);

#ifdef __cplusplus
}
#endif

#endif
