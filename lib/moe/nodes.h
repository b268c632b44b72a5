/*
 * Expert parallelism across nodes, in host memory; nodes_gpu.c copies the buffers of GPUs. Each
 * call begins with an allgather of what the ranks say about it, so that all of them place rows, or
 * fail, in the same way. Transfers are alltoallv of the communicator between a rank and its
 * gateways: on each node the rank with the same index (modulo the node's ranks).
 *
 *   dispatch   a token crosses once to each node that has experts of it, to the sender's gateway
 *              there, into memory that the node's ranks share. After a barrier of the node each
 *              rank copies the rows of its experts.
 *   combine    expert outputs go to memory that the node's ranks share. After a barrier the gateway
 *              collects the rows of each of its sources, in order of tokens and choices, and sends
 *              them back; the source adds them.
 *
 * What a node's ranks share is overwritten only after the next call's allgather, which every rank
 * enters when it has read. The halves of a call do not overlap: complete does all.
 */
#ifndef WEIR_MOE_NODES_H
#define WEIR_MOE_NODES_H

#include "comm/internode/internode.h"
#include "moe/group.h"

/* What a rank says about a call, followed by its tokens for each node (int32_t) and the first part
 * of its record (weiri_moe_record_prefix_bytes). */
typedef struct moe_nodes_head {
    uint32_t kind, handle, problem;
    uint32_t has_routing, has_grads, has_weights, wants_weights, unused;
    int64_t values[3];
} moe_nodes_head;

/* A choice of a token on its way to a node. */
typedef struct moe_nodes_choice {
    int32_t expert; /* -1: none, or on another node */
    uint32_t position;
    float weight;
} moe_nodes_choice;

struct moe_nodes {
    struct moe_staging *staging; /* nodes_gpu.c; NULL: the host backend */
    const weiri_internode *net;
    weir_comm *local; /* this node's ranks */
    int here, place;  /* their number, and this rank's index */
    int sources;      /* ranks that have this one as their gateway */

    char *own_records; /* [handles]: this rank's */
    char *prefixes;    /* [handles][nranks]: of all ranks */
    size_t prefix_bytes;
    int32_t *node_tokens; /* [handles][nranks][nnodes] */
    char *block, *blocks; /* this rank's head and what follows it; those of all ranks */
    size_t block_bytes;

    /* Entries: a token's choices, its row and its scales. */
    size_t entry_bytes, row_at, scales_at;
    moe_nodes_choice *kept; /* [handles][sources * max_tokens * topk]: as received */

    /* Memory that the node's ranks share, and the offsets of its parts. */
    weir_mem *mem, **mems;
    char **windows;              /* [here] */
    size_t outputs_at, grads_at; /* entries are at 0 */
    size_t rows_at; /* [handles][nranks * own bins] int32_t: source_row of the routing */

    char *send, *back; /* of alltoallv; back: expert outputs of this rank's tokens */
    size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

/* Set-up and release, after the host's own memory of the group. Collective; agreed. */
weir_status weiri_moe_nodes_open(weir_moe *group);
void weiri_moe_nodes_close(weir_moe *group);

/* Calls on host memory: complete makes the whole call, send does nothing. Collective. */
weir_status weiri_moe_nodes_dispatch(weir_moe *group, const moe_call *call, int phases);
weir_status weiri_moe_nodes_combine(weir_moe *group, const moe_call *call, int phases);

/* Returns the rank of a node that is the gateway of a rank. */
static inline int moe_nodes_gateway(const struct moe_nodes *n, int rank, int node)
{
    const weiri_node *of = &n->net->nodes[node];
    return of->ranks[n->net->place_of[rank] % of->count];
}

/* Exchanges blocks. Fails on all ranks if one of them has a problem, or makes another call. */
weir_status weiri_moe_nodes_gather(weir_moe *group, const moe_nodes_head *own);
static inline const moe_nodes_head *moe_nodes_head_of(const struct moe_nodes *n, int rank)
{
    return (const moe_nodes_head *)(const void *)(n->blocks + (size_t)rank * n->block_bytes);
}

/* alltoallv of bytes in host memory, by the counts and displacements of `nodes`. Collective. */
weir_status weiri_moe_nodes_exchange(weir_moe *group, const void *in, void *out);

/* The tokens of a rank for a node. */
static inline int32_t *moe_nodes_tokens(const weir_moe *group, const struct moe_nodes *n,
                                        int handle, int rank)
{
    return n->node_tokens +
           ((size_t)handle * (size_t)group->nranks + (size_t)rank) * (size_t)n->net->nnodes;
}

/* The received rows of each source on one of the node's ranks. */
static inline int32_t *moe_nodes_rows(const weir_moe *group, const struct moe_nodes *n, int place,
                                      int handle)
{
    return (int32_t *)(void *)(n->windows[place] + n->rows_at) +
           (size_t)handle * (size_t)group->nranks * (size_t)group->own_bins;
}

#endif
