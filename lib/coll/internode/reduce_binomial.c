/*
 * Reduce on many nodes, by a binomial tree: each node reduces to the rank that represents it; from
 * the smallest distance on, a rank adds the partial results of its children to its own, and sends
 * the sum to its parent. Long messages take several rounds, which follow each other through the
 * tree.
 *
 * Partial results are combined in the order of nodes, from the root's node on. Cost:
 * ceil(log2(nodes)) * (a + bytes * b) (Thakur, Rabenseifner, Gropp 2005, section 4.2).
 */
#include "coll/internode/tree_binomial.h"

enum { ROUND_BYTES = 256 << 10 };

static weir_status binomial_combine(weiri_internode_coll *x, const weiri_binomial *b, char *partial,
                                    size_t bytes)
{
    weir_status status = WEIR_OK;
    int last = 1;
    while (2 * last < b->nnodes)
        last *= 2;
    for (int span = 1; span < b->span && status == WEIR_OK; span *= 2) {
        if (b->position + span >= b->nnodes)
            break;
        const weiri_transfer t = {.to = WEIRI_NOBODY,
                                  .from = weiri_binomial_rank(x, b, b->position + span),
                                  .receive = partial,
                                  .receive_bytes = bytes,
                                  .combines = 1,
                                  .is_last = b->position == 0 && span == last};
        status = weiri_transfer_run(x, &t);
    }
    return status == WEIR_OK && b->position > 0
               ? weiri_transfer_send(x, weiri_binomial_rank(x, b, b->position - b->span), partial,
                                     bytes)
               : status;
}

static weir_status binomial_round(weiri_internode_coll *x, const weiri_binomial *b, size_t first,
                                  size_t count)
{
    const weiri_task *task = x->task;
    size_t at = first * x->task->element_bytes, bytes = count * x->task->element_bytes;
    char *partial = NULL;
    int represents = x->place == b->place;
    weir_status status = WEIR_OK;
    if (represents && b->position == 0)
        partial = weiri_out_at(task, at);
    else if (represents)
        status = weiri_internode_coll_scratch(x, bytes, &partial);
    if (status == WEIR_OK)
        status = weir_reduce(x->node_comm, weiri_in_at(task, at), partial, count, task->call->dtype,
                             x->op, b->place, x->stream);
    return status == WEIR_OK && represents ? binomial_combine(x, b, partial, bytes) : status;
}

static weir_status reduce_binomial_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    const weiri_binomial b = weiri_binomial_of(&x, task->call->root);
    size_t most = ROUND_BYTES / task->element_bytes;
    for (size_t first = 0; status == WEIR_OK && first < task->call->count; first += most)
        status = binomial_round(&x, &b, first, weiri_least(task->call->count - first, most));
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_reduce_binomial_row = {
    .info = {WEIRI_NET_TRAITS(REDUCE, "binomial", "a binomial tree of nodes; many nodes"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = reduce_binomial_run,
    .gpu_phases_from = SIZE_MAX,
};
