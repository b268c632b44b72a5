/*
 * Transfers between nodes. The blocks of a list are gathered into messages, and scattered where
 * they arrive. Each rank registers memory with the network that has, for each remote rank:
 *
 *   words    which the peer sets by signals: how many messages it has sent (arrived), how many it
 *            has finished with (taken), and whether it has no pool any more (refused)
 *   inbox    a ring of slots, into which the peer puts its messages, in order
 *   outbox   a ring of slots, in which messages are made; a slot is free once the peer has taken
 *            the message that was there
 *
 * Messages. DATA has pieces of blocks, and entries that say where each belongs; it may carry a tag,
 * which the receiver stores once these and all earlier pieces are in place. Then it signals taken.
 * A put is a sequence of DATA, complete when the last one was taken. A get is a sequence of
 * REQUEST, each with entries that the peer answers by DATA with the same number; when all answers
 * are in place, a DATA with nothing but the tag follows.
 *
 * Progress. weiri_blocks_net_serve, a service of the network (comm/internode/internode.h), takes
 * messages and makes new ones, in whichever thread polls; a thread of the object polls while the
 * program makes no calls. All of this is protected by the services' lock.
 */
#ifndef WEIR_BLOCKS_NET_H
#define WEIR_BLOCKS_NET_H

#include "blocks/blocks.h"
#include "comm/internode/internode.h"

enum {
    BLOCKS_NET_SLOTS = 8,
    BLOCKS_NET_PIECES = 4096, /* most entries of a message */
    BLOCKS_NET_WORDS = 3,     /* of an entry */
    BLOCKS_NET_SLOT_BYTES = 256 << 10,
    BLOCKS_NET_SLOT_LEAST = 32 << 10, /* with many ranks, so that all slots of a rank take */
    BLOCKS_NET_MOST_BYTES = 1 << 28,  /* about so much */
};

typedef struct blocks_net_words {
    _Alignas(WEIR_LINE_BYTES) uint64_t arrived;
    uint64_t taken, refused;
} blocks_net_words;

/* Values of refused. */
enum { BLOCKS_NET_FREED = 1, BLOCKS_NET_REFUSED };

typedef enum blocks_net_kind { BLOCKS_NET_DATA, BLOCKS_NET_REQUEST } blocks_net_kind;

/* Followed by entries: the source's offset (of DATA in its data), the destination's, and bytes; and
 * then, from the next line on, by the data. */
typedef struct blocks_net_head {
    _Alignas(WEIR_LINE_BYTES) uint64_t kind;
    uint64_t count, bytes; /* entries; bytes of data */
    uint64_t number;       /* of the get; 0: a put */
    uint64_t is_last;      /* of a transfer */
    uint64_t slot, tag;    /* 0: no tag */
} blocks_net_head;

typedef enum blocks_transfer_kind {
    BLOCKS_TRANSFER_PUT,
    BLOCKS_TRANSFER_GET,
    BLOCKS_TRANSFER_ANSWER /* the peer's get; freed when it is done */
} blocks_transfer_kind;

/* What is being sent to a peer. Its list must not change before it is done. */
typedef struct blocks_transfer {
    struct blocks_transfer *next; /* to the same peer */
    blocks_transfer_kind kind;
    blocks_list list;
    blocks_cursor at; /* the first byte that is in no message yet */
    uint64_t number;  /* of the get */
    uint64_t slot, tag;
    uint64_t last;       /* the number of its last message */
    uint64_t unanswered; /* requests */
    int is_sent;         /* all of it is in messages */
    int is_done;         /* stored last */
} blocks_transfer;

typedef struct blocks_net_peer {
    int rank;
    weiri_endpoint *endpoint; /* NULL: a rank of this node */
    weiri_net_key key;
    blocks_net_words *words;
    char *inbox, *outbox;
    uint64_t inbox_there;
    uint64_t sent, taken; /* messages to the peer, and of the peer */
    uint64_t credited;    /* taken as the peer last learned */
    blocks_transfer *first;
} blocks_net_peer;

struct blocks_net {
    weir_blocks *blocks;
    weiri_internode *internode;
    weiri_internode_service service;
    struct weiri_internode_progress *progress;
    weiri_net_mem *mem;
    char *memory;
    size_t bytes, slot_bytes;
    uint64_t gets;
    blocks_net_peer *peers; /* one for each rank */
};

/* The length of an outbox's slot: the message, and the entries by which it is gathered. */
static inline size_t blocks_net_stride(const struct blocks_net *n)
{
    return n->slot_bytes + BLOCKS_NET_PIECES * BLOCKS_NET_WORDS * sizeof(uint64_t);
}

/* Returns where the data of a message begin. */
static inline char *blocks_net_data(const char *message)
{
    const uint64_t count = ((const blocks_net_head *)(const void *)message)->count;
    const size_t bytes = sizeof(blocks_net_head) + count * BLOCKS_NET_WORDS * sizeof(uint64_t);
    return (char *)(uintptr_t)message +
           (bytes + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
}

/* Adds a transfer, which is the engine's until it is done. Local, thread-safe. */
void weiri_blocks_net_append(struct blocks_net *n, blocks_net_peer *p, blocks_transfer *t);
/* Takes messages, and makes and sends new ones, as far as possible: the service. The caller has
 * excluded other services. */
void weiri_blocks_net_serve(void *net);

#endif
