/*
 * Internals of weir_plan_check, which simulates the programs of all ranks with symbolic values
 * for the data and vector clocks for the order of events.
 *
 * Terms, used throughout this folder:
 *
 *   block            a thread block of a rank's program; "block" of a buffer: see layout.h
 *   place            one chunk of one rank's input, output or scratch buffer
 *   byte class       the bytes of a chunk that the same operations handle. Data never moves within
 *                    a chunk: byte x of a chunk is made of bytes x of other chunks, so one byte
 *                    represents its class. A class fixes which chunks each operation handles, and
 *                    in which pipeline iteration. Plans without groups of thread blocks and
 *                    without pipelines have one class for all lengths; other plans have several,
 *                    and each is simulated separately (check_classes.c)
 *   iteration        one pass through the body of a pipeline operation
 *   happens-before   the partial order of events that holds in every run that the plan allows
 *   chain            a totally ordered sequence of events: the fences of a thread block, the
 *                    launches of a rank, the reads that a block requested of a port channel, the
 *                    writes that it requested
 *   vector clock     for each chain, how many of its events happened before (check_clock.c)
 *   counter          one direction of a channel, or a semaphore; it holds credits
 *   credit           what one signal or release adds, and one wait or acquire consumes
 *   signaller        the block that adds a credit; waiter: the block that consumes it. A waiter
 *                    joins the signaller's vector clock (check_sync.c, check_counter.c)
 *   symbolic value   what a place holds: an input chunk, reduced over a set of ranks, or
 *                    something that no correct result contains (check_value.c)
 *   instance         one execution of an operation that handles data
 *   lane             the part of an instance that handles one chunk of each operand; accesses of
 *                    the same lane are ordered, those of different lanes are not
 *
 * Two accesses to the same place of which at least one is a write are a race unless
 * happens-before orders them (check_data.c, check_race.c).
 *
 * The checker simulates WEIRI_CHECK_LAUNCHES launches: one for each half of a doubled scratch
 * buffer, and one more. Only vector clocks order the ranks, so launches overlap as far as the
 * plan allows.
 *
 * Of a pipeline, so many iterations are simulated that more would add nothing; check_pipeline.c
 * derives the number. Where it cannot be derived, a plan is proved for at most
 * WEIRI_CHECK_ITERATIONS iterations, and executors refuse calls that need more.
 */
#ifndef WEIR_PLAN_CHECK_CHECK_H
#define WEIR_PLAN_CHECK_CHECK_H

#include "plan/format/layout.h"

enum {
    WEIRI_CHECK_LAUNCHES = 3,
    WEIRI_CHECK_ITERATIONS = 64, /* of a pipeline, where more cannot be proved */
    WEIRI_CHECK_CLASSES_MAX = 8192,
    WEIRI_CHECK_CHAINS_MAX = 1 << 16,
    WEIRI_CHECK_PLACES_MAX = 1 << 21,   /* of all ranks */
    WEIRI_CHECK_ACCESSES_MAX = 1 << 22, /* to places, in one byte class */
    WEIRI_CHECK_TRIALS_MAX = 1 << 19,   /* accesses after which no further fix is tried */
};
#define WEIRI_CHECK_NONE UINT32_MAX

/* ------------------------------------------------------------- byte classes */

/* How operations divide the chunks of a reference; the first shape is the undivided one. */
typedef struct weiri_check_shape {
    uint32_t size, part, nparts;
    uint64_t unit_bytes; /* handled per pipeline iteration; 0 outside of pipelines */
    uint32_t column;     /* the row's column of the shape's first chunk */
} weiri_check_shape;

typedef struct weiri_check_pipe {
    uint64_t unit_bytes;
    uint32_t num_chunks;
} weiri_check_pipe;

/* A byte class is a row of numbers: whether its byte exists (chunks may be empty), then for each
 * pipeline its number of iterations, then for each shape and chunk the iteration that handles
 * it, -1 if none does. Rows are empty if there are neither shapes nor pipelines. */
