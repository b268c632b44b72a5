/*
 * The state of a communicator's collectives: the memory through which host algorithms exchange
 * data, the epochs that let them reuse it, and the types of the algorithm table. Internal.
 *
 * Area. Every rank owns one area of shared memory. All ranks of the node map it; only the owner
 * stores into it, except in dynamic.c, for claims, and where two ranks trade (below):
 *
 *   done          the last epoch that the owner has finished
 *   claimed[2]    of rank 0: counters from which ranks claim chunks of a reduction, and two ranks
 *                 blocks of a broadcast
 *   consumed[n]   how much of each peer's streamed messages the owner has read
 *   lane[32]      short messages that may be sent up to 32 epochs ahead of their readers (lane.h)
 *   slot[2]       data for any peer: one piece (piece_bytes at most) of the owner's input
 *   result[2]     the same for intermediate results
 *   message[2][n] one message for each peer: a cache line with the flag and short data; or only the
 *                 flag, for parts of the slot that have one reader
 *   payload[2][n] the data of longer messages
 *   post[16]      descriptors of the owner's buffers in the last epochs, for algorithms that access
 *                 these directly
 *
 * Epochs. Each exchange through the areas is an epoch. Its number grows by one on every rank,
 * because all ranks call the same collectives in the same order. Data carry their epoch in a flag
 * word next to them, which the owner stores with release after the data, and readers load with
 * acquire before the data. So flags are never reset. Buffers alternate by the epoch's parity: a
 * rank may store for epoch e only when all readers have finished epoch e - 2. Every exchange
 * begins with weiri_coll_begin, which checks that. It costs nothing if the exchange before ended
 * with weiri_coll_end_all_heard: a rank that has received from every peer in epoch e knows that
 * all have finished e - 1. Otherwise it checks the done words and waits. In lanes, in slots
 * whose parts are used in rotation, and with descriptors of a reduce, a sender may be ahead by more
 * epochs (lane.h, slot.h, weiri_posts_exchange_ahead).
 *
 * Trade. Two ranks with a core each, except on AMD's processors, exchange the roles of their areas'
 * slots, results, messages and payloads every two epochs (weiri_place_of). So a rank stores to
 * lines that it has just read, and that its peer no longer wants, instead of lines that the peer
 * has read. In epoch e a buffer belongs to the rank that read it in epoch e - 2, and both have
 * finished that epoch. Where data flow in one direction (is_one_way), nothing is traded.
 */
#ifndef WEIR_COLL_COLL_H
#define WEIR_COLL_COLL_H

#include "base/contract.h"
#include "compute/reduce.h"
#include "coll/task.h"

enum {
    WEIRI_CHUNK_BYTES = 8192,        /* data published by one step of a flag */
    WEIRI_FLAG_SHIFT = 24,           /* flag = epoch << shift | steps published */
    WEIRI_INLINE_BYTES = 48,         /* data in the cache line of a slot's flag */
    WEIRI_MESSAGE_INLINE_BYTES = 40, /* the same in a message to one peer */
    WEIRI_LANE_BYTES = 560,          /* the longest message of a lane */
    WEIRI_LANE_DEPTH = 32,           /* messages in a lane */
    WEIRI_POSTS = 16,                /* epochs whose descriptors a rank keeps */
    WEIRI_BLOCK_BYTES = 8192,        /* reduced at once: fits the first-level cache */
    WEIRI_ROTATED_BYTES = 2048,      /* of ranks with a core each: shorter data stay at the start of
                                        their buffer */
    WEIRI_NEXT_BYTES = 4096,         /* of the next epoch's parts, requested in advance */
    WEIRI_EPOCHS_AHEAD = 16,         /* of the readers of a slot's parts, at most */
    WEIRI_PACKET_BYTES = 65536,      /* the longest message that is stored before any is read */
    WEIRI_STREAM_BYTES = 16384,      /* a piece of a longer one, if the payload holds four */
};

/* The flag of data, and the chain of the calls of the rank that publishes them (comm/called.h). */
typedef struct weiri_flagged {
    uint64_t value;
    uint64_t chain;
} weiri_flagged;

