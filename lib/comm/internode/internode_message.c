/*
 * Messages between ranks of different nodes, and waiting for them. Each wait is a wait of the host
 * sub-communicator, so that aborts, deaths and the deadline end it.
 */
#include "comm/internode/internode.h"

#include "base/error.h"
#include "comm/called.h"

#include <stddef.h>
#include <stdio.h>

enum {
    DIRECT_BYTES = 8192, /* shorter data are copied into messages */
    SHARED_BYTES = 8192, /* of a slot for short messages; few, so that the ring stays cached */
};

/* Before the first message to a peer: gives memory to its boxes. Returns 1 if they have it. */
static int message_open(const weiri_internode_peer *peer)
{
    weiri_internode *internode = peer->closed;
    if (!internode || weiri_internode_window_open(internode, peer->endpoint->peer) == WEIR_OK)
        return 1;
    if (!weir_load_acquire(internode->local->guard.abort_word))
        weiri_comm_give_up(internode->local, WEIR_ERR_NO_MEMORY);
    return 0;
}

/* Where the message after one of that length begins: directly after it, or in the next slot if much
 * of this one is used, or if the longest message would not fit before the end of the ring. */
static uint64_t message_after(const weiri_internode_peer *peer, uint64_t at, size_t bytes)
{
    const size_t lines = (bytes + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES;
    at += sizeof(weiri_internode_head) + lines * WEIR_LINE_BYTES;
    const uint64_t used = at % peer->stride, left = peer->stride - used;
    const int is_last = at / peer->stride % WEIRI_INTERNODE_SLOTS == WEIRI_INTERNODE_SLOTS - 1;
    return used >= SHARED_BYTES || (used && is_last) ? at + left : at;
}

static const weiri_internode_head *message_head(const weiri_internode_peer *peer, uint64_t at)
{
    const char *head = peer->inbox + at % weiri_internode_ring(peer);
    return (const weiri_internode_head *)(const void *)head;
}

/* The head of the latest message that has arrived, which cannot be overwritten before it is taken;
 * NULL: all are taken. */
static const weiri_internode_head *message_latest(const weiri_internode_peer *peer)
{
    const uint64_t arrived = weir_load_acquire(&peer->words->arrived);
    const weiri_internode_head *head = NULL;
    uint64_t at = peer->taken_at;
    for (uint64_t message = peer->taken; message < arrived; message++) {
        head = message_head(peer, at);
        at = message_after(peer, at, head->bytes);
    }
    return head;
}

static int message_fits(const weiri_internode_peer *peer, uint64_t consumed)
{
    return peer->sent_at + peer->stride <= consumed + weiri_internode_ring(peer);
}

/* What the peer has consumed is known by the word that it signals, the messages taken from it, and
 * the latest one that has arrived. */
int weiri_internode_has_room(const weiri_internode_peer *peer)
{
    if (WEIRI_UNLIKELY(__atomic_load_n(&peer->closed, __ATOMIC_RELAXED)) && !message_open(peer))
        return 0;
    if (message_fits(peer, peer->released) ||
        message_fits(peer, weir_load_acquire(&peer->words->consumed)))
        return 1;
    const weiri_internode_head *latest = message_latest(peer);
    return latest && message_fits(peer, latest->consumed);
}

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
    weiri_waiter waiter = {.polls = {0, 0}};
    while (!weiri_internode_has_room(peer)) {
        weir_status status = weiri_comm_idle_for(internode->local, &waiter, &peer->words->consumed,
                                                 weiri_internode_room_at(peer), rank, phase);
        if (WEIRI_UNLIKELY(status != WEIR_OK))
            return status;
    }
    weiri_comm_idle_end(internode->local, &waiter);
    return WEIR_OK;
}

weir_status weiri_internode_await(weiri_internode *internode, int rank, const char *phase)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    return message_await_word(internode, &peer->words->arrived, peer->taken + 1, rank, phase);
}

