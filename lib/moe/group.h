/*
 * The state of an expert-parallel group on the host: what its ranks share, and how calls use it.
 *
 * Shared memory. Every rank owns one window, which all ranks of the node map. It holds, in this
 * order:
 *
 *   words        published, ready, done: numbers of calls, see below
 *   calls[4]     the header of each call that can be under way, by its number modulo 4
 *   records[]    one routing for each handle: counts of each expert, the tokens of each rank, the
 *                experts and weights of each token (record.c)
 *   staging      tokens, expert outputs and gradients of weights, for buffers that peers cannot
 * read
 *
 * Only its owner writes to a window. Each call of dispatch or combine has a number, equal on all
 * ranks.
 *
 *   published = c   the header and, for dispatch, the routing of call c can be read
 *   ready = c       its rows can be read as well
 *   done = c        the owner has finished call c: it reads nothing more of other windows for it
 *
 * Words are stored with release after what they announce, and loaded with acquire before it. A rank
 * writes over something that peers read in call c only after every peer's done has reached c. In
 * the usual alternation of dispatch and combine that never waits.
 *
 * Transfers are reads: the sender makes rows readable, once, in its registered memory or in
 * staging; receivers copy, or add, straight into the caller's output.
 */
#ifndef WEIR_MOE_GROUP_H
#define WEIR_MOE_GROUP_H

#include "comm/comm.h"
#include "compute/weigh.h"
#include "moe/problem.h"
#include <weir/moe.h>

enum {
    MOE_CALLS = 4, /* headers in a window: two calls under way, and those of slower peers */
    MOE_STAGED_BYTES = 65536, /* rows of registered memory up to this length are staged: the copy
                               * costs less than waiting for the readers */
};

/* What a rank says about a call. */
typedef struct moe_header {
    uint32_t kind, handle;
    uint32_t problem;
    uint32_t staged;        /* rows are in the window's staging, else at desc */
    uint32_t has_routing;   /* dispatch: the record is new */
    uint32_t has_grads;     /* combine: gradients of weights are in staging */
    uint32_t has_weights;   /* dispatch: the record has weights */
    uint32_t wants_weights; /* dispatch: the rank receives weights */
    int64_t values[3];
    weiri_desc desc;
} moe_header;

typedef struct moe_words {
    weiri_word published, ready, done;
} moe_words;

/* The shared part of a routing: pointers into one rank's window. */
typedef struct moe_record {
    int32_t *tokens;       /* [2]: number of tokens; whether there are weights */
    int32_t *counts;       /* [experts]: choices of each expert */
    uint32_t *rank_start;  /* [nranks + 1]: where a rank's tokens begin in rank_tokens */
    uint32_t *rank_tokens; /* [max_tokens * min(topk, nranks)]: in order of tokens, for each rank */
    int32_t *experts;      /* [max_tokens * topk], -1: none */
    float *weights;        /* [max_tokens * topk] */
} moe_record;

/* Pointers into one rank's window. */
typedef struct moe_window {
    moe_words *words;
    moe_header *calls;
    char *records;    /* record_bytes apart */
    char *token_rows; /* staging: [max_tokens] rows as they are sent */
    float *token_scales;
    char *output_rows; /* staging: [staged_rows] expert outputs, each expert's or rank's after the
                          other */
    float *output_grads;
} moe_window;

/* The private part of a routing, on the rank that dispatched it and on those that received. */
typedef struct moe_routing {
    uint64_t call;      /* that read the record last */
    int is_valid;       /* the dispatch succeeded */
    uint32_t *position; /* [max_tokens * topk]: of a choice among this rank's rows of the expert, or
                         * of a token among those for the rank */
    int32_t *first_row; /* [bins]: this rank's first row, in the receiver's layout */
    int32_t *first_staged;   /* [bins]: the same in staging */
    int32_t *total;          /* [bins]: rows of all ranks */
    int32_t *source_row;     /* [nranks * own bins]: the first row of each source here */
    uint32_t *source_tokens; /* [nranks]: tokens of each source that have experts here */
} moe_routing;

/* A rank's expert outputs, for combine. */
typedef struct moe_outputs {
    const char *rows;
    const int32_t *first; /* [bins]: first_row or first_staged of the routing */
} moe_outputs;

/* A call, kept between send and complete. */
typedef struct moe_call {
    uint64_t number;     /* 0: none */
    moe_problem problem; /* of the caller's structure; args are then the defaults */
    int64_t values[3];   /* of the problem */
    union {
        weir_moe_dispatch_args dispatch;
        weir_moe_combine_args combine;
    };
} moe_call;

/* The halves of a call, as bits. */
enum { MOE_PHASE_SEND = 1, MOE_PHASE_COMPLETE = 2 };