typedef struct weiri_check_classes {
    weiri_check_shape *shapes;
    weiri_check_pipe *pipes;
    uint32_t nshapes, npipes;
    uint32_t *shape_of_op[WEIRI_PLAN_RANKS_MAX]; /* of its first reference; others follow */
    uint32_t *pipe_of_op[WEIRI_PLAN_RANKS_MAX], columns;
    int32_t *rows;
    uint32_t count;
    int has_groups;           /* some shape has several parts */
    uint32_t reach;           /* of the plan's pipelines (check_pipeline.c); NONE: unknown */
    uint32_t regular;         /* iterations from which on the reach holds; NONE: unknown */
    int is_complete;          /* 0: there are too many classes even of short chunks */
    uint64_t max_chunk_bytes; /* the classes cover chunks of up to this length; 0: of any */
} weiri_check_classes;

/* Sets the shapes and pipelines; no classes and no reach yet. On failure there is nothing to
 * free. */
weir_status weiri_check_find_shapes(const weir_plan *plan, weiri_check_classes *classes);
/* Whether no pipeline needs more iterations than this in the plan's range of lengths. */
int weiri_check_is_short(const weir_plan *plan, const weiri_check_classes *classes,
                         uint32_t iterations);
/* Adds the classes. */
weir_status weiri_check_find_classes(const weir_plan *plan, weiri_check_classes *classes);
void weiri_check_free_classes(const weir_plan *plan, weiri_check_classes *classes);
/* The iteration in which op handles chunk k of its references of `size` chunks; -1: none. */
int32_t weiri_check_iteration(const weiri_check_classes *classes, const int32_t *row, int rank,
                              uint32_t op, uint32_t size, uint32_t k);

/* ------------------------------------------------------------ vector clocks */

enum { WEIRI_CLOCK_PAGE = 32 };

/* Components of a clock. Reference-counted, like clocks; copied before a write if shared. */
typedef struct weiri_clock_page {
    struct weiri_clock_page *next; /* in the list of free pages */
    uint32_t refs;
    uint32_t at[WEIRI_CLOCK_PAGE]; /* by chain */
} weiri_clock_page;

typedef struct weiri_clock {
    struct weiri_clock *next; /* in the list of free clocks */
    uint32_t refs;
    weiri_clock_page *pages[]; /* NULL: zeros */
} weiri_clock;

typedef struct weiri_clocks {
    weiri_clock *free;
    weiri_clock_page *free_pages;
    void *made; /* all clocks and pages, for weiri_clocks_free */
    uint32_t nchains;
    uint64_t bytes;     /* of all allocated clocks and pages */
    weir_status failed; /* NO_MEMORY, or UNSUPPORTED: too many clocks; later calls then leave
                         * their clocks as they are */
} weiri_clocks;

weiri_clock *weiri_clock_new(weiri_clocks *clocks);
static inline weiri_clock *weiri_clock_keep(weiri_clock *clock)
{
    clock->refs++;
    return clock;
}
/* Drops one reference; NULL is allowed. */
void weiri_clock_drop(weiri_clocks *clocks, weiri_clock *clock);
/* Makes *clock exclusive and raises each component to at least the component of other. */
void weiri_clock_join(weiri_clocks *clocks, weiri_clock **clock, const weiri_clock *other);
void weiri_clock_set(weiri_clocks *clocks, weiri_clock **clock, uint32_t chain, uint32_t at);
void weiri_clocks_free(weiri_clocks *clocks);

/* How many events of a chain happened before the events that have this clock. */
static inline uint32_t weiri_clock_at(const weiri_clock *clock, uint32_t chain)
{
    const weiri_clock_page *page = clock->pages[chain / WEIRI_CLOCK_PAGE];
    return page ? page->at[chain % WEIRI_CLOCK_PAGE] : 0;
}

/* Whether event number `tick` of a chain happened before the events that have this clock. */
static inline int weiri_clock_covers(const weiri_clock *clock, uint32_t chain, uint32_t tick)
{
    return weiri_clock_at(clock, chain) > tick;
}

