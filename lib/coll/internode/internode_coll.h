/*
 * The common part of the algorithms across nodes. Within a node, a phase of a call is a collective
 * on the node's sub-communicator; between nodes, messages are sent (comm/internode/internode.h).
 * All ranks run through the same phases in the same order.
 *
 * Rails. A rank's place is its number among the ranks of its node. A rail connects the ranks of the
 * same place on all nodes. Nodes may have different numbers of ranks: place p of one node
 * communicates with place p modulo the other node's number of ranks.
 *
 * GPUs. If the buffers are GPU memory, phases within the node run on the GPUs in the caller's
 * stream, and data are copied between GPU memory and host memory before a message is sent and after
 * one has arrived. weiri_internode_coll_phase_buffer and _host_buffer return where a phase, and the
 * host, put such data; in host memory both return the final place, and nothing is copied.
 */
#ifndef WEIR_COLL_INTERNODE_INTERNODE_COLL_H
#define WEIR_COLL_INTERNODE_INTERNODE_COLL_H

#include "coll/algos.h"
#include "comm/internode/internode.h"

/* A call across nodes. */
typedef struct weiri_internode_coll {
    weiri_coll *coll;     /* of the communicator of all ranks */
    weiri_coll *host;     /* of the host sub-communicator */
    weir_comm *node_comm; /* of the phases within the node: the host or GPU sub-communicator */
    weir_stream stream;   /* GPUs: the stream of the phases within the node */
    char *device_staging, *host_staging; /* GPUs: as long as a message; else NULL */
    weiri_internode *internode;
    const weiri_task *task;
    const char *phase; /* for reports */
    size_t unit_bytes; /* of a unit of transfers: an element, or a byte */
    weir_op op;        /* of phases within the node: sum for avg, which is divided at the end */
    int place, count;  /* this rank's place in its node, and the node's number of ranks */
} weiri_internode_coll;

weir_status weiri_internode_coll_begin(weiri_coll *coll, const weiri_task *task,
                                       weiri_internode_coll *x);
/* Waits until the stream's work has ended and sent messages need no more progress by this rank.
 * status is the call's so far. */
weir_status weiri_internode_coll_end(weiri_internode_coll *x, weir_status status);

/* Where a phase within the node leaves data for host memory, or finds data that came from there. */
static inline char *weiri_internode_coll_phase_buffer(const weiri_internode_coll *x, char *host)
{
    return x->device_staging ? x->device_staging : host;
}

/* Where the host leaves data for a buffer of the call. */
static inline char *weiri_internode_coll_host_buffer(const weiri_internode_coll *x, char *buffer)
{
    return x->host_staging ? x->host_staging : buffer;
}

/* Copies between a phase buffer and host memory, a host buffer and a buffer of the call, or either
 * of them and a message; nothing if from and to are equal. After the earlier phases; blocks. */
weir_status weiri_internode_coll_copy(weiri_internode_coll *x, char *to, const char *from,
                                      size_t bytes);

/* The rank of a node with which ranks of a place communicate. */
static inline int weiri_internode_coll_rail(const weiri_internode_coll *x, int node, int place)
{
    const weiri_node *other = &x->internode->nodes[node];
    return other->ranks[place % other->count];
}

/* The number of units in a message, in whole cache lines. */
static inline size_t weiri_internode_coll_elements(const weiri_internode_coll *x)
{
    return x->internode->slot_bytes / WEIR_LINE_BYTES * WEIR_LINE_BYTES / x->unit_bytes;
}

static inline size_t weiri_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Combines the nodes' partial results in the order of nodes into out. mine is this node's; the
 * others are messages from senders (one rank of each node), which are awaited and released. */
weir_status weiri_internode_coll_combine(weiri_internode_coll *x, const int *senders,
                                         const void *mine, char *out, size_t count);

/* Copies data into a message and sends it to a rank; blocks while there is no free slot. */
weir_status weiri_internode_coll_send(weiri_internode_coll *x, int rank, const char *data,
                                      size_t bytes);

/* Sends data to this rank's rail on every other node. */
weir_status weiri_internode_coll_send_rail(weiri_internode_coll *x, const char *data, size_t bytes);

/* Waits for a message from a rank; *data becomes the place where a phase within the node finds it.
 * The caller releases the slot with weiri_internode_take. */
weir_status weiri_internode_coll_receive(weiri_internode_coll *x, int rank, size_t bytes,
                                         const char **data);

/* Every rank of the node sends `mine`, of so many bytes, to all ranks of the node; to[i] in the
 * output, of lengths[i], receives the data of place i. */
weir_status weiri_internode_coll_spread(weiri_internode_coll *x, const char *mine, size_t bytes,
                                        char *const *to, const size_t *lengths);

/* Whether every node has one rank, and data of so many bytes are sent from where they are: then
 * messages between pairs of ranks need the fewest copies. Shorter
 * data travel faster as one message (weiri_internode_coll_send). */
static inline int weiri_internode_coll_is_flat(const weiri_coll *coll, size_t bytes)
{
    return coll->nranks == coll->comm->nnodes &&
           weiri_internode_is_direct(coll->comm->internode, bytes);
}

/* Allreduce out of place, or reduce_scatter, if weiri_internode_coll_is_flat: reduce_flat.c. */
weir_status weiri_internode_coll_reduce_flat(weiri_coll *coll, const weiri_task *task);

/* Exchanges task->pairs, messages between pairs of ranks: exchange_pairs.c. */
weir_status weiri_internode_coll_run_pairs(weiri_coll *coll, const weiri_task *task);

#endif
