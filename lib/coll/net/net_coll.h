/*
 * What the algorithms across machines share. A call's phases inside a machine are
 * collectives of the machine's own communicator, its local one; between machines
 * messages travel (comm/net.h). All ranks go through the same phases in the same order.
 *
 * A rail joins ranks of the same place on their machines. Machines may have unlike
 * numbers of ranks: place p of one deals with place p modulo the other's number.
 */
#ifndef WEIR_COLL_NET_NET_COLL_H
#define WEIR_COLL_NET_NET_COLL_H

#include "coll/algos.h"
#include "comm/net.h"

/* A call across machines. */
typedef struct weiri_across {
    weiri_coll *coll, *local; /* of the whole communicator, of this machine's */
    weiri_net *net;
    const weiri_call *call;
    const char *phase; /* for reports */
    weir_op op;        /* inside a machine: sum for avg, whose division comes last */
    int place, count;  /* this rank's on its machine, and how many there are */
} weiri_across;

weir_status weiri_across_begin(weiri_coll *coll, const weiri_call *call, weiri_across *x);

/* The rank of another machine that has a place, or what stands in for it. */
static inline int weiri_across_rail(const weiri_across *x, int machine, int place)
{
    const weiri_machine *other = &x->net->machines[machine];
    return other->ranks[place % other->count];
}

/* Elements that a message holds, whole lines of them. */
static inline size_t weiri_across_elements(const weiri_across *x)
{
    return x->net->slot_bytes / WEIR_LINE_BYTES * WEIR_LINE_BYTES / x->call->element_bytes;
}

static inline size_t weiri_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Combines partial results, one a machine in the order of machines, into out; mine is
 * this machine's, the others are messages from senders (a rank for each machine), which
 * are awaited and taken. */
weir_status weiri_across_combine(weiri_across *x, const int *senders, const void *mine, char *out,
                                 size_t count);

/* Copies data to the outbox for a rank and sends it. */
weir_status weiri_across_send(weiri_across *x, int rank, const void *data, size_t bytes);

/* Every local rank copies mine, of bytes, to the others of its machine, who get to[i],
 * of lengths[i], from the one of place i. */
weir_status weiri_across_spread(weiri_across *x, const char *mine, size_t bytes, char *const *to,
                                const size_t *lengths);

#endif
