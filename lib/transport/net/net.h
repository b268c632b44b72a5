/*
 * Wires: how bytes reach the memory of a peer that this process does not map. What a
 * segment (transport.h) is to loads and stores, a wire is to messages: sockets, RDMA,
 * copy engines, and for tests the memory of one machine behind the same table.
 *
 * A rank opens a wire, makes an endpoint for each peer and hands its address on;
 * each side connects to the other's address. Memory is registered with the wire and
 * named to peers by a key. Keys and addresses are plain bytes, handed on by any means
 * (the bootstrap's).
 *
 * Then there are two operations, both one-sided: the peer's threads need not call
 * anything for them, though its wire must be progressed by somebody (its proxy, or a
 * collective that waits).
 *
 *   put       copies a range of the own registered memory into the peer's
 *   signal    stores a word of 8 bytes into the peer's registered memory, with
 *             release: who has loaded it with acquire sees all that was put to that
 *             peer through this endpoint before
 *
 * Operations of one endpoint are performed in the order in which they were posted as
 * far as signals can tell; of two endpoints, in any. A signal's word has one writer.
 *
 * Nothing here blocks but open, connect and close, which have deadlines. Threads: all
 * calls for a wire hold its lock (weiri_net_lock), so that the proxy and a waiting
 * collective can both progress it.
 */
#ifndef WEIR_TRANSPORT_NET_NET_H
#define WEIR_TRANSPORT_NET_NET_H

#include <weir/weir.h>

#include <pthread.h>

enum { WEIRI_NET_ADDRESS_BYTES = 256, WEIRI_NET_KEY_BYTES = 64 };

/* Where an endpoint listens, as its peer's endpoint needs it. */
typedef struct weiri_net_address {
    unsigned char bytes[WEIRI_NET_ADDRESS_BYTES];
} weiri_net_address;

/* Registered memory, as peers need it to put into it. */
typedef struct weiri_net_key {
    unsigned char bytes[WEIRI_NET_KEY_BYTES];
} weiri_net_key;

struct weiri_net_ops;

/* The beginning of each transport's own struct. */
typedef struct weiri_net {
    const struct weiri_net_ops *ops;
    pthread_mutex_t lock;
    int rank, nranks; /* of the job: for messages */
    int timeout_ms;   /* of open, connect and close, and of a peer that does not answer */
    const char *card; /* the card's path below /sys, for threads that work with it to be near;
                         NULL or empty: it has none */
} weiri_net;

/* One end of the path to one peer; likewise the beginning of the transport's. */
typedef struct weiri_endpoint {
    weiri_net *net;
    int peer;
    uint64_t posted;    /* operations: puts and signals */
    uint64_t sent;      /* of these, in order, those that need no more progress on this side
                           to arrive: handed to the system or the device */
    uint64_t completed; /* of these, in order, those whose source may be used again and
                           which have arrived in the peer's memory */
    weir_status failed; /* WEIR_OK, or what progress returned when this end failed for good */
} weiri_endpoint;

/* Registered memory of this rank. */
typedef struct weiri_net_mem {
    weiri_net *net;
    char *base;
    size_t bytes;
    weiri_net_key key;
} weiri_net_mem;

/* Where a wire's memory is. */
typedef enum weiri_net_place { WEIRI_NET_HOST, WEIRI_NET_CUDA } weiri_net_place;

typedef struct weiri_net_ops {
    weir_transport transport;

    /* Local. Chooses devices and says which and why in the log. WEIR_ERR_UNSUPPORTED: this
     * machine has none that serves; the text names the remedy. */
    weir_status (*open)(int rank, int nranks, int timeout_ms, weiri_net **net);
    /* Ends it, with what is left of endpoints and memory. NULL is allowed. */
    void (*close)(weiri_net *net);

    /* Makes this rank's end; local. */
    weir_status (*endpoint_create)(weiri_net *net, int peer, weiri_endpoint **endpoint,
                                   weiri_net_address *own);
    /* Both ends connect, each to the address of the other; blocks until this end can
     * post, while other endpoints of the wire may be connecting, too.
     * WEIR_ERR_TIMEOUT, WEIR_ERR_PEER: the text names peer, device and remedy. */
    weir_status (*endpoint_connect)(weiri_endpoint *endpoint, const weiri_net_address *peers);
    /* Drops what was not completed. */
    void (*endpoint_destroy)(weiri_endpoint *endpoint);

    /* The memory stays the caller's. WEIR_ERR_NO_MEMORY: the system lets no more be
     * registered; the text names the remedy. WEIR_ERR_UNSUPPORTED: not in that place. */
    weir_status (*mem_register)(weiri_net *net, void *base, size_t bytes,
                                weiri_net_place place, weiri_net_mem **mem);
    /* When no operation that names it is under way, here or at a peer. */
    void (*mem_deregister)(weiri_net_mem *mem);

    /* Posts a copy of bytes (0 is allowed) from offset at of mem to offset to of the memory
     * that key names. WEIR_ERR_INVALID: beyond mem; beyond the peer's memory fails at the
     * peer, or here. Always takes the operation: what a queue has no room for waits here. */
    weir_status (*put)(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                       const weiri_net_key *key, uint64_t to, uint64_t bytes);
    /* Posts a store of value to offset to, a multiple of 8. */
    weir_status (*signal)(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                          uint64_t value);

    /* Moves on whatever can be moved on, for all endpoints, without waiting; sets *moved if
     * it did anything. After an error (WEIR_ERR_PEER, WEIR_ERR_TIMEOUT, WEIR_ERR_SYSTEM, with
     * a text that names peer, device and remedy) the endpoint concerned stays failed. */
    weir_status (*progress)(weiri_net *net, int *moved);
    /* Arms what idle threads poll(2) on: fills *descriptor, readable as soon as progress has
     * something to do. 0: there is something to do already. */
    int (*arm)(weiri_net *net, int *descriptor);
} weiri_net_ops;

/* Sockets, between any machines. */
extern const weiri_net_ops weiri_net_tcp;
/* RDMA, in a build with the verbs' headers: lib/transport/net/ib.h. */
extern const weiri_net_ops weiri_net_ib;

/* For a wire's put: whether [at, at + bytes) lies within mem. WEIR_ERR_INVALID. */
weir_status weiri_net_check_source(const weiri_net_mem *mem, uint64_t at, uint64_t bytes);

/* Adds a network transport that the library does not contain, for a transport number that none of
 * its own tables has; a later call replaces it. ops must stay valid. Call it before communicators
 * are created, from one thread. Serves tests: verify/tests/support/net_shm.h. */
void weiri_net_register(const weiri_net_ops *ops);

/* The table of a transport; NULL if this build has none. */
const weiri_net_ops *weiri_net_ops_of(weir_transport transport);

static inline void weiri_net_lock(weiri_net *net)
{
    pthread_mutex_lock(&net->lock);
}

static inline void weiri_net_unlock(weiri_net *net)
{
    pthread_mutex_unlock(&net->lock);
}

#endif
