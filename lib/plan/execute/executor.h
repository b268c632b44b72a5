/*
 * The executor inside: what its common part (executor.c, contexts.c) and its backends share.
 *
 * The common part checks a call, finds or makes its context, and hands it to the backend. A
 * context is a plan compiled for two lengths, and what the backend needs to run it: memory
 * that all ranks share, counters, channels. Making one is collective, so contexts are told
 * apart only by what all ranks have alike: the plan's content, the lengths, and whether input
 * and output overlap. (An element's bytes change no layout: a plan's alignment is a multiple
 * of each type's.) For the same reason all ranks throw the same contexts out at the same call.
 *
 * Whose memory the plan's input and output are. A plan for two buffers has one each; in a
 * plan for use in place both lie in one region: the longer one, and the shorter one in it
 * where weir/weir.h has it for the collective. A call that does not fit (a plan for use in place
 * called with two buffers, a plan for two called in place) has its input copied to where the
 * plan wants it before anything is posted or sent: weiri_placement says what goes where.
 */
#ifndef WEIR_PLAN_EXECUTE_EXECUTOR_H
#define WEIR_PLAN_EXECUTE_EXECUTOR_H

#include "comm/comm.h"
#include "plan/compile/compile.h"

enum { WEIRI_PLAN_CONTEXTS_MAX = 128 };
/* What the contexts of an executor may hold of shared memory together, bytes, on any rank;
 * a single one may have more. */
#define WEIRI_CONTEXTS_BYTES ((uint64_t)256 << 20)
/* Likewise of port channels, each of which has a semaphore of the communicator's. */
enum { WEIRI_CONTEXTS_PORTS = 768 };

/* How a plan reaches the input or the output of ranks: bits, the same on all ranks. */
enum {
    WEIRI_REACHED_BY_PEERS = 1, /* through memory and switch channels */
    WEIRI_REACHED_BY_PORTS = 2, /* ports read or write it, here or there */
};

typedef struct weiri_plan_context {
    uint64_t identity; /* the plan's */
    char *name;        /* the plan's file, for messages; owned */
    int collective, in_place, has_root;
    int root;          /* of a broadcast or reduce; -1: not known */
    int needs_op;      /* weir_op that the plan names; -1: any */
    int reduces;       /* the plan does, and the collective is one that does */
    int has_ports;
    uint32_t ports;    /* port channels of the rank with the most */
    int only_packets;  /* all that the plan has in scratch are packets */
    int reached[2];    /* WEIRI_REACHED_*, of INPUT and OUTPUT; in place of the one region */
    weiri_plan_layout layout;
    int overlaps; /* input and output of its calls do; 0 where only a root's may */
    uint64_t in_blocks, out_blocks;
    weiri_program *program; /* owned */
    uint64_t shared_bytes;  /* set by the backend: of memory, the same on all ranks */
    uint64_t used;          /* the executor's call that used it last */
    int is_captured;        /* a graph has a call, so that it must stay */
    void *own;              /* the backend's */
    const struct weiri_plan_call *call; /* which it is made for, as long as it is made */
} weiri_plan_context;

/* One call, checked. */
typedef struct weiri_plan_call {
    const char *in;
    char *out;
    weir_dtype dtype;
    weir_op op;
    size_t element_bytes;
    weir_stream stream;
} weiri_plan_call;

/* A backend. All return as weir_executor_run does. */
typedef struct weiri_executor_ops {
    /* Once, when the executor is made: collective. own is the executor's to set. May be NULL. */
    weir_status (*open)(struct weir_executor *executor);
    /* Local: whether a call can have a context made for it at all. May be NULL. */
    weir_status (*admit)(const struct weir_executor *executor, const weir_plan *plan,
                         const weiri_plan_call *call);
    /* Collective: all ranks succeed, or none does. Everything but shared_bytes and own is
     * set. The plan may be gone afterwards. */
    weir_status (*prepare)(struct weir_executor *executor, const weir_plan *plan,
                           weiri_plan_context *context);
    weir_status (*run)(struct weir_executor *executor, weiri_plan_context *context,
                       const weiri_plan_call *call);
    /* Local, blocking: nothing that this rank's calls began is under way any more. */
    weir_status (*settle)(struct weir_executor *executor);
    /* Local; all ranks have settled and met since the context was used, or the communicator
     * is aborted. context->own may be NULL. */
    void (*release)(struct weir_executor *executor, weiri_plan_context *context);
    void (*close)(struct weir_executor *executor); /* may be NULL */
} weiri_executor_ops;

extern const weiri_executor_ops weiri_executor_host;
/* NULL in a build without CUDA. */
const weiri_executor_ops *weiri_executor_cuda(void);

struct weir_executor {
    weir_comm *comm;
    const weiri_executor_ops *ops;
    weiri_plan_context *contexts[WEIRI_PLAN_CONTEXTS_MAX];
    int ncontexts;
    uint64_t calls;
    int checks; /* plans before they first run */
    void *own; /* the backend's */
};

/* contexts.c: that of a call which nothing speaks against; NULL where there is nothing to do.
 * Collective where a new one is made, then agreed. And one that no list has any more: Local. */
weir_status weiri_plan_context_get(weir_executor *executor, const weir_plan *plan,
                                   uint64_t in_bytes, uint64_t out_bytes,
                                   const weiri_plan_call *call, weiri_plan_context **context);
void weiri_plan_context_free(weir_executor *executor, weiri_plan_context *context);

/* Where the buffers of a call go. Bytes; a pointer is NULL where the backend's own memory
 * (stage) has to stand in. */
typedef struct weiri_placement {
    char *in, *out;       /* the plan's input and output */
    int one_region;       /* in place: both lie in `region`, of region_bytes */
    char *region;
    uint64_t region_bytes, in_offset, out_offset; /* of it */
    int copies_in;        /* the caller's input is copied to the plan's first, */
    int copies_out;       /* the plan's output to the caller's at the end */
} weiri_placement;
weiri_placement weiri_executor_place(const weiri_plan_context *context, int rank,
                                     const weiri_plan_call *call);

/* Whether the caller's input and output share bytes. */
int weiri_plan_overlap(const weiri_plan_call *call, uint64_t in_bytes, uint64_t out_bytes);

/* The offsets above for any rank. */
uint64_t weiri_region_in_offset(const weiri_plan_context *context, int rank);
uint64_t weiri_region_out_offset(const weiri_plan_context *context, int rank);

/* Fails with the place of a step: "FILE: rank 3, thread block 1, op 5 (put)" in text of
 * WEIRI_PLAN_WHERE_BYTES. */
const char *weiri_step_where(const weiri_plan_context *context, const weiri_program_block *block,
                             const weiri_step *step, char *text);

#endif
