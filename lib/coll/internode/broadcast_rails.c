/*
 * Broadcast: chunks are dealt among the ranks of the root's machine, each of which sends
 * its own along its rail to every other machine, where the receiver broadcasts them
 * inside. The root sends the first chunk itself, before its own machine has it.
 */
#include "coll/internode/internode_coll.h"

static weir_status broadcast_inside(weiri_internode_coll *x, const char *in, char *out,
                                    size_t bytes, int place)
{
    return weir_broadcast(x->inside, in, out, bytes, WEIR_UINT8, place, x->stream);
}

static weir_status send_chunk(weiri_internode_coll *x, const char *data, size_t bytes)
{
    weir_status status = WEIR_OK;
    for (int step = 1; step < x->internode->nnodes && status == WEIR_OK; step++) {
        int node = (x->internode->node + step) % x->internode->nnodes;
        status =
            weiri_internode_coll_send(x, weiri_internode_coll_rail(x, node, x->place), data, bytes);
    }
    return status;
}

/* On the root's machine; sender: the place of who sends this chunk. */
static weir_status give(weiri_internode_coll *x, size_t at, size_t bytes, int root_place,
                        int sender)
{
    const weir_call *call = x->call;
    int sends = sender == x->place, is_root = root_place == x->place;
    const char *in = call->in ? weiri_in_at(call, at) : NULL;
    weir_status status = sends && is_root ? send_chunk(x, in, bytes) : WEIR_OK;
    if (status == WEIR_OK)
        status = broadcast_inside(x, in, weiri_out_at(call, at), bytes, root_place);
    if (status == WEIR_OK && sends && !is_root)
        status = send_chunk(x, weiri_out_at(call, at), bytes);
    return status;
}

/* On the others; from: the rank that sends it. */
static weir_status get(weiri_internode_coll *x, size_t at, size_t bytes, int from, int place)
{
    const char *data = NULL;
    int receives = place == x->place;
    weir_status status = receives ? weiri_internode_coll_receive(x, from, bytes, &data) : WEIR_OK;
    if (status == WEIR_OK)
        status = broadcast_inside(x, data, weiri_out_at(x->call, at), bytes, place);
    return status == WEIR_OK && receives ? weiri_internode_take(x->internode, from) : status;
}

weir_status weiri_internode_coll_broadcast_rails(weiri_coll *coll, const weir_call *call)
{
    weiri_internode_coll x;
    weir_status status = weiri_internode_coll_begin(coll, call, &x);
    size_t chunk = x.internode->slot_bytes;
    int node = x.internode->node_of[call->root], root_place = x.internode->place_of[call->root];
    const weiri_node *home = &x.internode->nodes[node];
    for (size_t at = 0; status == WEIR_OK && at < coll->count_bytes; at += chunk) {
        size_t bytes = weiri_least(coll->count_bytes - at, chunk);
        int sender = (int)((size_t)root_place + at / chunk) % home->count;
        if (node == x.internode->node)
            status = give(&x, at, bytes, root_place, sender);
        else
            status = get(&x, at, bytes, home->ranks[sender], sender % x.count);
    }
    return weiri_internode_coll_end(&x, status);
}
