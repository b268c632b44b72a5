/*
 * Small sizes across nodes: the ranks of a node publish their inputs in their slots. The leader,
 * its first rank, sends the part that another node needs to that node's leader in one message, and
 * publishes the result for its node. So there is one message per pair of nodes and direction, and
 * two latencies within a node.
 *
 * Contributions are sent unreduced, and each leader combines all of them in rank order; reductions
 * therefore have the same bits as on one node.
 *
 *   allreduce, reduce, allgather   a rank contributes its input, to all nodes
 *   reduce_scatter, alltoall       a rank contributes a block for each rank; a node receives those
 *                                  for its own ranks
 *
 * A message holds the contributions of the sending node's ranks in the order of their places.
 * A round takes one epoch of the host sub-communicator, in which the leader hears from every rank
 * of the node, and every rank from the leader. If nodes have so many ranks that a message cannot
 * hold a word of each block, the collective's other algorithm is used.
 */
#include "base/error.h"
#include "coll/internode/internode_coll.h"
#include "coll/host/slot.h"

#include <string.h>

typedef struct relay {
    weiri_internode_coll x;
    int blocks;        /* a contribution has a block for each rank */
    int all;           /* a result has a block from each rank */
    size_t block;      /* bytes of one in this round */
    size_t done;       /* bytes of each block in earlier rounds */
    const void **from; /* leader: each rank's contribution; coll->sources */
} relay;

static size_t relay_ranks(const relay *r)
{
    return (size_t)r->x.coll->nranks;
}

static size_t contribution_bytes(const relay *r)
{
    return r->blocks ? r->block * relay_ranks(r) : r->block;
}

/* The bytes of one contribution that a node's ranks receive. */
static size_t node_bytes(const relay *r, int node)
{
    return r->blocks ? r->block * (size_t)r->x.internode->nodes[node].count : r->block;
}

/* The leader publishes one result, or one for each of its ranks. */
static size_t result_bytes(const relay *r)
{
    size_t each = r->all ? r->block * relay_ranks(r) : r->block;
    return r->blocks ? each * (size_t)r->x.count : each;
}

/* How much of a block slots, results and messages can hold, in whole cache lines. */
static size_t round_bytes(const relay *r)
{
    const weiri_coll *host = r->x.host;
    size_t most = (size_t)r->x.internode->most, n = relay_ranks(r);
    size_t slot = host->piece_bytes / (r->blocks ? n : 1);
    size_t result = host->result_bytes / (r->all ? n : 1) / (r->blocks ? most : 1);
    size_t message = r->x.internode->slot_bytes / most / (r->blocks ? most : 1);
    size_t least = weiri_least(slot, weiri_least(result, message));
    return least / WEIR_LINE_BYTES ? least / WEIR_LINE_BYTES * WEIR_LINE_BYTES : least / 8 * 8;
}

/* ------------------------------------------------------------------- the leader */

/* Sends another node its part of this node's contributions. */
static weir_status relay_send(relay *r, int node)
{
    weiri_internode *internode = r->x.internode;
    const weiri_node *other = &internode->nodes[node];
    int to = other->ranks[0];
    weir_status status = weiri_internode_await_room(internode, to, r->x.phase);
    if (status != WEIR_OK)
        return status;
    char *data = weiri_internode_outgoing(internode, to), *at = data;
    for (int place = 0; place < r->x.count; place++) {
        const char *from = r->from[internode->nodes[internode->node].ranks[place]];
        for (int i = 0; i < (r->blocks ? other->count : 1); i++) {
            size_t block = r->blocks ? (size_t)other->ranks[i] : 0;
            memcpy(at, from + block * r->block, r->block);
            at += r->block;
        }
    }
    return weiri_internode_send(internode, to, (size_t)(at - data), (size_t)(at - data));
}