/* ---------------------------------------------------------- symbolic values */

typedef enum weiri_value_state {
    WEIRI_VALUE_UNDEFINED, /* never written */
    WEIRI_VALUE_GOOD,
    WEIRI_VALUE_TWICE,   /* contains the contribution of rank `detail` twice */
    WEIRI_VALUE_MIXED,   /* contains both input chunk `chunk` and input chunk `detail` */
    WEIRI_VALUE_STALE,   /* contains data of two launches */
    WEIRI_VALUE_PACKETS, /* packets that were read as data */
} weiri_value_state;

/* An input chunk, reduced over ranks. */
typedef struct weiri_value {
    weiri_rank_set ranks;
    uint32_t chunk;     /* index in the input; UNDEFINED, PACKETS: the place that was read */
    uint32_t max_chunk; /* the highest index in a block of the chunks it was stored in, the
                         * shortest of which bounds its length */
    uint32_t culprit;   /* instance that made it wrong; NONE if it is GOOD */
    uint32_t detail;
    uint8_t state;  /* weiri_value_state */
    uint8_t launch; /* of the input */
} weiri_value;

/* ----------------------------------------------------------------- accesses */

/* One execution of an operation that handles data. */
typedef struct weiri_check_instance {
    uint32_t block, op, iteration; /* block: of all ranks; op: of the block */
    uint32_t launch;
} weiri_check_instance;

/* The part of an instance that handles one chunk of each operand. */
typedef struct weiri_check_lane {
    weiri_rank_set ranks;         /* whose launch had begun before the packets it read were sent */
    weiri_rank_set reached_ranks; /* that received, in its launch, data made from what it read; set
                                   * at the end of the launch */
    uint32_t instance;
    uint32_t chunk, size;  /* which chunk of references of how many */
    uint32_t first, count; /* of sources: the lanes that wrote what it reads */
    uint32_t stamp;        /* of the last search that reached it */
} weiri_check_lane;

typedef struct weiri_check_access {
    uint32_t lane; /* NONE: the caller, or no access */
    uint32_t chain, tick;
    uint32_t next;  /* in a list of reads */
    int is_rewrite; /* a packet that was copied onto itself */
} weiri_check_access;

/* One chunk of a rank's buffer. */
typedef struct weiri_check_place {
    weiri_value value;
    weiri_check_access last; /* write; tick NONE: never written */
    uint32_t reads;          /* since that write, and rewrites */
    uint32_t waiting;        /* blocks that wait for packets */
    int is_loose;            /* the thread that wrote it has read it since without a fence */
    int32_t packets;         /* launch whose packets it holds; -1: it holds data */
} weiri_check_place;

/* --------------------------------------------------------------- simulation */

/* A change of the plan that is tried: an operation with a fence before it (a signal) or after it (a
 * wait), and not relaxed if it was. op NONE: it stays as it is. */
typedef struct weiri_check_change {
    uint32_t block, op;
} weiri_check_change;

typedef struct weiri_check_trial {
    weiri_check_change signal, wait;
} weiri_check_trial;

/* The change that the text of a violation offers, as far as a program can make it. */
typedef enum weiri_check_fix_kind {
    WEIRI_CHECK_FIX_NONE,     /* only a person can */
    WEIRI_CHECK_FIX_STRONGER, /* the signal `first` and the wait `second`, of which one may have op
                               * NONE: not relaxed, a nop before the signal and after the wait */
    WEIRI_CHECK_FIX_NOP,      /* a nop before `first` */
    WEIRI_CHECK_FIX_FLUSH,    /* after `first` a flush of its ports, and a nop */
    WEIRI_CHECK_FIX_ORDER,    /* after `first` a signal; before `second` a wait for it */
    WEIRI_CHECK_FIX_BEGIN,    /* the same with a relaxed signal at the begin of first's block */
    WEIRI_CHECK_FIX_SCRATCH,  /* like BEGIN; or instead, use_double_scratch_buffer */
    WEIRI_CHECK_FIX_BLOCKS,   /* like ORDER with a semaphore, as both are of one rank */
    WEIRI_CHECK_FIX_WAIT,     /* before `second` a wait for the next signal or release from `first`
                               * on; or instead, ORDER */
} weiri_check_fix_kind;

