/* What the algorithms across machines share: see net_coll.h. */
#include "coll/net/net_coll.h"

#include "coll/copy.h"

weir_status weiri_across_begin(weiri_coll *coll, const weiri_call *call, weiri_across *x)
{
    weir_comm *comm = coll->comm;
    *x = (weiri_across){.coll = coll,
                        .net = comm->net,
                        .call = call,
                        .phase = weir_collective_name(call->collective),
                        .op = call->op == WEIR_AVG ? WEIR_SUM : call->op,
                        .place = comm->local_rank,
                        .count = comm->local_nranks};
    return weiri_coll_get(comm->local, &x->local);
}

weir_status weiri_across_combine(weiri_across *x, const int *senders, const void *mine, char *out,
                                 size_t count)
{
    const void *parts[WEIRI_RANKS_MAX] = {NULL};
    int nmachines = x->net->nmachines;
    for (int m = 0; m < nmachines; m++) {
        weir_status status = WEIR_OK;
        if (m != x->net->machine)
            status = weiri_net_await(x->net, senders[m], x->phase);
        if (status != WEIR_OK)
            return status;
        parts[m] = m == x->net->machine ? mine : weiri_net_incoming(x->net, senders[m]);
    }
    weiri_reduce(out, parts, nmachines, count, x->call->dtype, x->call->op,
                 (uint64_t)x->coll->nranks, 0);
    for (int m = 0; m < nmachines; m++) {
        weir_status status = WEIR_OK;
        if (m != x->net->machine)
            status = weiri_net_take(x->net, senders[m]);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

weir_status weiri_across_send(weiri_across *x, int rank, const void *data, size_t bytes)
{
    weir_status status = weiri_net_await_room(x->net, rank, x->phase);
    if (status != WEIR_OK)
        return status;
    weiri_copy(weiri_net_outgoing(x->net, rank), data, bytes);
    return weiri_net_send(x->net, rank, bytes, bytes);
}

weir_status weiri_across_spread(weiri_across *x, const char *mine, size_t bytes, char *const *to,
                                const size_t *lengths)
{
    const weiri_call call = {.collective = WEIR_COLL_ALLTOALLV, .element_bytes = 1};
    size_t most = bytes;
    if (x->count == 1) {
        if (to[0] != mine)
            weiri_copy(to[0], mine, bytes);
        return WEIR_OK;
    }
    for (int place = 0; place < x->count; place++) {
        int keeps = place == x->place && to[place] == mine;
        x->local->pairs[place] =
            (weiri_pair){mine, to[place], bytes, lengths[place], !keeps, !keeps};
        most = lengths[place] > most ? lengths[place] : most;
    }
    return weiri_coll_run(x->local, &call, most * (size_t)x->count);
}
