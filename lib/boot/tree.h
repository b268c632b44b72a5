/*
 * The bootstrap of many ranks: a tree of meshes, in which no rank has more sockets than grow with
 * the logarithm of the number of ranks.
 *
 * On level 0 every WEIRI_TREE_GROUP consecutive ranks form a mesh, whose first rank is its leader;
 * on each further level so many leaders of the level below do. An exchange climbs: each mesh
 * gathers the parts of its ranks, then its leader takes part one level higher. Then the complete
 * result descends, from each leader to its mesh. A mesh that fails sends its farewells, and every
 * rank that receives one passes it on to its other meshes, so all ranks fail with the reason that
 * names the missing rank. A mesh of a higher level waits a little longer than those below it, so
 * that this reason arrives first.
 *
 * Messages between two ranks use separate connections (direct.h), made for the first message.
 *
 * Up to WEIRI_TREE_MESH ranks are one mesh, without a tree.
 */
#ifndef WEIR_BOOT_TREE_H
#define WEIR_BOOT_TREE_H

#include "boot/direct.h"

enum { WEIRI_TREE_MESH = 64, WEIRI_TREE_GROUP = 16, WEIRI_TREE_DEPTH = 3 };

/* The mesh of one rank on one level: count ranks, first, first + stride, ..., of which the rank is
 * number index. */
typedef struct weiri_tree_level {
    int first, stride, count, index;
} weiri_tree_level;

/* Fills in the levels on which a rank is in a mesh. Returns their number, at least 1. */
int weiri_tree_levels(int rank, int nranks, weiri_tree_level levels[WEIRI_TREE_DEPTH]);

/* Returns 1 if the two ranks are in the same mesh, so that a socket connects them. */
int weiri_tree_neighbours(int rank, int other, int nranks);

static inline int weiri_tree_member(const weiri_tree_level *level, int index)
{
    return level->first + index * level->stride;
}

/* Creates the bootstrap. Collective: ends with a barrier, after which every rank listens. fds[l]
 * has the non-blocking sockets to the members of the rank's mesh on level l, -1 for the rank
 * itself. They and direct belong to the bootstrap, and are closed if it cannot be created. name has
 * static storage. */
weir_status weiri_tree_create(const char *name, int rank, int nranks, int timeout_ms,
                              int *const *fds, weiri_direct *direct, weir_boot **boot);
/* Ends all waits of the bootstrap, with WEIR_ERR_PEER. Thread-safe until its destruction. */
void weiri_tree_shut(weir_boot *boot);

#endif
