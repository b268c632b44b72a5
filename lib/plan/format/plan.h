/*
 * A plan inside: a collective as data. It is read from JSON (json.c) or built (build.c), and
 * then shown, checked, estimated and executed; all of them see this one form.
 *
 * A plan has a program for every rank (weiri_plan_gpu): thread blocks, each a list of
 * operations that run one after the other; blocks run side by side. Ids that the file gives
 * relative to a thread block are resolved here: a channel id counts the rank's channels of
 * its type, a chunk reference knows whose memory it is. What the file said is kept where a
 * writer needs it.
 *
 * Operations of all kinds that move data share one meaning, their mode: either each
 * destination gets the source of the same place, or every destination gets the reduction of
 * all sources. A switch channel's reference stands for the same chunks on every
 * rank of its group.
 *
 * Sizes. A plan counts in chunks; layout.h says which bytes a chunk is.
 */
#ifndef WEIR_PLAN_FORMAT_PLAN_H
#define WEIR_PLAN_FORMAT_PLAN_H

#include <weir/plan.h>

#include <stdint.h>

enum {
    WEIRI_PLAN_RANKS_MAX = 64,
    WEIRI_PLAN_BLOCKS_MAX = 1024,      /* thread blocks of a rank */
    WEIRI_PLAN_THREADS_MAX = 1024,     /* of a block */
    WEIRI_PLAN_CHUNKS_MAX = 1 << 20,   /* of a buffer */
    WEIRI_PLAN_REFS_MAX = 256,         /* sources, and destinations, of an operation */
    WEIRI_PLAN_CHANNELS_MAX = 1 << 16, /* of a rank and type */
    WEIRI_PLAN_OPS_MAX = 1 << 20,      /* of a rank */
    WEIRI_PLAN_ALIGNMENT_MAX = 1 << 16,
};

/* What an operation does with data; WEIRI_PLAN_SYNC: nothing. */
typedef enum weiri_plan_mode {
    WEIRI_PLAN_SYNC,   /* orders, signals, waits */
    WEIRI_PLAN_PAIRS,  /* destination i gets source i */
    WEIRI_PLAN_SPREAD, /* every destination gets the one source */
    WEIRI_PLAN_REDUCE, /* every destination gets the reduction of all sources, in their order */
    WEIRI_PLAN_LOOP,   /* the operations behind it, again and again */
} weiri_plan_mode;

/* Which references of an operation lie in memory as packets. */
enum {
    WEIRI_PLAN_PACKETS_NONE = 0,
    WEIRI_PLAN_PACKETS_SRC0 = 1,
    WEIRI_PLAN_PACKETS_REST = 2, /* the sources behind the first */
    WEIRI_PLAN_PACKETS_DST0 = 4,
    WEIRI_PLAN_PACKETS_DSTS = 8, /* the destinations behind the first */
    WEIRI_PLAN_PACKETS_FROM = WEIRI_PLAN_PACKETS_SRC0 | WEIRI_PLAN_PACKETS_REST,
    WEIRI_PLAN_PACKETS_TO = WEIRI_PLAN_PACKETS_DST0 | WEIRI_PLAN_PACKETS_DSTS,
    WEIRI_PLAN_PACKETS_RESEND = WEIRI_PLAN_PACKETS_REST | WEIRI_PLAN_PACKETS_DSTS,
    WEIRI_PLAN_PACKETS_ALL = WEIRI_PLAN_PACKETS_FROM | WEIRI_PLAN_PACKETS_TO,
};

/* X(symbol, name in a file, mode, packets, channels, places)
 *
 * packets: which references lie in memory as packets: NONE, FROM (all sources), TO (all
 * destinations), ALL, REST (the sources but the first) or RESEND (these, and the destinations
 * but the first).
 * channels: what its channel may be: letters of memory, port and switch; none: no channel.
 * places: where its references may be, local, remote or group: of the first source, the
 * further ones, the first destination, the second, the further ones; -: there is none. */
