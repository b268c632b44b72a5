/*
 * The communicator inside: who the ranks are, the memory they share, and how
 * waits end.
 *
 * Every rank owns one scratch segment that all peers map when the communicator
 * is created. It begins with a page set (weiri_comm_page) and goes on with the
 * area that the collectives lay out themselves. Words in it have one writer:
 * the owner, except for the abort word, which any rank sets.
 *
 * Memory that a rank allocates later gets a record in its page's directory.
 * A peer that meets a (region, generation, offset) triple looks the record up
 * and maps the segment then, without any exchange; so no collective decision
 * hangs on what one rank has cached.
 */
#ifndef WEIR_COMM_COMM_H
#define WEIR_COMM_COMM_H

#include <weir/target.h>
#include "comm/gpu/gpu_view.h"
#include "transport/transport.h"
#include <weir/weir.h>
#include <weir/device.h>

#include <string.h>

#define WEIRI_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define WEIRI_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum {
    WEIRI_REGIONS_MAX = WEIRI_GPU_REGIONS_MAX, /* live allocations a rank */
    WEIRI_RANKS_MAX = WEIR_RANKS_MAX,
    WEIRI_NETWORKS = 3,      /* transports that can be wires: ib, tcp, shm */
};

/* The least area that the collectives of n ranks can work in: a part of its own
 * and one for each rank. Known here, so that a communicator that is too small
 * is refused when it is made; coll/coll.c asserts that its layout fits. */
enum { WEIRI_AREA_LEAST_BYTES = 53248, WEIRI_AREA_LEAST_BYTES_EACH = 2304 };
static inline size_t weiri_comm_least_area_bytes(int nranks)
{
    return WEIRI_AREA_LEAST_BYTES + (size_t)nranks * WEIRI_AREA_LEAST_BYTES_EACH;
}

/* Why a communicator was aborted: the value of its abort words. The first
 * reason to reach a rank stays, so that each can tell it. */
enum {
    WEIRI_ABORT_ASKED = 1, /* by weir_comm_abort, or by a wait that failed */
    /* WEIR_ABORTED_BY_KERNEL: by one of this rank's, which has left why in the rank's record */
    WEIRI_ABORT_DEATH = WEIR_ABORTED_BY_KERNEL + 1, /* plus the rank that has died */
};

/* The first value of weiri_hash_bytes. */
#define WEIRI_HASH_START 0xcbf29ce484222325u

/* A word that peers poll, alone on its line. */
typedef struct weiri_word {
    _Alignas(WEIR_LINE_BYTES) uint64_t value;
} weiri_word;

/* A rank's allocation as peers see it; generation 0 while there is none. Its
 * owner fills key first and publishes generation last. */
typedef struct weiri_region_record {
    weiri_segment_key key;
    uint64_t generation;
} weiri_region_record;

/* Text in shared memory: whole words, so that a reader beside the writer gets
 * old or new ones but never reads beyond them. */
enum { WEIRI_TEXT_WORDS = 4, WEIRI_TEXT_BYTES = WEIRI_TEXT_WORDS * 8 };

/* Where a rank stands, as its peers see it: for weir_comm_report. The lines of
 * the fast path come first. */
typedef struct weiri_where {
    _Alignas(WEIR_LINE_BYTES) uint64_t call; /* of collectives: number << 8 | which; 0: none yet */
    uint64_t iteration;                      /* weir_comm_note's */
    uint64_t note[WEIRI_TEXT_WORDS];
    _Alignas(WEIR_LINE_BYTES) weir_wait_record wait;
    uint64_t phase[WEIRI_TEXT_WORDS]; /* of a wait of kind WORD */
    uint64_t answered;                /* non-zero: after an abort, the above is final */
} weiri_where;