/* A flag, and data in the same cache line or in the lines after it. */
typedef struct weiri_slot {
    _Alignas(WEIR_LINE_BYTES) weiri_flagged flag;
    char small[WEIRI_INLINE_BYTES];
    char data[];
} weiri_slot;

/* A short message: a flag and its data, nine cache lines. */
typedef struct weiri_lane {
    _Alignas(WEIR_LINE_BYTES) weiri_flagged flag;
    char data[WEIRI_LANE_BYTES];
} weiri_lane;

/* The descriptors of a rank's buffers. */
typedef struct weiri_post {
    _Alignas(WEIR_LINE_BYTES) weiri_flagged flag;
    weiri_desc in, out;
} weiri_post;

/* How the data of a message to one peer are passed. */
typedef enum weiri_message_kind {
    WEIRI_MESSAGE_SMALL,  /* in the flag's cache line */
    WEIRI_MESSAGE_PACKET, /* in the payload, chunk by chunk */
    WEIRI_MESSAGE_DIRECT, /* the reader copies from the sender's buffer */
    WEIRI_MESSAGE_STREAM, /* longer than the payload, whose two halves are used alternately */
} weiri_message_kind;

typedef struct weiri_message {
    _Alignas(WEIR_LINE_BYTES) weiri_flagged flag;
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
    weiri_word *claimed; /* 2 */
    weiri_word *consumed;
    weiri_lane *lane; /* WEIRI_LANE_DEPTH */
    weiri_post *post; /* WEIRI_POSTS */
    weiri_slot *slot[2];
    weiri_slot *result[2];
    weiri_message *message[2]; /* n: one for each peer */
    char *payload[2];          /* n, message_bytes apart */
} weiri_area;

typedef struct weiri_stager weiri_stager;
typedef struct weiri_gpu_staging weiri_gpu_staging;

enum { WEIRI_SPLIT_BITS = 47 }; /* of a message's length, which has 48 bits in a header */

extern const weiri_algo *const weiri_algo_table[];
extern const size_t weiri_algo_table_rows;

enum { WEIRI_CHOICES_MAX = 48 };

/* The state of the messages between this rank and one peer during a call. */
typedef struct weiri_progress {
    uint64_t sent, received;       /* in units of the algorithm */
    unsigned char sends, receives; /* something is left to send, or to receive */
    unsigned char kind;            /* of the message that was sent (weiri_message_kind) */
} weiri_progress;

/* A series of epochs in which this rank stores into its slots without waiting for data from its
 * readers (weiri_slot_begin_ahead); other epochs of its slots end it. */
typedef struct weiri_ahead {
    uint64_t from;     /* the first epoch of the series */
    size_t part_bytes; /* of the parts of a slot that its epochs use in rotation; 0: no series */
    int reader;        /* a rank, or WEIRI_ALL_RANKS */
    uint64_t done;     /* an epoch that the reader is known to have finished */
} weiri_ahead;

/* The parts of a buffer that epochs use in rotation. A part is as long as the data, rounded up to a
 * power of two. */
typedef struct weiri_rotation {
    size_t from_bytes; /* shorter data stay at the start of the buffer */
    size_t room_bytes; /* of all parts at most, a power of two; so do longer data */
    size_t most_parts; /* a power of two */
} weiri_rotation;

struct weiri_coll {
    weir_comm *comm;
    int rank, nranks;
    uint64_t epoch;    /* the last epoch begun */
    uint64_t all_done; /* an epoch that every rank is known to have finished */
    size_t piece_bytes, result_bytes, message_bytes; /* capacity of slots, results, payloads:
                                                        multiples of every element size */
    weiri_rotation ahead_rotation;   /* of slots in calls whose writers may be ahead */
    weiri_rotation begun_rotation;   /* of slots and results in epochs of weiri_coll_begin */
    weiri_rotation slot_rotation;    /* ahead_rotation or begun_rotation, by the current call */
    weiri_rotation message_rotation; /* of payloads */
    uint64_t trades; /* 1: two ranks trade their slots and messages from epoch to epoch */
    weiri_ahead ahead;
    uint64_t claims[2];          /* by parity: how often ranks have claimed so far (host/dynamic.c,
                                  * host/broadcast.c) */
    size_t streaming_from_bytes; /* larger buffers are stored past the caches */
    const char *last_algo;
    unsigned without_engines; /* bits of collectives: WEIR_BLOCKS_ZERO is logged to run kernels */
    char executed[32];        /* what last_algo points to after a custom algorithm */

