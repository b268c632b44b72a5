/*
 * What machines tell each other when something ends: aborts, the loss of a peer, where
 * ranks stood, and goodbyes.
 *
 * Who finds a reason to end all waits sets the abort words of its machine and tells all
 * ranks of the others, each of which sets those of its own machine. A path that fails
 * is a loss, unless its rank has finished; a rank that did its part and ended without a
 * word looks so, too, until what it sent is seen, so a loss counts after a grace.
 */
#include "comm/internode/internode.h"

#include "base/log.h"

#include <stddef.h>
#include <time.h>

enum {
    POLLS_PER_LOOK = 64,
    GRACE_NS = 100 * 1000 * 1000,
    TELL_NS = 200 * 1000 * 1000,    /* for words to get on their way */
    LEAVE_NS = 2000 * 1000 * 1000,  /* for goodbyes */
};

static int failed(const weiri_internode_peer *peer)
{
    return peer->endpoint && peer->endpoint->failed != WEIR_OK &&
           !weir_load_acquire(&peer->words->finished);
}

int weiri_internode_is_lost(const weiri_internode *internode, int rank)
{
    return failed(&internode->peers[rank]);
}

int weiri_internode_is_gone(const weiri_internode *internode, int rank)
{
    const weiri_endpoint *end = internode->peers[rank].endpoint;
    return end && end->failed != WEIR_OK;
}

/* Aborts and losses that this rank does not know yet. */
static void look(weiri_internode *internode)
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
        if (failed(peer) && !internode->lost_ns) {
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
    if (moved || status != WEIR_OK || ++internode->polls % POLLS_PER_LOOK == 0)
        look(internode);
    weiri_net_unlock(internode->net);
}

/* Until what was posted is on its way, or for a short time; the lock is held. */
static void push(weiri_internode *internode)
{
    uint64_t end_ns = weir_clock_ns() + TELL_NS;
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

/* Sets a word at every remote rank; the lock is held. */
static void tell(weiri_internode *internode, size_t word, uint64_t value)
{
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        weiri_internode_peer *peer = &internode->peers[rank];
        if (peer->endpoint && peer->endpoint->failed == WEIR_OK)
            internode->net->ops->signal(peer->endpoint, &peer->key, peer->words_there + word,
                                        value);
    }
}

void weiri_internode_abort(weiri_internode *internode, uint64_t reason)
{
    weiri_net_lock(internode->net);
    if (!internode->told) {
        internode->told = 1;
        tell(internode, offsetof(weiri_internode_words, abort), reason);
        push(internode);
    }
    weiri_net_unlock(internode->net);
}

void weiri_internode_answer(weiri_internode *internode)
{
    weiri_net_lock(internode->net);
    if (!internode->answered) {
        internode->answered = 1;
        *internode->told_from = *internode->local->where;
        for (int rank = 0; rank < internode->parent->nranks; rank++) {
            const weiri_internode_peer *peer = &internode->peers[rank];
            if (peer->endpoint && peer->endpoint->failed == WEIR_OK)
                internode->net->ops->put(
                    peer->endpoint, internode->mem,
                    (uint64_t)((char *)internode->told_from - internode->window), &peer->key,
                    peer->mirror_there, sizeof *internode->told_from);
        }
        tell(internode, offsetof(weiri_internode_words, answered), 1);
        push(internode);
    }
    weiri_net_unlock(internode->net);
}

void weiri_internode_printed(weiri_internode *internode)
{
    weiri_net_lock(internode->net);
    tell(internode, offsetof(weiri_internode_words, printed), 1);
    push(internode);
    weiri_net_unlock(internode->net);
}

static int all_have_left(const weiri_internode *internode)
{
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        const weiri_internode_peer *peer = &internode->peers[rank];
        if (peer->endpoint && peer->endpoint->failed == WEIR_OK &&
            !weir_load_acquire(&peer->words->left))
            return 0;
    }
    return 1;
}

void weiri_internode_finish(weiri_internode *internode)
{
    weiri_net_lock(internode->net);
    if (!internode->finished) {
        internode->finished = 1;
        tell(internode, offsetof(weiri_internode_words, finished), 1);
        push(internode);
    }
    weiri_net_unlock(internode->net);
}

void weiri_internode_leave(weiri_internode *internode)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t end_ns = weir_clock_ns() + LEAVE_NS;
    weiri_net_lock(internode->net);
    tell(internode, offsetof(weiri_internode_words, left), 1);
    push(internode);
    weiri_net_unlock(internode->net);
    while (!all_have_left(internode) && weir_clock_ns() < end_ns) {
        int moved = 0;
        weiri_net_lock(internode->net);
        internode->net->ops->progress(internode->net, &moved);
        weiri_net_unlock(internode->net);
        nanosleep(&nap, NULL);
    }
}
