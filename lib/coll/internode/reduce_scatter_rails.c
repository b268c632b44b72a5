/*
 * Reduce-scatter of large sizes across nodes: for every rank of another node, the ranks of this
 * node reduce its block, chunk by chunk, into a message of the one on its rail, which sends the
 * partial result to it. For ranks of this node they reduce into the output. Then each rank combines
 * the messages with its own partial result in the order of nodes.
 */
#include "coll/internode/internode_coll.h"

/* Whether a node's blocks are adjacent and each rank of this node serves one of them. */
static int is_even(const weiri_internode_coll *x, int node)
{
    const weiri_node *other = &x->internode->nodes[node];
    return other->count == x->count &&
           other->ranks[other->count - 1] - other->ranks[0] == other->count - 1;
}

/* Where the partial result for a rank goes: into out on this node, else into a message. */
static weir_status partial_begin(weiri_internode_coll *x, int to, char *out, char **partial)
{
    *partial = weiri_internode_coll_host_buffer(x, out);
    if (!weiri_internode_is_remote(x->internode, to))
        return WEIR_OK;
    weir_status status = weiri_internode_await_room(x->internode, to, x->phase);
    *partial = weiri_internode_outgoing(x->internode, to);
    return status;
}

/* Copies the result of the node's phase to its place, and sends it if that is a message. */
static weir_status partial_end(weiri_internode_coll *x, int to, char *partial, size_t bytes)
{
    weir_status status =
        weiri_internode_coll_copy(x, partial, weiri_internode_coll_phase_buffer(x, partial), bytes);
    return status == WEIR_OK && weiri_internode_is_remote(x->internode, to)
               ? weiri_internode_send(x->internode, to, bytes, bytes)
               : status;
}

/* The partial results for all ranks of a node, by one reduce-scatter within this node. */
static weir_status serve_evenly(weiri_internode_coll *x, int node)
{
    const weiri_task *task = x->task;
    const weiri_node *other = &x->internode->nodes[node];
    int to = weiri_internode_coll_rail(x, node, x->place);
    char *partial = NULL;
    weir_status status = partial_begin(x, to, task->call->out, &partial);
    if (status == WEIR_OK)
        status = weir_reduce_scatter(
            x->node_comm, weiri_in_at(task, (size_t)other->ranks[0] * x->task->count_bytes),
            weiri_internode_coll_phase_buffer(x, partial), task->call->count, task->call->dtype,
            x->op, x->stream);
    return status == WEIR_OK ? partial_end(x, to, partial, x->task->count_bytes) : status;
}

/* The partial results of a chunk, by one reduce for each rank of a node. */
static weir_status serve_chunk(weiri_internode_coll *x, int node, size_t first, size_t count)
{
    const weiri_task *task = x->task;
    const weiri_node *other = &x->internode->nodes[node];
    size_t at = first * x->task->element_bytes, bytes = count * x->task->element_bytes;
    weir_status status = WEIR_OK;
    for (int i = 0; i < other->count && status == WEIR_OK; i++) {
        int to = other->ranks[i], root = i % x->count, is_mine = root == x->place;
        char *partial = NULL, *buffer = NULL;
        if (is_mine) {
            status = partial_begin(x, to, weiri_out_at(task, at), &partial);
            buffer = weiri_internode_coll_phase_buffer(x, partial);
        }
        if (status == WEIR_OK)
            status =
                weir_reduce(x->node_comm, weiri_in_at(task, (size_t)to * x->task->count_bytes + at),
                            buffer, count, task->call->dtype, x->op, root, x->stream);
        if (status == WEIR_OK && is_mine)
            status = partial_end(x, to, partial, bytes);
    }
    return status;
}

static weir_status reduce_scatter_chunk(weiri_internode_coll *x, size_t first, size_t count)
{
    const weiri_task *task = x->task;
    int nnodes = x->internode->nnodes, *senders = WEIRI_STACK_ARRAY(int, nnodes);
    weir_status status = WEIR_OK;
    for (int step = 1; step <= nnodes && status == WEIR_OK; step++) {
        int node = (x->internode->node + step) % nnodes; /* this node last */
        if (count == task->call->count && is_even(x, node))
            status = serve_evenly(x, node);
        else
            status = serve_chunk(x, node, first, count);
    }
    for (int m = 0; m < nnodes; m++)
        senders[m] = weiri_internode_coll_rail(x, m, x->place);
    char *out = weiri_out_at(task, first * x->task->element_bytes),
         *total = weiri_internode_coll_host_buffer(x, out);
    if (status == WEIR_OK)
        status = weiri_internode_coll_combine(x, senders, total, total, count);
    return status == WEIR_OK
               ? weiri_internode_coll_copy(x, out, total, count * x->task->element_bytes)
               : status;
}

static weir_status reduce_scatter_rails_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    if (weiri_internode_coll_is_flat(coll, task->count_bytes))
        return weiri_internode_coll_reduce_flat(coll, task);
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    size_t chunk = weiri_internode_coll_elements(&x);
    for (size_t first = 0; status == WEIR_OK && first < task->call->count; first += chunk)
        status = reduce_scatter_chunk(&x, first, weiri_least(task->call->count - first, chunk));
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_reduce_scatter_rails_row = {
    .info = {WEIRI_NET_TRAITS(
                 REDUCE_SCATTER, "rails",
                 "reduce in each node for each rank of other nodes, send it the result"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = reduce_scatter_rails_run,
    .gpu_phases_from = 128 << 10,
};
