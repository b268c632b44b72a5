/*
 * Allreduce of short messages on many nodes, by recursive doubling: each node reduces to its
 * leader; in step k leaders whose numbers differ in bit k exchange their partial results and
 * combine them; each leader broadcasts in its node. log2(nodes) steps of the whole length.
 *
 * If the number of nodes is no power of two, nodes are folded (transfer.h): the odd node of a pair
 * sends its partial result to the even one before the first step, and receives the result after
 * the last one.
 *
 * Operands are combined in the order of nodes, so all nodes have the same bits. Cost, with a
 * latency a and b per byte: ceil(log2(nodes)) * (a + bytes * b), plus 2 * (a + bytes * b) with
 * folded nodes (Thakur, Rabenseifner, Gropp 2005, section 4.1).
 */
#include "coll/internode/transfer.h"

/* One step of the leaders: out is the partial result, and becomes the combination. */
static weir_status doubling_step(weiri_internode_coll *x, int node, int comes_first, int is_last)
{
    char *out = x->task->call->out;
    const weiri_transfer t = {.to = x->internode->nodes[node].ranks[0],
                              .from = x->internode->nodes[node].ranks[0],
                              .send = out,
                              .send_bytes = x->task->count_bytes,
                              .receive = out,
                              .receive_bytes = x->task->count_bytes,
                              .combines = 1,
                              .peer_first = comes_first,
                              .is_last = is_last};
    return weiri_transfer_run(x, &t);
}

static weir_status doubling_lead(weiri_internode_coll *x)
{
    int n = x->internode->nnodes, power = weiri_group_power(x), node = x->internode->node;
    int index = weiri_fold_index(node, n, power);
    weiri_fold fold = weiri_fold_of(x, 0);
    weir_status status = weiri_fold_begin(x, &fold, x->task->call->out, x->task->count_bytes);
    for (int mask = 1; mask < power && status == WEIR_OK && index >= 0; mask *= 2)
        status = doubling_step(x, weiri_fold_node(index ^ mask, n, power), (index & mask) != 0,
                               mask * 2 == power);
    return status == WEIR_OK ? weiri_fold_end(x, &fold, x->task->call->out, x->task->count_bytes)
                             : status;
}

static weir_status allreduce_doubling_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    if (status == WEIR_OK)
        status = weir_reduce(x.node_comm, task->call->in, task->call->out, task->call->count,
                             task->call->dtype, x.op, 0, x.stream);
    if (status == WEIR_OK && x.place == 0)
        status = doubling_lead(&x);
    if (status == WEIR_OK)
        status = weir_broadcast(x.node_comm, task->call->out, task->call->out, task->count_bytes,
                                WEIR_UINT8, 0, x.stream);
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_allreduce_doubling_row = {
    .info = {WEIRI_NET_TRAITS(ALLREDUCE, "doubling",
                              "leaders by recursive doubling; small sizes, many nodes"),
             .rounding = WEIR_ROUNDING_PER_NODE, .in_order = "packet"},
    .run = allreduce_doubling_run,
    .gpu_phases_from = SIZE_MAX,
};
