/*
 * What the host algorithms share: the layout of each rank's area, the epoch
 * rule that lets them reuse it, and the table they are rows of.
 *
 * Area. Every rank owns one, mapped by all; only the owner stores into it:
 *
 *   done          the last epoch that the owner has finished
 *   consumed[n]   progress of the owner as a reader of each peer's streams
 *   post[2]       where the owner's buffers are, for algorithms without copies
 *   lane          short messages that run ahead of their readers (lane.h)
 *   slot[2]       data that any peer may read: one piece of the owner's input
 *   result[2]     the same for intermediate results
 *   message[2][n] a message to each single peer, a line each
 *   payload[2][n] what follows the message's line
 *
 * Epochs. Each exchange through the area is one epoch: a number that grows
 * alike on every rank, because all ranks call the same collectives in the same
 * order. What arrives carries its epoch in a flag word next to it, stored with
 * release after the data and loaded with acquire before. Buffers alternate by
 * the epoch's parity. So before a rank stores anything for epoch e, the readers
 * must have finished e - 2. Most exchanges prove that by themselves: a rank
 * that has received from every peer in epoch e knows that all have finished
 * e - 1. For the others (broadcast, a ring) weiri_coll_begin looks at the done
 * words and waits if need be.
 */
#ifndef WEIR_COLL_COLL_H
#define WEIR_COLL_COLL_H

#include "compute/reduce.h"
#include "comm/comm.h"

enum {
    WEIRI_CHUNK_BYTES = 8192,        /* data behind one step of a flag */
    WEIRI_FLAG_SHIFT = 24,           /* flag = epoch << shift | steps published */
    WEIRI_INLINE_BYTES = 56,         /* data on the flag's own line */
    WEIRI_MESSAGE_INLINE_BYTES = 48, /* the same in a message to one peer */
    WEIRI_LANE_BYTES = 568,          /* the longest message of a lane */
    WEIRI_LANE_DEPTH = 32,           /* messages of a lane: epochs that it may be ahead */
    WEIRI_PLAIN_FROM_BYTES = 16384,  /* plain memory is read by system call from here on */
    WEIRI_BLOCK_BYTES = 8192,        /* reduced at once: fits the first-level cache */
};

/* A flag, then data on the same line, or on the lines behind it. */
typedef struct weiri_slot {
    _Alignas(WEIR_LINE_BYTES) uint64_t flag;
    char small[WEIRI_INLINE_BYTES];
    char data[];
} weiri_slot;

/* A short message: a flag and its data, nine lines. */
typedef struct weiri_lane {
    _Alignas(WEIR_LINE_BYTES) uint64_t flag;
    char data[WEIRI_LANE_BYTES];
} weiri_lane;

/* Where a rank's buffers are. */
typedef struct weiri_post {
    _Alignas(WEIR_LINE_BYTES) uint64_t flag;
    weiri_desc in, out;
} weiri_post;

/* How a message to one peer travels. */
typedef enum weiri_message_kind {
    WEIRI_MESSAGE_SMALL,  /* on the flag's line */
    WEIRI_MESSAGE_PACKET, /* behind it, in chunks */
    WEIRI_MESSAGE_DIRECT, /* the reader copies from the sender's buffer */
    WEIRI_MESSAGE_STREAM, /* behind it, piece after piece through two halves */
} weiri_message_kind;

typedef struct weiri_message {
    _Alignas(WEIR_LINE_BYTES) uint64_t flag;
    uint32_t kind;        /* weiri_message_kind */
    uint32_t small_bytes; /* length of a small message */
    union {
        char small[WEIRI_MESSAGE_INLINE_BYTES];
        struct {
            uint64_t bytes;
            weiri_desc desc;
        };
    };
} weiri_message;

/* Pointers into one rank's area. */
typedef struct weiri_area {
    weiri_word *done;
    weiri_word *consumed;
    weiri_lane *lane; /* WEIRI_LANE_DEPTH */
    weiri_post *post[2];
    weiri_slot *slot[2];
    weiri_slot *result[2];
    weiri_message *message[2]; /* n: the one to each peer */
    char *payload[2];          /* n, message_bytes apart */
} weiri_area;

typedef struct weiri_coll weiri_coll;
typedef struct weiri_bridge weiri_bridge;

enum { WEIRI_SPLIT_BITS = 47 }; /* a message's length goes into 48 bits of its header */

/* Positions in a call's buffers, by bytes. */
static inline const char *weiri_in_at(const weir_call *call, size_t offset_bytes)
{
    return (const char *)call->in + offset_bytes;
}

