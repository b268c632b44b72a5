/*
 * Internals of the executor, shared by its common part (executor.c, contexts.c) and its backends.
 * A call is a weir_call whose in_bytes and out_bytes are the lengths of the buffers on every rank;
 * of its other members in, out, dtype, op and stream are used.
 *
 * The common part checks a call, finds or creates its context, and passes both to the backend. A
 * context is a plan compiled for two lengths, with what the backend needs to run it: memory that
 * all ranks share, counters, channels. Creating one is collective, so contexts are identified only
 * by what is the same on all ranks: the plan's content, the lengths, and whether input and output
 * overlap. (The data type does not affect the layout: a plan's alignment is a multiple of the size
 * of every type.) For the same reason all ranks evict the same contexts in the same call.
 *
 * Placement of input and output: a plan out of place has a buffer for each. In a plan in place both
 * lie in one region, as long as the longer one, with the shorter one where weir/weir.h places it
 * for the collective. In a call that does not match its plan (a plan in place called with two
 * buffers, or a plan out of place called in place), the input is first copied to where the plan
 * expects it, so that the caller keeps what base/contract.h promises for the call's placement.
 * weiri_placement describes where everything is.
 */
#ifndef WEIR_PLAN_EXECUTE_EXECUTOR_H
#define WEIR_PLAN_EXECUTE_EXECUTOR_H

#include "comm/comm.h"
#include "plan/compile/compile.h"

enum { WEIRI_PLAN_CONTEXTS_MAX = 128 };
/* The shared memory, in bytes, that an executor's contexts may hold together on any rank; a single
 * context may hold more. */
#define WEIRI_CONTEXTS_BYTES ((uint64_t)256 << 20)
/* Likewise for port channels, each of which holds one of the communicator's semaphores. */
enum { WEIRI_CONTEXTS_PORTS = 768 };
/* GPUs: staging buffers up to this length are allocated whether the first call needs them or not.
 */
#define WEIRI_STAGING_ALWAYS_BYTES ((uint64_t)1 << 20)

/* How a plan accesses the input or output of ranks: bits, the same on all ranks. */
enum {
    WEIRI_REACHED_BY_PEERS = 1, /* through memory and switch channels of peers */
    WEIRI_REACHED_BY_PORTS = 2, /* through port channels of this rank or a peer */
};

typedef struct weiri_plan_context {
    uint64_t identity; /* the plan's */
    char *name;        /* the plan's file, for messages; owned by the context */
    int collective, in_place, has_root;
    int is_checked;         /* the checker has accepted the plan, or found it too large */
    weiri_plan_proof proof; /* the plan's; root -1: there is none, so the root is unknown */
    int needs_op;           /* weir_op that the plan requires; -1: any */
    int reduces;            /* the plan has reductions, and so has its collective */
    int has_ports;
    uint32_t ports;   /* port channels, an upper bound over all ranks */
    int only_packets; /* scratch holds only packets */
    int reached[2];   /* WEIRI_REACHED_*, by buffer (input, output); of a plan in place [0] is the
                       * region */
    weiri_plan_layout layout;
    int any_buffers; /* serves calls with any buffers, in place or not, and has memory for copies of
                      * them */
    uint32_t types[2]; /* an executor for calls: the types, a bit each, whose kernels all ranks are
                        * known to have; of sums, and of other operations */
    int overlaps; /* on GPUs: input and output of its calls overlap; 0 if only the root's may */
    uint64_t in_blocks, out_blocks;
    weiri_program *program; /* owned by the context */
    uint64_t shared_bytes;  /* set by the backend: bytes of shared memory, the same on all ranks */
    uint64_t used;          /* number of the executor's call that last used it */
    int is_captured;        /* a graph contains a call, so the context must stay */
    void *own;              /* the backend's data */
    const weir_call *call;  /* the call that it is created for; NULL afterwards */
} weiri_plan_context;

/* A backend. The functions return what weir_executor_run does. */
typedef struct weiri_executor_ops {
    /* Called once, when the executor is created. Collective. Sets own. May be NULL. */
    weir_status (*open)(struct weir_executor *executor);
    /* Local. Checks whether a context can be created for a call. May be NULL. */
    weir_status (*admit)(const struct weir_executor *executor, const weir_plan *plan,
                         const weir_call *call);
    /* Collective: succeeds on all ranks or on none. Sets shared_bytes and own; all other members
     * are set. The plan may be freed afterwards. */
    weir_status (*prepare)(struct weir_executor *executor, const weir_plan *plan,
                           weiri_plan_context *context);
    weir_status (*run)(struct weir_executor *executor, weiri_plan_context *context,
                       const weir_call *call);
    /* Local. Checks that the kernel for a call can run. May be NULL. WEIR_ERR_UNSUPPORTED if not.
     */
    weir_status (*fit)(struct weir_executor *executor, const weiri_plan_context *context,
                       const weir_call *call);
    /* Local, blocking: waits until none of this rank's calls is in progress. */
    weir_status (*settle)(struct weir_executor *executor);
    /* Local. Before, all ranks have settled and passed a barrier since the context was last used,
     * or the communicator has been aborted. context->own may be NULL. */
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
    int checks;    /* checks plans before they first run */
    int for_calls; /* serves ordinary calls (offer.c): no context is evicted */
    void *own;     /* the backend's data */
};

