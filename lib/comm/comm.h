/*
 * The communicator: its ranks, the memory that they share, and how waits end.
 *
 * The ranks of a node map one scratch segment when the communicator is created, in which every rank
 * owns a part. It begins with a weiri_comm_page; the rest, the area, belongs to the collectives.
 * Each word of it has one writer, the owner, except for the abort word, and in rank 0's page the
 * word report, which any rank sets.
 *
 * Memory that a rank allocates later has a record in the directory of its page. A peer that
 * receives a descriptor (region, generation, offset) looks the record up and maps the segment
 * then, without communication; so no collective decision depends on what one rank has mapped.
 *
 * docs/developer/memory-model.md describes layout, memory order and waits.
 */
#ifndef WEIR_COMM_COMM_H
#define WEIR_COMM_COMM_H

#include <weir/target.h>
#include "base/fork.h"
#include "base/transports.h"
#include "boot/deadline.h"
#include "comm/budget.h"
#include "comm/gpu/gpu_view.h"
#include "transport/transport.h"
#include <weir/weir.h>
#include <weir/device.h>

#include <string.h>

#define WEIRI_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define WEIRI_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* An array of the function that uses this, for the ranks that there are. One for the most that
 * there may be would need more than the stack of many threads. Not in a loop. */
#define WEIRI_STACK_ARRAY(type, count) ((type *)__builtin_alloca(sizeof(type) * (size_t)(count)))

enum {
    WEIRI_REGIONS_MAX = WEIRI_GPU_REGIONS_MAX, /* live allocations per rank */
    WEIRI_RANKS_MAX = WEIR_RANKS_MAX,
};

/* The smallest area that the collectives of n ranks need: a fixed part and one for each rank. It is
 * defined here so that a communicator with too little scratch memory is rejected when it is
 * created; coll/coll.c asserts that its layout fits. */
enum { WEIRI_AREA_LEAST_BYTES = 53248, WEIRI_AREA_LEAST_BYTES_EACH = 2304 };
static inline size_t weiri_comm_least_area_bytes(int nranks)
{
    return WEIRI_AREA_LEAST_BYTES + (size_t)nranks * WEIRI_AREA_LEAST_BYTES_EACH;
}

/* The reason of an abort: the value of an abort word. A rank keeps the first one that it gets. */
enum {
    WEIRI_ABORT_ASKED = 1, /* weir_comm_abort was called */
    /* WEIR_ABORTED_BY_KERNEL: a kernel of this rank failed; its wait record has the cause */
    WEIRI_ABORT_FAILED = WEIR_ABORTED_BY_KERNEL + 1, /* a wait or a call of a rank failed */
    WEIRI_ABORT_DEATH,                               /* plus the rank whose process has ended */
    /* Plus the rank whose call has a buffer that is not all there. */
    WEIRI_ABORT_BUFFER = WEIRI_ABORT_DEATH + WEIR_RANKS_MAX,
};

/* The initial value for weiri_hash_bytes. */
#define WEIRI_HASH_START 0xcbf29ce484222325u

/* A word that peers poll, alone in its cache line. */
typedef struct weiri_word {
    _Alignas(WEIR_LINE_BYTES) uint64_t value;
} weiri_word;

/* The directory entry of an allocation; generation is 0 if there is none. The owner writes key
 * first and publishes it with generation (release). */
typedef struct weiri_region_record {
    weiri_segment_key key;
    uint64_t generation;
} weiri_region_record;

/* Text in shared memory, stored word by word: a concurrent reader gets old or new words, but never
 * reads beyond the end. */
enum { WEIRI_TEXT_WORDS = 4, WEIRI_TEXT_BYTES = WEIRI_TEXT_WORDS * 8 };