#define WEIRI_PLAN_OP_MAP(X)                                                                       \
    X(NOP, "nop", SYNC, NONE, "", "")                                                              \
    X(BARRIER, "barrier", SYNC, NONE, "", "")                                                      \
    X(SEM_ACQUIRE, "sem_acquire", SYNC, NONE, "", "")                                              \
    X(SEM_RELEASE, "sem_release", SYNC, NONE, "", "")                                              \
    X(SIGNAL, "signal", SYNC, NONE, "mp", "")                                                      \
    X(WAIT, "wait", SYNC, NONE, "mp", "")                                                          \
    X(RELAXED_SIGNAL, "rlxsignal", SYNC, NONE, "mp", "")                                           \
    X(RELAXED_WAIT, "rlxwait", SYNC, NONE, "mp", "")                                               \
    X(FLUSH, "flush", SYNC, NONE, "mp", "")                                                        \
    X(PUT, "put", PAIRS, NONE, "mp", "llrrr")                                                      \
    X(PUT_SIGNAL, "pws", PAIRS, NONE, "mp", "llrrr")                                               \
    X(PUT_SIGNAL_FLUSH, "pwsf", PAIRS, NONE, "mp", "llrrr")                                        \
    X(GET, "get", PAIRS, NONE, "m", "rrlll")                                                       \
    X(COPY, "copy", PAIRS, NONE, "", "lllll")                                                      \
    X(REDUCE, "re", REDUCE, NONE, "", "lll--")                                                     \
    X(REDUCE_SEND, "res", REDUCE, NONE, "m", "lllrr")                                              \
    X(READ_REDUCE, "rre", REDUCE, NONE, "m", "lrl--")                                              \
    X(READ_REDUCE_SEND, "rres", REDUCE, NONE, "m", "lrlrr")                                        \
    X(PUT_PACKETS, "ppkt", PAIRS, TO, "mp", "llrrr")                                               \
    X(FORWARD_PACKETS, "rppkt", SPREAD, ALL, "mp", "l-rrr")                                        \
    X(COPY_PACKETS, "cpkt", PAIRS, TO, "", "lllll")                                                \
    X(UNPACK, "upkt", PAIRS, FROM, "", "lllll")                                                    \
    X(REDUCE_PACKETS, "repkt", REDUCE, REST, "", "lll--")                                          \
    X(REDUCE_COPY_PACKETS, "recpkt", REDUCE, RESEND, "", "llll-")                                  \
    X(REDUCE_SEND_PACKETS, "respkt", REDUCE, RESEND, "m", "lllrr")                                 \
    X(REDUCE_COPY_SEND_PACKETS, "recspkt", REDUCE, RESEND, "m", "llllr")                           \
    X(GROUP_REDUCE_STORE, "glres", REDUCE, NONE, "s", "g-g--")                                     \
    X(GROUP_REDUCE, "glre", REDUCE, NONE, "s", "g-l--")                                            \
    X(GROUP_STORE, "gstore", SPREAD, NONE, "s", "l-g--")                                           \
    X(GROUP_STORE_PACKETS, "gstorepkt", SPREAD, ALL, "s", "l-g--")                                 \
    X(PIPELINE, "pipeline", LOOP, NONE, "", "")

typedef enum weiri_plan_kind {
#define WEIRI_PLAN_KIND(symbol, name, mode, packets, channels, places) WEIRI_PLAN_##symbol##_OP,
    WEIRI_PLAN_OP_MAP(WEIRI_PLAN_KIND)
#undef WEIRI_PLAN_KIND
    WEIRI_PLAN_KINDS
} weiri_plan_kind;

typedef struct weiri_plan_trait {
    const char *name;
    weiri_plan_mode mode;
    int packets;
    const char *channels, *places;
} weiri_plan_trait;
extern const weiri_plan_trait weiri_plan_traits[WEIRI_PLAN_KINDS];

typedef enum weiri_plan_channel {
    WEIRI_PLAN_MEMORY,
    WEIRI_PLAN_PORT,
    WEIRI_PLAN_SWITCH,
    WEIRI_PLAN_CHANNELS,
    WEIRI_PLAN_NO_CHANNEL = WEIRI_PLAN_CHANNELS
} weiri_plan_channel;

typedef enum weiri_plan_place {
    WEIRI_PLAN_LOCAL,
    WEIRI_PLAN_REMOTE, /* of the peer `rank` */
    WEIRI_PLAN_GROUP,  /* of all ranks of the rank's switch channel `rank` */
} weiri_plan_place;

/* size chunks of a buffer, from chunk index on. */
typedef struct weiri_plan_ref {
    uint8_t place;  /* weiri_plan_place */
    uint8_t buffer; /* weir_plan_buffer */
    uint8_t is_packets;
    int32_t rank;   /* whose memory; of GROUP: which of the rank's switch channels */
    int32_t id;     /* as the file has it: buffer_id or switch_channel_id; LOCAL: -1 */
    uint32_t index, size;
} weiri_plan_ref;