    int is_one_way; /* the data of the current call flow to or from its root only, so that senders
                     * may be far ahead */
    weiri_area *areas; /* nranks */
    weiri_pair *pairs; /* nranks: memory for the pairs of a task */
    uint64_t *heard;   /* nranks: an epoch that the rank is known to have finished, by its message
                        * of the next one (exchange.c) */
    const void **sources;           /* nranks: the inputs of a reduction */
    const void **blocks;            /* nranks: the current block of each of them */
    char **outputs;                 /* nranks: where a result is stored */
    weiri_progress *progress;       /* nranks; of a call whose messages are sent between pairs */
    weiri_gpu_staging *gpu_staging; /* GPUs of several nodes: staging buffers, or NULL */
    weiri_stager *stager;           /* GPUs of several nodes: the lanes, or NULL */
    void (*stager_close)(weiri_stager *stager);
    weir_mem *quantized; /* staging memory of weir_allreduce_quantized, or NULL */
    char *scratch;       /* across nodes: intermediate data (coll/internode/transfer.h), or NULL */
    size_t scratch_bytes;
    weiri_choice choices[WEIR_COLL_COUNT][WEIRI_CHOICES_MAX];
    weiri_choice tuned[WEIR_COLL_COUNT][WEIRI_CHOICES_MAX];
    /* Algorithms for calls with a buffer that peers cannot map, in place of algorithms that need
     * mapped buffers. */
    weiri_choice plain[WEIR_COLL_COUNT][WEIRI_CHOICES_MAX];
    uint64_t cma_from_bytes[WEIR_COLL_COUNT]; /* the size from which on rows `plain` select "cma" */
    unsigned char cma_tuned[WEIR_COLL_COUNT]; /* whether a tuning file says so */
    weiri_choice forced; /* the algorithm that the current call or an earlier one named */
    weir_collective forced_collective;
    struct weiri_planned *planned;  /* list of the tuning table's rows with plans */
    struct weir_executor *executor; /* runs them; NULL before the first */
};

/* Returns the communicator's state; the first call creates it. Local. */
weir_status weiri_coll_make(weir_comm *comm, weiri_coll **coll);

static inline weir_status weiri_coll_get(weir_comm *comm, weiri_coll **coll)
{
    *coll = comm->coll;
    return WEIRI_LIKELY(*coll != NULL) ? WEIR_OK : weiri_coll_make(comm, coll);
}

/* Copies a caller's structure. Callers that were compiled with another version's header are served
 * as with configurations (base/config.h): members that their weir_call lacks keep the defaults,
 * and members that this version does not know must be 0. WEIR_ERR_INVALID, with the name of the
 * public function, if that is not so, or given is NULL. */
weir_status weiri_call_read(const char *function, const weir_call *given, weir_call *call);

/* The beginning of an algorithm object (weir_call.algo), which belongs to lib/algo. */
typedef struct weiri_algo_object {
    weir_status (*execute)(struct weir_algo *algo, weir_comm *comm, const weir_call *call);
} weiri_algo_object;

/* weir_run with buffers in host memory, for communicators of several nodes, with GPUs or without.
 * Blocks. */
weir_status weiri_run_on_host(weir_comm *comm, const weir_call *call);

/* Whether a call of weir_run on GPU buffers would wait for other ranks on the host, instead of only
 * enqueuing work: between nodes with several GPUs (internode/staged.c), or because a plan of the
 * tuning table first serves such a call. Local. */
int weiri_coll_waits(weir_comm *comm, const weir_call *call);

/* Runs a pairwise call, whose pairs have been stored in coll->pairs, without checks. size_bytes
 * selects the algorithm. */
weir_status weiri_coll_run(weiri_coll *coll, const weir_call *call, size_t size_bytes);

