/*
 * Internal structs of the ib network transport: one reliable connected queue pair per endpoint;
 * all endpoints of a network use one device, one protection domain and one completion queue.
 * Everything is protected by the network's lock.
 *
 * Operations. A put is an RDMA write. A signal is an RDMA write of its 8 bytes with immediate
 * data. The queue pair performs them in order, so the word arrives after the puts before it, and
 * the immediate consumes one of the receives that the peer has posted; its completion wakes a peer
 * that sleeps on its completion channel. Receives carry no data; progress posts them again. A word
 * has one writer, so storing its next value is enough: atomic operations, which cost a round trip
 * and are not supported by every device, would gain nothing.
 *
 * Operations are kept in a ring (weiri_ib_op) until the send queue has room. Posting takes as many
 * as fit and requests one completion, for the last, since completions are in order. A word to be
 * signalled lies in a table that the device reads (words), one entry per work request, unless the
 * device takes that many bytes inline.
 *
 * Connecting. A queue pair can send as soon as it has the peer's address, but packets to a peer
 * that is not ready yet are lost. Connecting does not wait for the peer, since ranks connect in
 * any order; it ends with an empty write with immediate, the greeting. An end that receives a
 * greeting knows that the peer is ready. If some of its work is still unanswered, it posts one
 * more empty write (the nudge). If earlier packets were lost, the nudge's packet number is out of
 * sequence for the peer, so the device resends all of them at once instead of after its
 * retransmission timeout. If that timeout expires without any sign of the peer, everything is
 * posted again, until the network's deadline.
 *
 * Staging. GPU memory that the device cannot register passes through staging buffers (staging.h),
 * in pieces. An end of a network with such memory has slots of pinned, registered memory: an
 * outbox and an inbox. Pieces are posted only once the peer is known to be ready, so they are
 * never posted again.
 *
 *   from staged memory   Pieces are copied into the outbox in the order of operations, before they
 *                        are posted; a slot is free again when the device has read it.
 *   to staged memory     The sender writes a piece, followed by a header with its destination, into
 *                        the next slot of the peer's inbox, with an immediate that holds its
 *                        length. The peer's progress copies pieces to their destinations, in order,
 *                        and returns the number of pieces copied so far in an immediate (the
 *                        credit). Then those slots are free again and the operations complete.
 *   signals              While pieces are in the peer's inbox, a signal also goes through the
 *                        inbox: the peer stores its word when the pieces before it are in GPU
 *                        memory.
 *
 * Each endpoint has a small control block that devices read and write. An end writes the address
 * of its inbox into the peer's control block once it has one. Memory that both devices reach is
 * transferred directly, whether or not other memory is staged.
 */
#ifndef WEIR_TRANSPORT_NET_IB_H
#define WEIR_TRANSPORT_NET_IB_H

#include "transport/net/ib_verbs.h"
#include "transport/net/rdma_port.h"
#include "transport/net/staging.h"
#include "transport/net/net.h"

enum {
    WEIRI_IB_SENDS = 256,            /* depth of a send queue */
    WEIRI_IB_RECEIVES = 256,         /* receives posted for the peer's immediates */
    WEIRI_IB_BATCH = 32,             /* most work requests, or receives, per post call */
    WEIRI_IB_CHUNK_BYTES = 16 << 20, /* most bytes per work request */
    WEIRI_IB_TEXT_BYTES = 384,
    WEIRI_IB_SLOTS = 8, /* slots of an inbox and of an outbox */
};

/* Immediate data: the low WEIRI_IB_KIND_BITS bits are a kind, the others a value. */
enum {
    WEIRI_IB_SIGNAL = 1,
    WEIRI_IB_GREETING,
    WEIRI_IB_INBOX,   /* the address of the peer's inbox is in the control block */
    WEIRI_IB_PIECE,   /* a piece is in the inbox; value: its length without the header */
    WEIRI_IB_CREDIT,  /* value: number of pieces copied out of the inbox so far */
    WEIRI_IB_REFUSAL, /* a piece was addressed to unregistered memory */
    WEIRI_IB_KIND_BITS = 4,
};

/* Follows a piece in an inbox: its destination. */
typedef struct weiri_ib_piece_header {
    uint64_t memory, address;
} weiri_ib_piece_header;

/* The address of an inbox. */
typedef struct weiri_ib_inbox_address {
    uint64_t slots[WEIRI_IB_SLOTS];
    uint32_t rkeys[WEIRI_IB_SLOTS];
} weiri_ib_inbox_address;

/* The control block of an endpoint, read and written by devices: for each request a word to be
 * signalled and a piece header; the addresses of this end's inbox and of the peer's. */
typedef struct weiri_ib_control {
    uint64_t words[WEIRI_IB_SENDS];
    weiri_ib_piece_header labels[WEIRI_IB_SENDS];
    weiri_ib_inbox_address own, theirs;
} weiri_ib_control;