typedef struct weiri_check_fix {
    weiri_check_fix_kind kind;
    weiri_check_change first, second; /* op NONE: the end of the block */
} weiri_check_fix;

/* The requests of a block to a port channel; the channel handles them in order. */
typedef struct weiri_check_port {
    uint32_t link;
    uint32_t chain; /* of its reads of sources; chain + 1: of its writes */
    uint32_t nputs;
    uint32_t ncovered;         /* puts made before `interval` */
    uint32_t thread, interval; /* of the last put: its thread, NONE if several put in that
                                * interval; and the block's fences before it */
} weiri_check_port;

typedef enum weiri_check_state {
    WEIRI_CHECK_RUNNABLE,
    WEIRI_CHECK_BLOCKED,  /* waits for a credit or for packets */
    WEIRI_CHECK_DEFERRED, /* could consume a credit of a counter with several signallers */
    WEIRI_CHECK_IN_BARRIER,
    WEIRI_CHECK_ENDED,
} weiri_check_state;

typedef struct weiri_check_block {
    int rank;
    uint32_t index;               /* of the rank's blocks */
    uint32_t chain, tick;         /* tick: fences that it has passed */
    uint32_t op;                  /* next operation */
    uint32_t pipeline, iteration; /* of the loop that it is in; pipeline NONE: none */
    uint32_t ids_done;            /* channels or semaphores of op that are complete */
    weiri_clock *now;             /* what is ordered before its next operation */
    weiri_clock *pending;         /* what its next fence will add to `now`; may be NULL */
    weiri_rank_set pending_ranks; /* ranks whose begin of the launch the next fence will add */
    weiri_check_state state;
    uint32_t next;                          /* in a list of waiting blocks */
    uint32_t counter, place, barrier_index; /* what it waits for; NONE */
    weiri_check_port *ports;
    uint32_t nports;
} weiri_check_block;

/* One credit that was added to a counter. */
typedef struct weiri_check_signal {
    weiri_clock *clock;
    uint32_t block, op;
} weiri_check_signal;

/* One credit that was consumed; recorded for counters with several signallers or waiters. */
typedef struct weiri_check_acquisition {
    weiri_clock *clock; /* what the waiter joined; NULL if there is a single signaller */
    uint32_t block, op, tick;
    uint32_t advances; /* signals that must have happened before it */
    uint32_t nsignals; /* signals that had happened before it in this run */
} weiri_check_acquisition;

typedef struct weiri_check_counter {
    int type;                    /* weiri_plan_channel; SWITCH: a semaphore */
    int from, to;                /* ranks */
    uint32_t ordinal;            /* of the channels from `from` to `to`; of `to`'s semaphores */
    uint32_t initial;            /* credits at the begin of a launch */
    uint32_t awaited;            /* if is_strong: each wait is for so many signals; 0: as usual */
    uint32_t signaller, waiter;  /* block; NONE; MANY */
    weiri_check_signal *signals; /* of this launch */
    weiri_check_acquisition *acquisitions;
    uint32_t nsignals, nacquisitions, nacquired;
    uint32_t waiting;          /* list of blocks */
    int has_unordered_waiters; /* blocks consumed credits without order between them */
    int order_unknown;         /* which signals precede a wait depends on timing: waiters join
                                * no clock */
} weiri_check_counter;
#define WEIRI_CHECK_MANY (UINT32_MAX - 1)

/* The entry of a block into a barrier: its fence number `tick` - 1. */
typedef struct weiri_check_entry {
    uint32_t block, tick;
} weiri_check_entry;