/* coll/select.c: *choices becomes a list for one call: of the algorithm of a name, as in
 * weir_call.algo_name; of "auto" the tuning table's list. Valid until the next call that names an
 * algorithm. WEIR_ERR_INVALID lists the known names. */
weir_status weiri_coll_force_name(weiri_coll *coll, weir_collective collective, const char *name,
                                  const weiri_choice **choices);
/* As weir_comm_set_algo, whose arguments are there. */
weir_status weiri_coll_set_algo(weiri_coll *coll, weir_collective collective, const char *name);

/* coll/select.c: fills tuned and choices from the tuning table, WEIR_TUNING and WEIR_ALGO.
 * WEIR_ERR_INVALID names the file's line or the variable. */
weir_status weiri_coll_tune(weiri_coll *coll);

/* Waits until a rank, or WEIRI_ALL_RANKS, has finished an epoch. */
enum { WEIRI_ALL_RANKS = -1 };
weir_status weiri_coll_await_done(weiri_coll *coll, uint64_t finished, int rank);

/* Begins the next epoch, in buffers that are reused after depth epochs: waits until every rank,
 * since any of them may have been a reader, has finished the epoch that last used them. A rank
 * that has to wait does so until slack more epochs have room, so that it need not check the done
 * words in every epoch. */
static inline weir_status weiri_coll_begin_ahead(weiri_coll *coll, uint64_t depth, uint64_t slack)
{
    uint64_t epoch = ++coll->epoch;
    if (WEIRI_LIKELY(coll->all_done + depth >= epoch))
        return WEIR_OK;
    return weiri_coll_await_done(coll, epoch - depth + slack, WEIRI_ALL_RANKS);
}

/* Begins the next epoch, for buffers that alternate by parity. */
static inline weir_status weiri_coll_begin(weiri_coll *coll)
{
    coll->ahead.part_bytes = 0;
    coll->slot_rotation = coll->begun_rotation;
    return weiri_coll_begin_ahead(coll, 2, 0);
}

/* Ends the current epoch: this rank has read all that it needs of it. */
static inline void weiri_coll_end(weiri_coll *coll)
{
    weir_store_release(&coll->areas[coll->rank].done->value, coll->epoch);
}

/* Ends an epoch in which data have arrived from every peer; so all have finished the one before. */
static inline void weiri_coll_end_all_heard(weiri_coll *coll)
{
    weiri_coll_end(coll);
    coll->all_done = coll->epoch - 1;
}

/* Aborts the communicator because a peer sends another number of bytes than its pair expects.
 * Returns WEIR_ERR_MISMATCH. */
weir_status weiri_coll_mismatch(const weiri_coll *coll, const weiri_task *task, const char *phase,
                                int peer, uint64_t sent_bytes);

/* Ends the epoch and waits until every rank has ended it. */
weir_status weiri_coll_end_together(weiri_coll *coll, const char *phase);

/* Claims a piece of the epoch's work. Returns how many claims there have been in epochs of this
 * parity; the claims of this epoch begin at coll->claims. */
static inline uint64_t weiri_claim(const weiri_coll *coll)
{
    return __atomic_fetch_add(&coll->areas[0].claimed[coll->epoch & 1].value, 1, __ATOMIC_RELAXED);
}

static inline uint64_t weiri_flag(uint64_t epoch, uint64_t steps)
{
    return epoch << WEIRI_FLAG_SHIFT | steps;
}

/* Publishes data as part of this rank's current call. */
static inline void weiri_flag_publish(const weiri_coll *coll, weiri_flagged *flag, uint64_t value)
{
    weir_store_relaxed(&flag->chain, coll->comm->chain);
    weir_store_release(&flag->value, value);
}

/* Checks that data that have arrived are of the same call as this rank's. */
static inline weir_status weiri_flag_check(const weiri_coll *coll, const weiri_flagged *flag)
{
    return WEIRI_LIKELY(weir_load_relaxed(&flag->chain) == coll->comm->chain)
               ? WEIR_OK
               : weiri_comm_refuse_chain(coll->comm);
}

