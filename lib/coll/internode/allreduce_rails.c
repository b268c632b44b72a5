/*
 * Allreduce of large sizes across nodes: reduce-scatter within each node, exchange of the partial
 * results along the rails, allgather within each node. A chunk gives each rail as much as fits into
 * a message. Chunks are pipelined: while the first one is sent, the next ones are reduced.
 *
 * If nodes have different numbers of ranks, there are as many rails as the smallest node has ranks,
 * and the phases within a node are a reduce to, and a broadcast from, the rank of each rail; the
 * same applies to the last elements, which do not divide evenly among the rails.
 *
 * Each node's ranks are combined in order, then the nodes in theirs. So all ranks have the same
 * bits; they are those of rank order if ranks are numbered node by node and the operation is
 * associative in its type.
 */
#include "coll/internode/internode_coll.h"

enum { AHEAD = 2 }; /* chunks sent before the first of them is finished */

/* Elements [first, first + count) of the call; each rail has `each` of them. */
typedef struct chunk {
    size_t first, count, each;
    int even; /* all ranks of all nodes have equal parts */
} chunk;

typedef struct rails {
    weiri_internode_coll x;
    int nrails, even;
    size_t chunk_elements;
} rails;

static chunk rails_chunk_at(const rails *r, size_t first)
{
    size_t left = r->x.task->call->count - first, n = (size_t)r->nrails;
    chunk c = {.first = first, .count = weiri_least(left, r->chunk_elements)};
    if (r->even && c.count >= n)
        c.count -= c.count % n;
    c.even = r->even && c.count % n == 0;
    c.each = (c.count + n - 1) / n;
    return c;
}

/* A rail's part of a chunk. */
static weiri_share rail_share(const chunk *c, int rail)
{
    size_t first = weiri_least(c->each * (size_t)rail, c->count);
    return (weiri_share){c->first + first, weiri_least(c->each, c->count - first)};
}

static const char *in_at(const rails *r, size_t element)
{
    return weiri_in_at(r->x.task, element * r->x.task->element_bytes);
}

static char *out_at(const rails *r, size_t element)
{
    return weiri_out_at(r->x.task, element * r->x.task->element_bytes);
}

/* Reduces this rail's part of a chunk within the node into partial. */
static weir_status reduce_in_node(const rails *r, const chunk *c, char *partial)
{
    const weiri_task *task = r->x.task;
    weir_comm *node_comm = r->x.node_comm;
    weir_status status = WEIR_OK;
    if (c->even)
        return weir_reduce_scatter(node_comm, in_at(r, c->first), partial, c->each,
                                   task->call->dtype, r->x.op, r->x.stream);
    for (int rail = 0; rail < r->nrails && status == WEIR_OK; rail++) {
        weiri_share share = rail_share(c, rail);
        status = weir_reduce(node_comm, in_at(r, share.first), partial, share.count,
                             task->call->dtype, r->x.op, rail, r->x.stream);
    }
    return status;
}

static weir_status gather_in_node(const rails *r, const chunk *c)
{
    const weiri_task *task = r->x.task;
    weir_comm *node_comm = r->x.node_comm;
    weir_status status = WEIR_OK;
    if (c->even)
        return weir_allgather(node_comm, out_at(r, c->first + c->each * (size_t)r->x.place),
                              out_at(r, c->first), c->each, task->call->dtype, r->x.stream);
    for (int rail = 0; rail < r->nrails && status == WEIR_OK; rail++) {
        weiri_share share = rail_share(c, rail);
        char *out = out_at(r, share.first);
        status =
            weir_broadcast(node_comm, out, out, share.count, task->call->dtype, rail, r->x.stream);
    }
    return status;
}

/* The rank of this rail in the node that is step nodes further, modulo their number. */
static int rail_peer(const rails *r, int step)
{
    int node = (r->x.internode->node + step) % r->x.internode->nnodes;
    return weiri_internode_coll_rail(&r->x, node, r->x.place);
}