/* The state of a rank, for weir_comm_report. The first cache line is written by the fast path. */
typedef struct weiri_where {
    _Alignas(WEIR_LINE_BYTES) uint64_t call; /* latest: count << 8 | weir_collective; 0: none */
    uint64_t iteration;                      /* from weir_comm_note */
    uint64_t note[WEIRI_TEXT_WORDS];
    uint64_t what, count; /* of the latest call when this rank last waited long (weiri_called) */
    _Alignas(WEIR_LINE_BYTES) weir_wait_record wait;
    uint64_t phase[WEIRI_TEXT_WORDS]; /* the step that a wait of kind WEIR_WAIT_WORD is part of */
    uint64_t answered;                /* 1: after an abort, the fields above are final */
    uint64_t since_ns;                /* when the slow wait in this record began */
    uint64_t gave_up; /* -status of the error for which this rank ended all waits; 0: none */
    /* Calls of two ranks that differ, as this rank has found them (called.h): number, then of each
     * what, count and rank. number is 0 if none do. */
    uint64_t differ[7];
} weiri_where;

/* What a monitored rank publishes about its calls (monitor/monitor.h). A timed call is valid if its
 * number is the same before and after its times are read; 0: none. */
enum { WEIRI_MONITOR_CALLS = 128, WEIRI_MONITOR_COUNTS = WEIR_COLL_COUNT + 2 };
typedef struct weiri_monitored_call {
    uint64_t number;   /* of the communicator's collectives */
    uint64_t begin_ns; /* 0: unknown, as on GPUs */
    uint64_t duration_ns;
} weiri_monitored_call;

typedef struct weiri_monitored {
    _Alignas(WEIR_LINE_BYTES) uint64_t counts[WEIRI_MONITOR_COUNTS]; /* of calls, by function */
    uint64_t ntimed; /* timed calls; the last ones are at ntimed % WEIRI_MONITOR_CALLS */
    weiri_monitored_call calls[WEIRI_MONITOR_CALLS];
} weiri_monitored;

/* A collective that a rank has called, for comparisons (called.h). */
typedef struct weiri_called {
    uint64_t number; /* of the communicator's collectives, from 1 */
    uint64_t what;   /* collective, type, operation and root, as far as they must be equal */
    uint64_t count;
    uint64_t chain; /* a hash of this call and all before it; 0: the rank does not check */
} weiri_called;

/* As a rank publishes it, by number: so many of GPUs, whose queues are as long. A call may be read
 * until the owner begins to write the one that has its place: ncalled says how far it is. */
enum { WEIRI_CALLED_MOST = 1024 };
typedef struct weiri_called_word {
    uint64_t what, count, chain;
} weiri_called_word;

/* What a rank publishes about its GPU during set-up, in the order of the exchanges. */
typedef struct weiri_gpu_info {
    int32_t found; /* weir_status of the search; if WEIR_OK, the next two fields are valid */
    int32_t device;
    char bus[16];       /* "0000:19:00.0" */
    int32_t status;     /* this rank's outcome in the latest exchange */
    int32_t shares;     /* this rank allows ranks to share a GPU */
    int32_t nvlink;     /* NVLink connects it with all peers' GPUs */
    int32_t processors; /* multiprocessors */
    weiri_segment_key scratch;
} weiri_gpu_info;

/* The beginning of a rank's part of the scratch segment. Written by its owner, except for abort. */
typedef struct weiri_comm_page {
    weiri_word abort;    /* non-zero: the reason for which every wait of this rank ends */
    weiri_word barrier;  /* barriers that this rank has entered */
    weiri_word changes;  /* creations and frees of this rank's regions */
    weiri_word finished; /* 1: this rank has begun to destroy the communicator */
    weiri_word reads;    /* which ways to every peer's unregistered memory this rank has: below */
    weiri_word votes[2]; /* algo/context.c: this rank's vote on a context, by parity */
    weiri_word report;   /* rank 0's page: the rank that prints the report; see report.c */
    weiri_word followed[WEIRI_GPU_RANKS_MAX]; /* changes of each rank that this GPU has mapped */
    weiri_gpu_info gpu;
    weiri_where where;
    weiri_monitored monitored;
    weiri_region_record directory[WEIRI_REGIONS_MAX];
    weiri_word ncalled; /* the number of the latest call that is compared */
    weiri_called_word called[WEIRI_CALLED_MOST];
} weiri_comm_page;