/* Waits for data of a peer, and checks them. */
static inline weir_status weiri_flag_await(const weiri_coll *coll, const weiri_flagged *flag,
                                           uint64_t target, int owner, const char *phase)
{
    weir_status status = weiri_comm_wait(coll->comm, &flag->value, target, owner, phase);
    return WEIRI_LIKELY(status == WEIR_OK) ? weiri_flag_check(coll, flag) : status;
}

/* The size of the part for bytes, which are at least 2, as a power of two. */
static inline int weiri_part_shift(size_t bytes)
{
    return 64 - __builtin_clzll((unsigned long long)bytes - 1);
}

static inline size_t weiri_part_bytes(size_t bytes)
{
    return (size_t)1 << weiri_part_shift(bytes);
}

/* The number of parts for so many bytes. */
static inline uint64_t weiri_rotated_parts(weiri_rotation rotation, size_t bytes)
{
    if (bytes < rotation.from_bytes || bytes > rotation.room_bytes)
        return 1;
    const size_t parts = rotation.room_bytes >> weiri_part_shift(bytes);
    return parts < rotation.most_parts ? parts : rotation.most_parts;
}

/* Where bytes of an epoch begin in a buffer of its parity. */
static inline size_t weiri_rotate(weiri_rotation rotation, uint64_t epoch, size_t bytes)
{
    const uint64_t parts = weiri_rotated_parts(rotation, bytes);
    return parts < 2 ? 0 : (size_t)((epoch >> 1 & (parts - 1)) << weiri_part_shift(bytes));
}

/* The rank in whose area a rank stores its slots, results, messages and payloads in an epoch. */
static inline uint64_t weiri_place_of(const weiri_coll *coll, uint64_t epoch, int rank)
{
    return (uint64_t)rank ^ (epoch >> 1 & coll->trades & !coll->is_one_way);
}

static inline const weiri_area *weiri_area_of(const weiri_coll *coll, uint64_t epoch, int rank)
{
    return &coll->areas[weiri_place_of(coll, epoch, rank)];
}

/* The message of an epoch from one rank to another. */
static inline weiri_message *weiri_message_of(const weiri_coll *coll, uint64_t epoch, int from,
                                              int to)
{
    return &weiri_area_of(coll, epoch, from)->message[epoch & 1][weiri_place_of(coll, epoch, to)];
}

static inline weiri_message *weiri_coll_message(const weiri_coll *coll, int from, int to)
{
    return weiri_message_of(coll, coll->epoch, from, to);
}

/* Where a message of so many bytes begins in the payload of an epoch. */
static inline char *weiri_coll_payload(const weiri_coll *coll, uint64_t epoch, int from, int to,
                                       size_t bytes)
{
    return weiri_area_of(coll, epoch, from)->payload[epoch & 1] +
           weiri_place_of(coll, epoch, to) * coll->message_bytes +
           weiri_rotate(coll->message_rotation, epoch, bytes);
}

/* The successor and the predecessor of a rank, modulo nranks. */
static inline int weiri_next(int rank, int nranks)
{
    return rank + 1 < nranks ? rank + 1 : 0;
}

static inline int weiri_previous(int rank, int nranks)
{
    return rank > 0 ? rank - 1 : nranks - 1;
}

/* A rank's share of a buffer of count_all elements: elements [first, first + count). Shares are
 * whole cache lines; the last ones may be shorter, or empty. */
typedef struct weiri_share {
    size_t first, count;
} weiri_share;
weiri_share weiri_share_of(size_t count_all, size_t element_bytes, int rank, int nranks);

/* What a rank lets its peers do with an input. All map registered memory. */
typedef enum weiri_lending {
    WEIRI_LENDS_MAPPED, /* map it; unregistered memory too where they can attach it */
    WEIRI_LENDS_ANY,    /* the same; the kernel may read it where they cannot */
    WEIRI_LENDS_COPIED, /* let the kernel read unregistered memory, also where XPMEM is used */
} weiri_lending;
weiri_desc weiri_describe(const weiri_coll *coll, const void *pointer, size_t bytes,
                          weiri_lending lending);

/* What a rank publishes in the current epoch. */
static inline weiri_post *weiri_post_of(const weiri_coll *coll, int rank)
{
    return &coll->areas[rank].post[coll->epoch % WEIRI_POSTS];
}