/* The local part of weir_executor_destroy: no rank uses the contexts any more. NULL is allowed. */
void weiri_executor_free(weir_executor *executor);

/* The reduction that a plan requires, -1 if that is left to the caller. WEIR_ERR_INVALID if it
 * names several. */
weir_status weiri_plan_reduce_op(const weir_plan *plan, int *needs);

/* weiri_plan_context_get returns the context for a call; NULL if the call has nothing to do. It is
 * collective, with an agreed status, when it creates a context, and local otherwise.
 * weiri_plan_context_free is local; no list must contain the context any more. */
weir_status weiri_plan_context_get(weir_executor *executor, const weir_plan *plan,
                                   const weir_call *call, int any_buffers,
                                   weiri_plan_context **context);
void weiri_plan_context_free(weir_executor *executor, weiri_plan_context *context);
/* The context that a call would use, or NULL. Local. */
weiri_plan_context *weiri_plan_context_find(const weir_executor *executor, const weir_plan *plan,
                                            const weir_call *call, int any_buffers);
/* Sets what a context holds about the accesses of a plan's operations: only_packets, has_ports,
 * ports, reached and reduces. */
void weiri_plan_survey(const weir_plan *plan, weiri_plan_context *context);
/* Runs a call in its context, and counts and times it if the communicator is monitored. */
weir_status weiri_plan_context_run(weir_executor *executor, weiri_plan_context *context,
                                   const weir_call *call);

/*
 * Ordinary calls (coll/planned.h), of an executor with for_calls: offer.c.
 */

/* What all ranks know of an ordinary call, and its buffers here. */
typedef struct weiri_plan_offer {
    const weir_plan *plan;
    uint32_t ports;  /* as in weiri_plan_context */
    int any_buffers; /* likewise */
    weir_call call;
} weiri_plan_offer;

/* Finds or creates the context for a call that the plan's lengths and operation fit. *context
 * becomes NULL, with WEIR_OK, if the call has to go to another algorithm: every rank comes to the
 * same result. *never becomes 1 if no other call of this plan needs to be tried; the error line
 * says why. Collective, and blocking, if weiri_plan_waits; otherwise local. */
weir_status weiri_plan_accept(weir_executor *executor, const weiri_plan_offer *offer,
                              weiri_plan_context **context, int *never);
/* Whether weiri_plan_accept would wait for the other ranks on the host. Local; every rank comes to
 * the same result. */
int weiri_plan_waits(const weir_executor *executor, const weiri_plan_offer *offer);
/* Whether the call has a context. Local; every rank comes to the same result. */
int weiri_plan_has_context(const weir_executor *executor, const weiri_plan_offer *offer);

/* Where a call's buffers are. Pointers are NULL where a staging buffer of the backend must be
 * used. */
typedef struct weiri_placement {
    char *in, *out; /* the plan's input and output */
    int one_region; /* plan in place: both lie in `region`, of region_bytes */
    char *region;
    uint64_t region_bytes, in_offset, out_offset; /* offsets in the region */
    int copies_in;  /* the caller's input must be copied to `in` first */
    int copies_out; /* `out` must be copied to the caller's output at the end */
} weiri_placement;
weiri_placement weiri_executor_place(const weiri_plan_context *context, int rank,
                                     const weir_call *call);

/* Whether this rank's output is written: in a reduce only the root's is; if the root is unknown,
 * 1. */
int weiri_plan_has_result(const weiri_plan_context *context);

/* Whether a call with some buffers, in place or not, may request a staging buffer for the plan's
 * input or region (0) or output (1). */
int weiri_plan_may_stage(const weiri_plan_context *context, int which);

/* Whether the caller's input and output share bytes. */
int weiri_plan_overlap(const weir_call *call);

/* The offsets of input and output in the region, for any rank. */
uint64_t weiri_region_in_offset(const weiri_plan_context *context, int rank);
uint64_t weiri_region_out_offset(const weiri_plan_context *context, int rank);

/* Writes the position of a step, "FILE: rank 3, thread block 1, op 5 (put)", and returns text, of
 * WEIRI_PLAN_WHERE_BYTES. */
const char *weiri_step_where(const weiri_plan_context *context, const weiri_program_block *block,
                             const weiri_step *step, char *text);

/*
 * What port channels of plans need on any backend: a proxy and connections, which the executor
 * owns, and semaphores, which a context owns.
 */

typedef struct weiri_plan_ports {
    weir_proxy *proxy;                      /* NULL before the first context with ports */
    weir_conn *conns[WEIRI_PLAN_RANKS_MAX]; /* NULL if no plan had ports to that rank */
} weiri_plan_ports;

/* Whether a context's plan has port channels to a peer. */
int weiri_plan_has_port(const weiri_plan_context *context, int peer);
/* Starts the proxy and connects to the peers that the context has ports to, as far as that has not
 * been done yet, and creates a semaphore for each port channel in sems, by channel; the caller owns
 * them. Collective, blocking; the status is not agreed. */
weir_status weiri_plan_ports_connect(weir_executor *executor, const weiri_plan_context *context,
                                     weiri_plan_ports *ports, weir_sem **sems);
/* Closes the proxy and the connections. The channels and semaphores must have been freed. */
void weiri_plan_ports_close(const weir_executor *executor, weiri_plan_ports *ports);

#endif
