/*
 * Transfers: the steps of algorithms in which every rank, at any time, sends to at most one rank of
 * another node and receives from at most one. A transfer has any length; it is cut into messages,
 * which are sent and received in alternation as far as there is room, so that two ranks that send
 * to each other cannot block each other.
 *
 * Rails as groups. The ranks of the same place on all nodes (place < the smallest node's number of
 * ranks) form a group with one rank for each node; its ranks are named by their nodes' numbers.
 */
#ifndef WEIR_COLL_INTERNODE_TRANSFER_H
#define WEIR_COLL_INTERNODE_TRANSFER_H

#include "coll/internode/internode_coll.h"

enum { WEIRI_NOBODY = -1 };

/* Data to one rank and from one; lengths are whole elements. Buffers are host memory. */
typedef struct weiri_transfer {
    int to, from; /* ranks of other nodes, or WEIRI_NOBODY */
    const char *send;
    size_t send_bytes;
    char *receive; /* may begin at send; each message is then received after it was sent */
    size_t receive_bytes;
    int combines;   /* receive is combined with what arrives, else overwritten */
    int peer_first; /* what arrives is the first operand of the combination */
    int is_last;    /* the result is complete: for avg, divides by the number of ranks */
} weiri_transfer;

/* Performs a transfer; blocks until everything is received, and what is sent has left the buffer.
 * WEIR_ERR_MISMATCH if the peer's data have another length. */
weir_status weiri_transfer_run(weiri_internode_coll *x, const weiri_transfer *transfer);

/* Sends to a rank, or receives from one. */
weir_status weiri_transfer_send(weiri_internode_coll *x, int to, const char *data, size_t bytes);
weir_status weiri_transfer_receive(weiri_internode_coll *x, int from, char *data, size_t bytes);

/* The rank of a node in this rank's group. */
static inline int weiri_group_rank(const weiri_internode_coll *x, int node)
{
    return x->internode->nodes[node].ranks[x->place];
}

/* The largest power of two that is not above the number of nodes. */
static inline int weiri_group_power(const weiri_internode_coll *x)
{
    int power = 1;
    while (power * 2 <= x->internode->nnodes)
        power *= 2;
    return power;
}

/* Folding, for algorithms that need a power of two: of nnodes nodes the first 2 * (nnodes - power)
 * form pairs. The even node of a pair represents both, the odd one is idle meanwhile. Returns the
 * number of this node among the representing ones; -1: it is idle. */
static inline int weiri_fold_index(int node, int nnodes, int power)
{
    int folded = nnodes - power;
    if (node >= 2 * folded)
        return node - folded;
    return node % 2 ? -1 : node / 2;
}

/* The inverse: the node of a number. */
static inline int weiri_fold_node(int index, int nnodes, int power)
{
    int folded = nnodes - power;
    return index < folded ? 2 * index : index + folded;
}

/* A pair of folded nodes; peer is WEIRI_NOBODY for nodes that belong to none. */
typedef struct weiri_fold {
    int peer; /* the rank of the other node */
    int is_idle;
} weiri_fold;
weiri_fold weiri_fold_of(const weiri_internode_coll *x, int place);
/* The idle node sends data, which the representing one combines with its own; and receives the
 * result. */
weir_status weiri_fold_begin(weiri_internode_coll *x, const weiri_fold *fold, char *data,
                             size_t bytes);
weir_status weiri_fold_end(weiri_internode_coll *x, const weiri_fold *fold, char *data,
                           size_t bytes);

/* Divides a buffer: the first element of part i of n. */
static inline size_t weiri_part_at(size_t count, int i, int n)
{
    /* NOLINTNEXTLINE(*-core.DivideZero): there is at least one part */
    size_t each = count / (size_t)n, more = count % (size_t)n, part = (size_t)i;
    return each * part + weiri_least(part, more);
}

/* Part i of n; empty if there is no such part. */
static inline weiri_share weiri_parts_share(size_t count, int i, int n)
{
    if (i >= n)
        return (weiri_share){count, 0};
    size_t first = weiri_part_at(count, i, n);
    return (weiri_share){first, weiri_part_at(count, i + 1, n) - first};
}

/* Host memory of at least so many bytes for intermediate data of the current call; contents are
 * undefined, and an earlier call's memory may have moved. Lives as long as the communicator. */
weir_status weiri_internode_coll_scratch(weiri_internode_coll *x, size_t bytes, char **memory);

/* Distributes within the node the parts of out, element part_at(count, i, nrails) on of rank i. */
weir_status weiri_parts_gather(weiri_internode_coll *x, char *out, size_t count,
                               size_t element_bytes, int nrails);

/* Allreduce in three phases: each node reduces and scatters, ranks that have a rail combine their
 * part of the output along it, and each node gathers. */
typedef weir_status weiri_along_rail(weiri_internode_coll *x, char *part, size_t count);
weir_status weiri_parts_allreduce(weiri_coll *coll, const weiri_task *task,
                                  weiri_along_rail *along);

/* Every rank of the node sends a block to the rank of a place, or receives one from it. Only that
 * rank uses all, in which the blocks are in the order of places, stride bytes apart. */
weir_status weiri_node_gather(weiri_internode_coll *x, int place, const char *block, size_t bytes,
                              char *all, size_t stride);
weir_status weiri_node_scatter(weiri_internode_coll *x, int place, char *all, size_t stride,
                               char *block, size_t bytes);

#endif