static inline char *weiri_out_at(const weir_call *call, size_t offset_bytes)
{
    return (char *)call->out + offset_bytes;
}

/* What this rank exchanges with one peer in alltoall(v) and sendrecv. */
typedef struct weiri_pair {
    const char *from;
    char *to;
    size_t send_bytes, recv_bytes;
    int sends, receives; /* whether a message travels at all */
} weiri_pair;

/* Runs a call that was checked, and whose derived values are in coll. */
typedef weir_status (*weiri_algo_run)(weiri_coll *coll, const weir_call *call);

/* A row of the algorithm table, as dispatch sees it. */
typedef struct weiri_algo {
    weir_collective collective;
    const char *name;
    weir_algo_backend backend;
    weiri_algo_run run;
    const struct weiri_gpu_algo *gpu; /* cuda: coll/cuda/kernels.h */
    size_t bridges_from; /* net: on GPUs, calls of so many bytes run their phases inside there */
} weiri_algo;

extern const weiri_algo weiri_algo_table[];
extern const size_t weiri_algo_table_rows;

/* Up to so many bytes, this algorithm, on GPUs with this grid (0: its own). */
typedef struct weiri_choice {
    uint64_t max_bytes;
    const weiri_algo *algo;
    int blocks, threads;
    char name[32]; /* the algorithm's, with the grid if there is one: "packet:16x64" */
} weiri_choice;

enum { WEIRI_CHOICES_MAX = 40 };

struct weiri_coll {
    weir_comm *comm;
    int rank, nranks;
    uint64_t epoch;    /* the last one begun */
    uint64_t all_done; /* every rank is known to have finished it */
    size_t piece_bytes, result_bytes, message_bytes; /* data behind the flags */
    size_t streaming_from_bytes; /* buffers from this size on are stored around the caches */
    const char *last_algo;
    char executed[32]; /* what it points to after a custom algorithm */

    /* Derived from the current call, which travels unchanged: weiri_coll_derive, and the dispatch
     * of api.c. */
    size_t elements;      /* the call's count; sendrecv: the larger one; alltoallv: 0 */
    size_t element_bytes, count_bytes; /* of one element, of all of these */
    const struct weiri_choice *choice; /* the row that serves it */
    int staged; /* GPUs of several nodes: the buffers are copies in host memory */

    weiri_area *areas;  /* nranks */
    weiri_pair *pairs;  /* nranks */
    const void **sources; /* nranks, scratch of the reductions */
    weiri_bridge *bridge; /* GPUs across machines: what calls pass through, or NULL */
    weiri_choice choices[WEIR_COLL_COUNT][WEIRI_CHOICES_MAX];
    weiri_choice tuned[WEIR_COLL_COUNT][WEIRI_CHOICES_MAX];
    weiri_choice forced; /* the algorithm that the current or an earlier call named */
    weir_collective forced_collective;
};

/* The communicator's state, made on the first collective. Local. */
weir_status weiri_coll_get(weir_comm *comm, weiri_coll **coll);

/* Checks and runs a call. choices: a list as in weiri_coll, whose last entry has no limit, that
 * selects the algorithm; NULL: that which the call names, else the communicator's list.
 * Collective, as weir_run, which differs in that it also takes algorithm objects. */
weir_status weiri_coll_call(weir_comm *comm, const weir_call *call, const weiri_choice *choices);

/* Runs a call whose pairs are filled, without a check, by the communicator's list. size_bytes:
 * what the tuning table counts. */
weir_status weiri_coll_run(weiri_coll *coll, const weir_call *call, size_t size_bytes);

/* Computes the values of coll that follow from a call's counts and type. */
void weiri_coll_derive(weiri_coll *coll, const weir_call *call);

/* coll/select.c: the list of choices that holds a call to one algorithm: by its row and grid (0
 * and 0: its own); by its name as weir_call.algo_name gives it, where "auto" is the tuning table's
 * list. Valid until the next call that names one. WEIR_ERR_INVALID lists the known names;
 * WEIR_ERR_UNSUPPORTED: the row is of another backend. */
weir_status weiri_coll_force_row(weiri_coll *coll, const weiri_algo *row, int blocks, int threads,
                                 const weiri_choice **choices);
weir_status weiri_coll_force_name(weiri_coll *coll, weir_collective collective, const char *name,
                                  const weiri_choice **choices);

/* coll/select.c: fills tuned and choices from the tuning table, WEIR_TUNING and
 * WEIR_ALGO. WEIR_ERR_INVALID names the file's line or the variable. */
weir_status weiri_coll_tune(weiri_coll *coll);