/* The same because a rank's memory cannot be sent or written. An earlier abort has another reason.
 */
static weir_status message_give_up_buffer(weiri_internode *internode, int rank, const char *text)
{
    weiri_comm_abort_for(internode->local, WEIRI_ABORT_BUFFER + (uint64_t)rank);
    const weir_status status = weiri_comm_fail_buffer(internode->local, text);
    return status == WEIR_OK ? weiri_fail(WEIR_ERR_ABORTED, "rank %d: the communicator was aborted",
                                          internode->parent->rank)
                             : status;
}

/* Aborts the communicator after the network has rejected an operation to a rank; returns status. If
 * that rank has died, all ranks get to know it. */
static weir_status message_give_up(weiri_internode *internode, int rank, weir_status status)
{
    const int is_dead = status == WEIR_ERR_PEER && weiri_internode_is_lost(internode, rank);
    char text[256];
    snprintf(text, sizeof text, "%s", weir_last_error());
    if (internode->net->lacks_memory || internode->peers[rank].endpoint->failed == WEIR_ERR_INVALID)
        return message_give_up_buffer(
            internode, internode->net->lacks_memory ? internode->parent->rank : rank, text);
    weiri_comm_abort_for(internode->local,
                         is_dead ? WEIRI_ABORT_DEATH + (uint64_t)rank : WEIRI_ABORT_FAILED);
    if (is_dead)
        return weiri_fail(status, "rank %d: rank %d has died: %s", internode->parent->rank, rank,
                          text);
    return weiri_fail(status, "rank %d: %s", internode->parent->rank, text);
}

/* Queues the part of a message that is in the window. Nothing is sent before the signal, if the
 * transport can wait for it, so that a message leaves in one piece. */
static weir_status message_put(weiri_internode *internode, const weiri_internode_peer *peer,
                               const char *at, uint64_t place, size_t bytes)
{
    const weiri_net_ops *ops = internode->net->ops;
    const uint64_t to = peer->inbox_there + place;
    return ops->put_from ? ops->put_from(peer->endpoint, at, &peer->key, to, bytes)
                         : ops->put(peer->endpoint, internode->mem,
                                    (uint64_t)(at - internode->window), &peer->key, to, bytes);
}

weir_status weiri_internode_post(weiri_internode *internode, int rank, const char *from,
                                 size_t bytes, size_t total_bytes)
{
    weiri_internode_peer *peer = &internode->peers[rank];
    const weiri_net_ops *ops = internode->net->ops;
    char *data = weiri_internode_outgoing(internode, rank);
    weiri_internode_head *head = (weiri_internode_head *)(void *)(data - sizeof *head);
    uint64_t place = peer->sent_at % weiri_internode_ring(peer);
    weir_status status = WEIR_OK;
    head->bytes = bytes;
    head->total_bytes = total_bytes;
    head->consumed = peer->credited = peer->taken_at;
    head->called = internode == internode->parent->internode ? weiri_called_own(internode->parent)
                                                             : (weiri_called){.chain = 0};
    peer->sent++;
    peer->sent_at = message_after(peer, peer->sent_at, bytes);
    weiri_net_lock(internode->net);
    if (from)
        status = ops->put_from(peer->endpoint, from, &peer->key,
                               peer->inbox_there + place + sizeof *head, bytes);
    if (status == WEIR_OK)
        status = message_put(internode, peer, (const char *)head, place,
                             sizeof *head + (from ? 0 : bytes));
    if (status == WEIR_OK)
        status =
            ops->signal(peer->endpoint, &peer->key,
                        peer->words_there + offsetof(weiri_internode_words, arrived), peer->sent);
    weiri_net_unlock(internode->net);
    return status == WEIR_OK ? WEIR_OK : message_give_up(internode, rank, status);
}

/* ------------------------------------------------ data sent and received in place */

int weiri_internode_is_direct(const weiri_internode *internode, size_t bytes)
{
    return bytes >= DIRECT_BYTES && internode->net->ops->put_from;
}

