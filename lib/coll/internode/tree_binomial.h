/*
 * The binomial tree of the nodes, for algorithms with a root. A node is represented by the root on
 * the root's node and by the leader elsewhere. Positions are counted from the root's node on,
 * modulo the number of nodes; the subtree of a position is that position and the next ones.
 */
#ifndef WEIR_COLL_INTERNODE_TREE_BINOMIAL_H
#define WEIR_COLL_INTERNODE_TREE_BINOMIAL_H

#include "coll/internode/transfer.h"

typedef struct weiri_binomial {
    int nnodes, root_node, root;
    int position; /* of this node */
    int place;    /* of the rank that represents this node */
    int span;     /* the parent is so far before, and the children less far after this position;
                     of the root: the smallest power of two that is not below nnodes */
} weiri_binomial;

static inline weiri_binomial weiri_binomial_of(const weiri_internode_coll *x, int root)
{
    weiri_binomial b = {.nnodes = x->internode->nnodes, .root = root, .span = 1};
    b.root_node = x->internode->node_of[root];
    b.position = (x->internode->node - b.root_node + b.nnodes) % b.nnodes;
    b.place = b.position == 0 ? x->internode->place_of[root] : 0;
    while (b.span < b.nnodes && !(b.position & b.span))
        b.span *= 2;
    return b;
}

/* The node, and the rank that represents it, at a position. */
static inline int weiri_binomial_node(const weiri_binomial *b, int position)
{
    return (position + b->root_node) % b->nnodes;
}

static inline int weiri_binomial_rank(const weiri_internode_coll *x, const weiri_binomial *b,
                                      int position)
{
    return position == 0 ? b->root : x->internode->nodes[weiri_binomial_node(b, position)].ranks[0];
}

#endif
