/*
 * The in-memory form of a plan. The JSON reader (json.c) and the builder (build/build.c) produce
 * it; the checker, the compiler, the simulation and the printers read it and never modify it.
 *
 * A plan has one program for each rank (weiri_plan_gpu): a set of concurrent thread blocks, each
 * with a list of operations in order. Ids that a file gives relative to a thread block are
 * resolved: a channel id is an index into the rank's channels of that type, and a chunk reference
 * names the rank that owns the memory. File ids that the writer needs are kept.
 *
 * Every operation that moves data has a mode (weiri_plan_mode), which is its whole meaning. A
 * reference to a switch channel stands for the same chunks on every rank of its group.
 *
 * A pipeline runs its body, a list of operations, several times; each run is called a turn and
 * handles the next unit_bytes of the data.
 *
 * Sizes are counted in chunks; layout.h maps chunks to bytes.
 */
#ifndef WEIR_PLAN_FORMAT_PLAN_H
#define WEIR_PLAN_FORMAT_PLAN_H

#include "plan/format/rank_set.h"
#include <weir/plan.h>

#include <stdint.h>

enum {
    WEIRI_PLAN_RANKS_MAX = 128,        /* rank_set.h */
    WEIRI_PLAN_BLOCKS_MAX = 1024,      /* thread blocks of a rank */
    WEIRI_PLAN_THREADS_MAX = 1024,     /* of a block */
    WEIRI_PLAN_CHUNKS_MAX = 1 << 20,   /* of a buffer */
    WEIRI_PLAN_REFS_MAX = 256,         /* sources, and destinations, of an operation */
    WEIRI_PLAN_CHANNELS_MAX = 1 << 16, /* of a rank and type */
    WEIRI_PLAN_OPS_MAX = 1 << 20,      /* of a rank */
    WEIRI_PLAN_ALIGNMENT_MAX = 1 << 16,
};

/* What an operation does with data. */
typedef enum weiri_plan_mode {
    WEIRI_PLAN_SYNC,   /* moves nothing: a fence, barrier, signal, wait, semaphore or flush */
    WEIRI_PLAN_PAIRS,  /* destination i gets source i */
    WEIRI_PLAN_SPREAD, /* every destination gets the one source */
    WEIRI_PLAN_REDUCE, /* every destination gets the reduction of all sources, in their order */
    WEIRI_PLAN_LOOP,   /* a pipeline: repeats the operations that follow it */
} weiri_plan_mode;

/* Which references of an operation hold packets. */
enum {
    WEIRI_PLAN_PACKETS_NONE = 0,
    WEIRI_PLAN_PACKETS_SRC0 = 1,
    WEIRI_PLAN_PACKETS_REST = 2, /* all sources but the first */
    WEIRI_PLAN_PACKETS_DST0 = 4,
    WEIRI_PLAN_PACKETS_DSTS = 8, /* all destinations but the first */
    WEIRI_PLAN_PACKETS_FROM = WEIRI_PLAN_PACKETS_SRC0 | WEIRI_PLAN_PACKETS_REST,
    WEIRI_PLAN_PACKETS_TO = WEIRI_PLAN_PACKETS_DST0 | WEIRI_PLAN_PACKETS_DSTS,
    WEIRI_PLAN_PACKETS_RESEND = WEIRI_PLAN_PACKETS_REST | WEIRI_PLAN_PACKETS_DSTS,
    WEIRI_PLAN_PACKETS_ALL = WEIRI_PLAN_PACKETS_FROM | WEIRI_PLAN_PACKETS_TO,
};

/* The operations: X(symbol, name in a file, mode, packets, channels, places)
 *
 * packets: which references hold packets: NONE, FROM (all sources), TO (all destinations), ALL,
 * REST (all sources but the first) or RESEND (REST, and all destinations but the first).
 * channels: the channel types that the operation accepts, by first letter: memory, port, switch.
 * Empty: it uses no channel.
 * places: five letters, one each for the first source, further sources, first destination, second
 * destination, further destinations: local, remote or group; '-': no such reference. */
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

static inline int weiri_plan_is_fence(weiri_plan_kind kind)
{
    return kind == WEIRI_PLAN_NOP_OP || kind == WEIRI_PLAN_BARRIER_OP;
}

static inline int weiri_plan_is_wait(weiri_plan_kind kind)
{
    return kind == WEIRI_PLAN_WAIT_OP || kind == WEIRI_PLAN_RELAXED_WAIT_OP;
}

/* A put that signals when its data have arrived. */
static inline int weiri_plan_is_put_signal(weiri_plan_kind kind)
{
    return kind == WEIRI_PLAN_PUT_SIGNAL_OP || kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP;
}

static inline int weiri_plan_is_signal(weiri_plan_kind kind)
{
    return kind == WEIRI_PLAN_SIGNAL_OP || kind == WEIRI_PLAN_RELAXED_SIGNAL_OP ||
           weiri_plan_is_put_signal(kind);
}

typedef enum weiri_plan_channel {
    WEIRI_PLAN_MEMORY,
    WEIRI_PLAN_PORT,
    WEIRI_PLAN_SWITCH,
    WEIRI_PLAN_CHANNELS,
    WEIRI_PLAN_NO_CHANNEL = WEIRI_PLAN_CHANNELS
} weiri_plan_channel;

typedef enum weiri_plan_place {
    WEIRI_PLAN_LOCAL,
    WEIRI_PLAN_REMOTE, /* in the memory of the peer `rank` */
    WEIRI_PLAN_GROUP,  /* in the memory of every rank of the rank's switch channel `rank` */
} weiri_plan_place;

