/*
 * Sections: the blocks of a node's ranks, adjacent, in the order of their places. Where data are
 * exchanged by leaders, buffers contain the sections of all nodes in the order of nodes; if ranks
 * are numbered node by node, that is the order of ranks.
 */
#ifndef WEIR_COLL_INTERNODE_SECTIONS_H
#define WEIR_COLL_INTERNODE_SECTIONS_H

#include "coll/internode/transfer.h"

#include <string.h>

/* The first rank of a node, counted node by node. At the number of nodes: all ranks. */
static inline size_t weiri_section_at(const weiri_internode_coll *x, int node)
{
    size_t at = 0;
    for (int m = 0; m < node; m++)
        at += (size_t)x->internode->nodes[m].count;
    return at;
}

static inline size_t weiri_section_ranks(const weiri_internode_coll *x, int node)
{
    return (size_t)x->internode->nodes[node].count;
}

/* Whether ranks are numbered node by node. */
static inline int weiri_sections_are_ranks(const weiri_internode_coll *x)
{
    int next = 0;
    for (int m = 0; m < x->internode->nnodes; m++)
        for (int place = 0; place < x->internode->nodes[m].count; place++)
            if (x->internode->nodes[m].ranks[place] != next++)
                return 0;
    return 1;
}

/* Copies blocks between the order of ranks and a node's section. */
static inline void weiri_section_pack(const weiri_internode_coll *x, int node, char *section,
                                      const char *ranks, size_t block_bytes)
{
    const weiri_node *of = &x->internode->nodes[node];
    for (int place = 0; place < of->count; place++)
        memcpy(section + (size_t)place * block_bytes,
               ranks + (size_t)of->ranks[place] * block_bytes, block_bytes);
}

static inline void weiri_section_unpack(const weiri_internode_coll *x, int node, char *ranks,
                                        const char *section, size_t block_bytes)
{
    const weiri_node *of = &x->internode->nodes[node];
    for (int place = 0; place < of->count; place++)
        memcpy(ranks + (size_t)of->ranks[place] * block_bytes,
               section + (size_t)place * block_bytes, block_bytes);
}

#endif
