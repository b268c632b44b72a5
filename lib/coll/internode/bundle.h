/*
 * Short blocks of alltoallv travel together: one message between two machines, the bundle,
 * has all short blocks of the one's ranks for the other's.
 *
 *   part       what one rank has for one machine: a word for each of that machine's ranks,
 *              then the short blocks, padded to whole words. A word is a block's length; with
 *              WEIRI_APART the block is long, and travels as messages of its pair
 *   bundle     the parts of a machine's ranks for another one, in the order of their places.
 *              Where all blocks are long there is none
 *   result     what a machine's leader has got: for each machine where its bundle begins, or
 *              0, then the bundles
 *
 * The sender decides what is short and says so in the word, so receivers need not know: where
 * the two ends disagree about a count, the word tells.
 *
 * Whether there is a bundle, the first message between two leaders says, without any other
 * being sent for it: if there is none, all blocks are long, the leaders' own too, and so its
 * own message comes first.
 *
 * Inside a machine this takes two epochs of the local communicator. In the first all ranks
 * publish their parts and the leader sends the bundles, in the second the leader publishes
 * the result, which all read. Others may lie between them.
 */
#ifndef WEIR_COLL_INTERNODE_BUNDLE_H
#define WEIR_COLL_INTERNODE_BUNDLE_H

#include "coll/internode/internode_coll.h"

#define WEIRI_APART (UINT64_C(1) << 63) /* in a part's word; no block is so long */

typedef struct weiri_bundles {
    weiri_internode_coll *x;
    size_t most;       /* the longest short block, in bytes; 0: nothing travels together */
    weiri_slot *slot;  /* of the result */
    int missing;       /* leader: machines of which nothing has come yet */
    uint64_t *begins;  /* leader: of each machine, in the result */
    char *end;         /* leader: of the result so far */
    unsigned char heard[WEIRI_RANKS_MAX]; /* leader: of which machines something has come */
} weiri_bundles;

/* What the result says of a block. */
typedef struct weiri_told {
    int known;        /* 0: the sender's machine had no bundle */
    size_t bytes;     /* that the sender sends */
    const char *data; /* in the result; NULL: they travel apart */
} weiri_told;

/* Alike on all ranks. Local. */
void weiri_bundles_init(weiri_bundles *b, weiri_internode_coll *x);

static inline int weiri_bundles_takes(const weiri_bundles *b, size_t bytes)
{
    return b->most && bytes <= b->most;
}

/* The first epoch: publishes this rank's parts, and the leader posts the bundles, for which
 * it waits for its machine's ranks. They go with the next poll. */
weir_status weiri_bundles_send(weiri_bundles *b);

/* Begins the second epoch. */
weir_status weiri_bundles_begin(weiri_bundles *b);
/* Whether the result can be read. The leader takes what has come, and sets *moved if that is
 * anything; until then no message of another machine's leader may be taken elsewhere. Not
 * blocking. */
weir_status weiri_bundles_look(weiri_bundles *b, int *moved, int *ready);
/* Nothing has come: a pause in the wait for it. */
weir_status weiri_bundles_idle(const weiri_bundles *b, weiri_waiter *waiter);
/* What the result says of the blocks for this rank: told[rank] of each rank of other
 * machines. Valid until the end. */
void weiri_bundles_read(const weiri_bundles *b, weiri_told *told);
/* Ends the second epoch. */
void weiri_bundles_end(const weiri_bundles *b);

#endif
