/*
 * The `ib` wire inside: one reliable connected queue pair an endpoint, all of a wire on one
 * device, one protection domain and one completion queue.
 *
 * A put is an RDMA write. A signal is an RDMA write of its 8 bytes with immediate data: the queue
 * pair performs them in order, so the word comes after the puts before it, and the immediate
 * takes one of the receives that the peer has posted, whose completion wakes a peer that sleeps
 * on its completion channel. Receives carry no data; progress posts them anew. A word has one
 * writer, so storing its next value is all that advancing it takes: atomic operations, which
 * answer with a round trip and which not every device has, would gain nothing.
 *
 * Operations lie in a ring (weiri_ib_op) until the send queue has room. Posting takes as many as
 * fit and asks for one completion, the last's: completions come in order. A word to be signalled
 * lies in a table that the device reads (words), one entry a work request, unless the device takes
 * so few bytes inline.
 *
 * A queue pair can send as soon as it has the peer's address, but what reaches a peer that has not
 * yet come so far is lost. Connecting does not wait for that, since ranks connect in any order: it
 * ends with an empty write with immediate, the greeting. Who is greeted knows that the peer is
 * there; if some of its own is not yet answered, it posts one more empty write (the nudge), whose
 * number is out of sequence for the peer if the rest was lost: so all of it is sent again at
 * once, instead of when the device's time for an answer has passed. If that passes without any
 * sign of the peer, everything is posted anew, until the wire's deadline.
 */
#ifndef WEIR_TRANSPORT_IB_WIRE_H
#define WEIR_TRANSPORT_IB_WIRE_H

#include "transport/ib_verbs.h"
#include "transport/rdma_port.h"
#include "transport/wire.h"

enum {
    WEIRI_IB_SENDS = 256,    /* depth of a send queue */
    WEIRI_IB_RECEIVES = 256, /* posted for the immediates of a peer */
    WEIRI_IB_BATCH = 32,     /* work requests posted at once, receives likewise */
    WEIRI_IB_CHUNK_BYTES = 16 << 20, /* of one work request */
    WEIRI_IB_TEXT_BYTES = 384,
};

/* Immediates, and what else a work request is. */
enum { WEIRI_IB_SIGNAL = 1, WEIRI_IB_GREETING = 2 };

/* An operation that waits for room in the send queue. */
typedef struct weiri_ib_op {
    uint64_t local, remote, bytes;
    uint64_t value; /* of a signal */
    uint32_t lkey, rkey;
    int is_signal, is_host; /* is_host: the processor may read its source, for inline data */
} weiri_ib_op;

/* What a peer needs of an endpoint, in weiri_wire_address. */
typedef struct weiri_ib_address {
    uint32_t magic, rank, number, first_packet;
    unsigned char gid[16];
    uint16_t lid;
    uint8_t mtu, ethernet, gid_type, padding[3];
    char device[64], host[64];
} weiri_ib_address;

struct weiri_ib_wire;

typedef struct weiri_ib_mem {
    weiri_wire_mem base;
    struct weiri_ib_mem *next, *before;
    struct ibv_mr *mr;
    int is_host;
} weiri_ib_mem;

typedef struct weiri_ib_endpoint {
    weiri_endpoint base;
    struct weiri_ib_wire *ib;
    struct ibv_qp *qp;
    uint32_t slot, generation; /* in the wire's table */
    uint32_t first_packet;     /* number of the first packet that this end sends */
    uint32_t inline_bytes;     /* that the device takes with a work request */
    int open;                  /* the peer has answered or come */
    int lost;                  /* what was posted found nobody */
    uint64_t connected_ns;     /* when it was first sent; 0: not yet */
    weiri_ib_address address;  /* the peer's */
    char peer_name[128];       /* "rank 1 (mlx5_0:1 of node7, 10.9.9.2)" */

    weiri_ib_op *ops;          /* a ring of capacity, a power of two */
    uint64_t capacity, head, tail; /* head: the next to post */
    uint64_t head_done;        /* bytes of it that are posted already */

    uint64_t requests, requests_done; /* work requests: posted, completed */
    uint64_t after[WEIRI_IB_SENDS];   /* operations that are complete with each */
    uint64_t *words;                  /* a value for each, which the device reads */
    struct ibv_mr *words_mr;
    uint32_t taken;                   /* receives that are to be posted anew */

    uint64_t watched_ns, watched;     /* since when so many requests are done and no more */
    char trouble[WEIRI_IB_TEXT_BYTES]; /* once base.failed is set */
    int told;                         /* progress has returned it */
} weiri_ib_endpoint;

