/* The part of alltoall, alltoallv and sendrecv across nodes that stays within a node. */
#include "coll/internode/pairs_in_node.h"

/* Pairs within the node; all of its ranks take part, including ranks without blocks. Blocks may be
 * at any address, so the lowest address on each side replaces the buffer. */
weir_status weiri_pairs_in_node(weiri_internode_coll *x)
{
    const weiri_internode *internode = x->internode;
    const weiri_node *own = &internode->nodes[internode->node];
    weir_call call = *x->task->call;
    weiri_coll *node_coll = NULL;
    size_t most = 0;
    weir_status status = weiri_coll_get(x->node_comm, &node_coll);
    if (status != WEIR_OK)
        return status;
    if (x->device_staging)
        call.collective = WEIR_COLL_ALLTOALLV; /* for which kernels use each pair's addresses */
    call.algo_name = NULL;                     /* names an algorithm across nodes */
    call.in = NULL;
    call.out = NULL;
    for (int place = 0; place < own->count; place++) {
        const weiri_pair *pair = &x->task->pairs[own->ranks[place]];
        node_coll->pairs[place] = *pair;
        most = pair->send_bytes > most ? pair->send_bytes : most;
        most = pair->recv_bytes > most ? pair->recv_bytes : most;
        if (pair->send_bytes && (!call.in || pair->from < (const char *)call.in))
            call.in = pair->from;
        if (pair->recv_bytes && (!call.out || pair->to < (char *)call.out))
            call.out = pair->to;
    }
    const weiri_pair *self = &node_coll->pairs[0];
    return own->count > 1 ? weiri_coll_run(node_coll, &call, most * (size_t)own->count)
                          : weiri_internode_coll_copy(x, self->to, self->from, self->send_bytes);
}
