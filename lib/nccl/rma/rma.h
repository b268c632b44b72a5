/*
 * One-sided calls: put, signal and wait, and the windows that puts write to.
 *
 * Every rank counts, for each peer, context and signal index, three things:
 *
 *   arrived   written by the peer, in this rank's memory: signals that it has made, in total
 *   sent      this rank's: signals made to the peer
 *   taken     this rank's: signals of the peer that waits have consumed
 *
 * All only grow, and each has one writer. For ranks of the node they are words behind the mailboxes
 * of sends and receives (p2p.h), which all of them map; on GPUs they are in device memory, so that
 * captured launches replay correctly. Between nodes they are in host memory, where
 * `arrived` is registered with the network (rma_net.c).
 *
 * A put copies into the peer's window and then stores `sent` into the peer's `arrived` with release
 * semantics; a wait loads that with acquire. On GPUs both happen in the stream. Between nodes the
 * network performs a signal after all puts before it; the host waits for the stream, and a put
 * returns when its data have arrived.
 */
#ifndef WEIR_NCCL_RMA_H
#define WEIR_NCCL_RMA_H

#include "nccl/abi.h"
#include "comm/internode/internode.h"

enum {
    WEIRI_RMA_INDICES_MAX = 4096, /* contexts times signals */
};

struct weiri_rma_net;

typedef struct weiri_nccl_rma {
    int indices;                   /* contexts * signals */
    size_t stride;                 /* words of one peer: whole lines */
    int place;                     /* this rank's number on the node */
    int count;                     /* ranks of the node */
    uint64_t **base;               /* count: each rank's words, mapped here */
    struct weiri_rma_net *net;     /* NULL until a window is registered between nodes */
    struct weiri_rma_quick *quick; /* rma_quick.h */
} weiri_nccl_rma;

/* The three counts, in this order, of `owner`'s words about `peer`; both are ranks of the node. */
enum { WEIRI_RMA_ARRIVED, WEIRI_RMA_SENT, WEIRI_RMA_TAKEN, WEIRI_RMA_COUNTS };
static inline uint64_t *weiri_rma_word(const weiri_nccl_rma *rma, int owner, int which, int peer,
                                       int index)
{
    return rma->base[owner] + ((size_t)which * (size_t)rma->count + (size_t)peer) * rma->stride +
           index;
}

/* Bytes of a rank's words on a node of `count` ranks; 0 if there are no contexts. */
size_t weiri_rma_words_bytes(const weiri_nccl_settings *settings, int count);
/* Copy this rank's words, as long as nobody writes to them, out of and into its memory. */
weir_status weiri_rma_save(const weiri_nccl_comm *comm, uint64_t *words);
weir_status weiri_rma_restore(weiri_nccl_comm *comm, const uint64_t *words);

/* ------------------------------------------------------------------- windows */

/* How this rank writes to a peer's window. */
typedef enum weiri_rma_path {
    WEIRI_RMA_UNREACHABLE,
    WEIRI_RMA_MAPPED,  /* at `mapped` in this process, or on this rank's GPU */
    WEIRI_RMA_BY_COPY, /* the kernel copies to `address` in process `pid` */
    WEIRI_RMA_BY_NET,  /* the network puts to `key` */
} weiri_rma_path;

typedef struct weiri_window_peer {
    weiri_rma_path path;
    char *mapped;
    uint64_t address, bytes;
    int pid;
    weir_mem *imported;    /* released with the window */
    weiri_segment segment; /* released with the window */
    weiri_net_key key;
} weiri_window_peer;

/* A registration or window; its address is its handle. */
typedef struct weiri_registration {
    struct weiri_registration *next;
    ncclComm_t handle;
    void *buff;
    size_t size;
    int is_window, flags;
    weir_mem *mem;            /* NULL if peers cannot map the memory, or while suspended */
    weiri_net_mem *net_mem;   /* of a window between nodes; else NULL */
    weiri_window_peer *peers; /* of a window: nranks; NULL while suspended */
    ncclWindow_t alias; /* the handle that the caller has instead; NULL: none (device_api.c) */
} weiri_registration;

/* The registration of a handle; NULL if it is not one of this communicator's. It stays valid as
 * long as no thread deregisters it. */