/* Reduces into a message to the first peer, and sends the result to all. *partial becomes that
 * result; NULL if this rank has no rail. */
static weir_status rails_start_chunk(rails *r, const chunk *c, char **partial)
{
    weiri_internode *internode = r->x.internode;
    *partial = NULL;
    if (r->x.place >= r->nrails)
        return reduce_in_node(r, c, NULL);
    size_t bytes = rail_share(c, r->x.place).count * r->x.task->element_bytes;
    weir_status status = weiri_internode_await_room(internode, rail_peer(r, 1), r->x.phase);
    *partial = weiri_internode_outgoing(internode, rail_peer(r, 1));
    char *buffer = weiri_internode_coll_phase_buffer(&r->x, *partial);
    if (status == WEIR_OK)
        status = reduce_in_node(r, c, buffer);
    if (status == WEIR_OK)
        status = weiri_internode_coll_copy(&r->x, *partial, buffer, bytes);
    if (status == WEIR_OK)
        status = weiri_internode_send(internode, rail_peer(r, 1), bytes, bytes);
    for (int step = 2; step < internode->nnodes && status == WEIR_OK; step++)
        status = weiri_internode_coll_send(&r->x, rail_peer(r, step), *partial, bytes);
    return status;
}

static weir_status rails_finish_chunk(rails *r, const chunk *c, const char *partial)
{
    weir_status status = WEIR_OK;
    if (partial) {
        int *senders = WEIRI_STACK_ARRAY(int, r->x.internode->nnodes);
        weiri_share share = rail_share(c, r->x.place);
        char *out = out_at(r, share.first), *total = weiri_internode_coll_host_buffer(&r->x, out);
        for (int m = 0; m < r->x.internode->nnodes; m++)
            senders[m] = weiri_internode_coll_rail(&r->x, m, r->x.place);
        status = weiri_internode_coll_combine(&r->x, senders, partial, total, share.count);
        if (status == WEIR_OK)
            status = weiri_internode_coll_copy(&r->x, out, total,
                                               share.count * r->x.task->element_bytes);
    }
    return status == WEIR_OK ? gather_in_node(r, c) : status;
}

static weir_status allreduce_rails_run(weiri_coll *coll, const weiri_task *task)
{
    rails r;
    chunk chunks[AHEAD + 1];
    char *partials[AHEAD + 1];
    /* In place, results would overwrite data that are being sent. */
    if (task->call->in != task->call->out && weiri_internode_coll_is_flat(coll, task->count_bytes))
        return weiri_internode_coll_reduce_flat(coll, task);
    weir_status status = weiri_internode_coll_begin(coll, task, &r.x);
    if (status != WEIR_OK)
        return status;
    r.nrails = r.x.internode->fewest;
    r.even = r.x.internode->fewest == r.x.internode->most;
    r.chunk_elements = weiri_internode_coll_elements(&r.x) * (size_t)r.nrails;
    size_t started = 0, finished = 0, first = 0;
    while (status == WEIR_OK && (first < task->call->count || finished < started)) {
        if (first < task->call->count && started < finished + AHEAD + 1) {
            chunk *c = &chunks[started % (AHEAD + 1)];
            *c = rails_chunk_at(&r, first);
            status = rails_start_chunk(&r, c, &partials[started++ % (AHEAD + 1)]);
            first += c->count;
            continue;
        }
        size_t oldest = finished++ % (AHEAD + 1);
        status = rails_finish_chunk(&r, &chunks[oldest], partials[oldest]);
    }
    return weiri_internode_coll_end(&r.x, status);
}

const weiri_algo weiri_net_allreduce_rails_row = {
    .info =
        {WEIRI_NET_TRAITS(
             ALLREDUCE, "rails",
             "reduce-scatter in each node, exchange of partial results, allgather in each node"),
         .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = allreduce_rails_run,
    .gpu_phases_from = 128 << 10,
};
