/*
 * Inside the checker of plans (weir_plan_check), which runs all ranks' programs with symbols
 * for data and clocks for order.
 *
 * Worlds. Data of a plan never moves within a chunk: what is at byte x of a chunk comes of
 * bytes x of others. So one byte of every chunk stands for all that the same operations
 * handle. A world is such a place x together with a length of chunks: it says which chunks'
 * byte x each operation handles, and in which turn of its pipeline. A plan without groups of
 * thread blocks and without pipelines has one world, whatever its lengths; others have a
 * few, and each is run by itself (check_worlds.c).
 *
 * Clocks. Order is what happens before what, in every run that the plan allows. Events form
 * chains: the stretches of a thread block between fences, the launches of a rank, the reads
 * and the writes that a block asked of a port channel. A clock says for each chain how many
 * of its events have happened before (check_clock.c). Who waits takes over the clock
 * that the signal carried (check_sync.c, check_counter.c). Accesses to a chunk that no clock
 * orders, race (check_data.c, check_race.c).
 *
 * Values. A chunk holds an input chunk, reduced over a set of ranks, or something that no
 * result may have (check_value.c).
 *
 * The ranks run in launches one after the other, as many as scratch halves and one more;
 * nothing but clocks says what one rank knows of another, so that the launches overlap as far
 * as the plan lets them.
 */
#ifndef WEIR_PLAN_CHECK_CHECK_H
#define WEIR_PLAN_CHECK_CHECK_H

#include "plan/format/layout.h"

enum {
    WEIRI_CHECK_LAUNCHES = 3,
    WEIRI_CHECK_TURNS = 3,              /* of a pipeline that handle data */
    WEIRI_CHECK_TURNS_MAX = 64,         /* all of them */
    WEIRI_CHECK_WORLDS_MAX = 1024,
    WEIRI_CHECK_CHAINS_MAX = 8192,
    WEIRI_CHECK_PLACES_MAX = 1 << 21,   /* chunks of all ranks */
    WEIRI_CHECK_ACCESSES_MAX = 1 << 22, /* to chunks, in a world */
};
#define WEIRI_CHECK_NONE UINT32_MAX

/* ------------------------------------------------------------------- worlds */

/* How operations divide a reference's chunks; the first shape is not divided. */
typedef struct weiri_check_shape {
    uint32_t size, part, nparts;
    uint64_t unit_bytes; /* of a pipeline's turn; 0: outside */
    uint32_t column;     /* of a world's row: its first chunk */
} weiri_check_shape;

typedef struct weiri_check_pipe {
    uint64_t unit_bytes;
    uint32_t num_chunks;
} weiri_check_pipe;

/* A world is a row of numbers: whether its byte exists (chunks may be empty), for each kind of
 * pipeline its turns, then for each shape and chunk the turn that handles it, -1 for none.
 * The row is empty if there are neither shapes nor pipelines. */
typedef struct weiri_check_worlds {
    weiri_check_shape *shapes;
    weiri_check_pipe *pipes;
    uint32_t nshapes, npipes;
    uint32_t *shape_of_op[WEIRI_PLAN_RANKS_MAX]; /* of its first reference; others follow */
    uint32_t *pipe_of_op[WEIRI_PLAN_RANKS_MAX];
    uint32_t columns;
    int32_t *rows;
    uint32_t count;
    int is_complete; /* the worlds of all lengths, but for pipelines' turns */
} weiri_check_worlds;

weir_status weiri_check_find_worlds(const weir_plan *plan, weiri_check_worlds *worlds);
void weiri_check_free_worlds(const weir_plan *plan, weiri_check_worlds *worlds);
/* The turn in which the op handles chunk k of references of size chunks; -1: never. */
int32_t weiri_check_turn(const weiri_check_worlds *worlds, const int32_t *row, int rank,
                         uint32_t op, uint32_t size, uint32_t k);

/* ------------------------------------------------------------------- clocks */

/* Shared, and not written once it is. */
typedef struct weiri_clock {
    struct weiri_clock *next; /* among free ones */
    uint32_t refs;
    uint32_t at[];
} weiri_clock;

typedef struct weiri_clocks {
    weiri_clock *free;
    uint32_t nchains;
    uint64_t bytes; /* of all clocks there are */
    weir_status failed; /* no memory, or UNSUPPORTED: too many; calls then give what is there */
} weiri_clocks;