/* Bits of weiri_comm_page.reads. */
enum {
    WEIRI_READS_BY_COPY = 1, /* the kernel copies (node/peer_copy.h) */
    WEIRI_READS_ATTACHED = 2 /* attached by XPMEM (node/xpmem.h) */
};

/* A buffer as ranks send it to each other: 16 bytes. generation 0: not shareable;
 * WEIRI_GENERATION_UNREGISTERED: unregistered memory at the address in offset (node/peer_copy.h);
 * WEIRI_GENERATION_ATTACHED: the same, to attach; region is how many units it touches
 * (node/xpmem.h). */
#define WEIRI_GENERATION_UNREGISTERED UINT32_MAX
#define WEIRI_GENERATION_ATTACHED (UINT32_MAX - 1)
typedef struct weiri_desc {
    uint32_t region;
    uint32_t generation;
    uint64_t offset;
} weiri_desc;

/* An allocation of this rank. */
typedef struct weiri_region {
    weiri_segment segment;
    size_t bytes;          /* as requested */
    uint64_t change;       /* the value of changes when it was created, or freed */
    uint32_t generation;   /* of the latest use of this entry */
    int known;             /* GPUs: all peers have mapped it */
    int adopted;           /* registered memory of the caller */
    int freed;             /* freed, but its memory stays until peers have unmapped it */
    weiri_desc *symmetric; /* its descriptor on every rank, or NULL; owned */
} weiri_region;

/* The mapping of a peer's region. */
typedef struct weiri_mapping {
    weiri_segment segment;
    uint32_t generation; /* 0: none */
    uint32_t users;      /* imported weir_mem objects */
} weiri_mapping;

typedef struct weiri_peer {
    int pid, pidfd;          /* pidfd: -1 if the system has none, and for the calling rank */
    weiri_comm_page *page;   /* in the communicator's scratch segment */
    char *area;              /* the collectives' part behind it */
    weiri_mapping *mappings; /* of its regions, up to the highest one used */
    uint32_t nmappings;
    uint64_t changes_seen;
} weiri_peer;

struct weiri_internode;

enum { WEIRI_COMM_LANES = 4, WEIRI_FAILURE_BYTES = 512 };
struct weir_comm {
    /* Ranks and nodes */
    weir_boot *boot;
    weir_boot *owned_boot; /* of weir_comm_split: destroyed with the communicator; else NULL */
    uint64_t job;          /* a random number, equal on all ranks */
    int forks;             /* of weiri_fork_count(): detects use in a forked child */
    int rank, nranks, nnodes, local_rank, local_nranks;
    int invariant;       /* weir_comm_config.invariant, or WEIR_INVARIANT */
    weiri_budget budget; /* of kernels' thread blocks */
    int last_blocks;     /* the largest grid that the last collective has launched */

    /* Backend and transports */
    weir_backend requested;               /* may be auto; gpu shows which one was chosen */
    const weiri_transport_ops *transport; /* of the scratch segment */
    const weiri_transport_ops *memory;    /* of weir_mem_alloc */
    struct weiri_gpu *gpu;                /* NULL on the host backend */

