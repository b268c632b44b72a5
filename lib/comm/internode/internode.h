/*
 * What a communicator across machines has beyond that of its own machine: where every
 * rank sits, a wire with an endpoint to each rank of the other machines, and messages.
 *
 * Window. Each rank registers one memory with its wire. For each remote peer it holds
 * a line of words that the peer sets by signals, the peer's record of where it stands,
 * and two rings of slots: an outbox that messages are put from, and an inbox that they
 * arrive in. Every rank knows the layout of every window.
 *
 *   arrived    messages that the peer has put into the inbox, ever
 *   consumed   messages of ours that the peer has taken out of its inbox, ever
 *   abort      why the peer ended all waits (WEIRI_ABORT_*); 0: it did not
 *   answered   1: the peer's record is final
 *   printed    1: the peer has printed the report for all
 *   finished   1: the peer has done its part in everything that was called
 *   left       1: the peer needs nothing from this rank any more
 *   meeting    barriers that the peer has entered for its machine
 *
 * Messages. A message is a head and at most slot_bytes of data, one put and one signal.
 * Between two ranks they arrive in order; message m uses slot m % WEIRI_INTERNODE_SLOTS of
 * both rings. So a slot may be written again when consumed says that message
 * m - WEIRI_INTERNODE_SLOTS was taken: then it has also left the outbox. A receiver tells
 * what it took after every half ring. All ranks call the same collectives in the same
 * order, so messages need no tags; the head's length is compared where callers may
 * disagree.
 *
 * Pairs. Sends and receives between two ranks, which the other ranks know nothing of, are
 * in no order with collectives. Their messages go through a window of their own, which is
 * opened where there are such calls: another weiri_internode with the same ranks, wire and
 * endpoints, for nothing but messages.
 *
 * Who waits progresses the wire: weiri_internode_poll is part of every wait of the
 * communicator, of those inside the machine, too, so that what is on its way from here
 * goes on. Any thread may poll; one thread sends and receives.
 */
#ifndef WEIR_COMM_INTERNODE_INTERNODE_H
#define WEIR_COMM_INTERNODE_INTERNODE_H

#include "comm/comm.h"
#include "transport/net/net.h"

enum { WEIRI_INTERNODE_SLOTS = 8 };

typedef struct weiri_internode_words {
    _Alignas(WEIR_LINE_BYTES) uint64_t arrived;
    uint64_t consumed, abort, answered, finished, left, meeting, printed;
} weiri_internode_words;

/* In front of a message's data. */
typedef struct weiri_internode_head {
    _Alignas(WEIR_LINE_BYTES) uint64_t bytes; /* of data in this message */
    uint64_t total_bytes; /* of what the sender sends in several, or the same */
} weiri_internode_head;

typedef struct weiri_node {
    int count;  /* its ranks, */
    int *ranks; /* in order; the first is its leader */
} weiri_node;

/* The path to a rank of another machine; endpoint NULL for the others. */
typedef struct weiri_internode_peer {
    weiri_endpoint *endpoint;
    weiri_net_key key; /* of its window */
    int here, there;    /* its place in this window, this rank's in its */
    weiri_internode_words *words;
    weiri_where *mirror; /* where it stood, once it has told */
    char *inbox, *outbox;
    uint64_t inbox_there, words_there, mirror_there; /* offsets in its window */
    uint64_t sent, taken, credited; /* messages; credited: taken as the peer knows it */
} weiri_internode_peer;

typedef struct weiri_internode {
    weir_comm *parent, *local;
    weiri_net *net;
    int nnodes, node; /* this rank's; machines are in order of their first ranks */
    weiri_node *nodes;
    int *node_of, *place_of; /* of each rank: its machine, and which of its ranks it is */
    int32_t *pids;
    int fewest, most;    /* ranks of a machine */
    int nremote;         /* ranks of other machines */
    size_t slot_bytes;   /* the longest message's data */
    size_t window_bytes; /* of this rank's window */
    weir_mem *memory;    /* the window: memory that the machine's ranks map */
    char *window;
    weiri_net_mem *mem;
    weiri_where *told_from; /* in the window: a copy of the own record */
    weiri_internode_peer *peers;  /* nranks */
    uint64_t barriers;
    uint64_t polls;
    uint64_t lost_ns; /* since when an endpoint is known to have failed; 0: none */
    int lost;         /* its peer */
    int aborted;      /* an abort of another machine was passed on here */
    int told, answered; /* ours was told; the own record was */
    int finished;       /* likewise, that this rank has done its part */
    struct weiri_internode *pairs; /* NULL until they are opened */
} weiri_internode;