weiri_registration *weiri_registration_find(ncclComm_t comm, const void *object);
/* Whether a handle belongs to a window that is also the fallback library's. */
int weiri_registration_is_alias(ncclWindow_t window);
/* The window that contains [pointer, pointer + bytes); NULL: none. */
weiri_registration *weiri_registration_at(ncclComm_t comm, const void *pointer, size_t bytes);
/* For each registration of a communicator, in the order in which they were made. Ends with the
 * first failure. */
weir_status weiri_registrations_each(weiri_nccl_comm *comm,
                                     weir_status (*act)(weiri_nccl_comm *comm,
                                                        weiri_registration *one));
/* Adds a registration to the list; takes one of this communicator's (NULL if it is none), or all,
 * as a list, out of it. */
void weiri_registration_add(weiri_registration *made);
weiri_registration *weiri_registration_remove(ncclComm_t comm, const void *object);
weiri_registration *weiri_registrations_take(ncclComm_t handle);

/* Registers one->buff with weir's communicator, when it is made or after a suspension. Collective
 * and agreed for windows, otherwise local. */
weir_status weiri_registration_enrol(weiri_nccl_comm *comm, weiri_registration *one);

/* Finds the paths to all peers of a window. Collective; agreed. */
weir_status weiri_window_join(weiri_nccl_comm *comm, weiri_registration *window);
/* Releases them, and net_mem. Local. */
void weiri_window_part(weiri_nccl_comm *comm, weiri_registration *window);

/* The shareable memory of ncclMemAlloc that contains [pointer, pointer + bytes) in memory of the
 * process. Returns 0 if there is none. */
int weiri_nccl_allocation_key(const void *pointer, size_t bytes, weiri_segment_key *key,
                              uint64_t *offset);

/* --------------------------------------------------------------------- calls */

typedef enum weiri_onesided_kind {
    WEIRI_ONESIDED_PUT,
    WEIRI_ONESIDED_SIGNAL,
    WEIRI_ONESIDED_WAIT
} weiri_onesided_kind;

/* Signals to wait for. */
typedef struct weiri_onesided_wait {
    int peer, index;
    uint64_t count;
} weiri_onesided_wait;

typedef struct weiri_nccl_onesided {
    weiri_onesided_kind kind;
    const void *from; /* put: source, window, offset in it, length */
    ncclWindow_t window;
    uint64_t offset, bytes;
    int peer, index; /* put and signal */
    weir_stream stream;
    int nwaits;
    weiri_onesided_wait waits[];
} weiri_nccl_onesided;

/* Return once the call is complete. Buffers are host memory; peers are of this node. */
weir_status weiri_rma_put_on_host(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                  const weiri_window_peer *to);
void weiri_rma_signal_on_host(const weiri_nccl_comm *comm, int peer, int index);
weir_status weiri_rma_wait_on_host(weiri_nccl_comm *comm, const weiri_onesided_wait *wait);
/* Waits until *word, which `rank` writes, is at least target. */
weir_status weiri_rma_await(const weiri_nccl_comm *comm, const uint64_t *word, uint64_t target,
                            int rank);

/* ------------------------------------------------------------- GPUs of a node */

/* Adds a put (to: the peer's window) or a signal (to: NULL) to the call's stream. */
weir_status weiri_rma_gpu_out(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                              const weiri_window_peer *to);
/* Adds the waits for peers of this node to the call's stream. */
weir_status weiri_rma_gpu_wait(weiri_nccl_comm *comm, const weiri_nccl_onesided *call);

/* ------------------------------------------------------------- between nodes */

/* Prepares signals between nodes, once. Collective; agreed. */
weir_status weiri_rma_net_open(weiri_nccl_comm *comm);
/* Ends that; its counts stay, for weiri_rma_net_open to continue, if keeps_counts. */
void weiri_rma_net_close(weiri_nccl_comm *comm, int keeps_counts);
/* Frees what weiri_rma_net_close has kept. */
void weiri_rma_net_discard(struct weiri_rma_net *net);
/* Registers a window's memory with the network. Local. */
weir_status weiri_rma_net_register(weiri_nccl_comm *comm, weiri_registration *window);
void weiri_rma_net_deregister(weiri_nccl_comm *comm, weiri_net_mem *mem);
/* As above, for peers of other nodes and memory of either kind. A GPU's stream must be idle. */
weir_status weiri_rma_net_put(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                              const weiri_window_peer *to);
weir_status weiri_rma_net_signal(weiri_nccl_comm *comm, int peer, int index);
weir_status weiri_rma_net_wait(weiri_nccl_comm *comm, const weiri_onesided_wait *wait);

#endif
