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
 *
 * Memory of a GPU that the device does not take is staged (staging.h): ends of a wire that has such
 * have slots of pinned and registered memory, an outbox and an inbox. All of it waits until the
 * peer is known to be there, so none of it is ever posted anew.
 *
 *   from staged memory   Pieces are copied out into the outbox in the order of operations, ahead
 *                        of being posted; their slots are free again when the device is done.
 *   to staged memory     The sender writes a piece, with a label behind it that says where it
 *                        goes, into the next slot of the peer's inbox, with an immediate that
 *                        says how long it is. The peer's progress copies it on, in order, and
 *                        tells by an immediate how many it has copied on (the credit): so many
 *                        slots are free again, and only then are their operations complete.
 *   signals              While pieces are in a peer's inbox, a signal goes that way, too: the
 *                        peer stores its word when the pieces before it are in the GPU's memory.
 *
 * Where the inbox is, an end tells its peer once it has one (the card), by a write into the desk,
 * the little memory of an endpoint that devices read and write by themselves. What both ends'
 * devices reach goes straight from one to the other, staged memory beside it or not.
 */
#ifndef WEIR_TRANSPORT_NET_IB_H
#define WEIR_TRANSPORT_NET_IB_H

#include "transport/net/ib_verbs.h"
#include "transport/net/rdma_port.h"
#include "transport/net/staging.h"
#include "transport/net/net.h"

enum {
    WEIRI_IB_SENDS = 256,    /* depth of a send queue */
    WEIRI_IB_RECEIVES = 256, /* posted for the immediates of a peer */
    WEIRI_IB_BATCH = 32,     /* work requests posted at once, receives likewise */
    WEIRI_IB_CHUNK_BYTES = 16 << 20, /* of one work request */
    WEIRI_IB_TEXT_BYTES = 384,
    WEIRI_IB_SLOTS = 8, /* of an inbox, and of an outbox */
};

/* Immediates: a kind, and from WEIRI_IB_KIND_BITS on a value. */
enum {
    WEIRI_IB_SIGNAL = 1,
    WEIRI_IB_GREETING,
    WEIRI_IB_INBOX,    /* the peer's is on the desk */
    WEIRI_IB_PIECE,   /* in the inbox; the value is its length, without the label */
    WEIRI_IB_CREDIT,  /* the value is how many pieces were copied on so far */
    WEIRI_IB_REFUSAL, /* a piece was for memory that is not there */
    WEIRI_IB_KIND_BITS = 4,
};

/* Where a piece in an inbox goes. */
typedef struct weiri_ib_piece_header {
    uint64_t memory, address;
} weiri_ib_piece_header;

/* Where an inbox is. */
typedef struct weiri_ib_inbox_address {
    uint64_t slots[WEIRI_IB_SLOTS];
    uint32_t rkeys[WEIRI_IB_SLOTS];
} weiri_ib_inbox_address;

/* What devices read and write of an endpoint: for each request a word to be signalled, and a
 * label; the own card, and the peer's. */
typedef struct weiri_ib_control {
    uint64_t words[WEIRI_IB_SENDS];
    weiri_ib_piece_header labels[WEIRI_IB_SENDS];
    weiri_ib_inbox_address own, theirs;
} weiri_ib_control;

/* An operation that waits for room in the send queue. */
typedef struct weiri_ib_op {
    uint64_t local, remote, bytes;
    uint64_t value;  /* of a signal */
    uint64_t memory; /* the peer's that remote lies in */
    uint32_t lkey, rkey;
    int is_signal, is_host; /* is_host: the processor may read its source, for inline data */
    int staged_here, staged_there; /* whether the device does not reach source, destination */
} weiri_ib_op;