    /* Waits, and the state record that reports show */
    weir_guard guard;
    uint64_t idles;     /* calls of weiri_comm_idle_for */
    int oversubscribed; /* the ranks of this node outnumber the cores that they may use */
    /* NUMA nodes on which this node's ranks run, in the order of their first ranks: 1 unless every
     * rank is bound to cores of a single one. */
    int ndomains;
    unsigned char domain_of[WEIRI_RANKS_MAX];
    double crowding;   /* several nodes: ranks for each core of the most crowded machine; agreed */
    uint64_t barriers; /* entered */
    uint64_t calls;    /* collectives called */
    int checks;        /* WEIR_CHECK: the ranks' calls are compared (called.h) */
    int compared;      /* the peer that the latest call was compared with */
    uint64_t chain;    /* of the latest call; 0 if calls are not compared */
    weir_status (*await_calls)(weir_comm *comm);     /* weiri_called_await, if calls are compared */
    weiri_comm_page *called_page;                    /* where this rank publishes its calls */
    weiri_called_word called_masks[WEIR_COLL_COUNT]; /* the bits that are compared */
    weiri_where *where;                              /* this rank's state record */
    const char *noted;                               /* the text that is in where->note */
    /* Monitoring (monitor/monitor.h). Every collective is counted, so that a call costs the same
     * whether monitoring is on or off. */
    struct weiri_monitor *monitor;   /* NULL: off */
    struct weiri_recorder *recorder; /* WEIR_RECORD (monitor/recorder.h); NULL: off */
    uint64_t *counts;                /* by function; `uncounted` while nobody reads them */
    uint64_t untimed;                /* calls whose number has one of these bits are not timed */
    uint64_t uncounted[WEIRI_MONITOR_COUNTS];

    /* Memory that the ranks of one node share. Unused in a communicator of several nodes, whose
     * sub-communicators hold it. */
    size_t scratch_bytes, area_bytes; /* of each rank */
    weiri_segment scratch;            /* of all ranks, in their order; rank 0 is its owner */
    weiri_peer *peers;                /* nranks entries, including the calling rank */
    weiri_region *regions;
    int nregions; /* entries ever used */
    int proxies;  /* running; weir_proxy_start and weir_proxy_stop count them atomically */
    int reads_unregistered;    /* all ranks may read each other's unregistered memory */
    struct weiri_xpmem *xpmem; /* all ranks attach each other's: node/xpmem.h; else NULL */

    /* Several nodes: the sub-communicators of this node's ranks, in host memory and, on the cuda
     * backend, in GPU memory; and the paths to the other nodes. Else NULL. */
    weir_comm *host_comm, *gpu_comm;
    /* With one GPU on each node: communicators of the same ranks in host memory, each of which one
     * thread uses that performs calls on GPU buffers (coll/internode/stager.h), and the first
     * failure of one of them: failure_text is valid once failure is set. */
    weir_comm *lanes[WEIRI_COMM_LANES];
    size_t whole_count; /* of a lane: of the call whose piece it performs; else 0 */
    weir_comm *lane_of; /* of a lane: the communicator, whose calls are compared, too; else NULL */
    int nlanes;
    uint64_t lanes_run; /* their threads do */
    uint64_t failure;   /* -status; 0: none */
    char failure_text[WEIRI_FAILURE_BYTES];
    struct weiri_internode *internode;
    int aborts_locally; /* 1 in libweir_nccl: who calls ncclCommAbort has done its part, and never
                           calls again, so that calls of others may still end well */
    void (*progress)(struct weiri_internode *internode); /* unless another thread does so now */
    weir_boot *local_boot;                               /* of this node's ranks */
    int *members;                                        /* this node's ranks */
    int hardware_rank; /* this rank's index among the ranks on the same hardware */

    /* A sub-communicator: its parent, and the ranks' numbers in that. Else NULL. */
    weir_comm *parent;
    const int *parent_ranks;

    /* State of other folders and networks, created on first use */
    void *coll; /* the collectives */
    void (*coll_destroy)(void *coll);
    void *sem_slab; /* the semaphores' memory */
    void (*sem_slab_destroy)(void *slab);
    uint64_t votes;                         /* algo/context.c: votes that this rank took part in */
    struct weiri_net *nets[WEIRI_NETWORKS]; /* comm/internode/networks.h */
};

/* Returns 1 in a child that this rank has forked. A communicator must not be used there. */
static inline int weiri_comm_is_forked(const weir_comm *comm)
{
    return weiri_fork_is_child(comm->forks);
}

/* Returns 1 if the communicator was aborted: one load of this rank's page. */
static inline int weiri_comm_is_aborted(const weir_comm *comm)
{
    return weir_load_relaxed(comm->guard.abort_word) != 0;
}