typedef struct weiri_check_barrier {
    int rank;
    uint32_t barrier, nblocks;
    uint32_t nusers, last_user; /* blocks with an operation for it */
    uint32_t arrived, waiting;
    weiri_check_entry *entries; /* the entries that completed the barrier last */
    uint32_t nentries;          /* 0 or nblocks */
} weiri_check_barrier;

typedef struct weiri_check {
    /* Simulates one byte class; frees its clocks. A pointer, as parts of the simulation try
     * classes. */
    void (*run_class)(struct weiri_check *check, const int32_t *row);
    const weir_plan *plan;
    weir_plan_report *report;
    weiri_check_fix *fixes; /* of the report's violations; NULL: not wanted */
    weir_status status;     /* of the checker itself: no memory, plan too large */
    weiri_check_classes classes;
    const int32_t *row; /* the byte class that is simulated */
    weiri_clocks clocks;
    uint32_t block_chunks;
    uint32_t blocks_of[WEIR_PLAN_BUFFERS]; /* blocks of a buffer; layout.h */
    uint32_t launch;
    struct weiri_check_recorder *recorder; /* check_pipeline.c; NULL: none */
    int is_strict;                         /* weir_plan_check_strict */
    int is_strong; /* operations are executed as if fences were between all of them, and no
                    * signal or wait were relaxed: the order of execution */
    int restart;   /* a waiter joined too much: simulate this class anew */
    const weiri_check_trial *trial; /* changes to the plan; NULL: none */
    uint64_t naccessed_in_trials;

    weiri_check_block *blocks; /* of all ranks */
    uint32_t nblocks;
    uint32_t first_block[WEIRI_PLAN_RANKS_MAX + 1];
    weiri_clock *begin[WEIRI_PLAN_RANKS_MAX]; /* of each rank's launch */
    uint32_t rank_chain; /* the chain of rank 0's launches; the other ranks' chains follow */

    weiri_check_counter *counters;
    uint32_t ncounters;
    /* by rank and channel type: the counters that its channels signal and wait on */
    uint32_t *out[WEIRI_PLAN_RANKS_MAX][2], *in[WEIRI_PLAN_RANKS_MAX][2];
    uint32_t first_semaphore[WEIRI_PLAN_RANKS_MAX];
    weiri_check_barrier *barriers;
    uint32_t nbarriers;
    uint32_t *ready; /* stack of runnable blocks */
    uint32_t nready;

    weiri_check_place *places;
    uint32_t first_place[WEIRI_PLAN_RANKS_MAX][WEIR_PLAN_BUFFERS];
    uint32_t nplaces;
    uint32_t half[WEIRI_PLAN_RANKS_MAX]; /* chunks of a half of scratch */
    weiri_check_instance *instances;
    weiri_check_lane *lanes;
    uint32_t *sources;
    weiri_check_access *accesses;
    weiri_value *values; /* results of the current operation, by lane */
    uint32_t ninstances, nlanes, nsources, naccesses, nvalues, free_access;
    uint32_t first_lane; /* of this launch */
    uint64_t naccessed;  /* in this byte class */
    uint32_t stamp;
    uint64_t steps_left; /* of searches */
} weiri_check;

static inline const weiri_plan_gpu *weiri_check_gpu(const weiri_check *check,
                                                    const weiri_check_block *block)
{
    return &check->plan->gpus[block->rank];
}

static inline const weiri_plan_op *weiri_check_op(const weiri_check *check,
                                                  const weiri_check_block *block, uint32_t op)
{
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, block);
    return &gpu->ops[gpu->blocks[block->index].first_op + op];
}

/* The first thread block of a rank; NONE if it has none. */
static inline uint32_t weiri_check_first_block(const weiri_check *check, int rank)
{
    const uint32_t *first = &check->first_block[rank];
    return first[0] < first[1] ? first[0] : WEIRI_CHECK_NONE;
}

/* check.c */

/* Checks a plan as weir_plan_check or, if is_strict, weir_plan_check_strict does. fixes, which may
 * be NULL, has room for WEIR_PLAN_VIOLATIONS_MAX, and gets one for each violation. */