/* What a peer needs of an endpoint, in weiri_net_address. */
typedef struct weiri_ib_address {
    uint32_t magic, rank, number, first_packet;
    unsigned char gid[16];
    uint16_t lid;
    uint8_t mtu, ethernet, gid_type, padding[3];
    uint64_t inbox; /* where it wants the peer's */
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

/* Pinned memory for one piece, which the device reaches. */
typedef struct weiri_ib_slot {
    weiri_staging_slot stage;
    struct ibv_mr *mr;
    uint64_t request; /* of an outbox: that reads it */
    uint32_t bytes;   /* of an inbox: of the piece */
} weiri_ib_slot;

/* Pieces are numbered, each box by itself; a number's slot is its rest by WEIRI_IB_SLOTS. Each
 * count is of the first pieces, and at most the one behind it. */
typedef struct weiri_ib_outbox {
    weiri_ib_slot slots[WEIRI_IB_SLOTS];
    uint64_t freed, posted, copied, begun;
    uint64_t next, next_done; /* the operation to copy from next, and bytes of it that are begun */
} weiri_ib_outbox;

typedef struct weiri_ib_inbox {
    weiri_ib_slot slots[WEIRI_IB_SLOTS];
    uint64_t told, copied, begun, landed; /* told: to the peer, as its credit */
} weiri_ib_inbox;

/* The peer's inbox. */
typedef struct weiri_ib_there {
    int is_known;
    uint64_t credited, posted;
    uint64_t before[WEIRI_IB_SLOTS]; /* operations before that of each piece */
} weiri_ib_there;

typedef struct weiri_ib_endpoint {
    weiri_endpoint base;
    struct weiri_ib_net *ib;
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
    uint64_t after[WEIRI_IB_SENDS];   /* operations that have arrived with each */
    uint64_t arrived;                 /* operations: at the peer's memory or inbox */
    weiri_ib_control *control;
    struct ibv_mr *control_mr;
    uint32_t taken;                   /* receives that are to be posted anew */

    int has_boxes, has_sent_inbox;
    weiri_ib_outbox out;
    weiri_ib_inbox in;
    weiri_ib_there there;

    uint64_t watched_ns, watched;     /* since when the peer has taken so much and no more */
    char trouble[WEIRI_IB_TEXT_BYTES]; /* once base.failed is set */
    int told;                         /* progress has returned it */
} weiri_ib_endpoint;

typedef struct weiri_ib_net {
    weiri_net base;
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
    int waiting;          /* an endpoint has something to do beside completions */
    int copying;          /* a copy from or to staged memory has not ended */
    unsigned idle;        /* calls of progress since one that moved something */
    int failures;         /* endpoints that have failed and not been told */
    weiri_ib_endpoint **slots;
    uint32_t nslots, generations;
    weiri_ib_mem *mems;
    uint64_t registrations;
    weiri_staging stage;
} weiri_ib_net;

/* What a peer needs of memory, in weiri_net_key. */
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
/* Posts everything anew to a peer that was not there yet. */
void weiri_ib_rejoin(weiri_ib_endpoint *end);

/* ib_post.c */
weir_status weiri_ib_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                         const weiri_net_key *key, uint64_t to, uint64_t bytes);
weir_status weiri_ib_signal(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                            uint64_t value);
/* Posts what the send queue has room for; 1 if it posted anything. An error fails the endpoint. */
int weiri_ib_post(weiri_ib_endpoint *end);
/* Posts receives so that all are posted again; likewise. */
int weiri_ib_post_receives(weiri_ib_endpoint *end, int all);
/* Posts the nudge. */
void weiri_ib_nudge(weiri_ib_endpoint *end);
/* Posts an immediate; the own card, with its immediate. 0: the send queue has no room. */
int weiri_ib_send_immediate(weiri_ib_endpoint *end, uint32_t kind, uint64_t value);
int weiri_ib_send_inbox_address(weiri_ib_endpoint *end);
/* Bytes of an operation's next piece, behind its first done ones. */
uint32_t weiri_ib_piece_bytes(const weiri_ib_endpoint *end, const weiri_ib_op *op, uint64_t done);

/* ib_staging.c */

/* Memory of a GPU was found to need the stage: gives all endpoints boxes.
 * WEIR_ERR_UNSUPPORTED. */
weir_status weiri_ib_staging_add(weiri_ib_net *ib, const void *memory);
/* Gives an endpoint boxes if the wire has a stage; frees them, behind their copies. */
weir_status weiri_ib_boxes_open(weiri_ib_endpoint *end);
void weiri_ib_boxes_close(weiri_ib_endpoint *end);
/* Copies the next pieces out, as far as there are slots. Whether it did anything. */
int weiri_ib_copy_out(weiri_ib_endpoint *end);
/* The source of the piece that is posted next, which is copied out. */
struct ibv_sge weiri_ib_take_piece(weiri_ib_endpoint *end, uint32_t bytes);
/* An immediate says that a piece has landed; that the peer has copied so many on. */
void weiri_ib_landed(weiri_ib_endpoint *end, uint32_t bytes);
void weiri_ib_credited(weiri_ib_endpoint *end, uint32_t pieces);
/* Copies what has landed on to where it goes, and tells the peer. Whether it did anything. */
int weiri_ib_empty_inbox(weiri_ib_endpoint *end);
/* Whether a copy has not ended. */
int weiri_ib_is_copying(const weiri_ib_endpoint *end);

/* ib_progress.c */
weir_status weiri_ib_progress(weiri_net *net, int *moved);
int weiri_ib_arm(weiri_net *net, int *descriptor);
/* Takes all completions there are; whether there was one. */
int weiri_ib_reap(weiri_ib_net *ib);
/* Counts the operations that are complete. */
void weiri_ib_settle(weiri_ib_endpoint *end);
/* The endpoint has failed for good, for the reason in the format. */
void weiri_ib_fail(weiri_ib_endpoint *end, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ib_memory.c */
weir_status weiri_ib_mem_register(weiri_net *net, void *base, size_t bytes,
                                  weiri_net_place place, weiri_net_mem **mem);
void weiri_ib_mem_deregister(weiri_net_mem *mem);
/* Registered memory by its id, if [address, address + bytes) is in it; else NULL. */
const weiri_ib_mem *weiri_ib_mem_at(const weiri_ib_net *ib, const weiri_ib_piece_header *label,
                                    uint64_t bytes);
/* Why the device would not have memory, by errno: the limit of locked memory, most often. */
weir_status weiri_ib_refused(const weiri_ib_net *ib, int error, const char *what, size_t bytes);

/* ib_gpu_cuda.c, ib_gpu_none.c: memory of the current GPU, and that GPU's PCI address (0: there
 * is none yet). */
weir_status weiri_ib_gpu_register(weiri_ib_net *ib, void *base, size_t bytes, struct ibv_mr **mr);
int weiri_ib_gpu_address(char address[16]);

#endif