/* How a rank introduces its GPU, in this order of exchanges. */
typedef struct weiri_gpu_info {
    int32_t found;       /* weir_status of having a device; WEIR_OK: the next two are known */
    int32_t device;
    char bus[16];        /* "0000:19:00.0" */
    int32_t status;      /* of the last exchange */
    int32_t shares;      /* this rank was told that ranks may share a GPU */
    int32_t nvlink;      /* joins it with all peers' */
    int32_t processors;  /* multiprocessors */
    weiri_segment_key scratch;
} weiri_gpu_info;

typedef struct weiri_comm_page {
    weiri_word abort;    /* non-zero: every wait of this rank ends, for that reason */
    weiri_word barrier;  /* barriers that this rank has entered */
    weiri_word changes;  /* how often this rank has made or freed a region */
    weiri_word finished; /* 1: this rank has done its part in everything, and ends */
    weiri_word reads;    /* 1: this rank may read every peer's plain memory */
    weiri_word votes[2]; /* algo/context.c: by parity, this rank's vote on a context */
    weiri_word report;   /* rank 0's: who prints the report; see comm/report.c */
    weiri_word followed[WEIRI_GPU_RANKS_MAX]; /* changes of each rank that this GPU knows */
    weiri_gpu_info gpu;
    weiri_where where;
    weiri_region_record directory[WEIRI_REGIONS_MAX];
} weiri_comm_page;

/* A buffer as it travels in-band: 16 bytes. generation 0: not shareable;
 * WEIRI_GENERATION_PLAIN: plain memory at the address in offset (plain.h). */
#define WEIRI_GENERATION_PLAIN UINT32_MAX
typedef struct weiri_desc {
    uint32_t region;
    uint32_t generation;
    uint64_t offset;
} weiri_desc;

/* A live allocation of this rank. */
typedef struct weiri_region {
    weiri_segment segment;
    size_t bytes;        /* as asked for */
    uint64_t change;     /* which of this rank's changes made it, or freed it */
    uint32_t generation; /* of the latest use of this entry */
    int known;           /* GPUs: all peers have it mapped */
    int adopted;         /* the caller's memory */
    weiri_desc *symmetric; /* what it is on every rank, or NULL; owned */
    int freed;           /* peers may still have it mapped, so its memory waits for them */
} weiri_region;

/* A peer's region mapped here. */
typedef struct weiri_mapping {
    weiri_segment segment;
    uint32_t generation; /* 0: none */
    uint32_t users;      /* imported weir_mem objects */
} weiri_mapping;

typedef struct weiri_peer {
    int pid, pidfd; /* pidfd -1 where the system has none, or for the own rank */
    weiri_segment scratch;
    weiri_comm_page *page; /* in scratch */
    char *area;            /* behind the page: the collectives' */
    weiri_mapping *mappings; /* WEIRI_REGIONS_MAX */
    uint64_t changes_seen;
} weiri_peer;

struct weiri_internode;

struct weir_comm {
    weir_boot *boot;
    weir_boot *owned_boot; /* of weir_comm_split: destroyed with the communicator; else NULL */
    const weiri_transport_ops *transport; /* of the scratch segments */
    const weiri_transport_ops *memory;    /* of weir_mem_alloc */
    struct weiri_gpu *gpu;                /* NULL: the host backend */
    weir_backend asked;
    int rank, nranks, nnodes, local_rank, local_nranks;
    int oversubscribed;  /* this machine has more ranks than cores allowed to them */
    int reads_plain;     /* all ranks may read each other's plain memory */
    uint64_t job;        /* the same random number on every rank */
    weir_guard guard;
    size_t scratch_bytes, area_bytes;
    weiri_peer *peers;   /* nranks entries, the own one included */
    weiri_region *regions;
    int nregions;        /* entries ever used */
    uint64_t barriers;
    weiri_where *where; /* the own one */
    const char *noted;  /* the text that is in where->note */
    uint64_t calls;     /* of collectives */
    uint64_t votes;     /* that this rank took part in */
    /* Across machines: the communicator of this machine's ranks in host memory, on GPUs
     * another one that has their memory, and the paths to the other machines. The whole
     * has no peers and regions of its own. */
    weir_comm *host_comm, *gpu_comm;
    int hardware_rank;      /* among the ranks that share this one's cores and GPUs */
    struct weiri_internode *internode;
    weir_boot *local_boot;
    int *members;        /* this machine's ranks */
    /* Of such a local one: what it is a part of, and its ranks' numbers there. */
    weir_comm *parent;
    const int *names;
    void *coll;          /* the collectives' state, made on first use */
    void (*coll_destroy)(void *coll);
    void *sem_slab;      /* the semaphores' memory, made on first use */
    void (*sem_slab_destroy)(void *slab);
    struct weiri_net *nets[WEIRI_NETWORKS]; /* comm/internode/networks.h; opened on first use */
};

