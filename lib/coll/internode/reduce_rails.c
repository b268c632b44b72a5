/*
 * Reduce across nodes: every node reduces a chunk to one of its ranks, chosen in rotation. Those of
 * other nodes send it to the root, which combines the partial results in the order of nodes.
 * Meanwhile the next chunks are reduced and sent.
 */
#include "coll/internode/internode_coll.h"

static weir_status send_partial(weiri_internode_coll *x, const char *in, size_t count, int place)
{
    const weiri_task *task = x->task;
    size_t bytes = count * x->task->element_bytes;
    int sends = place == x->place;
    weir_status status =
        sends ? weiri_internode_await_room(x->internode, task->call->root, x->phase) : WEIR_OK;
    if (status == WEIR_OK)
        status =
            weir_reduce(x->host->comm, in,
                        sends ? weiri_internode_outgoing(x->internode, task->call->root) : NULL,
                        count, task->call->dtype, x->op, place, NULL);
    return status == WEIR_OK && sends
               ? weiri_internode_send(x->internode, task->call->root, bytes, bytes)
               : status;
}

static weir_status reduce_chunk(weiri_internode_coll *x, size_t first, size_t count, size_t number)
{
    const weiri_task *task = x->task;
    const weiri_internode *internode = x->internode;
    size_t at = first * x->task->element_bytes;
    int *senders = WEIRI_STACK_ARRAY(int, internode->nnodes),
        is_root = x->coll->rank == task->call->root;
    if (internode->node != internode->node_of[task->call->root])
        return send_partial(x, weiri_in_at(task, at), count, (int)(number % (size_t)x->count));
    char *out = is_root ? weiri_out_at(task, at) : NULL;
    weir_status status =
        weir_reduce(x->host->comm, weiri_in_at(task, at), out, count, task->call->dtype, x->op,
                    internode->place_of[task->call->root], NULL);
    if (status != WEIR_OK || !is_root)
        return status;
    for (int m = 0; m < internode->nnodes; m++)
        senders[m] = internode->nodes[m].ranks[number % (size_t)internode->nodes[m].count];
    return weiri_internode_coll_combine(x, senders, out, out, count);
}

static weir_status reduce_rails_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    size_t chunk = weiri_internode_coll_elements(&x), number = 0;
    for (size_t first = 0; status == WEIR_OK && first < task->call->count; first += chunk)
        status = reduce_chunk(&x, first, weiri_least(task->call->count - first, chunk), number++);
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_reduce_rails_row = {
    .info = {WEIRI_NET_TRAITS(REDUCE, "rails",
                              "reduce in each node, the root combines the results"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = reduce_rails_run,
    .gpu_phases_from = SIZE_MAX,
};