/* As weiri_comm_is_aborted, after a call has read other ranks' data. A rank aborts before it
 * changes data that others may still read; so what was read before a 0 is right. */
static inline int weiri_comm_was_aborted(const weir_comm *comm)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return weiri_comm_is_aborted(comm);
}

/* Sets the error line of a function that refuses, or ends, because of an abort. Returns
 * WEIR_ERR_ABORTED; WEIR_ERR_MISMATCH if the ranks' calls differ (called.h). */
weir_status weiri_comm_fail_aborted(weir_comm *comm, const char *function);

/* As weiri_comm_fail_aborted, for a call, which reports why a kernel of this rank failed, if one
 * did. */
weir_status weiri_comm_fail_call(weir_comm *comm, const char *function);

/* As weiri_comm_fail_call, for a call that was under way when the communicator was aborted. */
weir_status weiri_comm_fail_ended(weir_comm *comm, const char *function);

/* If the communicator was aborted because of a rank's buffer, sets the error line, which ends with
 * where, and returns WEIR_ERR_INVALID on that rank, WEIR_ERR_ABORTED on others. Else WEIR_OK. */
weir_status weiri_comm_fail_buffer(const weir_comm *comm, const char *where);

/* Sets the failure of a lane, once; and, of an aborted communicator, waits a moment for the failure
 * and returns it as the status and error line of a call; WEIR_OK: there is none. Thread-safe. */
void weiri_comm_set_failure(weir_comm *comm, weir_status status, const char *text);
weir_status weiri_comm_fail_lane(const weir_comm *comm);

/* Creates the lanes of a communicator that has just got GPU memory, if every node has one rank.
 * Collective; agreed. */
weir_status weiri_comm_open_lanes(weir_comm *comm, const weir_comm_config *config);

/* weir_comm_barrier as a part of another call: it is not recorded (monitor/recorder.h). */
weir_status weiri_comm_barrier(weir_comm *comm);

/* Checks that a function may use the communicator: it was not aborted, and this process created it.
 */
static inline weir_status weiri_comm_admit(weir_comm *comm, const char *function)
{
    if (weiri_comm_is_forked(comm))
        return weiri_fork_fail("communicator");
    return WEIRI_UNLIKELY(weiri_comm_is_aborted(comm)) ? weiri_comm_fail_aborted(comm, function)
                                                       : WEIR_OK;
}

/* A function that waits for other ranks over the bootstrap. Between begin and end, the thread's
 * waits in bootstraps obey the communicator's deadline, and end when it is aborted. */
typedef struct weiri_setup {
    weir_comm *comm;
    const char *function;
    weiri_wait_guard guard;
    const weiri_wait_guard *outer;
} weiri_setup;

/* Checks as weiri_comm_admit does; unless it fails, weiri_setup_end must follow. */
weir_status weiri_setup_begin(weiri_setup *setup, weir_comm *comm, const char *function);
/* Returns the function's status, or WEIR_ERR_ABORTED if the communicator was aborted meanwhile. */
weir_status weiri_setup_end(const weiri_setup *setup, weir_status status);

/* Returns the communicator that holds the memory of this node's ranks: the GPU or host
 * sub-communicator, or comm itself. */
static inline weir_comm *weiri_comm_node(weir_comm *comm)
{
    if (comm->gpu_comm)
        return comm->gpu_comm;
    return comm->host_comm ? comm->host_comm : comm;
}
/* Returns the number that a rank of this node has in the sub-communicators, or in comm itself. */
int weiri_comm_node_rank(const weir_comm *comm, int rank);
/* Returns 1 if this rank maps memory of another rank. */
int weiri_comm_maps(const weir_comm *comm, int rank);

/* Ends every wait of every rank. reason is a value of the abort word; a rank in it is numbered as
 * in the parent. Local. */
void weiri_comm_abort_for(weir_comm *comm, uint64_t reason);
/* As weiri_comm_abort_for, on this node only, when the other nodes already know. */
void weiri_comm_abort_node(weir_comm *comm, uint64_t reason);
/* As weiri_comm_abort_for, because the memory of a rank's buffer does not permit an access of its
 * whole length. Returns what that rank's, or another rank's, call returns. Local. */