weiri_clock *weiri_clock_new(weiri_clocks *clocks);
static inline weiri_clock *weiri_clock_keep(weiri_clock *clock)
{
    clock->refs++;
    return clock;
}
/* NULL is allowed. */
void weiri_clock_drop(weiri_clocks *clocks, weiri_clock *clock);
/* Makes *clock the caller's alone, and at least as late as other in all chains. */
void weiri_clock_join(weiri_clocks *clocks, weiri_clock **clock, const weiri_clock *other);
void weiri_clock_set(weiri_clocks *clocks, weiri_clock **clock, uint32_t chain, uint32_t at);
void weiri_clocks_free(weiri_clocks *clocks);

/* An event has happened before what a clock stands for. */
static inline int weiri_clock_knows(const weiri_clock *clock, uint32_t chain, uint32_t tick)
{
    return clock->at[chain] > tick;
}

/* ------------------------------------------------------------------- values */

typedef enum weiri_value_state {
    WEIRI_VALUE_UNDEFINED, /* nobody wrote it */
    WEIRI_VALUE_GOOD,
    WEIRI_VALUE_TWICE,     /* the contribution of rank `detail` is in it twice */
    WEIRI_VALUE_MIXED,     /* input chunks `chunk` and `detail` are in it */
    WEIRI_VALUE_STALE,     /* data of two launches are in it */
    WEIRI_VALUE_PACKETS,   /* packets that are read as data */
} weiri_value_state;

/* An input chunk, reduced over ranks. */
typedef struct weiri_value {
    uint64_t ranks;
    uint32_t chunk;   /* of the ranks' input; UNDEFINED, PACKETS: the place it was read of */
    uint32_t reach;   /* the highest chunk of a block that it has been in: it is as long */
    uint32_t culprit; /* node that made it what it is, unless GOOD */
    uint32_t detail;
    uint8_t state;    /* weiri_value_state */
    uint8_t launch;   /* whose input it is */
} weiri_value;

/* ----------------------------------------------------------------- accesses */

/* An operation that handles data, once. */
typedef struct weiri_node {
    uint32_t block, op, turn; /* of all blocks; of the block */
    uint32_t launch;
} weiri_node;

/* What it does with one chunk, element by element. */
typedef struct weiri_lane {
    uint64_t ranks;        /* the launches of these had begun before its packets were sent */
    uint64_t reaches;      /* to these flowed in its launch what it read; set at the end */
    uint32_t node;
    uint32_t first, count; /* of sources: the lanes that wrote what it reads */
    uint32_t stamp;        /* of a search */
} weiri_lane;

typedef struct weiri_access {
    uint32_t lane;        /* NONE: the caller's, or none */
    uint32_t chain, tick;
    uint32_t next;        /* of a list of reads */
} weiri_access;

/* A chunk of a rank's buffer. */
typedef struct weiri_place {
    weiri_value value;
    weiri_access last;   /* write; tick NONE: there was none */
    uint32_t reads;      /* since then */
    uint32_t waiting;    /* blocks that wait for packets */
    int32_t packets;     /* the launch whose packets it holds; -1: data */
} weiri_place;

/* ------------------------------------------------------------------ running */

/* The requests of a block to a port channel, in their order. */
typedef struct weiri_check_port {
    uint32_t link;
    uint32_t chain;          /* of reads of the sources; the next one: of writes */
    uint32_t nputs;
    uint32_t ncovered;       /* those that a signal of thread `thread` comes behind */
    uint32_t thread, stretch; /* of the last put, and since when that thread alone put */
} weiri_check_port;

typedef enum weiri_check_state {
    WEIRI_CHECK_RUNS,
    WEIRI_CHECK_WAITS,   /* for a counter or for packets */
    WEIRI_CHECK_DEFERS,  /* could take of a counter that several blocks advance */
    WEIRI_CHECK_MEETS,   /* waits in a barrier */
    WEIRI_CHECK_ENDED,
} weiri_check_state;