/* Where the data of a message of a peer arrive, as an offset in the window, if it is the next
 * message or all messages before it are of the greatest length. */
static uint64_t message_data_at(const weiri_internode *internode, const weiri_internode_peer *peer,
                                uint64_t message)
{
    uint64_t at = peer->taken_at;
    for (uint64_t before = peer->taken; before < message; before++)
        at = message_after(peer, at, internode->slot_bytes);
    return (uint64_t)(peer->inbox - internode->window) + at % weiri_internode_ring(peer) +
           sizeof(weiri_internode_head);
}

void weiri_internode_expect(weiri_internode *internode, int rank, char *to, size_t bytes)
{
    weiri_internode_peer *peer = &internode->peers[rank];
    if (peer->expected < peer->taken)
        peer->expected = peer->taken;
    uint64_t end = peer->taken + WEIRI_INTERNODE_SLOTS;
    size_t done = (peer->expected - peer->taken) * internode->slot_bytes;
    if (peer->expected >= end || done >= bytes)
        return;
    weiri_net_lock(internode->net);
    for (; peer->expected < end && done < bytes; peer->expected++) {
        size_t left = bytes - done, each = internode->slot_bytes;
        each = left < each ? left : each;
        if (weiri_internode_is_direct(internode, each))
            internode->net->ops->land(peer->endpoint, internode->mem,
                                      message_data_at(internode, peer, peer->expected), each,
                                      to + done);
        done += each;
    }
    weiri_net_unlock(internode->net);
}

static int message_end_expectation(const weiri_internode *internode,
                                   const weiri_internode_peer *peer, uint64_t message)
{
    return internode->net->ops->landed(peer->endpoint, internode->mem,
                                       message_data_at(internode, peer, message));
}

int weiri_internode_landed(weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    if (peer->expected <= peer->taken)
        return 0;
    weiri_net_lock(internode->net);
    int landed = message_end_expectation(internode, peer, peer->taken);
    weiri_net_unlock(internode->net);
    return landed;
}

void weiri_internode_expect_nothing(weiri_internode *internode)
{
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        weiri_internode_peer *peer = &internode->peers[rank];
        if (peer->expected <= peer->taken)
            continue;
        weiri_net_lock(internode->net);
        for (uint64_t message = peer->taken; message < peer->expected; message++)
            message_end_expectation(internode, peer, message);
        weiri_net_unlock(internode->net);
        peer->expected = peer->taken;
    }
}

void weiri_internode_forget(weiri_internode *internode)
{
    const weiri_net_ops *ops = internode->net->ops;
    const weiri_internode_links *links = internode->links;
    for (int i = 0; ops->forget && i < weiri_internode_link_count(links); i++) {
        weiri_net_lock(internode->net);
        ops->forget(internode->peers[links->ranks[i]].endpoint);
        weiri_net_unlock(internode->net);
    }
}

/* A short message that has left needs nothing more from this rank. Looking for arrivals after it
 * would only delay the caller: a wait for one of them, or for room, does that itself. */
static int message_has_left(const weiri_internode_peer *peer, size_t bytes)
{
    return bytes < DIRECT_BYTES && peer->endpoint->sent == peer->endpoint->posted;
}

weir_status weiri_internode_send(weiri_internode *internode, int rank, size_t bytes,
                                 size_t total_bytes)
{
    int moved = 0;
    weir_status status = weiri_internode_post(internode, rank, NULL, bytes, total_bytes);
    if (status != WEIR_OK || message_has_left(&internode->peers[rank], bytes))
        return status;
    weiri_net_lock(internode->net);
    internode->net->ops->progress(internode->net, &moved);
    weiri_net_unlock(internode->net);
    return WEIR_OK;
}

/* Whether a message belongs to another call than this rank's. */
static int message_differs(const weiri_internode *internode, const weiri_internode_head *head)
{
    return head->called.chain && head->called.chain != internode->parent->chain;
}