weir_status weiri_comm_abort_for_buffer(weir_comm *comm, int rank);
/* For a failure that only this rank has detected: logs the last error, ends the waits of all ranks,
 * and returns status. Local. */
weir_status weiri_comm_give_up(weir_comm *comm, weir_status status);
/* For data that carry another chain than this rank's (called.h): if the ranks' calls differ, as
 * weiri_comm_give_up; else, as of a rank that does not check, WEIR_OK. */
weir_status weiri_comm_refuse_chain(weir_comm *comm);

/* Returns the number of a rank in the parent, if there is one: the number that users know. */
static inline int weiri_comm_parent_rank(const weir_comm *comm, int rank)
{
    return comm->parent_ranks && rank >= 0 ? comm->parent_ranks[rank] : rank;
}

/* Waits until *word, which peer writes, is at least target. On failure the error line has the
 * phase, the peer and the values; the communicator is aborted, and WEIR_ERR_TIMEOUT,
 * WEIR_ERR_ABORTED or WEIR_ERR_PEER returned. */
weir_status weiri_comm_wait_slow(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                                 const char *phase);

static inline weir_status weiri_comm_wait(weir_comm *comm, const uint64_t *word, uint64_t target,
                                          int peer, const char *phase)
{
    /* A few polls inline: if each rank has a core, the word arrives soon. */
    for (int poll = 0; poll < 16; poll++)
        if (WEIRI_LIKELY(weir_load_acquire(word) >= target))
            return WEIR_OK;
    return weiri_comm_wait_slow(comm, word, target, peer, phase);
}

/* A wait checks for dead ranks once in this many polls, or after some time (wait.c). */
enum { WEIRI_POLLS_PER_LIFE_CHECK = 4096 };

/* The state of a wait between its polls. Initialise it with zeros. */
typedef struct weiri_waiter {
    weir_waiter polls;
    int suspicions;      /* checks that have found a dead peer */
    uint64_t lives_ns;   /* the latest check that was due by time; 0: none */
    int is_for_one;      /* only the death of the rank being waited on matters */
    uint64_t noted_ns;   /* the start of the slow wait in the record; 0: none */
    uint64_t aborted_ns; /* when an abort was first seen */
} weiri_waiter;

/* For loops that wait for several conditions: call it after an iteration without progress, with one
 * of them, that peer's word reaches target. */
weir_status weiri_comm_idle(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                            uint64_t target, int peer, const char *phase);
/* As weiri_comm_idle; the awaited rank is given by its number in the parent. */
weir_status weiri_comm_idle_for(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                                uint64_t target, int parent_rank, const char *phase);

/* Clears the wait record after such a loop. That of a failed wait stays, for the report. */
static inline void weiri_comm_idle_end(weir_comm *comm, const weiri_waiter *waiter)
{
    if (WEIRI_UNLIKELY(waiter->noted_ns))
        weir_store_release(&comm->where->wait.kind, WEIR_WAIT_NONE);
}

/* Returns 1 if a peer's process has ended; 0 for the calling rank. */
int weiri_comm_is_dead(const weir_comm *comm, int peer);

/* Sets this rank's finished word: it has done its part in all calls, so that its death no longer
 * affects other ranks. Local. */
void weiri_comm_finish(weir_comm *comm);

static inline int weiri_comm_has_finished(const weir_comm *comm, int peer)
{
    return weir_load_acquire(&comm->peers[peer].page->finished.value) != 0;
}

/* Counts collectives where nobody reads: before monitoring begins, after it has ended, and within a
 * call that is monitored. */
static inline void weiri_comm_count_nothing(weir_comm *comm)
{
    comm->counts = comm->uncounted;
    comm->untimed = UINT64_MAX; /* a call's number is not 0 */
}