/* A backend: where the buffers of a group are, and how its calls run. */
typedef struct moe_ops {
    /* Sets up what ranks share, after the sizes of the group are known. Collective; agreed. */
    weir_status (*open)(weir_moe *group);
    /* Releases it, after a barrier, or after an open that failed; may be NULL. */
    void (*close)(weir_moe *group);
    /* Run halves of a call, by its kind: both only if runs_whole. */
    weir_status (*run[2])(weir_moe *group, const moe_call *call, int phases);
    weir_status (*check)(weir_moe *group); /* as weir_moe_check; NULL: weir_comm_check */
    weir_status (*locate)(const weir_moe *group, int handle, int token, int choice, int *rank,
                          int *row); /* as weir_moe_locate */
    int is_host;                     /* the host makes calls, with the private memory of a group */
    int runs_whole;                  /* a call need not be divided into its halves */
    int numbers_calls; /* send increments the number of calls, which ranks share; else that only
                          orders two calls under way */
} moe_ops;

/* GPUs of one node (gpu_cuda.c; empty in a build without CUDA), and of several (nodes_gpu.c), whose
 * calls run on copies of the buffers in host memory. */
extern const moe_ops weiri_moe_gpu_ops, weiri_moe_staged_ops;

struct weir_moe {
    const moe_ops *ops;
    weir_comm *comm;
    weir_moe_config config; /* defaults resolved */
    weir_moe_info info;
    int rank, nranks;
    int is_fp8, by_expert; /* by_expert: the layout is expert-major */
    int bins, own_bins;    /* experts or ranks: of all ranks, and of one */
    int row_values;        /* gradients or weights of a row: 1, or topk */
    int staged_rows;       /* rows of output staging */
    size_t record_bytes;
    size_t sent_row_bytes; /* as sent: recv_row_bytes */
    const weiri_weigh *weigh;
    weir_mem *mem, **mems; /* this rank's window; all windows */
    moe_window *windows;
    moe_routing *routings;
    uint16_t *rank_of;    /* [experts] */
    uint32_t *last_token; /* [nranks]: scratch of record.c */
    int32_t *cursor;      /* [own_bins]: scratch of dispatch.c: the next row of each bin */
    moe_outputs *outputs; /* [nranks]: scratch of combine.c */
    uint64_t calls;       /* number of the latest call that was sent */
    uint64_t refused;     /* a call that was refused while an earlier one was under way; 0: none */
    uint64_t all_done;    /* every peer's done is at least this */
    uint64_t dispatched, combined; /* the latest call that read token staging, output staging */
    moe_call under_way[2];         /* by moe_kind */
    struct moe_nodes *nodes; /* nodes.h; NULL: one node. Else windows, the words and the headers are
                                not used */
    struct moe_gpu *gpu;     /* gpu.h: GPUs of one node. NULL: the members above are used */
};

static inline moe_header *moe_header_of(const weir_moe *group, int rank, uint64_t call)
{
    return &group->windows[rank].calls[call % MOE_CALLS];
}

/* Returns the shared routing of a handle in a rank's window. */
moe_record weiri_moe_record_of(const weir_moe *group, int rank, int handle);
/* Returns the tokens of a handle's routing; -1: it has none, or there is no such handle. */
int weiri_moe_routing_tokens(const weir_moe *group, int handle);
/* Fails because a capacity is exceeded. rows: of the expert, or of the rank up to the expert, which
 * is -1 in other layouts. */
weir_status weiri_moe_overflow_fail(const weir_moe_config *config, int rank, int expert,
                                    int64_t rows, int64_t capacity);
/* Returns the length of a record. */
size_t weiri_moe_record_bytes(const weir_moe_config *config, int nranks);
/* Returns the length of its first part, which other ranks need to place rows: tokens, counts,
 * rank_start. Across nodes weiri_moe_record_of has only these of other ranks. */
size_t weiri_moe_record_prefix_bytes(const weir_moe_config *config, int nranks);

/* --------------------------------------------------------------- config.c */

/* Copies the caller's configuration and fills in defaults. */
weir_status weiri_moe_config_resolve(const weir_moe_config *given, weir_moe_config *config);
/* Checks what needs no other rank. */
weir_status weiri_moe_config_check(const weir_moe_config *config, int nranks);
/* WEIR_ERR_MISMATCH if ranks' configurations differ. Collective. */
weir_status weiri_moe_config_compare(weir_comm *comm, const weir_moe_config *config);

/* ------------------------------------------------------------- protocol.c */

/* Waits until every peer has finished call number `call`. */
weir_status weiri_moe_await_done(weir_moe *group, uint64_t call, const char *phase);
/* Waits until a peer's rows can be read. */
weir_status weiri_moe_await_ready(weir_moe *group, int peer, uint64_t call, const char *phase);
/* Returns the next call's header, once peers no longer read that of an earlier call. NULL: failed.
 */