/* The communicator that has the memory of this machine's ranks: a part of a whole one
 * across machines, or comm itself; and the number that a rank of this machine has there. */
static inline weir_comm *weiri_comm_node(weir_comm *comm)
{
    if (comm->gpu_comm)
        return comm->gpu_comm;
    return comm->host_comm ? comm->host_comm : comm;
}
int weiri_comm_place(const weir_comm *comm, int rank);
/* Whether this rank maps memory of another one. */
int weiri_comm_maps(const weir_comm *comm, int rank);

/* Ends every wait of every rank; reason as in the abort word, with the number of a dead
 * rank in the whole communicator. Local. */
void weiri_comm_abort_for(weir_comm *comm, uint64_t reason);
/* The same on this machine only: the others know it. */
void weiri_comm_abort_node(weir_comm *comm, uint64_t reason);
/* This rank alone has found what ends the call for all, whose text is the last error: tells
 * it in the log and ends all ranks' waits. Returns status. Local. */
weir_status weiri_comm_give_up(weir_comm *comm, weir_status status);

/* A rank's number as the caller knows it. */
static inline int weiri_comm_name(const weir_comm *comm, int rank)
{
    return comm->names && rank >= 0 ? comm->names[rank] : rank;
}

/* Waits until *word >= target; the word belongs to peer. On failure says what
 * was waited for (phase, peer, expected, seen), aborts the communicator and
 * returns WEIR_ERR_TIMEOUT, WEIR_ERR_ABORTED or WEIR_ERR_PEER. */
weir_status weiri_comm_wait_slow(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                                 const char *phase);

static inline weir_status weiri_comm_wait(weir_comm *comm, const uint64_t *word, uint64_t target,
                                          int peer, const char *phase)
{
    /* A few polls here: when ranks have cores of their own the word is close. */
    for (int poll = 0; poll < 16; poll++)
        if (WEIRI_LIKELY(weir_load_acquire(word) >= target))
            return WEIR_OK;
    return weiri_comm_wait_slow(comm, word, target, peer, phase);
}

/* After so many polls a wait looks whether a rank has died. */
enum { WEIRI_POLLS_PER_LIFE_CHECK = 4096 };

/* The state of a wait between its polls; start it zeroed. */
typedef struct weiri_waiter {
    weir_waiter polls;
    int suspicions;    /* how often a dead peer was seen */
    int is_for_one;    /* the awaited rank's death matters alone */
    uint64_t noted_ns; /* the start of the slow wait that the record tells of */
    uint64_t aborted_ns; /* when an abort was seen first */
} weiri_waiter;

/* For loops that wait for several things at once: after a round without
 * progress. One of them is that peer's word reaches target. */
weir_status weiri_comm_idle(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                            uint64_t target, int peer, const char *phase);
/* The same for a rank by its number in the whole communicator. */
weir_status weiri_comm_idle_for(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                                uint64_t target, int name, const char *phase);

/* After such a loop has succeeded: this rank waits no more. */
static inline void weiri_comm_idle_end(weir_comm *comm, const weiri_waiter *waiter)
{
    if (WEIRI_UNLIKELY(waiter->noted_ns))
        weir_store_release(&comm->where->wait.kind, WEIR_WAIT_NONE);
}