/* A chunk reference: `size` consecutive chunks of a buffer, starting at chunk `index`. */
typedef struct weiri_plan_ref {
    uint8_t place;  /* weiri_plan_place */
    uint8_t buffer; /* weir_plan_buffer */
    uint8_t is_packets;
    int32_t rank; /* owner of the memory; GROUP: index into the rank's switch channels */
    int32_t id;   /* buffer_id or switch_channel_id of the file; LOCAL: -1 */
    uint32_t index, size;
} weiri_plan_ref;

typedef struct weiri_plan_op {
    weiri_plan_kind kind;
    weiri_plan_channel channel;
    int reduce_op;             /* weir_op; -1: the file names none */
    uint32_t first_src, nsrcs; /* range of the gpu's refs */
    uint32_t first_dst, ndsts;
    uint32_t first_id, nids;   /* range of the gpu's ids: channels of that type, or semaphores */
    uint32_t barrier, nblocks; /* barrier id, and the number of blocks that enter it */
    uint32_t part, nparts;     /* this block's part of the bytes, in a group; else 0 of 1 */
    uint64_t unit_bytes;       /* pipeline: bytes that its body handles in one turn */
    uint32_t num_chunks;       /* pipeline: chunks that all its turns handle */
    uint32_t nops;             /* pipeline: the next nops operations are its body */
    uint32_t in_body;          /* 1: it belongs to the body of a pipeline */
} weiri_plan_op;

/* A list of a thread block, of channels or of remote buffers; ids in a file index into it. */
typedef struct weiri_plan_list {
    uint32_t first, count; /* range of the gpu's ids */
} weiri_plan_list;

typedef struct weiri_plan_block {
    uint32_t id;
    uint32_t first_op, nops; /* range of the gpu's ops, bodies of pipelines included */
    weiri_plan_list channels[WEIRI_PLAN_CHANNELS], remotes[WEIRI_PLAN_CHANNELS];
} weiri_plan_block;

/* One end of a channel: the ordinal-th of its type between the two ranks. A wait consumes the
 * signals of the peer's end with the same ordinal. */
typedef struct weiri_plan_link {
    int32_t peer, ordinal;
} weiri_plan_link;

typedef struct weiri_plan_switch {
    weir_plan_buffer buffer;
    uint32_t size;               /* size of the group as the file gives it; unused otherwise */
    uint32_t first_rank, nranks; /* the group's ranks: range of the gpu's ids */
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
    uint32_t *semaphores; /* initial values */
    uint32_t nsemaphores;
    weiri_plan_block *blocks;
    uint32_t nblocks;
    weiri_plan_op *ops;
    uint32_t nops;
    weiri_plan_ref *refs;
    uint32_t nrefs, *ids, nids;
} weiri_plan_gpu;

/* What weir_plan_check found in a plan that it accepted. */
typedef struct weiri_plan_proof {
    int root;                 /* of a broadcast or reduce */
    uint64_t max_chunk_bytes; /* up to which the plan is proved; 0: any length */
    char lengths[128];        /* that in words, for messages */
} weiri_plan_proof;

struct weir_plan {
    char *name;
    char *file;            /* its source, for messages */
    char *collective_name; /* may be unknown to weir */
    int collective;        /* weir_collective; -1: unknown */
    int uses_ll;           /* protocol "LL" */
    int in_place, reuse_resources, double_scratch;
    int has_packets;               /* 1: some operation uses packets */
    uint32_t nthreads;             /* of a thread block */
    uint32_t alignment;            /* bytes; a power of two */
    uint64_t min_bytes, max_bytes; /* message sizes that the plan serves */
    uint64_t identity;             /* weiri_plan_identity of the validated plan */
    int nranks;
    weiri_plan_gpu *gpus;
    weiri_plan_proof *proof; /* see weiri_plan_proof_of */
};

/* The proof by the first check that accepted the plan; NULL: there has been none. Thread-safe. */
static inline const weiri_plan_proof *weiri_plan_proof_of(const weir_plan *plan)
{
    return __atomic_load_n(&plan->proof, __ATOMIC_ACQUIRE);
}

/* Appends a zeroed element to a list (a malloc'ed array that starts as NULL, with count 0) and
 * returns a pointer to it, valid until the next append; NULL if there is no memory, and then
 * nothing changes. The capacity is the count rounded up to a power of two. */
void *weiri_plan_append(void *list, uint32_t *count, size_t element_bytes);

/* Writes "file: rank 3, thread block 1, op 5 (put)" for messages to text, which holds
 * WEIRI_PLAN_WHERE_BYTES, and returns text. Indices out of range are left out. */
enum { WEIRI_PLAN_WHERE_BYTES = 256 };
const char *weiri_plan_where(const weir_plan *plan, int rank, uint32_t block, uint32_t op,
                             char *text);

/* Names of operations, channel types and buffers as they appear in files. */
static inline const char *weiri_plan_kind_name(weiri_plan_kind kind)
{
    return weiri_plan_traits[kind].name;
}
const char *weiri_plan_channel_name(weiri_plan_channel type);
extern const char weiri_plan_buffer_letters[WEIR_PLAN_BUFFERS];

/* 1 if an operation of the rank uses packets. */
int weiri_plan_gpu_has_packets(const weiri_plan_gpu *gpu);

/* A hash of the plan's content without the file name: the same on all ranks. */
uint64_t weiri_plan_identity(const weir_plan *plan);

/* Checks each operation by itself: ids, chunk ranges, the number and places of references,
 * channel types, limits. Sets the derived members has_packets, is_packets of the references,
 * ordinals of the links, and identity. Local. WEIR_ERR_INVALID: the message names the file, rank,
 * thread block and operation, and what was expected. */
weir_status weiri_plan_validate(weir_plan *plan);

#endif
