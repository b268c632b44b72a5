/*
 * Messages between ranks of different nodes, and waiting for them. Each wait is a wait of the host
 * sub-communicator, so that aborts, deaths and the deadline end it.
 */
#include "comm/internode/internode.h"

#include "base/error.h"

#include <stddef.h>

static weir_status message_await_word(weiri_internode *internode, const uint64_t *word,
                                      uint64_t target, int rank, const char *phase)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    while (weir_load_acquire(word) < target) {
        weir_status status =
            weiri_comm_idle_for(internode->local, &waiter, word, target, rank, phase);
        if (WEIRI_UNLIKELY(status != WEIR_OK))
            return status;
    }
    weiri_comm_idle_end(internode->local, &waiter);
    return WEIR_OK;
}

weir_status weiri_internode_await_room(weiri_internode *internode, int rank, const char *phase)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    if (peer->sent < WEIRI_INTERNODE_SLOTS)
        return WEIR_OK;
    return message_await_word(internode, &peer->words->consumed,
                              peer->sent + 1 - WEIRI_INTERNODE_SLOTS, rank, phase);
}

weir_status weiri_internode_await(weiri_internode *internode, int rank, const char *phase)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    return message_await_word(internode, &peer->words->arrived, peer->taken + 1, rank, phase);
}

/* Aborts the communicator after the network has rejected an operation; returns status. */
static weir_status message_give_up(weiri_internode *internode, weir_status status)
{
    weiri_comm_abort_for(internode->local, WEIRI_ABORT_ASKED);
    return weiri_fail_context(status, "rank %d", internode->parent->rank);
}

weir_status weiri_internode_post(weiri_internode *internode, int rank, size_t bytes,
                                 size_t total_bytes)
{
    weiri_internode_peer *peer = &internode->peers[rank];
    const weiri_net_ops *ops = internode->net->ops;
    char *data = weiri_internode_outgoing(internode, rank);
    weiri_internode_head *head = (weiri_internode_head *)(void *)(data - sizeof *head);
    uint64_t slot = peer->sent % WEIRI_INTERNODE_SLOTS * weiri_internode_stride(internode);
    head->bytes = bytes;
    head->total_bytes = total_bytes;
    peer->sent++;
    weiri_net_lock(internode->net);
    weir_status status =
        ops->put(peer->endpoint, internode->mem, (uint64_t)((char *)head - internode->window),
                 &peer->key, peer->inbox_there + slot, sizeof *head + bytes);
    if (status == WEIR_OK)
        status =
            ops->signal(peer->endpoint, &peer->key,
                        peer->words_there + offsetof(weiri_internode_words, arrived), peer->sent);
    weiri_net_unlock(internode->net);
    return status == WEIR_OK ? WEIR_OK : message_give_up(internode, status);
}

weir_status weiri_internode_send(weiri_internode *internode, int rank, size_t bytes,
                                 size_t total_bytes)
{
    int moved = 0;
    weir_status status = weiri_internode_post(internode, rank, bytes, total_bytes);
    if (status != WEIR_OK)
        return status;
    weiri_net_lock(internode->net);
    internode->net->ops->progress(internode->net, &moved);
    weiri_net_unlock(internode->net);
    return WEIR_OK;
}

weir_status weiri_internode_take(weiri_internode *internode, int rank)
{
    weiri_internode_peer *peer = &internode->peers[rank];
    if (++peer->taken < peer->credited + WEIRI_INTERNODE_SLOTS / 2)
        return WEIR_OK;
    peer->credited = peer->taken;
    weiri_net_lock(internode->net);
    weir_status status = internode->net->ops->signal(
        peer->endpoint, &peer->key, peer->words_there + offsetof(weiri_internode_words, consumed),
        peer->taken);
    weiri_net_unlock(internode->net);
    return status == WEIR_OK ? WEIR_OK : message_give_up(internode, status);
}

weir_status weiri_internode_flush(weiri_internode *internode, const char *phase)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        const weiri_endpoint *end = internode->peers[rank].endpoint;
        while (end && end->sent < end->posted && end->completed < end->posted) {
            weir_status status = weiri_comm_idle_for(internode->local, &waiter, &end->sent,
                                                     end->posted, rank, phase);
            if (WEIRI_UNLIKELY(status != WEIR_OK))
                return status;
        }
    }
    weiri_comm_idle_end(internode->local, &waiter);
    return WEIR_OK;
}

weir_status weiri_internode_barrier(weiri_internode *internode)
{
    static const char phase[] = "barrier of nodes";
    const weiri_net_ops *ops = internode->net->ops;
    weir_status status = WEIR_OK;
    internode->barriers++;
    weiri_net_lock(internode->net);
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++) {
        const weiri_internode_peer *peer = &internode->peers[internode->nodes[m].ranks[0]];
        if (m != internode->node)
            status = ops->signal(peer->endpoint, &peer->key,
                                 peer->words_there + offsetof(weiri_internode_words, barrier),
                                 internode->barriers);
    }
    weiri_net_unlock(internode->net);
    if (status != WEIR_OK)
        return message_give_up(internode, status);
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++) {
        int rank = internode->nodes[m].ranks[0];
        if (m != internode->node)
            status = message_await_word(internode, &internode->peers[rank].words->barrier,
                                internode->barriers, rank, phase);
    }
    return status == WEIR_OK ? weiri_internode_flush(internode, phase) : status;
}
