/*
 * Broadcast of short messages on many nodes, by a binomial tree: the root sends to the rank that
 * represents the node half of all nodes away, then a quarter, and so on; each rank that has
 * received does the same in its part of the nodes; then each node broadcasts.
 *
 * Cost: ceil(log2(nodes)) * (a + bytes * b) (Thakur, Rabenseifner, Gropp 2005, section 3.4).
 */
#include "coll/internode/tree_binomial.h"

static weir_status binomial_pass(weiri_internode_coll *x, const weiri_binomial *b)
{
    const weiri_task *task = x->task;
    const char *data = b->position == 0 ? task->call->in : task->call->out;
    size_t bytes = x->task->count_bytes;
    weir_status status = WEIR_OK;
    if (b->position > 0)
        status = weiri_transfer_receive(x, weiri_binomial_rank(x, b, b->position - b->span),
                                        task->call->out, bytes);
    for (int span = b->span / 2; span > 0 && status == WEIR_OK; span /= 2)
        if (b->position + span < b->nnodes)
            status =
                weiri_transfer_send(x, weiri_binomial_rank(x, b, b->position + span), data, bytes);
    return status;
}

static weir_status broadcast_binomial_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    const weiri_binomial b = weiri_binomial_of(&x, task->call->root);
    const void *in = coll->rank == task->call->root ? task->call->in : task->call->out;
    if (status == WEIR_OK && x.place == b.place)
        status = binomial_pass(&x, &b);
    if (status == WEIR_OK)
        status = weir_broadcast(x.node_comm, in, task->call->out, task->count_bytes, WEIR_UINT8,
                                b.place, x.stream);
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_broadcast_binomial_row = {
    .info = {WEIRI_NET_TRAITS(BROADCAST, "binomial",
                              "a binomial tree of nodes; small sizes, many nodes")},
    .run = broadcast_binomial_run,
    .gpu_phases_from = SIZE_MAX,
};