/* Whether a peer's process has ended; never the own one. */
int weiri_comm_is_dead(const weir_comm *comm, int peer);

/* The barrier that weir_comm_destroy ends with, or WEIR_ERR_ABORTED without waiting. */
weir_status weiri_comm_last_barrier(weir_comm *comm);

/* Tells all that this rank has done its part in everything that was called. */
void weiri_comm_finish(weir_comm *comm);

static inline int weiri_comm_has_finished(const weir_comm *comm, int peer)
{
    return weir_load_acquire(&comm->peers[peer].page->finished.value) != 0;
}

/* Notes that a collective is called: one store, to a line of this rank's own. */
static inline void weiri_comm_enter(weir_comm *comm, weir_collective collective)
{
    if (WEIRI_LIKELY(!comm->parent)) /* else the caller's call is what counts */
        weir_store_relaxed(&comm->where->call, ++comm->calls << 8 | (uint64_t)collective);
}

static inline void weiri_text_store(uint64_t *words, const char *text)
{
    char whole[WEIRI_TEXT_BYTES] = "";
    uint64_t word;
    for (int i = 0; i < WEIRI_TEXT_BYTES && text && text[i]; i++)
        whole[i] = text[i];
    for (int i = 0; i < WEIRI_TEXT_WORDS; i++) {
        memcpy(&word, whole + i * 8, sizeof word);
        weir_store_relaxed(&words[i], word);
    }
}

/* text has WEIRI_TEXT_BYTES + 1 bytes. */
static inline void weiri_text_load(char *text, const uint64_t *words)
{
    for (int i = 0; i < WEIRI_TEXT_WORDS; i++) {
        uint64_t word = weir_load_relaxed(&words[i]);
        memcpy(text + i * 8, &word, sizeof word);
    }
    text[WEIRI_TEXT_BYTES] = '\0';
}

/* How many cores the ranks of this machine may use together, given each rank's
 * affinity mask (comm/node/host.c). */
enum { WEIRI_SPINS_ALONE = 4096, WEIRI_SPINS_SHARED = 2 }; /* polls before yielding */
int weiri_host_cores(const void *masks, size_t stride_bytes, int count);
/* Goes on with a hash (FNV-1a, 64 bit) over more bytes. */
uint64_t weiri_hash_bytes(uint64_t hash, const void *bytes, size_t length);
/* A number that is equal on ranks which can share memory: the machine, its
 * boot, the process namespace and WEIR_HOSTID. */
uint64_t weiri_host_id(void);
/* The same without WEIR_HOSTID: equal on ranks that share cores. */
uint64_t weiri_hardware_id(void);

/* The own buffer [pointer, pointer + bytes) as peers can address it;
 * generation 0 if it is not within an allocation of this communicator. */
weiri_desc weiri_region_describe(const weir_comm *comm, const void *pointer, size_t bytes);

/* A peer's buffer, mapped on first sight. */
weir_status weiri_region_map(weir_comm *comm, int rank, weiri_desc desc);
static inline weir_status weiri_region_pointer(weir_comm *comm, int rank, weiri_desc desc,
                                               char **pointer)
{
    const weiri_mapping *mapping = &comm->peers[rank].mappings[desc.region];
    if (WEIRI_UNLIKELY(mapping->generation != desc.generation)) {
        weir_status status = weiri_region_map(comm, rank, desc);
        if (status != WEIR_OK)
            return status;
    }
    *pointer = (char *)mapping->segment.base + desc.offset;
    return WEIR_OK;
}

/* Whether every peer has mapped an own region, on GPUs. */
int weiri_region_known(weir_comm *comm, weiri_desc desc);

/* Unmaps what peers have freed since the last call and nobody here imports; on
 * GPUs also maps what they have made. */
void weiri_region_sweep(weir_comm *comm);
/* Ends all mappings of peers' regions; then frees the own ones. */
void weiri_region_unmap_all(weir_comm *comm);
void weiri_region_free_all(weir_comm *comm);

#endif