typedef struct weiri_ib_wire {
    weiri_wire base;
    const weiri_verbs *verbs;
    struct ibv_context *device;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    weiri_rdma_port port; /* what was chosen */
    weiri_rdma_gid gid;
    struct ibv_port_attr attributes;
    struct ibv_device_attr limits;
    char name[96];        /* "mlx5_0:1" */
    uint32_t chunk_bytes;
    int sends, receives;  /* depth of the queues, within the device's limits */
    int cq_entries;
    int armed;
    int waiting;          /* an endpoint has operations that are not posted */
    unsigned idle;        /* calls of progress since one that moved something */
    int failures;         /* endpoints that have failed and not been told */
    weiri_ib_endpoint **slots;
    uint32_t nslots, generations;
    weiri_ib_mem *mems;
} weiri_ib_wire;

/* What a peer needs of memory, in weiri_wire_key. */
typedef struct weiri_ib_key {
    uint32_t magic, rkey;
    uint64_t base, bytes;
} weiri_ib_key;

enum { WEIRI_IB_MAGIC = 0x77656962 };

static inline weiri_ib_wire *weiri_ib_of(weiri_wire *wire)
{
    return (weiri_ib_wire *)(void *)wire;
}

/* ib_endpoint.c */
weir_status weiri_ib_endpoint_create(weiri_wire *wire, int peer, weiri_endpoint **endpoint,
                                     weiri_wire_address *own);
weir_status weiri_ib_endpoint_connect(weiri_endpoint *endpoint, const weiri_wire_address *peers);
void weiri_ib_endpoint_destroy(weiri_endpoint *endpoint);
/* Posts everything anew to a peer that was not there yet. */
void weiri_ib_rejoin(weiri_ib_endpoint *end);

/* ib_post.c */
weir_status weiri_ib_put(weiri_endpoint *endpoint, const weiri_wire_mem *mem, uint64_t at,
                         const weiri_wire_key *key, uint64_t to, uint64_t bytes);
weir_status weiri_ib_signal(weiri_endpoint *endpoint, const weiri_wire_key *key, uint64_t to,
                            uint64_t value);
/* Posts what the send queue has room for; 1 if it posted anything. An error fails the endpoint. */
int weiri_ib_post(weiri_ib_endpoint *end);
/* Posts receives so that all are posted again; likewise. */
int weiri_ib_post_receives(weiri_ib_endpoint *end, int all);
/* Posts the greeting; the nudge. */
void weiri_ib_greet(weiri_ib_endpoint *end);
void weiri_ib_nudge(weiri_ib_endpoint *end);

/* ib_progress.c */
weir_status weiri_ib_progress(weiri_wire *wire, int *moved);
int weiri_ib_arm(weiri_wire *wire, int *descriptor);
/* Takes all completions there are; whether there was one. */
int weiri_ib_reap(weiri_ib_wire *ib);
/* The endpoint has failed for good, for the reason in the format. */
void weiri_ib_fail(weiri_ib_endpoint *end, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ib_memory.c */
weir_status weiri_ib_mem_register(weiri_wire *wire, void *base, size_t bytes,
                                  weiri_wire_place place, weiri_wire_mem **mem);
void weiri_ib_mem_deregister(weiri_wire_mem *mem);
/* Why the device would not have memory, by errno: the limit of locked memory, most often. */
weir_status weiri_ib_refused(const weiri_ib_wire *ib, int error, const char *what, size_t bytes);

/* ib_gpu_cuda.c, ib_gpu_none.c: memory of the current GPU, and that GPU's PCI address (0: there
 * is none yet). */
weir_status weiri_ib_gpu_register(weiri_ib_wire *ib, void *base, size_t bytes, struct ibv_mr **mr);
int weiri_ib_gpu_address(char address[16]);

#endif
