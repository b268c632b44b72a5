/*
 * Network transports: how bytes reach the memory of a peer that this process does not map. Mapped
 * segments (transport.h) serve loads and stores; a network transport serves messages, over sockets
 * (tcp.c) or RDMA (ib.c). The smallest complete one is verify/tests/support/net_shm.c.
 *
 * A rank opens a network, creates an endpoint for each peer and sends the endpoint's address to
 * that peer; each side connects to the other's address. Memory is registered with the network and
 * named to peers by a key. Keys and addresses are plain bytes; the caller transfers them, usually
 * over the bootstrap.
 *
 * There are two operations, both one-sided. The peer's threads need not call anything for them,
 * but some thread of the peer (its proxy, or a collective that waits) must make progress on its
 * network.
 *
 *   put       copies a range of this rank's registered memory into the peer's
 *   signal    stores an 8-byte word into the peer's registered memory, with release semantics: a
 *             thread that loads it with acquire sees all data put to that peer through the same
 *             endpoint before
 *
 * Order: a signal is performed after all operations posted before it on the same endpoint. Two
 * puts to overlapping ranges are performed in the order of posting. There is no order between
 * endpoints. Each signalled word must have a single writer.
 *
 * Locking: the caller holds the network's lock (weiri_net_lock) during every call that takes a
 * network, an endpoint or registered memory, except where a network is not yet shared between
 * threads. So the proxy and a collective that waits can both make progress. Implementations never
 * take the lock.
 *
 * First use: a network that can do it also makes prepared endpoints, which connect when an
 * operation is posted, when they are asked to, or when the peer connects; operations wait until
 * then. For them one address per rank is exchanged instead of one per pair.
 *
 * Blocking: only open, close and endpoint_connect block, at most for timeout_ms.
 *
 * Errors: functions return WEIR_OK or a negative status and set the calling thread's error text
 * (base/error.h), which names the peer, the device if any, and the remedy.
 */
#ifndef WEIR_TRANSPORT_NET_NET_H
#define WEIR_TRANSPORT_NET_NET_H

#include <weir/weir.h>

#include <pthread.h>

enum { WEIRI_NET_ADDRESS_BYTES = 256, WEIRI_NET_KEY_BYTES = 64 };

/* The address of an endpoint, which the peer's endpoint connects to. Plain bytes; the transport
 * that wrote it defines the contents. */
typedef struct weiri_net_address {
    unsigned char bytes[WEIRI_NET_ADDRESS_BYTES];
} weiri_net_address;

/* The name of registered memory, which a peer needs in order to put into it. Plain bytes. */
typedef struct weiri_net_key {
    unsigned char bytes[WEIRI_NET_KEY_BYTES];
} weiri_net_key;

struct weiri_net_ops;
struct weiri_endpoint;

/* An open network. The first member of each transport's own struct. */
typedef struct weiri_net {
    const struct weiri_net_ops *ops;
    pthread_mutex_t lock; /* initialised by open, destroyed by close */
    int rank, nranks;     /* of the job; for messages */
    int descriptors_each; /* open files for each connected endpoint */
    int timeout_ms;       /* for open, close and connect, and for a peer that does not respond */
    const char *nic_path; /* the NIC's path below /sys, so that threads can run near it; NULL or
                             empty if there is none */
    /* Called with the lock when a prepared endpoint is first used, before anything is posted to it
     * or arrives; the caller sets both before it prepares endpoints. A failure fails the endpoint.
     */
    weir_status (*used)(void *context, struct weiri_endpoint *endpoint);
    void *context;
    weir_status failed; /* WEIR_OK, or why no more peers can connect; progress returns it, too */
    int lacks_memory;   /* 1: memory given to put_from or land cannot be accessed. An endpoint that
                           had to send it has failed with WEIR_ERR_INVALID, as its peer's does */
} weiri_net;

/* This rank's end of the path to one peer. The first member of the transport's own struct. All
 * counters only grow; they count operations (puts and signals) in the order of posting. */