weir_status weiri_moe_open(weir_moe *group, moe_kind kind, int handle, moe_header **header);
void weiri_moe_publish(weir_moe *group);
void weiri_moe_rows_ready(weir_moe *group);
/* Records that a call is over here, and with it one that was refused after it. */
void weiri_moe_finish(weir_moe *group, uint64_t call);
/* Publishes that this rank cannot take part, which ends the call here, and returns the failure. */
weir_status weiri_moe_refuse(weir_moe *group, moe_header *header, moe_problem problem, int64_t a,
                             int64_t b, int64_t c);
/* Formats why a rank cannot take part in a call; returns WEIR_ERR_INVALID. */
weir_status weiri_moe_problem_fail(moe_kind kind, moe_problem problem, const int64_t values[3],
                                   int rank);
/* Waits until all ranks have published a call. WEIR_ERR_INVALID if one of them refused. */
weir_status weiri_moe_await_all(weir_moe *group, uint64_t call, const char *phase);
/* Finds the address of a peer's rows: in its staging (staged), or in its registered memory. */
weir_status weiri_moe_rows_of(weir_moe *group, int peer, uint64_t call, char *staged,
                              const char **rows);
/* Copies the caller's structure of args_bytes bytes, or what it has of them, over args, which hold
 * the defaults. If it cannot be read, args keep them and the call gets the problem, with which it
 * goes on: so it fails on all ranks. type is for the log. */
void weiri_moe_read_args(moe_call *call, const char *type, const void *given, void *args,
                         size_t args_bytes);
/* Checks that a call of this kind can be sent, or completed. */
weir_status weiri_moe_check_send(weir_moe *group, moe_kind kind);
weir_status weiri_moe_check_complete(weir_moe *group, moe_kind kind);

/* ------------------------------------------------ dispatch.c, combine.c */

/* Check the arguments of a call. tokens: of the handle's routing; -1: it has none. On a problem,
 * values gets what its message needs. */
moe_problem weiri_moe_dispatch_check(const weir_moe *group, const moe_call *call, int tokens,
                                     int64_t values[3]);
/* Writes the counts, and the rows that alignment adds, after a dispatch has received. */
void weiri_moe_dispatch_end(const weir_moe *group, const weir_moe_dispatch_args *args);
moe_problem weiri_moe_combine_check(const weir_moe *group, const moe_call *call, int tokens,
                                    int64_t values[3]);
/* Run halves of a call on host memory of one node. */
weir_status weiri_moe_host_dispatch(weir_moe *group, const moe_call *call, int phases);
weir_status weiri_moe_host_combine(weir_moe *group, const moe_call *call, int phases);

/* Allocates count zeroed objects, counted in info.memory_bytes. Without memory returns NULL, and
 * *status becomes WEIR_ERR_NO_MEMORY unless it has failed already. */
void *weiri_moe_alloc(weir_moe *group, size_t count, size_t bytes, weir_status *status);

/* --------------------------------------------------------------- record.c */

/* Writes this rank's routing into its record. On a problem, values gets what its message needs. */
moe_problem weiri_moe_record_write(weir_moe *group, const weir_moe_dispatch_args *args,
                                   int64_t values[3]);
/* Computes from all ranks' records where rows are: those that this rank sends and receives.
 * WEIR_ERR_INVALID if a capacity is exceeded on any rank. */
weir_status weiri_moe_place_rows(weir_moe *group, int handle);
/* The same as weir_moe_locate on the host. */
weir_status weiri_moe_host_locate(const weir_moe *group, int handle, int token, int choice,
                                  int *rank, int *row);
/* Returns the expert or rank, by layout, of a choice; -1: none. */
static inline int moe_bin_of(const weir_moe *group, int expert)
{
    if (expert < 0)
        return -1;
    return group->by_expert ? expert : group->rank_of[expert];
}

/* Returns the number of rows that this rank has received into one of its bins. */
static inline int moe_bin_rows(const weir_moe *group, const moe_routing *routing, int own_bin)
{
    return routing->total[group->rank * group->own_bins + own_bin];
}

/* Received rows are in so many parts: experts, ranks, or all rows, by layout. */
static inline int moe_parts(const weir_moe *group)
{
    return group->config.layout == WEIR_MOE_RANK_MAJOR ? group->nranks : group->own_bins;
}

/* Returns the rows of a part; *first: where they begin. */
static inline int moe_part(const weir_moe *group, int handle, int part, int *first)
{
    const moe_routing *routing = &group->routings[handle];
    *first = routing->source_row[part];
    return group->config.layout == WEIR_MOE_RANK_MAJOR ? (int)routing->source_tokens[part]
                                                       : moe_bin_rows(group, routing, part);
}

#endif