/* An operation that is waiting for room in the send queue. */
typedef struct weiri_ib_op {
    uint64_t local, remote, bytes;
    uint64_t value;  /* of a signal */
    uint64_t memory; /* id of the peer's memory that contains remote */
    uint32_t lkey, rkey;
    int is_signal, is_host; /* is_host: the source is host memory, so inline data are possible */
    int staged_here, staged_there; /* the device cannot access the source, the destination */
} weiri_ib_op;

/* Contents of a weiri_net_address. */
typedef struct weiri_ib_address {
    uint32_t magic, rank, number, first_packet;
    unsigned char gid[16];
    uint16_t lid;
    uint8_t mtu, ethernet, gid_type, padding[3];
    uint64_t inbox; /* where the peer is to write the address of its inbox */
    uint32_t inbox_rkey, padding_of_inbox;
    char device[64], host[64];
} weiri_ib_address;

struct weiri_ib_net;

typedef struct weiri_ib_mem {
    weiri_net_mem base;
    struct weiri_ib_mem *next, *before;
    struct ibv_mr *mr;
    uint64_t id;
    int is_host, is_staged;
} weiri_ib_mem;

/* Pinned, registered memory for one piece. */
typedef struct weiri_ib_slot {
    weiri_staging_slot stage;
    struct ibv_mr *mr;
    uint64_t request; /* outbox: the work request that reads it */
    uint32_t bytes;   /* inbox: length of the piece */
} weiri_ib_slot;

/* Pieces are numbered per box; piece n uses slot n modulo WEIRI_IB_SLOTS. Each counter counts
 * leading pieces and is at most the next counter of its list. */
typedef struct weiri_ib_outbox {
    weiri_ib_slot slots[WEIRI_IB_SLOTS];
    uint64_t freed, posted, copied, begun;
    uint64_t next,
        next_done; /* the operation to copy from next, and the bytes of it already started */
} weiri_ib_outbox;

typedef struct weiri_ib_inbox {
    weiri_ib_slot slots[WEIRI_IB_SLOTS];
    uint64_t reported, copied, begun, landed; /* reported: to the peer, as credit */
} weiri_ib_inbox;

/* The peer's inbox. */
typedef struct weiri_ib_there {
    int is_known;
    uint64_t credited, posted;
    uint64_t before[WEIRI_IB_SLOTS]; /* number of operations before each piece */
} weiri_ib_there;

typedef struct weiri_ib_endpoint {
    weiri_endpoint base;
    struct weiri_ib_net *ib;
    struct ibv_qp *qp;
    uint32_t slot, generation; /* in the network's table */
    uint32_t first_packet;     /* sequence number of this end's first packet */
    uint32_t inline_bytes;     /* most inline data of a work request */
    int open;                  /* the peer is known to be ready */
    int lost;                  /* posted work was lost because the peer was not ready */
    uint64_t connected_ns;     /* when the first packet was sent; else 0 */
    weiri_ib_address address;  /* the peer's */
    char peer_name[128];       /* "rank 1 (mlx5_0:1 of node7, 10.9.9.2)" */

    weiri_ib_op *ops;              /* a ring of capacity, a power of two */
    uint64_t capacity, head, tail; /* head: the next to post */
    uint64_t head_done;            /* bytes of it already posted */

    uint64_t requests, requests_done; /* work requests: posted, completed */
    uint64_t after[WEIRI_IB_SENDS];   /* per request: operations that have arrived with it */
    uint64_t arrived;                 /* operations that are in the peer's memory or inbox */
    weiri_ib_control *control;
    struct ibv_mr *control_mr;
    uint32_t taken; /* consumed receives, to be posted again */

    int has_boxes, has_sent_inbox;
    weiri_ib_outbox out;
    weiri_ib_inbox in;
    weiri_ib_there there;

    uint64_t watched_ns, watched;      /* time and value of the last change of progress */
    char trouble[WEIRI_IB_TEXT_BYTES]; /* text of the failure, once base.failed is set */
    int is_reported;                   /* progress has reported the failure */
} weiri_ib_endpoint;

typedef struct weiri_ib_net {
    weiri_net base;
    const weiri_verbs *verbs;
    struct ibv_context *device;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    weiri_rdma_port port; /* the chosen port */
    weiri_rdma_gid gid;
    struct ibv_port_attr attributes;
    struct ibv_device_attr limits;
    char name[96]; /* "mlx5_0:1" */
    uint32_t chunk_bytes;
    int sends, receives; /* queue depths, within the device's limits */
    int cq_entries;
    int armed;
    int waiting;   /* an endpoint has work other than completions */
    int copying;   /* a copy from or to staged memory is in progress */
    unsigned idle; /* progress calls since the last progress */
    int failures;  /* failed endpoints not yet reported */
    weiri_ib_endpoint **slots;
    uint32_t nslots, generations;
    weiri_ib_mem *mems;
    uint64_t registrations;
    weiri_staging stage;
} weiri_ib_net;

