/*
 * Reduce-scatter of large sizes: for every rank of another machine the local ranks
 * reduce its block, by chunks, into the outbox of the one on its rail, which sends the
 * partial result to it; for those of the own machine they reduce into the output. Then
 * each combines what came with its own, in the order of machines.
 */
#include "coll/internode/internode_coll.h"

/* Whether a machine's blocks lie side by side and each local rank serves one of them. */
static int is_even(const weiri_internode_coll *x, int node)
{
    const weiri_node *other = &x->internode->nodes[node];
    return other->count == x->count && other->ranks[other->count - 1] - other->ranks[0] ==
                                           other->count - 1;
}

/* The partial results of all ranks of a machine, in one local reduce-scatter. */
static weir_status serve_evenly(weiri_internode_coll *x, int node)
{
    const weir_call *call = x->call;
    int to = weiri_internode_coll_rail(x, node, x->place),
        first = x->internode->nodes[node].ranks[0];
    int is_own = node == x->internode->node;
    weir_status status = is_own ? WEIR_OK : weiri_internode_await_room(x->internode, to, x->phase);
    char *partial = is_own ? weiri_internode_coll_far(x, call->out)
                           : weiri_internode_outgoing(x->internode, to);
    char *near = weiri_internode_coll_near(x, partial);
    if (status == WEIR_OK)
        status =
            weir_reduce_scatter(x->inside, weiri_in_at(call, (size_t)first * x->coll->count_bytes),
                                near, call->count, call->dtype, x->op, x->stream);
    if (status == WEIR_OK)
        status = weiri_internode_coll_carry(x, partial, near, x->coll->count_bytes);
    return status == WEIR_OK && !is_own
               ? weiri_internode_send(x->internode, to, x->coll->count_bytes, x->coll->count_bytes)
               : status;
}

/* The partial results of a chunk, rank by rank. */
static weir_status serve_chunk(weiri_internode_coll *x, int node, size_t first, size_t count)
{
    const weir_call *call = x->call;
    const weiri_node *other = &x->internode->nodes[node];
    size_t at = first * x->coll->element_bytes, bytes = count * x->coll->element_bytes;
    int is_own = node == x->internode->node;
    weir_status status = WEIR_OK;
    for (int i = 0; i < other->count && status == WEIR_OK; i++) {
        int to = other->ranks[i], root = i % x->count, is_mine = root == x->place;
        char *partial = NULL, *near = NULL;
        if (is_mine && is_own) {
            partial = weiri_internode_coll_far(x, weiri_out_at(call, at));
        } else if (is_mine) {
            status = weiri_internode_await_room(x->internode, to, x->phase);
            partial = weiri_internode_outgoing(x->internode, to);
        }
        if (is_mine)
            near = weiri_internode_coll_near(x, partial);
        if (status == WEIR_OK)
            status =
                weir_reduce(x->inside, weiri_in_at(call, (size_t)to * x->coll->count_bytes + at),
                            near, count, call->dtype, x->op, root, x->stream);
        if (status == WEIR_OK && is_mine)
            status = weiri_internode_coll_carry(x, partial, near, bytes);
        if (status == WEIR_OK && is_mine && !is_own)
            status = weiri_internode_send(x->internode, to, bytes, bytes);
    }
    return status;
}

static weir_status run_chunk(weiri_internode_coll *x, size_t first, size_t count)
{
    const weir_call *call = x->call;
    int senders[WEIRI_RANKS_MAX], nnodes = x->internode->nnodes;
    weir_status status = WEIR_OK;
    for (int step = 1; step <= nnodes && status == WEIR_OK; step++) {
        int node = (x->internode->node + step) % nnodes; /* the own one last */
        if (count == call->count && is_even(x, node))
            status = serve_evenly(x, node);
        else
            status = serve_chunk(x, node, first, count);
    }
    for (int m = 0; m < nnodes; m++)
        senders[m] = weiri_internode_coll_rail(x, m, x->place);
    char *out = weiri_out_at(call, first * x->coll->element_bytes),
         *total = weiri_internode_coll_far(x, out);
    if (status == WEIR_OK)
        status = weiri_internode_coll_combine(x, senders, total, total, count);
    return status == WEIR_OK
               ? weiri_internode_coll_carry(x, out, total, count * x->coll->element_bytes)
               : status;
}

weir_status weiri_internode_coll_reduce_scatter_rails(weiri_coll *coll, const weir_call *call)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, call, &x);
    size_t chunk = weiri_internode_coll_elements(&x);
    for (size_t first = 0; status == WEIR_OK && first < call->count; first += chunk)
        status = run_chunk(&x, first, weiri_least(call->count - first, chunk));
    return weiri_internode_coll_end(&x, status);
}
