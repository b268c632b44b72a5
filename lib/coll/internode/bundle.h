/*
 * Bundles: all short blocks of an alltoallv that the ranks of one node send to those of another
 * travel in one message between the two nodes' leaders (the first rank of each node).
 *
 *   part       written by each rank for each other node: a word for each of that node's ranks, then
 *              the short blocks, padded to whole words. A word is the length of a block; with
 *              WEIRI_APART set the block is long and is sent as messages of its pair
 *   bundle     the parts of a node's ranks for another node, in the order of their places. If all
 *              blocks are long, there is none
 *   result     what a node's leader has received: for each node the offset of its bundle, or 0;
 *              then the bundles
 *
 * The sender decides whether a block is short. The word gives receivers the length of every block,
 * short or long, so they detect a count that differs from theirs.
 *
 * The first message between two leaders shows whether there is a bundle, so none is sent just for
 * that: without a bundle all blocks are long, so the first message is the one of the leaders' pair.
 *
 * Within a node a call takes two epochs of the host sub-communicator. In the first one all ranks
 * publish their parts and the leader sends the bundles; in the second one the leader publishes the
 * result, which all ranks read. Other epochs may lie between them.
 */
#ifndef WEIR_COLL_INTERNODE_BUNDLE_H
#define WEIR_COLL_INTERNODE_BUNDLE_H

#include "coll/internode/internode_coll.h"

#define WEIRI_APART (UINT64_C(1) << 63) /* in a word; exceeds every length */

typedef struct weiri_bundles {
    weiri_internode_coll *x;
    size_t most;      /* the longest short block, in bytes; 0: no bundles are used */
    weiri_slot *slot; /* of the result */
    int missing;      /* leader: nodes of which nothing has arrived yet */
    uint64_t *begins; /* leader: each node's bundle in the result; NOT_HEARD if nothing arrived */
    char *end;        /* leader: end of the result so far */
} weiri_bundles;

/* What the result contains about a block. */
typedef struct weiri_block_info {
    int known;        /* 0: the sender's node sent no bundle */
    size_t bytes;     /* the sender's length */
    const char *data; /* in the result; NULL: the block is long */
} weiri_block_info;

/* Computes the limit of short blocks, which is the same on all ranks. Local. */
void weiri_bundles_init(weiri_bundles *b, weiri_internode_coll *x);

static inline int weiri_bundles_takes(const weiri_bundles *b, size_t bytes)
{
    return b->most && bytes <= b->most;
}

/* The first epoch: publishes this rank's parts. The leader waits for the other ranks of its node
 * and posts the bundles, which are sent with the next poll. */
weir_status weiri_bundles_send(weiri_bundles *b);

/* Begins the second epoch. */
weir_status weiri_bundles_begin(weiri_bundles *b);
/* *ready becomes whether the result can be read. The leader takes bundles that have arrived, and
 * sets *moved if there are any; until the result is ready, no other code may take messages of other
 * nodes' leaders. Does not block. */
weir_status weiri_bundles_look(weiri_bundles *b, int *moved, int *ready);
/* Pauses once while nothing has arrived. */
weir_status weiri_bundles_idle(const weiri_bundles *b, weiri_waiter *waiter);
/* Fills blocks[rank] for each rank of other nodes with what the result contains about its block for
 * this rank. Valid until weiri_bundles_end. */
void weiri_bundles_read(const weiri_bundles *b, weiri_block_info *blocks);
/* Ends the second epoch. */
void weiri_bundles_end(const weiri_bundles *b);

#endif
