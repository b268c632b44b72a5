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

static int failed(const weiri_net_peer *peer)
{
    return peer->endpoint && peer->endpoint->failed != WEIR_OK &&
           !weir_load_acquire(&peer->words->finished);
}

int weiri_net_is_lost(const weiri_net *net, int rank)
{
    return failed(&net->peers[rank]);
}

int weiri_net_is_gone(const weiri_net *net, int rank)
{
    const weiri_endpoint *end = net->peers[rank].endpoint;
    return end && end->failed != WEIR_OK;
}

/* Aborts and losses that this rank does not know yet. */
static void look(weiri_net *net)
{
    for (int rank = 0; rank < net->whole->nranks; rank++) {
        const weiri_net_peer *peer = &net->peers[rank];
        if (!peer->endpoint)
            continue;
        uint64_t reason = weir_load_acquire(&peer->words->abort);
        if (reason && !net->aborted) {
            net->aborted = 1;
            weiri_comm_abort_here(net->local, reason);
        }
        if (failed(peer) && !net->lost_ns) {
            net->lost_ns = weir_clock_ns();
            net->lost = rank;
        }
    }
    if (net->lost_ns && !net->aborted && weir_clock_ns() - net->lost_ns > GRACE_NS) {
        net->aborted = 1;
        weiri_comm_abort_here(net->local, WEIRI_ABORT_DEATH + (uint64_t)net->lost);
    }
}

void weiri_net_poll(weiri_net *net)
{
    int moved = 0;
    weiri_wire_lock(net->wire);
    weir_status status = net->wire->ops->progress(net->wire, &moved);
    if (moved || status != WEIR_OK || ++net->polls % POLLS_PER_LOOK == 0)
        look(net);
    weiri_wire_unlock(net->wire);
}

/* Until what was posted is on its way, or for a short time; the lock is held. */
static void push(weiri_net *net)
{
    uint64_t end_ns = weir_clock_ns() + TELL_NS;
    for (int pending = 1; pending && weir_clock_ns() < end_ns;) {
        int moved = 0;
        net->wire->ops->progress(net->wire, &moved);
        pending = 0;
        for (int rank = 0; rank < net->whole->nranks; rank++) {
            const weiri_endpoint *end = net->peers[rank].endpoint;
            pending |= end && end->failed == WEIR_OK && end->sent < end->posted &&
                       end->completed < end->posted;
        }
    }
}

/* Sets a word at every remote rank; the lock is held. */
static void tell(weiri_net *net, size_t word, uint64_t value)
{
    for (int rank = 0; rank < net->whole->nranks; rank++) {
        weiri_net_peer *peer = &net->peers[rank];
        if (peer->endpoint && peer->endpoint->failed == WEIR_OK)
            net->wire->ops->signal(peer->endpoint, &peer->key, peer->words_there + word, value);
    }
}

void weiri_net_abort(weiri_net *net, uint64_t reason)
{
    weiri_wire_lock(net->wire);
    if (!net->told) {
        net->told = 1;
        tell(net, offsetof(weiri_net_words, abort), reason);
        push(net);
    }
    weiri_wire_unlock(net->wire);
}

void weiri_net_answer(weiri_net *net)
{
    weiri_wire_lock(net->wire);
    if (!net->answered) {
        net->answered = 1;
        *net->told_from = *net->local->where;
        for (int rank = 0; rank < net->whole->nranks; rank++) {
            const weiri_net_peer *peer = &net->peers[rank];
            if (peer->endpoint && peer->endpoint->failed == WEIR_OK)
                net->wire->ops->put(peer->endpoint, net->mem,
                                    (uint64_t)((char *)net->told_from - net->window), &peer->key,
                                    peer->mirror_there, sizeof *net->told_from);
        }
        tell(net, offsetof(weiri_net_words, answered), 1);
        push(net);
    }
    weiri_wire_unlock(net->wire);
}

void weiri_net_printed(weiri_net *net)
{
    weiri_wire_lock(net->wire);
    tell(net, offsetof(weiri_net_words, printed), 1);
    push(net);
    weiri_wire_unlock(net->wire);
}

static int all_have_left(const weiri_net *net)
{
    for (int rank = 0; rank < net->whole->nranks; rank++) {
        const weiri_net_peer *peer = &net->peers[rank];
        if (peer->endpoint && peer->endpoint->failed == WEIR_OK &&
            !weir_load_acquire(&peer->words->left))
            return 0;
    }
    return 1;
}

void weiri_net_finish(weiri_net *net)
{
    weiri_wire_lock(net->wire);
    if (!net->finished) {
        net->finished = 1;
        tell(net, offsetof(weiri_net_words, finished), 1);
        push(net);
    }
    weiri_wire_unlock(net->wire);
}

void weiri_net_leave(weiri_net *net)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t end_ns = weir_clock_ns() + LEAVE_NS;
    weiri_wire_lock(net->wire);
    tell(net, offsetof(weiri_net_words, left), 1);
    push(net);
    weiri_wire_unlock(net->wire);
    while (!all_have_left(net) && weir_clock_ns() < end_ns) {
        int moved = 0;
        weiri_wire_lock(net->wire);
        net->wire->ops->progress(net->wire, &moved);
        weiri_wire_unlock(net->wire);
        nanosleep(&nap, NULL);
    }
}
