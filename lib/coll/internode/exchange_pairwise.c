/*
 * alltoall and alltoallv of long messages on many nodes, by pairwise exchange: in step k a rank
 * exchanges blocks with the ranks of the nodes k after and k before its own, in an order in which
 * no two ranks of a node send to the same rank at once; blocks within the node are that node's own
 * collective. "pairs" sends to all ranks at once; here a rank is sent to by one rank at a time, so
 * that networks and receivers are not flooded.
 *
 * Cost: (nodes - 1) * ranks of a node * (a + block * b) (Thakur, Rabenseifner, Gropp 2005,
 * section 3.3).
 */
#include "coll/internode/pairs_in_node.h"
#include "coll/internode/transfer.h"

/* Every rank of this node exchanges blocks with each rank of two nodes. If the nodes differ in
 * their ranks, a step has no message for some ranks of the larger node. */
static weir_status pairwise_step(weiri_internode_coll *x, int to_node, int from_node)
{
    const weiri_node *to = &x->internode->nodes[to_node], *from = &x->internode->nodes[from_node];
    int steps = x->internode->most;
    weir_status status = WEIR_OK;
    for (int step = 0; step < steps && status == WEIR_OK; step++) {
        int to_place = (x->place + step) % steps, from_place = (x->place + steps - step) % steps;
        weiri_transfer t = {.to = WEIRI_NOBODY, .from = WEIRI_NOBODY};
        if (to_place < to->count) {
            const weiri_pair *pair = &x->task->pairs[to->ranks[to_place]];
            t.to = to->ranks[to_place];
            t.send = pair->from;
            t.send_bytes = pair->send_bytes;
        }
        if (from_place < from->count) {
            const weiri_pair *pair = &x->task->pairs[from->ranks[from_place]];
            t.from = from->ranks[from_place];
            t.receive = pair->to;
            t.receive_bytes = pair->recv_bytes;
        }
        status = weiri_transfer_run(x, &t);
    }
    return status;
}

static weir_status pairwise_run(weiri_coll *coll, const weiri_task *task)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, task, &x);
    int n = x.internode->nnodes, node = x.internode->node;
    x.unit_bytes = 1;
    if (status == WEIR_OK)
        status = weiri_pairs_in_node(&x);
    for (int step = 1; step < n && status == WEIR_OK; step++)
        status = pairwise_step(&x, (node + step) % n, (node + n - step) % n);
    return weiri_internode_coll_end(&x, status);
}

const weiri_algo weiri_net_alltoall_pairwise_row = {
    .info = {WEIRI_NET_TRAITS(ALLTOALL, "pairwise", "one pair of ranks at a time; many nodes")},
    .run = pairwise_run,
    .gpu_phases_from = SIZE_MAX,
};

const weiri_algo weiri_net_alltoallv_pairwise_row = {
    .info = {WEIRI_NET_TRAITS(ALLTOALLV, "pairwise", "one pair of ranks at a time; many nodes")},
    .run = pairwise_run,
    .gpu_phases_from = SIZE_MAX,
};