typedef struct weiri_endpoint {
    weiri_net *net;
    int peer;
    uint64_t posted;    /* accepted by put and signal */
    uint64_t sent;      /* need no further progress on this side in order to arrive: the system or
                           the device has them */
    uint64_t completed; /* have arrived in the peer's memory; their source may be reused */
    weir_status failed; /* WEIR_OK, or the status that progress returned when the endpoint failed;
                           an endpoint never recovers */
    int is_connecting;  /* a prepared endpoint in use that is not connected yet, or never was */
    int shares_kernel;  /* set by the creator before the endpoint connects: the peer runs on the
                           same kernel, so what is sent to it does not leave this machine */
} weiri_endpoint;

/* Registered memory of this rank. The first member of the transport's own struct, if any. */
typedef struct weiri_net_mem {
    weiri_net *net;
    char *base;
    size_t bytes;
    weiri_net_key key;
} weiri_net_mem;

/* The kind of memory to register. */
typedef enum weiri_net_place { WEIRI_NET_HOST, WEIRI_NET_CUDA } weiri_net_place;

/* The largest number of puts of a peer that are redirected at a time (land). */
enum { WEIRI_NET_LANDINGS = 8 };

/* One network transport. Every slot must be filled, except put_from, forget, land and landed, and
 * except address, endpoint_prepare and endpoint_begin, which are either all filled or all NULL. */
