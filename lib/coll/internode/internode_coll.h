/*
 * What the algorithms across machines share. A call's phases inside a machine are
 * collectives of the machine's own communicator; between machines messages travel
 * (comm/internode/internode.h). All ranks go through the same phases in the same order.
 *
 * Where buffers are a GPU's, phases inside run there, in the caller's stream, and what is
 * sent and received is carried between GPU and host memory: what a phase leaves for a
 * message is "near", what a message leaves for a buffer is "far", and in host memory both
 * are the place itself.
 *
 * A rail joins ranks of the same place on their machines. Machines may have unlike
 * numbers of ranks: place p of one deals with place p modulo the other's number.
 */
#ifndef WEIR_COLL_INTERNODE_INTERNODE_COLL_H
#define WEIR_COLL_INTERNODE_INTERNODE_COLL_H

#include "coll/algos.h"
#include "comm/internode/internode.h"

/* A call across machines. */
typedef struct weiri_internode_coll {
    weiri_coll *coll, *local; /* of the whole communicator, of this machine's in host memory */
    weir_comm *inside; /* in which the phases inside run: the local one, or the GPUs' */
    weir_stream stream; /* GPUs: of these phases */
    char *landing, *stage; /* GPUs: of a message's length, in their memory and in the host's */
    weiri_internode *internode;
    const weir_call *call;
    const char *phase; /* for reports */
    weir_op op;        /* inside a machine: sum for avg, whose division comes last */
    int place, count;  /* this rank's on its machine, and how many there are */
} weiri_internode_coll;

weir_status weiri_internode_coll_begin(weiri_coll *coll, const weir_call *call,
                                       weiri_internode_coll *x);
/* Waits until all that was begun has ended, and what was sent needs no more progress from
 * here. status: the call's so far. */
weir_status weiri_internode_coll_end(weiri_internode_coll *x, weir_status status);

/* Where a phase inside leaves what goes to host memory, or finds what came there. */
static inline char *weiri_internode_coll_near(const weiri_internode_coll *x, char *host)
{
    return x->landing ? x->landing : host;
}

/* Where the host prepares what goes to a buffer of the call. */
static inline char *weiri_internode_coll_far(const weiri_internode_coll *x, char *buffer)
{
    return x->stage ? x->stage : buffer;
}

/* Copies, unless from and to are the same: bytes from near to host memory, from far to a
 * buffer, or from either to a message. Behind the phases inside; blocking. */
weir_status weiri_internode_coll_carry(weiri_internode_coll *x, char *to, const char *from,
                                       size_t bytes);

/* The rank of another machine that has a place, or what stands in for it. */
static inline int weiri_internode_coll_rail(const weiri_internode_coll *x, int node, int place)
{
    const weiri_node *other = &x->internode->nodes[node];
    return other->ranks[place % other->count];
}

/* Elements that a message holds, whole lines of them. */
static inline size_t weiri_internode_coll_elements(const weiri_internode_coll *x)
{
    return x->internode->slot_bytes / WEIR_LINE_BYTES * WEIR_LINE_BYTES / x->coll->element_bytes;
}

static inline size_t weiri_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Combines partial results, one a machine in the order of machines, into out; mine is
 * this machine's, the others are messages from senders (a rank for each machine), which
 * are awaited and taken. */
weir_status weiri_internode_coll_combine(weiri_internode_coll *x, const int *senders,
                                         const void *mine, char *out, size_t count);

/* Carries data to the outbox for a rank and sends it. */
weir_status weiri_internode_coll_send(weiri_internode_coll *x, int rank, const char *data,
                                      size_t bytes);

/* Waits for a message of a rank, *data: where a phase inside finds it. The slot is to be
 * given back. */
weir_status weiri_internode_coll_receive(weiri_internode_coll *x, int rank, size_t bytes,
                                         const char **data);

/* Every local rank copies mine, of bytes, to the others of its machine, who get to[i],
 * in the output, of lengths[i], from the one of place i. */
weir_status weiri_internode_coll_spread(weiri_internode_coll *x, const char *mine, size_t bytes,
                                        char *const *to, const size_t *lengths);

#endif
