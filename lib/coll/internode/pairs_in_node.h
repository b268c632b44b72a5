/* The part of alltoall, alltoallv and sendrecv across nodes that stays within a node. */
#ifndef WEIR_COLL_INTERNODE_PAIRS_IN_NODE_H
#define WEIR_COLL_INTERNODE_PAIRS_IN_NODE_H

#include "coll/internode/internode_coll.h"

/* Exchanges the blocks of pairs within the node, as the call's pairs describe them. Every rank of
 * the node calls it, including ranks without blocks. */
weir_status weiri_pairs_in_node(weiri_internode_coll *x);

#endif