/* Contents of a weiri_net_key. */
typedef struct weiri_ib_key {
    uint32_t magic, rkey;
    uint64_t base, bytes, id;
    uint64_t is_staged;
} weiri_ib_key;

enum { WEIRI_IB_MAGIC = 0x77656963 };

static inline weiri_ib_net *weiri_ib_of(weiri_net *net)
{
    return (weiri_ib_net *)(void *)net;
}

/* ib_endpoint.c */
weir_status weiri_ib_endpoint_create(weiri_net *net, int peer, weiri_endpoint **endpoint,
                                     weiri_net_address *own);
weir_status weiri_ib_endpoint_connect(weiri_endpoint *endpoint, const weiri_net_address *peers);
void weiri_ib_endpoint_destroy(weiri_endpoint *endpoint);
/* Posts everything again, for a peer that was not ready before. */
void weiri_ib_rejoin(weiri_ib_endpoint *end);

/* ib_post.c */
weir_status weiri_ib_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                         const weiri_net_key *key, uint64_t to, uint64_t bytes);
weir_status weiri_ib_signal(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                            uint64_t value);
/* Posts as much as the send queue has room for; returns 1 if it posted anything. An error fails the
 * endpoint. */
int weiri_ib_post(weiri_ib_endpoint *end);
/* Posts the consumed receives again, or all of them; returns and fails likewise. */
int weiri_ib_post_receives(weiri_ib_endpoint *end, int all);
/* Posts the nudge. */
void weiri_ib_nudge(weiri_ib_endpoint *end);
/* Posts an immediate; the address of this end's inbox. Return 0 if the send queue is full. */
int weiri_ib_send_immediate(weiri_ib_endpoint *end, uint32_t kind, uint64_t value);
int weiri_ib_send_inbox_address(weiri_ib_endpoint *end);
/* Length of the next piece of an operation of which done bytes have been posted. */
uint32_t weiri_ib_piece_bytes(const weiri_ib_endpoint *end, const weiri_ib_op *op, uint64_t done);

/* ib_staging.c */

/* Called when GPU memory needs staging: gives all endpoints an outbox and an inbox.
 * WEIR_ERR_UNSUPPORTED. */
weir_status weiri_ib_staging_add(weiri_ib_net *ib, const void *memory);
/* Allocates an endpoint's boxes if the network stages memory; frees them after their copies. */
weir_status weiri_ib_boxes_open(weiri_ib_endpoint *end);
void weiri_ib_boxes_close(weiri_ib_endpoint *end);
/* Starts copying the next pieces into the outbox, as far as slots are free. Returns whether it did
 * anything. */
int weiri_ib_copy_out(weiri_ib_endpoint *end);
/* The source of the next piece to be posted, which has been copied to the outbox. */
struct ibv_sge weiri_ib_take_piece(weiri_ib_endpoint *end, uint32_t bytes);
/* Handle immediates: a piece is in the inbox; the peer has copied this many pieces. */
void weiri_ib_landed(weiri_ib_endpoint *end, uint32_t bytes);
void weiri_ib_credited(weiri_ib_endpoint *end, uint32_t pieces);
/* Copies pieces from the inbox to their destinations and sends credit. Returns whether it did
 * anything. */
int weiri_ib_empty_inbox(weiri_ib_endpoint *end);
/* Whether a copy is in progress. */
int weiri_ib_is_copying(const weiri_ib_endpoint *end);

/* ib_progress.c */
weir_status weiri_ib_progress(weiri_net *net, int *moved);
int weiri_ib_arm(weiri_net *net, int *descriptor);
/* Handles all available completions; returns whether there was one. */
int weiri_ib_reap(weiri_ib_net *ib);
/* Advances completed. */
void weiri_ib_settle(weiri_ib_endpoint *end);
/* Fails the endpoint for good, with the formatted text as the reason. */
void weiri_ib_fail(weiri_ib_endpoint *end, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ib_memory.c */
weir_status weiri_ib_mem_register(weiri_net *net, void *base, size_t bytes, weiri_net_place place,
                                  weiri_net_mem **mem);
void weiri_ib_mem_deregister(weiri_net_mem *mem);
/* Registered memory by its id, if [address, address + bytes) is in it; else NULL. */
const weiri_ib_mem *weiri_ib_mem_at(const weiri_ib_net *ib, const weiri_ib_piece_header *label,
                                    uint64_t bytes);
/* Sets the error for a refused registration by errno; most often the limit of locked memory. */
weir_status weiri_ib_refused(const weiri_ib_net *ib, int error, const char *what, size_t bytes);

/* ib_gpu_cuda.c, ib_gpu_none.c: registers memory of the current GPU; returns that GPU's PCI address
 * (0 if the thread has no GPU yet). */
weir_status weiri_ib_gpu_register(weiri_ib_net *ib, void *base, size_t bytes, struct ibv_mr **mr);
int weiri_ib_gpu_address(char address[16]);

#endif