typedef struct weiri_check_block {
    int rank;
    uint32_t index;         /* of the rank's */
    uint32_t chain, tick;   /* fences it has passed */
    uint32_t op;            /* where it stands */
    uint32_t pipeline, turn; /* of the loop it is in; NONE */
    uint32_t ids_done;      /* of the op it stands at */
    weiri_clock *now;       /* what is ordered before its next operation */
    weiri_clock *pending;   /* and, behind the next fence, this; may be NULL */
    uint64_t pending_ranks; /* and the begin of these ranks' launches */
    weiri_check_state state;
    uint32_t next;          /* of a list of blocks that wait */
    uint32_t counter, place, meeting; /* what it waits for; NONE */
    weiri_check_port *ports;
    uint32_t nports;
} weiri_check_block;

/* One advance of a counter. */
typedef struct weiri_check_signal {
    weiri_clock *clock;
    uint32_t block, op;
} weiri_check_signal;

/* One taking of a counter that several blocks take of, or advance. */
typedef struct weiri_check_take {
    weiri_clock *clock;  /* what it took over; NULL: of a single releaser */
    uint32_t block, op, tick;
    uint32_t advances;   /* how many there must have been, */
    uint32_t nsignals;   /* and how many there were */
} weiri_check_take;

/* A channel's one direction, or a semaphore. */
typedef struct weiri_check_counter {
    int type;               /* weiri_plan_channel; SWITCH: a semaphore */
    int from, to;           /* ranks */
    uint32_t ordinal;       /* of the channels between them; of the rank's semaphores */
    uint32_t initial;
    uint32_t releaser, acquirer;     /* block; MANY */
    weiri_check_signal *signals;     /* of this launch */
    weiri_check_take *takes;
    uint32_t nsignals, ntakes, ntaken;
    uint32_t waiting;
    int is_contended;                /* blocks took of it in no order */
    int tells_nothing;               /* of who advanced it: that depends on their speed */
} weiri_check_counter;
#define WEIRI_CHECK_MANY (UINT32_MAX - 1)

typedef struct weiri_check_meeting {
    int rank;
    uint32_t barrier, nblocks;
    uint32_t nusers, last_user; /* blocks with such an operation */
    uint32_t arrived, waiting;
} weiri_check_meeting;