/* Waits until a rank, or WEIRI_ALL_RANKS, has finished an epoch. */
enum { WEIRI_ALL_RANKS = -1 };
weir_status weiri_coll_await_done(weiri_coll *coll, uint64_t finished, int rank);

/* Begins the next epoch in an area whose buffers are used again after depth
 * epochs. All ranks must have finished what was stored there then: who reads
 * now does not matter, but who may still be reading, and that may be anybody.
 * A rank that has to wait does so until slack more epochs have room, lest all
 * ranks look at all done words for every one. */
static inline weir_status weiri_coll_begin_ahead(weiri_coll *coll, uint64_t depth, uint64_t slack)
{
    uint64_t epoch = ++coll->epoch;
    if (WEIRI_LIKELY(coll->all_done + depth >= epoch))
        return WEIR_OK;
    return weiri_coll_await_done(coll, epoch - depth + slack, WEIRI_ALL_RANKS);
}

/* The same for everything that alternates by parity. */
static inline weir_status weiri_coll_begin(weiri_coll *coll)
{
    return weiri_coll_begin_ahead(coll, 2, 0);
}

/* Ends the current epoch: this rank reads nothing of it any more. */
static inline void weiri_coll_end(weiri_coll *coll)
{
    weir_store_release(&coll->areas[coll->rank].done->value, coll->epoch);
}

/* The same after data from every peer has arrived: all have finished the epoch
 * before this one. */
static inline void weiri_coll_end_all_heard(weiri_coll *coll)
{
    weiri_coll_end(coll);
    coll->all_done = coll->epoch - 1;
}

/* A peer sends this rank another number of bytes than its pair says: gives up for all.
 * WEIR_ERR_MISMATCH. */
weir_status weiri_coll_mismatch(const weiri_coll *coll, const char *phase, int peer,
                                uint64_t sent_bytes);

/* Ends the epoch and waits until every rank has ended it. */
weir_status weiri_coll_end_together(weiri_coll *coll, const char *phase);

static inline uint64_t weiri_flag(uint64_t epoch, uint64_t steps)
{
    return epoch << WEIRI_FLAG_SHIFT | steps;
}

static inline weiri_message *weiri_coll_message(const weiri_coll *coll, int from, int to)
{
    return &coll->areas[from].message[coll->epoch & 1][to];
}

static inline char *weiri_coll_payload(const weiri_coll *coll, int from, int to)
{
    return coll->areas[from].payload[coll->epoch & 1] + (size_t)to * coll->message_bytes;
}

/* The ranks after and before one, around. */
static inline int weiri_next(int rank, int nranks)
{
    return rank + 1 < nranks ? rank + 1 : 0;
}

static inline int weiri_previous(int rank, int nranks)
{
    return rank > 0 ? rank - 1 : nranks - 1;
}

/* The elements [first, first + count) of count_all that a rank works on when
 * the ranks share a buffer: whole lines, the last shares may be empty. */
typedef struct weiri_share {
    size_t first, count;
} weiri_share;
weiri_share weiri_share_of(size_t count_all, size_t element_bytes, int rank, int nranks);

/* Stores where this rank's buffers are for the current epoch and learns where
 * everyone's are. Pointers come from weiri_post_in/out afterwards. all_in,
 * all_out: whether every rank's buffer can be mapped. */
weir_status weiri_posts_exchange(weiri_coll *coll, const void *in, size_t in_bytes,
                                 const void *out, size_t out_bytes, int *all_in, int *all_out);
/* A rank's posted buffers as pointers here; they must be mappable. */
weir_status weiri_post_in(weiri_coll *coll, int rank, const void *own, const char **pointer);
weir_status weiri_post_out(weiri_coll *coll, int rank, void *own, char **pointer);

/* Reduces elements [first, first + count) of every rank's input, given in
 * coll->sources, into the outputs at the same place, block by block. */
void weiri_reduce_into(weiri_coll *coll, const weir_call *call, size_t first, size_t count,
                       char *const *outputs, int noutputs);

/* Whether the direct form of a copying collective serves buffers of which some
 * cannot be mapped: through the kernel, if it may and they are long enough. */
int weiri_copies_plain(const weiri_coll *coll, size_t bytes);
/* Copies bytes of a peer's buffer, mapped or plain, of a call that fills
 * total_bytes. */
weir_status weiri_fetch(weiri_coll *coll, int rank, weiri_desc desc, void *to, size_t bytes,
                        size_t total_bytes);

/* Copies a part of a buffer of total_bytes, around the caches if it is large. */
void weiri_move(const weiri_coll *coll, void *to, const void *from, size_t bytes,
                size_t total_bytes);

#endif