weir_status weiri_internode_take(weiri_internode *internode, int rank)
{
    weiri_internode_peer *peer = &internode->peers[rank];
    const weiri_internode_head *head = message_head(peer, peer->taken_at);
    if (WEIRI_UNLIKELY(message_differs(internode, head)) &&
        weiri_comm_refuse_chain(internode->parent) != WEIR_OK)
        return WEIR_ERR_MISMATCH;
    peer->released = head->consumed;
    peer->taken_at = message_after(peer, peer->taken_at, head->bytes);
    peer->taken++;
    if (peer->taken_at < peer->credited + weiri_internode_ring(peer) / 2)
        return WEIR_OK;
    peer->credited = peer->taken_at;
    weiri_net_lock(internode->net);
    weir_status status = internode->net->ops->signal(
        peer->endpoint, &peer->key, peer->words_there + offsetof(weiri_internode_words, consumed),
        peer->taken_at);
    weiri_net_unlock(internode->net);
    return status == WEIR_OK ? WEIR_OK : message_give_up(internode, rank, status);
}

weir_status weiri_internode_flush(weiri_internode *internode, const char *phase)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    const weiri_internode_links *links = internode->links;
    for (int i = 0; i < weiri_internode_link_count(links); i++) {
        const int rank = links->ranks[i];
        const weiri_endpoint *end = internode->peers[rank].endpoint;
        while (end->sent < end->posted && end->completed < end->posted) {
            weir_status status = weiri_comm_idle_for(internode->local, &waiter, &end->sent,
                                                     end->posted, rank, phase);
            if (WEIRI_UNLIKELY(status != WEIR_OK))
                return status;
        }
    }
    weiri_comm_idle_end(internode->local, &waiter);
    return WEIR_OK;
}

static weir_status message_signal_barrier(weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    return internode->net->ops->signal(peer->endpoint, &peer->key,
                                       peer->words_there + offsetof(weiri_internode_words, barrier),
                                       internode->barriers);
}

static const char barrier_phase[] = "barrier of nodes";

/* In log2(nodes) rounds, with the leaders to which this one is connected anyway: after the round of
 * distance d it knows that those of the 2 * d - 1 nodes before its own have entered. */
static weir_status message_barrier_in_rounds(weiri_internode *internode)
{
    weir_status status = WEIR_OK;
    for (int d = 1; d < internode->nnodes && status == WEIR_OK; d *= 2) {
        const int before = weiri_internode_leader_at(internode, -d);
        const int after = weiri_internode_leader_at(internode, d);
        weiri_net_lock(internode->net);
        status = message_signal_barrier(internode, after);
        weiri_net_unlock(internode->net);
        if (status != WEIR_OK)
            return message_give_up(internode, after, status);
        status = message_await_word(internode, &internode->peers[before].words->barrier,
                                    internode->barriers, before, barrier_phase);
    }
    return status == WEIR_OK ? weiri_internode_flush(internode, barrier_phase) : status;
}

weir_status weiri_internode_barrier(weiri_internode *internode)
{
    weir_status status = WEIR_OK;
    internode->barriers++;
    if (internode->is_first_use)
        return message_barrier_in_rounds(internode);
    for (int m = 0; m < internode->nnodes; m++) {
        const int rank = internode->nodes[m].ranks[0];
        weiri_net_lock(internode->net);
        if (m != internode->node)
            status = message_signal_barrier(internode, rank);
        weiri_net_unlock(internode->net);
        if (status != WEIR_OK)
            return message_give_up(internode, rank, status);
    }
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++) {
        const int rank = internode->nodes[m].ranks[0];
        if (m != internode->node)
            status = message_await_word(internode, &internode->peers[rank].words->barrier,
                                        internode->barriers, rank, barrier_phase);
    }
    return status == WEIR_OK ? weiri_internode_flush(internode, barrier_phase) : status;
}
