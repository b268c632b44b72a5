/*
 * How nodes learn of the end of something: aborts, the loss of a peer, final state records, and
 * ranks that leave.
 *
 * A rank that detects a reason to end all waits sets the abort words of its node and signals all
 * remote ranks, each of which sets the abort words of its node. A path that fails is a loss of
 * its rank, unless that rank has finished. As the finished word of a rank that ended normally may
 * arrive after the failure is seen, a loss only counts after GRACE_NS.
 */
#include "comm/internode/internode.h"

#include "base/log.h"

#include <stddef.h>
#include <time.h>

enum {
    POLLS_PER_CHECK = 64,
    GRACE_NS = 100 * 1000 * 1000,
    FLUSH_NS = 200 * 1000 * 1000,  /* the longest wait for signals to be sent */
    LEAVE_NS = 2000 * 1000 * 1000, /* the longest wait for the peers' left words */
};

static int watch_has_failed(const weiri_internode_peer *peer)
{
    return peer->endpoint && peer->endpoint->failed != WEIR_OK &&
           !weir_load_acquire(&peer->words->finished);
}

int weiri_internode_is_lost(const weiri_internode *internode, int rank)
{
    return watch_has_failed(&internode->peers[rank]);
}

int weiri_internode_is_gone(const weiri_internode *internode, int rank)
{
    const weiri_endpoint *end = internode->peers[rank].endpoint;
    return end && end->failed != WEIR_OK;
}

/* Passes new aborts of other nodes, and losses, on to the ranks of this node. */
static void watch_check(weiri_internode *internode)
{
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        const weiri_internode_peer *peer = &internode->peers[rank];
        if (!peer->endpoint)
            continue;
        uint64_t reason = weir_load_acquire(&peer->words->abort);
        if (reason && !internode->aborted) {
            internode->aborted = 1;
            weiri_comm_abort_node(internode->local, reason);
        }
        if (watch_has_failed(peer) && !internode->lost_ns) {
            internode->lost_ns = weir_clock_ns();
            internode->lost = rank;
        }
    }
    if (internode->lost_ns && !internode->aborted &&
        weir_clock_ns() - internode->lost_ns > GRACE_NS) {
        internode->aborted = 1;
        weiri_comm_abort_node(internode->local, WEIRI_ABORT_DEATH + (uint64_t)internode->lost);
    }
}

void weiri_internode_poll(weiri_internode *internode)
{
    int moved = 0;
    weiri_net_lock(internode->net);
    weir_status status = internode->net->ops->progress(internode->net, &moved);
    if (moved || status != WEIR_OK || ++internode->polls % POLLS_PER_CHECK == 0)
        watch_check(internode);
    weiri_net_unlock(internode->net);
}

/* Progresses the network until everything posted has been sent, for FLUSH_NS at most. The caller
 * holds the lock. */
static void watch_flush(weiri_internode *internode)
{
    uint64_t end_ns = weir_clock_ns() + FLUSH_NS;
    for (int pending = 1; pending && weir_clock_ns() < end_ns;) {
        int moved = 0;
        internode->net->ops->progress(internode->net, &moved);
        pending = 0;
        for (int rank = 0; rank < internode->parent->nranks; rank++) {
            const weiri_endpoint *end = internode->peers[rank].endpoint;
            pending |= end && end->failed == WEIR_OK && end->sent < end->posted &&
                       end->completed < end->posted;
        }
    }
}

/* Sets a word at every remote rank. The caller holds the lock. */
static void watch_signal_all(weiri_internode *internode, size_t word, uint64_t value)
{
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        weiri_internode_peer *peer = &internode->peers[rank];
        if (peer->endpoint && peer->endpoint->failed == WEIR_OK)
            internode->net->ops->signal(peer->endpoint, &peer->key, peer->words_there + word,
                                        value);
    }
}

/* Sets a word at every remote rank and waits until the signals are sent, unless *sent is set, which
 * it then sets. */
static void watch_notify(weiri_internode *internode, int *sent, size_t word, uint64_t value)
{
    weiri_net_lock(internode->net);
    if (!*sent) {
        *sent = 1;
        watch_signal_all(internode, word, value);
        watch_flush(internode);
    }
    weiri_net_unlock(internode->net);
}

void weiri_internode_abort(weiri_internode *internode, uint64_t reason)
{
    watch_notify(internode, &internode->abort_sent, offsetof(weiri_internode_words, abort), reason);
}

void weiri_internode_send_record(weiri_internode *internode)
{
    weiri_net_lock(internode->net);
    if (!internode->record_sent) {
        internode->record_sent = 1;
        *internode->own_record = *internode->local->where;
        for (int rank = 0; rank < internode->parent->nranks; rank++) {
            const weiri_internode_peer *peer = &internode->peers[rank];
            if (peer->endpoint && peer->endpoint->failed == WEIR_OK)
                internode->net->ops->put(
                    peer->endpoint, internode->mem,
                    (uint64_t)((char *)internode->own_record - internode->window), &peer->key,
                    peer->mirror_there, sizeof *internode->own_record);
        }
        watch_signal_all(internode, offsetof(weiri_internode_words, answered), 1);
        watch_flush(internode);
    }
    weiri_net_unlock(internode->net);
}

void weiri_internode_printed(weiri_internode *internode)
{
    int sent = 0;
    watch_notify(internode, &sent, offsetof(weiri_internode_words, printed), 1);
}

static int watch_all_have_left(const weiri_internode *internode)
{
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        const weiri_internode_peer *peer = &internode->peers[rank];
        if (peer->endpoint && peer->endpoint->failed == WEIR_OK &&
            !weir_load_acquire(&peer->words->left))
            return 0;
    }
    return 1;
}

void weiri_internode_signal_finished(weiri_internode *internode)
{
    watch_notify(internode, &internode->finished, offsetof(weiri_internode_words, finished), 1);
}

void weiri_internode_leave(weiri_internode *internode)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t end_ns = weir_clock_ns() + LEAVE_NS;
    int sent = 0;
    watch_notify(internode, &sent, offsetof(weiri_internode_words, left), 1);
    while (!watch_all_have_left(internode) && weir_clock_ns() < end_ns) {
        int moved = 0;
        weiri_net_lock(internode->net);
        internode->net->ops->progress(internode->net, &moved);
        weiri_net_unlock(internode->net);
        nanosleep(&nap, NULL);
    }
}