typedef struct weiri_check {
    const weir_plan *plan;
    weir_plan_report *report;
    weir_status status;     /* of the machinery: no memory, too large */
    weiri_check_worlds worlds;
    const int32_t *row;     /* the world */
    weiri_clocks clocks;
    uint32_t block_chunks;
    uint32_t blocks_of[WEIR_PLAN_BUFFERS]; /* blocks of a buffer, as layout.h has them */
    uint32_t launch;
    int again;              /* a counter told too much: this world has to be run again */

    weiri_check_block *blocks; /* of all ranks */
    uint32_t nblocks;
    uint32_t first_block[WEIRI_PLAN_RANKS_MAX + 1];
    weiri_clock *begin[WEIRI_PLAN_RANKS_MAX]; /* of the ranks' launch */
    uint32_t rank_chain;    /* of rank 0's launches */

    weiri_check_counter *counters;
    uint32_t ncounters;
    /* of each rank: counters that its channels advance and take of; then its semaphores */
    uint32_t *out[WEIRI_PLAN_RANKS_MAX][2], *in[WEIRI_PLAN_RANKS_MAX][2];
    uint32_t first_semaphore[WEIRI_PLAN_RANKS_MAX];
    weiri_check_meeting *meetings;
    uint32_t nmeetings;
    uint32_t *ready;        /* blocks to run */
    uint32_t nready;

    weiri_place *places;
    uint32_t first_place[WEIRI_PLAN_RANKS_MAX][WEIR_PLAN_BUFFERS];
    uint32_t nplaces;
    uint32_t half[WEIRI_PLAN_RANKS_MAX]; /* chunks of a half of scratch */
    weiri_node *nodes;
    weiri_lane *lanes;
    uint32_t *sources;
    weiri_access *accesses;
    weiri_value *values;    /* of the operation at hand */
    uint32_t nnodes, nlanes, nsources, naccesses, nvalues, free_access;
    uint32_t first_lane;    /* of this launch */
    uint64_t naccessed;     /* in this world */
    uint32_t stamp;
    uint64_t steps_left;    /* of searches */
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

/* check.c: takes down a violation, once for each kind and operation. block NONE: of the rank;
 * op NONE: of the block. */
void weiri_check_violate(weiri_check *check, weir_plan_fault fault, int rank, uint32_t block,
                         uint32_t op, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Fails the check as such, once. */
void weiri_check_fail(weiri_check *check, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Grows a list by a zeroed element; NULL: the check has failed. */
void *weiri_check_append(weiri_check *check, void *list, uint32_t *count, size_t bytes);
/* "rank 1, thread block 0, op 3 (put)", of a block of all ranks. */
enum { WEIRI_CHECK_TEXT = 96 };
const char *weiri_check_where(const weiri_check *check, uint32_t block, uint32_t op, char *text);
/* "scratch chunk 5 of rank 2" */
const char *weiri_check_place_name(const weiri_check *check, uint32_t place, char *text);

/* check_value.c */
void weiri_check_begin_values(weiri_check *check, int rank);
void weiri_check_results(weiri_check *check);
weiri_value weiri_value_read(const weiri_check *check, uint32_t place, int as_packets,
                             uint32_t node);
weiri_value weiri_value_reduce(weiri_value a, weiri_value b, uint32_t node);

/* check_data.c */
/* Carries out an operation on data. 0: packets are missing, and the block waits. */
int weiri_check_data(weiri_check *check, uint32_t block, const weiri_plan_op *op);
/* The first place of a reference's chunks, at one of its ranks. */
uint32_t weiri_check_first_place(const weiri_check *check, int rank, unsigned buffer,
                                 uint32_t index);

/* check_set_up.c */
void weiri_check_set_up(weiri_check *check);
void weiri_check_tear_down(weiri_check *check);

/* check_race.c */
/* A block's access, compared with those before it. awaited: packets, whose flag told. */
void weiri_check_read_place(weiri_check *check, uint32_t block, uint32_t place,
                            weiri_access access, int awaited);
void weiri_check_write_place(weiri_check *check, uint32_t block, uint32_t place,
                             weiri_access access);
/* After a launch: notes which ranks what flowed has reached. */
void weiri_check_reached(weiri_check *check);
/* The caller writes his buffers, before a rank's launch or after the last one. */
void weiri_check_caller(weiri_check *check, int rank);

/* check_sync.c */
/* Carries out an operation that orders. 0: the block waits. take: of counters that several
 * advance, too. */
int weiri_check_sync(weiri_check *check, uint32_t block, const weiri_plan_op *op, int take);
void weiri_check_fence(weiri_check *check, uint32_t block);
void weiri_check_wake(weiri_check *check, uint32_t *waiting);
/* The block will know, behind its next fence, that so many events of a chain have happened. */
void weiri_check_learn(weiri_check *check, uint32_t block, uint32_t chain, uint32_t events);
void weiri_check_flush(weiri_check *check, uint32_t block, const weiri_plan_op *op);
weiri_check_port *weiri_check_port_of(weiri_check *check, uint32_t block, uint32_t link);
void weiri_check_take_over(weiri_check *check, uint32_t block, const weiri_clock *clock);
/* The block's puts to a channel that a request of its thread i comes behind. */
uint32_t weiri_check_covered(const weiri_check_block *block, const weiri_check_port *port,
                             uint32_t i);

/* check_counter.c */
/* That of the op's i-th channel or semaphore. */
uint32_t weiri_check_counter_of(const weiri_check *check, int rank, const weiri_plan_op *op,
                                uint32_t i);
/* Advances all of the op's. */
void weiri_check_signal_ids(weiri_check *check, uint32_t block, const weiri_plan_op *op,
                            int is_relaxed);
/* Takes one of a counter. 0: there is none to take, or not yet (take), and the block waits. */
int weiri_check_take_one(weiri_check *check, uint32_t block, uint32_t counter, int is_relaxed,
                         int take);
/* Whether a signal can only have come behind a taking; take may be NULL. */
int weiri_check_is_behind(const weiri_check *check, const weiri_check_signal *signal,
                          const weiri_check_take *take);
/* Known of n advances, of whichever blocks; those behind take, if it is not NULL, are none.
 * The caller's. */
weiri_clock *weiri_check_known_of(weiri_check *check, const weiri_check_counter *counter,
                                  uint32_t n, const weiri_check_take *take);

/* check_balance.c */
/* After a launch: every counter is back at its initial value. */
void weiri_check_balance(weiri_check *check);
void weiri_check_forget_signals(weiri_check *check);

/* check_stuck.c: nothing moves any more, and some blocks have not ended. */
void weiri_check_stuck(weiri_check *check);

#endif