/* Begins an epoch in which every rank publishes the descriptors of its buffers. *all_in, *all_out:
 * whether every rank's buffer can be mapped; then weiri_post_in and weiri_post_out return pointers.
 * lending: how the input is lent; outputs are mapped. */
weir_status weiri_posts_exchange(weiri_coll *coll, const void *in, size_t in_bytes,
                                 weiri_lending lending, const void *out, size_t out_bytes,
                                 int *all_in, int *all_out);
/* As weiri_posts_exchange, for data that flow to or from a root: a rank whose input cannot be
 * mapped, so that all fall back, may be WEIRI_POSTS epochs ahead of the others. */
weir_status weiri_posts_exchange_ahead(weiri_coll *coll, const void *in, size_t in_bytes,
                                       const void *out, size_t out_bytes, int *all_in,
                                       int *all_out);
/* Whether every rank's published input can be mapped or read by the kernel. */
int weiri_posts_are_readable(const weiri_coll *coll);
/* A rank's published buffer, mapped here; own is this rank's. */
weir_status weiri_post_in(weiri_coll *coll, int rank, const void *own, const char **pointer);
weir_status weiri_post_out(weiri_coll *coll, int rank, void *own, char **pointer);
/* Points coll->sources to byte offset of every rank's published input, and coll->outputs[i] to rank
 * first + i's published output, modulo nranks. NULL: a buffer that cannot be attached, which
 * weiri_reduce_into reads or writes by system calls. WEIR_ERR_SYSTEM if the system forbids these,
 * too. */
weir_status weiri_posts_map_inputs(weiri_coll *coll, const weiri_task *task, size_t offset);
weir_status weiri_posts_map_outputs(weiri_coll *coll, const weiri_task *task, int first, int count);

/* Reduces elements [first, first + count) of coll->sources, whose published inputs begin offset
 * bytes before them, into coll->outputs at the same position, block by block. coll->outputs begins
 * with the output of rank first_output. */
typedef struct weiri_reduction {
    size_t first, count, offset;
    int first_output, noutputs;
} weiri_reduction;
weir_status weiri_reduce_into(weiri_coll *coll, const weiri_task *task, weiri_reduction what);

/* Whether the current call may read peers' unregistered buffers by a system call: the tuning table
 * says so for its size, and the ranks may. Equal on all ranks. */
int weiri_reads_unregistered(const weiri_coll *coll, const weiri_task *task);
/* Whether this rank would rather lend an unregistered buffer to such readers than copy it into
 * shared memory itself. On AMD's processors, one of two ranks with a core each does only if its
 * stores to the other are slow, unless a tuning file has rows for such memory. In all other cases
 * ranks lend. Local. */
int weiri_lends_unregistered(const weiri_coll *coll, weir_collective collective);
/* Copies bytes of a peer's buffer, registered or not, from offset on; total_bytes as in weiri_move.
 */
weir_status weiri_fetch(weiri_coll *coll, int rank, weiri_desc desc, size_t offset, void *to,
                        size_t bytes, size_t total_bytes);

/* Copies a part of a buffer of total_bytes, past the caches if that is large. */
void weiri_move(const weiri_coll *coll, void *to, const void *from, size_t bytes,
                size_t total_bytes);
/* Copies this rank's block of count_bytes to its place in the output, unless it is there. */
void weiri_place_own(const weiri_coll *coll, const weiri_task *task, char *place,
                     size_t total_bytes);

/* How many blocks of count elements this rank's buffers have; not for alltoallv and sendrecv. */
typedef struct weiri_blocks {
    size_t in, out;
} weiri_blocks;
static inline weiri_blocks weiri_blocks_of(const weiri_coll *coll, const weiri_task *task)
{
    const weir_call *call = task->call;
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    const size_t n = (size_t)coll->nranks;
    const size_t in = contract->in_has_blocks ? n : 1, out = contract->out_has_blocks ? n : 1;
    return (weiri_blocks){weiri_contract_reads(contract, coll->rank, call->root) ? in : 0,
                          weiri_contract_writes(contract, coll->rank, call->root) ? out : 0};
}

#endif