/* Where every rank sits, as each knows it before there is a communicator. */
enum { WEIRI_CORES_BYTES = 128 };
typedef struct weiri_placement {
    uint64_t host;
    uint64_t hardware; /* machines that WEIR_HOSTID tells apart may share it, and its cores */
    int32_t pid;
    int32_t padding;
    unsigned char cores[WEIRI_CORES_BYTES]; /* a cpu_set_t */
} weiri_placement;

/* Makes the wire and the paths. Collective over the whole communicator's bootstrap;
 * agreed. whole has rank, nranks, guard and local. */
weir_status weiri_internode_create(weir_comm *parent, const weiri_placement *placements,
                                   weiri_internode **internode);
/* Makes net->pairs, once; they end with net. Collective over the whole communicator's
 * bootstrap; agreed. */
weir_status weiri_internode_open_pairs(weiri_internode *internode);
/* Local; NULL is allowed. */
void weiri_internode_destroy(weiri_internode *internode);
/* Makes the window and tells its keys; collective and agreed as well. For the two above. */
weir_status weiri_internode_window_create(weiri_internode *internode);
/* Local; also of one that was not made wholly, or not at all. */
void weiri_internode_window_destroy(weiri_internode *internode);
/* Tells every peer that this rank has done its part in everything. */
void weiri_internode_finish(weiri_internode *internode);
/* Says goodbye to every peer, and waits for theirs for a short time. */
void weiri_internode_leave(weiri_internode *internode);

/* Moves the wire on and passes on aborts and losses of other machines. Local, any
 * thread. */
void weiri_internode_poll(weiri_internode *internode);
/* Tells all other machines' ranks an abort. Local, any thread. */
void weiri_internode_abort(weiri_internode *internode, uint64_t reason);
/* Tells them where this rank stands, for good. */
void weiri_internode_answer(weiri_internode *internode);
/* Tells them that the report is printed. */
void weiri_internode_printed(weiri_internode *internode);
/* Whether the path to a rank has failed although it had not finished. */
int weiri_internode_is_lost(const weiri_internode *internode, int rank);
/* Whether it has failed at all: nothing comes from there any more. */
int weiri_internode_is_gone(const weiri_internode *internode, int rank);
/* Machines meet; called by their leaders. */
weir_status weiri_internode_barrier(weiri_internode *internode);

static inline int weiri_internode_is_remote(const weiri_internode *internode, int rank)
{
    return internode->peers[rank].endpoint != NULL;
}

/* ----------------------------------------------------------------- messages */

/* Whether the next message to a peer has a slot. */
static inline int weiri_internode_has_room(const weiri_internode_peer *peer)
{
    return weir_load_acquire(&peer->words->consumed) + WEIRI_INTERNODE_SLOTS > peer->sent;
}

/* Whether a message of a peer is there. */
static inline int weiri_internode_has_arrived(const weiri_internode_peer *peer)
{
    return weir_load_acquire(&peer->words->arrived) > peer->taken;
}

/* A slot's size with its head. */
static inline size_t weiri_internode_stride(const weiri_internode *internode)
{
    return sizeof(weiri_internode_head) + internode->slot_bytes;
}

/* The data of the next message to a peer, which must have room; and of the next one
 * from it, which must have arrived. */
static inline char *weiri_internode_outgoing(const weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    return peer->outbox + peer->sent % WEIRI_INTERNODE_SLOTS * weiri_internode_stride(internode) +
           sizeof(weiri_internode_head);
}

static inline const char *weiri_internode_incoming(const weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    return peer->inbox + peer->taken % WEIRI_INTERNODE_SLOTS * weiri_internode_stride(internode) +
           sizeof(weiri_internode_head);
}

static inline const weiri_internode_head *weiri_internode_head_of(const char *data)
{
    return (const weiri_internode_head *)(const void *)(data - sizeof(weiri_internode_head));
}

/* Waits for room; for arrival. */
weir_status weiri_internode_await_room(weiri_internode *internode, int rank, const char *phase);
weir_status weiri_internode_await(weiri_internode *internode, int rank, const char *phase);
/* Queues what was written to weiri_internode_outgoing: the next poll sends it. Not blocking. */
weir_status weiri_internode_post(weiri_internode *internode, int rank, size_t bytes,
                                 size_t total_bytes);
/* The same, and sends it. */
weir_status weiri_internode_send(weiri_internode *internode, int rank, size_t bytes,
                                 size_t total_bytes);
/* Gives the slot of weiri_internode_incoming back. Not blocking. */
weir_status weiri_internode_take(weiri_internode *internode, int rank);
/* Waits until what was sent needs no more progress from here. */
weir_status weiri_internode_flush(weiri_internode *internode, const char *phase);

#endif