weir_status weiri_check_plan(const weir_plan *plan, int is_strict, weir_plan_report *report,
                             weiri_check_fix *fixes);

/* Adds a violation to the report, once per fault and operation. block NONE: of the rank as a
 * whole; op NONE: of the block as a whole. */
void weiri_check_report_violation(weiri_check *check, weir_plan_fault fault, int rank,
                                  uint32_t block, uint32_t op, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Ends the check with an error; only the first call counts. */
void weiri_check_fail(weiri_check *check, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends a zeroed element to a list; NULL if the check has failed. */
void *weiri_check_append(weiri_check *check, void *list, uint32_t *count, size_t bytes);
/* Writes "rank 1, thread block 0, op 3 (put)" and returns text, of WEIRI_CHECK_TEXT bytes.
 * block: of all ranks. */
enum { WEIRI_CHECK_TEXT = 96 };
const char *weiri_check_where(const weiri_check *check, uint32_t block, uint32_t op, char *text);
/* Likewise "scratch chunk 5 of rank 2". */
const char *weiri_check_place_name(const weiri_check *check, uint32_t place, char *text);

/* check_advice.c */

/* Ends the text of the violation that was just reported: the lengths that were tried, and how to
 * correct the plan. Nothing if the text has such an end. */
#define WEIRI_CHECK_FIX "; fix: "
void weiri_check_advise(weiri_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says how a program can make the correction with which the text is about to end. */
void weiri_check_offer(weiri_check *check, weiri_check_fix_kind kind, weiri_check_change first,
                       weiri_check_change second);
/* Offers fixes for accesses that nothing orders: of the block's current operation and an earlier
 * one; of the block before the owner's launch has begun; and one that the owner's launch does not
 * wait for. */
void weiri_check_advise_race(weiri_check *check, uint32_t block, uint32_t place,
                             const weiri_check_access *other, int other_is_read);
void weiri_check_advise_begin(weiri_check *check, uint32_t block, int owner);
void weiri_check_advise_end(weiri_check *check, const weiri_check_access *late, int late_is_read,
                            int owner);

/* check_trial.c */

/* Whether the violation that was just reported, and has no advice yet, does not occur if the plan
 * is changed. 0 also if that is not known: the trials have taken too long, or failed. */
int weiri_check_would_help(weiri_check *check, const weiri_check_trial *trial);

/* check_value.c */

/* Whether the checker knows the result of the plan's collective, and so proves it. */
int weiri_check_knows_result(const weir_plan *plan);
/* At the begin of a rank's launch: the input holds its symbols, the output is undefined. */
void weiri_check_begin_values(weiri_check *check, int rank);
/* Compares the output with what the collective requires. After other violations the values are
 * arbitrary; then only output chunks that nothing writes are reported. */
void weiri_check_results(weiri_check *check);
weiri_value weiri_value_read(const weiri_check *check, uint32_t place, int as_packets,
                             uint32_t instance);
weiri_value weiri_value_reduce(weiri_value a, weiri_value b, uint32_t instance);

/* check_data.c */

/* Executes an operation on data. 0: packets are missing, and the block waits. */
int weiri_check_data(weiri_check *check, uint32_t block, const weiri_plan_op *op);
/* The place of chunk `index` of a rank's buffer. */
uint32_t weiri_check_first_place(const weiri_check *check, int rank, unsigned buffer,
                                 uint32_t index);

/* check_set_up.c */
void weiri_check_set_up(weiri_check *check);
void weiri_check_tear_down(weiri_check *check);

/* Whether an operation signals channels or releases semaphores; waits for them or acquires them. */
int weiri_check_adds_credits(const weiri_plan_op *op);
int weiri_check_waits_for_credits(const weiri_plan_op *op);

/* check_pipeline.c */

/* Sets the reach of the plan's pipelines, if it can be derived. Reports violations that appear in
 * pipelines with more iterations. Follows weiri_check_set_up. */
void weiri_check_find_reach(weiri_check *check);
/* Records the clocks of a block that has executed its current operation. */
void weiri_check_record(weiri_check *check, uint32_t block);

/* check.c */

/* Writes for which lengths an accepted plan is proved, "for every length", to text, of
 * WEIRI_CHECK_TEXT bytes. */
void weiri_check_describe_lengths(const weir_plan_report *report, char *text);

/* check_race.c */

/* Records an access of a block and reports races with earlier ones. awaited: a packet, whose
 * flag orders the read after the write. */
void weiri_check_read_place(weiri_check *check, uint32_t block, uint32_t place,
                            weiri_check_access access, int awaited);
void weiri_check_write_place(weiri_check *check, uint32_t block, uint32_t place,
                             weiri_check_access access);
/* Records that an operation has copied a packet onto itself, which changes nothing. */
void weiri_check_rewrite_place(weiri_check *check, uint32_t place, weiri_check_access access);
/* At the end of a launch: sets reached_ranks of its lanes. */
void weiri_check_propagate_reached(weiri_check *check);
/* The caller writes its buffers: before a rank's launch, and after the last one. */
void weiri_check_caller_access(weiri_check *check, int rank);

/* check_sync.c */

/* Executes a synchronizing operation. 0: the block waits. deferred: may also consume credits of
 * counters with several signallers. */
int weiri_check_sync(weiri_check *check, uint32_t block, const weiri_plan_op *op, int deferred);
void weiri_check_fence(weiri_check *check, uint32_t block);
/* Makes the blocks of a list runnable and empties the list. */
void weiri_check_wake(weiri_check *check, uint32_t *waiting);
/* Joins into the block's pending clock: a number of events of one chain, or a whole clock. */
void weiri_check_order_pending(weiri_check *check, uint32_t block, uint32_t chain, uint32_t events);
void weiri_check_join_pending(weiri_check *check, uint32_t block, const weiri_clock *clock);
void weiri_check_flush(weiri_check *check, uint32_t block, const weiri_plan_op *op);
/* The block's requests to a port channel; NULL if it has none. */
weiri_check_port *weiri_check_port_of(weiri_check *check, uint32_t block, uint32_t link);
/* How many of the block's puts precede, on the channel, a request by its thread i. */
uint32_t weiri_check_puts_before(const weiri_check_block *block, const weiri_check_port *port,
                                 uint32_t i);

/* check_counter.c */

/* The counter of the op's i-th channel or semaphore. */
uint32_t weiri_check_counter_of(const weiri_check *check, int rank, const weiri_plan_op *op,
                                uint32_t i);
/* Adds a credit to each counter of the op. */
void weiri_check_signal_counters(weiri_check *check, uint32_t block, const weiri_plan_op *op,
                                 int is_relaxed);
/* Consumes a credit. 0: there is none, or the counter has several signallers and `deferred` is
 * 0; the block then waits. */
int weiri_check_acquire_credit(weiri_check *check, uint32_t block, uint32_t counter, int is_relaxed,
                               int deferred);
/* Whether a signal is ordered after an acquisition, which may be NULL. */
int weiri_check_is_after(const weiri_check *check, const weiri_check_signal *signal,
                         const weiri_check_acquisition *acquisition);
/* A clock that is covered whichever n signals came first; NULL: no memory. Signals after
 * `acquisition` (may be NULL) do not count. The caller drops the clock. */
weiri_clock *weiri_check_common_clock(weiri_check *check, const weiri_check_counter *counter,
                                      uint32_t n, const weiri_check_acquisition *acquisition);

/* check_counter_balance.c */

/* Whether an operation may wait. */
int weiri_check_may_wait(const weiri_check *check, const weiri_check_block *block,
                         const weiri_plan_op *op);
/* At the end of a launch: reports counters that are not back at their initial value, and resets
 * them. */
void weiri_check_counters_balanced(weiri_check *check);
/* Resets counters and barriers. */
void weiri_check_reset_counters(weiri_check *check);

/* check_deadlock.c: reports why no block can proceed although some have not ended. */
void weiri_check_deadlock(weiri_check *check);

#endif