/* Waits for another node's contributions. */
static weir_status relay_await(relay *r, int node)
{
    weiri_internode *internode = r->x.internode;
    const weiri_node *other = &internode->nodes[node];
    weir_status status = weiri_internode_await(internode, other->ranks[0], r->x.phase);
    if (status != WEIR_OK)
        return status;
    const char *data = weiri_internode_incoming(internode, other->ranks[0]);
    for (int place = 0; place < other->count; place++)
        r->from[other->ranks[place]] = data + (size_t)place * node_bytes(r, internode->node);
    return WEIR_OK;
}

/* A rank's block for the rank of that place in this node. A contribution of this node has the
 * blocks of all ranks, a contribution from another node only the blocks of this node's ranks. */
static const char *relay_block(const relay *r, int rank, int place)
{
    const weiri_internode *internode = r->x.internode;
    if (!r->blocks)
        return r->from[rank];
    int is_own_node = internode->node_of[rank] == internode->node;
    size_t block =
        is_own_node ? (size_t)internode->nodes[internode->node].ranks[place] : (size_t)place;
    return (const char *)r->from[rank] + block * r->block;
}

/* The result for one rank of this node, or for all of them. */
static void make_result(const relay *r, int place, char *result)
{
    const weiri_task *task = r->x.task;
    const void **blocks = r->x.coll->blocks;
    for (int rank = 0; rank < r->x.coll->nranks; rank++)
        blocks[rank] = relay_block(r, rank, place);
    if (!r->all) {
        weiri_reduce(result, blocks, r->x.coll->nranks, r->block / r->x.task->element_bytes,
                     task->call->dtype, task->call->op, relay_ranks(r), 0);
        return;
    }
    for (size_t rank = 0; rank < relay_ranks(r); rank++)
        memcpy(result + rank * r->block, blocks[rank], r->block);
}

static weir_status relay_lead(relay *r)
{
    weiri_coll *host = r->x.host;
    weiri_internode *internode = r->x.internode;
    size_t bytes = contribution_bytes(r), total = result_bytes(r);
    weir_status status = WEIR_OK;
    for (int place = 0; place < r->x.count && status == WEIR_OK; place++) {
        weiri_slot *slot = weiri_slot_of(host, place);
        if (place != r->x.place)
            status = weiri_slot_await(host, slot, place, bytes, r->x.phase);
        r->from[internode->nodes[internode->node].ranks[place]] =
            weiri_slot_data(host, slot, host->epoch, bytes);
    }
    for (int step = 1; step < internode->nnodes && status == WEIR_OK; step++)
        status = relay_send(r, (internode->node + step) % internode->nnodes);
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++)
        if (m != internode->node)
            status = relay_await(r, m);
    if (status != WEIR_OK)
        return status;
    weiri_slot *slot = host->areas[r->x.place].result[host->epoch & 1];
    char *result = weiri_slot_data(host, slot, host->epoch, total);
    for (int place = 0; place < (r->blocks ? r->x.count : 1); place++)
        make_result(r, place, result + (size_t)place * (total / (size_t)r->x.count));
    weiri_slot_advance(host, slot, total);
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++)
        if (m != internode->node)
            status = weiri_internode_take(internode, internode->nodes[m].ranks[0]);
    return status;
}

/* --------------------------------------------------------------------- all ranks */

/* Publishes this rank's input of a round in its slot. */
static void relay_publish(const relay *r)
{
    const weiri_task *task = r->x.task;
    size_t bytes = contribution_bytes(r);
    weiri_coll *host = r->x.host;
    weiri_slot *slot = weiri_slot_of(host, r->x.place);
    char *data = weiri_slot_data(host, slot, host->epoch, bytes);
    for (size_t block = 0; block < (r->blocks ? relay_ranks(r) : 1); block++)
        memcpy(data + block * r->block, weiri_in_at(task, block * r->x.task->count_bytes + r->done),
               r->block);
    weiri_slot_advance(host, slot, bytes);
}