typedef struct weiri_net_ops {
    weir_transport transport;

    /* Called once per communicator and transport, when the first connection needs the network;
     * without a lock. Local. Chooses devices and logs the choice with its reason. On success the
     * caller owns *net and must close it. WEIR_ERR_UNSUPPORTED if this node has no usable
     * device. */
    weir_status (*open)(int rank, int nranks, int timeout_ms, weiri_net **net);
    /* Called when the communicator is destroyed, when no other thread uses the network; without the
     * lock. Frees the network together with any endpoints and registrations that are left. NULL is
     * allowed. */
    void (*close)(weiri_net *net);

    /* Called when a connection is made. Local. The network owns the endpoint until
     * endpoint_destroy or close. Fills *own with the address to be sent to the peer.
     * WEIR_ERR_NO_MEMORY; WEIR_ERR_INVALID if there is no such peer. */
    weir_status (*endpoint_create)(weiri_net *net, int peer, weiri_endpoint **endpoint,
                                   weiri_net_address *own);
    /* Called once per endpoint, on both sides, each with the other's address. Blocks until this
     * side can post. Ranks may connect to their peers in any order, so an implementation must
     * also serve the network's other endpoints while it waits. WEIR_ERR_TIMEOUT,
     * WEIR_ERR_PEER; WEIR_ERR_INVALID or WEIR_ERR_MISMATCH if the address is not the peer's. */
    weir_status (*endpoint_connect)(weiri_endpoint *endpoint, const weiri_net_address *peers);
    /* Called once per network, before endpoints are prepared. Fills *own with the address of this
     * rank for all peers; it contains a secret, from which the keys of pairs are derived. */
    weir_status (*address)(weiri_net *net, weiri_net_address *own);
    /* Called at most once per peer, with the peer's address, instead of endpoint_create and
     * endpoint_connect. Local; opens no connection and allocates no buffers. The peer must prepare
     * its endpoint, too, before any rank uses either. Once the endpoint is used, it fails with
     * WEIR_ERR_PEER if the peer has ended, with WEIR_ERR_TIMEOUT if it has not been connected for
     * timeout_ms, with WEIR_ERR_SYSTEM if no more files can be opened. WEIR_ERR_NO_MEMORY,
     * WEIR_ERR_INVALID, WEIR_ERR_MISMATCH. */
    weir_status (*endpoint_prepare)(weiri_net *net, int peer, const weiri_net_address *peers,
                                    weiri_endpoint **endpoint);
    /* Begins to connect a prepared endpoint, unless it is in use. Never blocks; progress completes
     * the connection. Returns the endpoint's failure if it has failed. */
    weir_status (*endpoint_begin)(weiri_endpoint *endpoint);
    /* Called when a connection is freed, also for endpoints that never connected or have failed.
     * Discards operations that have not completed. */
    void (*endpoint_destroy)(weiri_endpoint *endpoint);

    /* Registers [base, base + bytes). The caller keeps the memory, which must outlive the
     * registration; the network owns *mem until mem_deregister or close. WEIR_ERR_NO_MEMORY if the
     * system's limit of registered memory is reached; WEIR_ERR_UNSUPPORTED if the transport does
     * not take memory of that place. */
    weir_status (*mem_register)(weiri_net *net, void *base, size_t bytes, weiri_net_place place,
                                weiri_net_mem **mem);
    /* Called when no operation on the memory is outstanding, on this rank or at a peer. */
    void (*mem_deregister)(weiri_net_mem *mem);

    /* Posts a copy of bytes (0 is allowed) from offset at of mem to offset to of the memory that
     * key names. The source must stay unchanged until the operation has completed. Does not block
     * and never refuses for lack of queue space: the implementation queues the operation.
     * WEIR_ERR_INVALID if the range exceeds mem. A range beyond the peer's memory fails here, or
     * later at the peer. Returns the endpoint's failure if it has failed. */
    weir_status (*put)(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                       const weiri_net_key *key, uint64_t to, uint64_t bytes);
    /* Posts a store of value to offset to, a multiple of 8, of the memory that key names. Otherwise
     * like put. */
    weir_status (*signal)(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                          uint64_t value);

    /* Like put, from any host memory of this process, which must stay unchanged until the operation
     * counts as sent; sent with the next signal or by progress. */
    weir_status (*put_from)(weiri_endpoint *endpoint, const char *from, const weiri_net_key *key,
                            uint64_t to, uint64_t bytes);
    /* Called before memory given to put_from is freed although operations may not count as sent,
     * after a failure: fails the endpoint if there are any. */
    void (*forget)(weiri_endpoint *endpoint);
    /* Redirects the peer's next put to exactly [at, at + bytes) of mem, which must be host memory,
     * into memory at to, unless it has begun to arrive. Ignored if WEIRI_NET_LANDINGS puts are
     * redirected. Each redirection must be ended by landed before the memory at to is freed. */
    void (*land)(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at, uint64_t bytes,
                 char *to);
    /* Ends a redirection. Returns 1 if the put has arrived at its destination; 0 if it has arrived
     * or will arrive in mem instead. */
    int (*landed)(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at);

    /* Called in a loop by every thread that waits. Advances all endpoints as far as possible
     * without waiting; sets *moved if anything was done, else leaves it. Returns the failure of an
     * endpoint (WEIR_ERR_PEER, WEIR_ERR_TIMEOUT, WEIR_ERR_SYSTEM), which stays failed; the other
     * endpoints remain usable. */
    weir_status (*progress)(weiri_net *net, int *moved);
    /* Called before a thread sleeps. Returns 1 and fills *descriptor, which poll(2) then reports as
     * readable as soon as progress has something to do; -1 if there is no such descriptor, so the
     * caller must poll. Returns 0 if there is something to do already. The network owns the
     * descriptor. */
    int (*arm)(weiri_net *net, int *descriptor);
} weiri_net_ops;

/* Sockets; works between any nodes. */
extern const weiri_net_ops weiri_net_tcp;
/* RDMA by libibverbs; only in builds that have its headers. */
extern const weiri_net_ops weiri_net_ib;

/* Adds a network transport that the library does not contain, for a transport number that none of
 * its own tables has; a later call replaces it. ops must stay valid. Call it before communicators
 * are created, from one thread. Serves tests: verify/tests/support/net_shm.h. */
void weiri_net_register(const weiri_net_ops *ops);

/* The ops table of a transport; NULL if this build has none. */
const weiri_net_ops *weiri_net_ops_of(weir_transport transport);

/* For implementations of put: WEIR_ERR_INVALID unless [at, at + bytes) lies within mem. */
weir_status weiri_net_check_source(const weiri_net_mem *mem, uint64_t at, uint64_t bytes);

static inline void weiri_net_lock(weiri_net *net)
{
    pthread_mutex_lock(&net->lock);
}

static inline void weiri_net_unlock(weiri_net *net)
{
    pthread_mutex_unlock(&net->lock);
}

#endif