typedef struct weiri_plan_op {
    weiri_plan_kind kind;
    weiri_plan_channel channel;
    int reduce_op;                /* weir_op; -1: the file names none */
    uint32_t first_src, nsrcs;    /* of the gpu's refs */
    uint32_t first_dst, ndsts;
    uint32_t first_id, nids;      /* of the gpu's ids: channels of that type, or semaphores */
    uint32_t barrier, nblocks;    /* which, and how many blocks meet */
    uint32_t part, nparts;        /* this block's part of the bytes; 0 of 1 */
    uint64_t unit_bytes;          /* of a pipeline: what its body handles in a turn, */
    uint32_t num_chunks;          /* of so many chunks; */
    uint32_t nops;                /* the next so many operations are its body */
    uint32_t in_body;             /* 1: it is part of one */
} weiri_plan_op;

/* Lists that a thread block's ids count in: of channels and of remote buffers, by type. */
typedef struct weiri_plan_list {
    uint32_t first, count; /* of the gpu's ids */
} weiri_plan_list;

typedef struct weiri_plan_block {
    uint32_t id;
    uint32_t first_op, nops; /* of the gpu's ops, bodies included */
    weiri_plan_list channels[WEIRI_PLAN_CHANNELS];
    weiri_plan_list remotes[WEIRI_PLAN_CHANNELS];
} weiri_plan_block;

/* One end of a channel: the ordinal-th of this type between the two ranks. A signal from the
 * one end is what a wait at the other end of the same ordinal consumes. */
typedef struct weiri_plan_link {
    int32_t peer, ordinal;
} weiri_plan_link;

typedef struct weiri_plan_switch {
    weir_plan_buffer buffer;
    uint32_t size;               /* of the group, as the file has it; nranks counts */
    uint32_t first_rank, nranks; /* of the gpu's ids */
} weiri_plan_switch;

typedef struct weiri_plan_remote {
    int32_t rank;
    weir_plan_buffer buffer;
    unsigned access; /* a bit for each weiri_plan_channel */
} weiri_plan_remote;

typedef struct weiri_plan_gpu {
    uint32_t chunks[WEIR_PLAN_BUFFERS];
    weiri_plan_link *links[2]; /* MEMORY, PORT */
    uint32_t nlinks[2];
    weiri_plan_switch *switches;
    uint32_t nswitches;
    weiri_plan_remote *remotes;
    uint32_t nremotes;
    uint32_t *semaphores; /* their initial values */
    uint32_t nsemaphores;
    weiri_plan_block *blocks;
    uint32_t nblocks;
    weiri_plan_op *ops;
    uint32_t nops;
    weiri_plan_ref *refs;
    uint32_t nrefs;
    uint32_t *ids;
    uint32_t nids;
} weiri_plan_gpu;

struct weir_plan {
    char *name;
    char *file;            /* where it comes from, for messages */
    char *collective_name; /* may be one that weir does not know */
    int collective;        /* weir_collective, or -1 */
    int uses_ll;           /* protocol "LL" */
    int in_place;
    int reuse_resources;
    int double_scratch;
    int has_packets;       /* some operation has */
    uint32_t nthreads;     /* of a block */
    uint32_t alignment;    /* bytes; a power of two */
    uint64_t min_bytes, max_bytes; /* of a message */
    uint64_t identity;     /* weiri_plan_identity, of the plan as it was validated */
    int nranks;
    weiri_plan_gpu *gpus;
};

/* Room for one more element of a list, zeroed, at its end: a pointer to it, valid until the
 * next one. NULL: no memory, nothing changed. The list's memory doubles where its count is a
 * power of two. */
void *weiri_plan_append(void *list, uint32_t *count, size_t element_bytes);

/* "file: rank 3, thread block 1, op 5 (put)" for messages: at most bytes of text. op may be
 * beyond the block's, block beyond the rank's, rank negative; they are then left out. */
enum { WEIRI_PLAN_WHERE_BYTES = 256 };
const char *weiri_plan_where(const weir_plan *plan, int rank, uint32_t block, uint32_t op,
                             char *text);

/* The name of a kind, channel type or buffer as files have it. */
static inline const char *weiri_plan_kind_name(weiri_plan_kind kind)
{
    return weiri_plan_traits[kind].name;
}
const char *weiri_plan_channel_name(weiri_plan_channel type);
extern const char weiri_plan_buffer_letters[WEIR_PLAN_BUFFERS];

/* A hash of all that a plan says but its file's name: the same on all ranks. */
uint64_t weiri_plan_identity(const weir_plan *plan);

/* Checks what one look at each operation can tell: ids, chunk ranges, what kinds of
 * references an operation takes, peers' ends of channels, limits. Sets what derives from the
 * operations (has_packets, refs' is_packets, identity). Local. WEIR_ERR_INVALID names file,
 * rank, thread block and op, what was expected and what to do. */
weir_status weiri_plan_validate(weir_plan *plan);

#endif