/* Records the call of a collective: one store to a cache line of this rank. */
static inline void weiri_comm_enter(weir_comm *comm, weir_collective collective)
{
    const uint64_t call = ++comm->calls << 8 | (uint64_t)collective;
    if (WEIRI_LIKELY(!comm->parent)) /* a parent has recorded the call already */
        weir_store_relaxed(&comm->where->call, call);
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

/* Polls before yielding. On shared cores other ranks need the time: a poll of memory costs little,
 * one of the network a system call. */
enum { WEIRI_SPINS_ALONE = 4096, WEIRI_SPINS_SHARED = 2, WEIRI_SPINS_SHARED_NETWORK = 1 };
/* Returns the cores that this process may use, as a cpu_set_t (node/host.c); if the system does not
 * report them, one core, by rank. */
enum { WEIRI_CORES_BYTES = 128 };
void weiri_host_own_cores(int rank, unsigned char mask[WEIRI_CORES_BYTES]);
/* Returns the NUMA node to which all of a rank's cores belong; -1: several, or unknown. */
int weiri_host_numa(int rank, const unsigned char mask[WEIRI_CORES_BYTES]);
/* For tests: from now on rank r of this process's communicators runs on NUMA node r modulo count; 0
 * ends that. */
void weiri_host_assume_numa(int count);
/* Returns the number of cores that ranks may use together, given their core masks. */
int weiri_host_cores(const void *masks, size_t stride_bytes, int count);
/* Continues a hash (FNV-1a, 64 bit) over more bytes. */
uint64_t weiri_hash_bytes(uint64_t hash, const void *bytes, size_t length);
/* Returns a number that is equal on ranks that can share memory: a hash of host name, boot id,
 * process namespace and WEIR_HOSTID. */
uint64_t weiri_host_id(void);
/* As weiri_host_id without WEIR_HOSTID: equal on ranks on the same hardware. */
uint64_t weiri_hardware_id(void);
/* Equal on ranks that one kernel schedules, in any containers: a hash of the boot id. Copies of a
 * running virtual machine have equal values. */
uint64_t weiri_kernel_id(void);

/* Returns the descriptor of this rank's buffer [pointer, pointer + bytes); generation 0 if it is
 * not within an allocation of this communicator. */
weiri_desc weiri_region_describe(const weir_comm *comm, const void *pointer, size_t bytes);

/* node/xpmem.h: attaches a peer's buffer (WEIRI_GENERATION_ATTACHED), on first use, and returns its
 * address here, valid until weiri_xpmem_check. WEIR_ERR_SYSTEM if the system refuses. */
weir_status weiri_xpmem_pointer(weir_comm *comm, int rank, weiri_desc desc, char **pointer);

/* Map a peer's region, on first use, and return the address of a buffer in it. */
weir_status weiri_region_map(weir_comm *comm, int rank, weiri_desc desc);
static inline weir_status weiri_region_pointer(weir_comm *comm, int rank, weiri_desc desc,
                                               char **pointer)
{
    const weiri_peer *peer = &comm->peers[rank];
    if (WEIRI_UNLIKELY(desc.region >= peer->nmappings ||
                       peer->mappings[desc.region].generation != desc.generation)) {
        if (desc.generation == WEIRI_GENERATION_ATTACHED)
            return weiri_xpmem_pointer(comm, rank, desc, pointer);
        weir_status status = weiri_region_map(comm, rank, desc);
        if (status != WEIR_OK)
            return status;
    }
    *pointer = (char *)peer->mappings[desc.region].segment.base + desc.offset;
    return WEIR_OK;
}

/* Returns 1 if every peer has mapped this rank's region (cuda backend). */
int weiri_region_known(weir_comm *comm, weiri_desc desc);

/* Unmaps regions that peers have freed since the last call, unless they are imported; on the cuda
 * backend also maps regions that peers have created. */
void weiri_region_sweep(weir_comm *comm);
/* Unmap all regions of peers; free all regions of this rank. */
void weiri_region_unmap_all(weir_comm *comm);
void weiri_region_free_all(weir_comm *comm);

#endif
