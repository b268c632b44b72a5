/*
 * Broadcast across nodes: the chunks are divided among the ranks of the root's node, each of which
 * sends its chunks along its rail to every other node, where the receiver broadcasts them. The root
 * sends the first chunk before its own node has received it. With one rank on each node, the root
 * sends long data as messages of pairs, which need no copies.
 */
#include "coll/internode/internode_coll.h"

#include <string.h>

static weir_status broadcast_in_node(weiri_internode_coll *x, const char *in, char *out,
                                     size_t bytes, int place)
{
    return weir_broadcast(x->node_comm, in, out, bytes, WEIR_UINT8, place, x->stream);
}

/* A chunk on the root's node; sender is the place of the rank that sends it to other nodes. */
static weir_status broadcast_from_root(weiri_internode_coll *x, size_t at, size_t bytes,
                                       int root_place, int sender)
{
    const weiri_task *task = x->task;
    int sends = sender == x->place, is_root = root_place == x->place;
    const char *in = task->call->in ? weiri_in_at(task, at) : NULL;
    weir_status status = sends && is_root ? weiri_internode_coll_send_rail(x, in, bytes) : WEIR_OK;
    if (status == WEIR_OK)
        status = broadcast_in_node(x, in, weiri_out_at(task, at), bytes, root_place);
    if (status == WEIR_OK && sends && !is_root)
        status = weiri_internode_coll_send_rail(x, weiri_out_at(task, at), bytes);
    return status;
}

/* A chunk on another node, whose rank of that place receives it. */
static weir_status broadcast_from_rank(weiri_internode_coll *x, size_t at, size_t bytes, int from,
                                       int place)
{
    const char *data = NULL;
    int receives = place == x->place;
    weir_status status = receives ? weiri_internode_coll_receive(x, from, bytes, &data) : WEIR_OK;
    if (status == WEIR_OK)
        status = broadcast_in_node(x, data, weiri_out_at(x->task, at), bytes, place);
    return status == WEIR_OK && receives ? weiri_internode_take(x->internode, from) : status;
}

static weir_status broadcast_pairs_run(weiri_coll *coll, const weiri_task *task)
{
    const weir_call *call = task->call;
    const size_t bytes = task->count_bytes;
    memset(coll->pairs, 0, (size_t)coll->nranks * sizeof *coll->pairs);
    if (coll->rank != call->root)
        coll->pairs[call->root] = (weiri_pair){NULL, call->out, 0, bytes, 0, 1};
    for (int peer = 0; coll->rank == call->root && peer < coll->nranks; peer++)
        coll->pairs[peer] = (weiri_pair){call->in, call->out, bytes, 0, 1, 0};
    return weiri_internode_coll_run_pairs(coll, task);
}

static weir_status broadcast_rails_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    if (weiri_internode_coll_is_flat(coll, task->count_bytes))
        return broadcast_pairs_run(coll, task);
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    size_t chunk = x.internode->slot_bytes;
    int node = x.internode->node_of[task->call->root],
        root_place = x.internode->place_of[task->call->root];
    const weiri_node *root_node = &x.internode->nodes[node];
    for (size_t at = 0; status == WEIR_OK && at < task->count_bytes; at += chunk) {
        size_t bytes = weiri_least(task->count_bytes - at, chunk);
        int sender = (int)((size_t)root_place + at / chunk) % root_node->count;
        if (node == x.internode->node)
            status = broadcast_from_root(&x, at, bytes, root_place, sender);
        else
            status = broadcast_from_rank(&x, at, bytes, root_node->ranks[sender], sender % x.count);
    }
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_broadcast_rails_row = {
    .info = {WEIRI_NET_TRAITS(
        BROADCAST, "rails",
        "ranks of the root's node send chunks in rotation, broadcast in each node")},
    .run = broadcast_rails_run,
};