static weir_status relay_fetch(relay *r)
{
    const weiri_task *task = r->x.task;
    weiri_coll *host = r->x.host;
    size_t total = result_bytes(r);
    weiri_slot *slot = host->areas[0].result[host->epoch & 1];
    weir_status status = weiri_slot_await(host, slot, 0, total, r->x.phase);
    if (status != WEIR_OK)
        return status;
    if (task->call->collective == WEIR_COLL_REDUCE && r->x.coll->rank != task->call->root)
        return WEIR_OK;
    const char *result = weiri_slot_data(host, slot, host->epoch, total);
    if (r->blocks)
        result += (size_t)r->x.place * (total / (size_t)r->x.count);
    for (size_t block = 0; block < (r->all ? relay_ranks(r) : 1); block++)
        memcpy(weiri_out_at(task, block * r->x.task->count_bytes + r->done),
               result + block * r->block, r->block);
    return WEIR_OK;
}

static weir_status relay_round(relay *r)
{
    weir_status status = weiri_coll_begin(r->x.host);
    if (status != WEIR_OK)
        return status;
    relay_publish(r);
    if (r->x.place == 0)
        status = relay_lead(r);
    if (status == WEIR_OK)
        status = relay_fetch(r);
    if (status == WEIR_OK)
        weiri_coll_end_all_heard(r->x.host);
    return status;
}

static weir_status relay_run(weiri_coll *coll, const weiri_task *task)
{
    relay r = {.from = coll->sources};
    weir_status status = weiri_internode_coll_begin(coll, task, &r.x);
    r.blocks = task->call->collective == WEIR_COLL_REDUCE_SCATTER ||
               task->call->collective == WEIR_COLL_ALLTOALL;
    r.all = task->call->collective == WEIR_COLL_ALLGATHER ||
            task->call->collective == WEIR_COLL_ALLTOALL;
    size_t most = status == WEIR_OK ? round_bytes(&r) : 0;
    if (status == WEIR_OK && !most && coll->comm->invariant && !r.all)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "%s between nodes of %d ranks has no algorithm for an invariant "
                          "communicator: a message does not hold a word for each pair of ranks",
                          weir_collective_name(task->call->collective), r.x.internode->most);
    if (status == WEIR_OK && !most)
        return r.all ? weiri_algo_fall_back(coll, task, &weiri_net_alltoall_pairs_row)
                     : weiri_algo_fall_back(coll, task, &weiri_net_reduce_scatter_rails_row);
    for (; status == WEIR_OK && r.done < task->count_bytes; r.done += r.block) {
        r.block = weiri_least(task->count_bytes - r.done, most);
        status = relay_round(&r);
    }
    return weiri_internode_coll_end(&r.x, status);
}

const weiri_algo weiri_net_allreduce_packet_row = {
    .info = {WEIRI_NET_TRAITS(ALLREDUCE, "packet", "one message between two nodes; small sizes")},
    .run = relay_run,
    .gpu_phases_from = SIZE_MAX,
};

const weiri_algo weiri_net_reduce_packet_row = {
    .info = {WEIRI_NET_TRAITS(REDUCE, "packet", "one message between two nodes; in rank order")},
    .run = relay_run,
    .gpu_phases_from = SIZE_MAX,
};

const weiri_algo weiri_net_reduce_scatter_packet_row = {
    .info = {WEIRI_NET_TRAITS(REDUCE_SCATTER, "packet",
                              "one message between two nodes; small sizes")},
    .run = relay_run,
    .gpu_phases_from = SIZE_MAX,
};

const weiri_algo weiri_net_allgather_packet_row = {
    .info = {WEIRI_NET_TRAITS(ALLGATHER, "packet", "one message between two nodes; small sizes")},
    .run = relay_run,
    .gpu_phases_from = SIZE_MAX,
};

const weiri_algo weiri_net_alltoall_packet_row = {
    .info = {WEIRI_NET_TRAITS(ALLTOALL, "packet", "one message between two nodes; small sizes")},
    .run = relay_run,
    .gpu_phases_from = SIZE_MAX,
};
