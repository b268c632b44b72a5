/*
 * Messages between ranks of different machines, and waiting for them. A wait is one of
 * the machine's own communicator, so aborts, deaths and the deadline end it, too.
 */
#include "comm/internode/internode.h"

#include "base/error.h"

#include <stddef.h>

static weir_status await_word(weiri_net *net, const uint64_t *word, uint64_t target, int rank,
                              const char *phase)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    while (weir_load_acquire(word) < target) {
        weir_status status = weiri_comm_idle_for(net->local, &waiter, word, target, rank, phase);
        if (WEIRI_UNLIKELY(status != WEIR_OK))
            return status;
    }
    weiri_comm_idle_end(net->local, &waiter);
    return WEIR_OK;
}

weir_status weiri_net_await_room(weiri_net *net, int rank, const char *phase)
{
    const weiri_net_peer *peer = &net->peers[rank];
    if (peer->sent < WEIRI_NET_SLOTS)
        return WEIR_OK;
    return await_word(net, &peer->words->consumed, peer->sent + 1 - WEIRI_NET_SLOTS, rank, phase);
}

weir_status weiri_net_await(weiri_net *net, int rank, const char *phase)
{
    const weiri_net_peer *peer = &net->peers[rank];
    return await_word(net, &peer->words->arrived, peer->taken + 1, rank, phase);
}

/* The tail of an operation that the wire refused: nothing can go on after it. */
static weir_status give_up(weiri_net *net, weir_status status)
{
    weiri_comm_abort_for(net->local, WEIRI_ABORT_ASKED);
    return weiri_fail_context(status, "rank %d", net->whole->rank);
}

weir_status weiri_net_post(weiri_net *net, int rank, size_t bytes, size_t total_bytes)
{
    weiri_net_peer *peer = &net->peers[rank];
    const weiri_wire_ops *ops = net->wire->ops;
    char *data = weiri_net_outgoing(net, rank);
    weiri_net_head *head = (weiri_net_head *)(void *)(data - sizeof *head);
    uint64_t slot = peer->sent % WEIRI_NET_SLOTS * weiri_net_stride(net);
    head->bytes = bytes;
    head->total_bytes = total_bytes;
    peer->sent++;
    weiri_wire_lock(net->wire);
    weir_status status = ops->put(peer->endpoint, net->mem, (uint64_t)((char *)head - net->window),
                                  &peer->key, peer->inbox_there + slot, sizeof *head + bytes);
    if (status == WEIR_OK)
        status = ops->signal(peer->endpoint, &peer->key,
                             peer->words_there + offsetof(weiri_net_words, arrived), peer->sent);
    weiri_wire_unlock(net->wire);
    return status == WEIR_OK ? WEIR_OK : give_up(net, status);
}

weir_status weiri_net_send(weiri_net *net, int rank, size_t bytes, size_t total_bytes)
{
    int moved = 0;
    weir_status status = weiri_net_post(net, rank, bytes, total_bytes);
    if (status != WEIR_OK)
        return status;
    weiri_wire_lock(net->wire);
    net->wire->ops->progress(net->wire, &moved);
    weiri_wire_unlock(net->wire);
    return WEIR_OK;
}

weir_status weiri_net_take(weiri_net *net, int rank)
{
    weiri_net_peer *peer = &net->peers[rank];
    if (++peer->taken < peer->credited + WEIRI_NET_SLOTS / 2)
        return WEIR_OK;
    peer->credited = peer->taken;
    weiri_wire_lock(net->wire);
    weir_status status = net->wire->ops->signal(
        peer->endpoint, &peer->key, peer->words_there + offsetof(weiri_net_words, consumed),
        peer->taken);
    weiri_wire_unlock(net->wire);
    return status == WEIR_OK ? WEIR_OK : give_up(net, status);
}

weir_status weiri_net_flush(weiri_net *net, const char *phase)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    for (int rank = 0; rank < net->whole->nranks; rank++) {
        const weiri_endpoint *end = net->peers[rank].endpoint;
        while (end && end->sent < end->posted && end->completed < end->posted) {
            weir_status status = weiri_comm_idle_for(net->local, &waiter, &end->sent, end->posted,
                                                     rank, phase);
            if (WEIRI_UNLIKELY(status != WEIR_OK))
                return status;
        }
    }
    weiri_comm_idle_end(net->local, &waiter);
    return WEIR_OK;
}

weir_status weiri_net_meet(weiri_net *net)
{
    static const char phase[] = "barrier of machines";
    const weiri_wire_ops *ops = net->wire->ops;
    weir_status status = WEIR_OK;
    net->meetings++;
    weiri_wire_lock(net->wire);
    for (int m = 0; m < net->nmachines && status == WEIR_OK; m++) {
        const weiri_net_peer *peer = &net->peers[net->machines[m].ranks[0]];
        if (m != net->machine)
            status = ops->signal(peer->endpoint, &peer->key,
                                 peer->words_there + offsetof(weiri_net_words, meeting),
                                 net->meetings);
    }
    weiri_wire_unlock(net->wire);
    if (status != WEIR_OK)
        return give_up(net, status);
    for (int m = 0; m < net->nmachines && status == WEIR_OK; m++) {
        int rank = net->machines[m].ranks[0];
        if (m != net->machine)
            status = await_word(net, &net->peers[rank].words->meeting, net->meetings, rank, phase);
    }
    return status == WEIR_OK ? weiri_net_flush(net, phase) : status;
}
