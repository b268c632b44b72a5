/*
 * Reduce: every machine reduces a chunk to one of its ranks, which take turns; those of
 * the other machines send it to the root, which combines the partial results in the
 * order of machines. While it does, the next chunks are reduced and on their way.
 */
#include "coll/internode/internode_coll.h"

static weir_status send_partial(weiri_across *x, const char *in, size_t count, int place)
{
    const weiri_call *call = x->call;
    size_t bytes = count * call->element_bytes;
    int sends = place == x->place;
    weir_status status = sends ? weiri_net_await_room(x->net, call->root, x->phase) : WEIR_OK;
    if (status == WEIR_OK)
        status = weir_reduce(x->local->comm, in,
                             sends ? weiri_net_outgoing(x->net, call->root) : NULL, count,
                             call->dtype, x->op, place, NULL);
    return status == WEIR_OK && sends ? weiri_net_send(x->net, call->root, bytes, bytes) : status;
}

static weir_status run_chunk(weiri_across *x, size_t first, size_t count, size_t number)
{
    const weiri_call *call = x->call;
    const weiri_net *net = x->net;
    size_t at = first * call->element_bytes;
    int senders[WEIRI_RANKS_MAX], is_root = x->coll->rank == call->root;
    if (net->machine != net->machine_of[call->root])
        return send_partial(x, call->in + at, count, (int)(number % (size_t)x->count));
    char *out = is_root ? call->out + at : NULL;
    weir_status status = weir_reduce(x->local->comm, call->in + at, out, count, call->dtype, x->op,
                                     net->place_of[call->root], NULL);
    if (status != WEIR_OK || !is_root)
        return status;
    for (int m = 0; m < net->nmachines; m++)
        senders[m] = net->machines[m].ranks[number % (size_t)net->machines[m].count];
    return weiri_across_combine(x, senders, out, out, count);
}

weir_status weiri_across_reduce_rails(weiri_coll *coll, const weiri_call *call)
{
    weiri_across x;
    weir_status status = weiri_across_begin(coll, call, &x);
    size_t chunk = weiri_across_elements(&x), number = 0;
    for (size_t first = 0; status == WEIR_OK && first < call->count; first += chunk)
        status = run_chunk(&x, first, weiri_least(call->count - first, chunk), number++);
    return weiri_across_end(&x, status);
}
