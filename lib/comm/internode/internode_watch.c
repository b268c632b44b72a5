/*
 * How nodes learn of the end of something: aborts, the loss of a peer, final state records, and
 * ranks that leave.
 *
 * A rank that detects a reason to end all waits sets the abort words of its node and signals all
 * remote ranks, each of which sets the abort words of its node. A path that fails is a loss of
 * its rank, unless that rank has finished. As the finished word of a rank that ended normally may
 * arrive after the failure is seen, a loss only counts after GRACE_NS. If connections are made when
 * first used, internode_pass.c passes on what arrives; an endpoint that could not be connected is
 * the loss of its rank if nothing listens there any more, else a failure of this rank.
 */
#include "comm/internode/internode.h"

#include "base/error.h"
#include "base/log.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

enum {
    POLLS_PER_CHECK = 64,
    GRACE_NS = 100 * 1000 * 1000,
    FLUSH_NS = 200 * 1000 * 1000,  /* the longest wait for signals to be sent */
    LEAVE_NS = 2000 * 1000 * 1000, /* the longest wait for the peers' left words */
};

/* The path broke, or the peer has ended before there was one. */
static int watch_is_broken(const weiri_endpoint *end)
{
    return end->failed != WEIR_OK && (!end->is_connecting || end->failed == WEIR_ERR_PEER);
}

static int watch_has_failed(const weiri_internode_peer *peer)
{
    return peer->endpoint && watch_is_broken(peer->endpoint) &&
           !weir_load_acquire(&peer->words->finished);
}

int weiri_internode_is_lost(const weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    if (internode->is_first_use &&
        weir_load_acquire(internode->local->guard.abort_word) == WEIRI_ABORT_DEATH + (uint64_t)rank)
        return 1;
    return watch_has_failed(peer);
}

int weiri_internode_is_gone(const weiri_internode *internode, int rank)
{
    const weiri_endpoint *end = internode->peers[rank].endpoint;
    return end && watch_is_broken(end);
}

/* A connection cannot be made, for a reason of this rank or the network: ends all waits. */
static void watch_give_up(weiri_internode *internode, const char *reason)
{
    if (internode->aborted)
        return;
    internode->aborted = 1;
    snprintf(internode->failure, sizeof internode->failure, "%s", reason);
    weiri_log(WEIRI_LOG_ERROR, "%s", reason);
    weiri_comm_abort_node(internode->local, WEIRI_ABORT_FAILED);
}

/* Passes new aborts of other nodes, and losses, on to the ranks of this node. failed: what progress
 * returned, with the reason in the last error. */
static void watch_check(weiri_internode *internode, weir_status failed)
{
    const weiri_internode_links *links = internode->links;
    int cannot_connect = internode->net->failed != WEIR_OK;
    if (internode->net->lacks_memory)
        weiri_comm_abort_node(internode->local,
                              WEIRI_ABORT_BUFFER + (uint64_t)internode->parent->rank);
    for (int i = 0; i < links->count; i++) {
        const weiri_internode_peer *peer = &internode->peers[links->ranks[i]];
        uint64_t reason = weir_load_acquire(&peer->words->abort);
        if (reason && !internode->aborted) {
            internode->aborted = 1;
            weiri_comm_abort_node(internode->local, reason);
        }
        if (peer->endpoint->failed == WEIR_ERR_INVALID) /* it could not send from a buffer */
            weiri_comm_abort_node(internode->local, WEIRI_ABORT_BUFFER + (uint64_t)links->ranks[i]);
        if (watch_has_failed(peer) && !internode->lost_ns) {
            internode->lost_ns = weir_clock_ns();
            internode->lost = links->ranks[i];
        }
        cannot_connect |= peer->endpoint->failed != WEIR_OK && !watch_is_broken(peer->endpoint);
    }
    if (internode->lost_ns && !internode->aborted &&
        weir_clock_ns() - internode->lost_ns > GRACE_NS) {
        internode->aborted = 1;
        weiri_comm_abort_node(internode->local, WEIRI_ABORT_DEATH + (uint64_t)internode->lost);
    }
    if (cannot_connect && failed != WEIR_OK)
        watch_give_up(internode, weir_last_error());
    weiri_internode_pass_on(internode);
}

/* The caller holds the lock. Returns whether the network moved anything. */
static int watch_poll(weiri_internode *internode)
{
    int moved = 0;
    weir_status status = internode->net->ops->progress(internode->net, &moved);
    if (moved || status != WEIR_OK || internode->net->lacks_memory ||
        ++internode->polls % POLLS_PER_CHECK == 0)
        watch_check(internode, status);
    return moved;
}

int weiri_internode_poll(weiri_internode *internode)
{
    weiri_net_lock(internode->net);
    const int moved = watch_poll(internode);
    weiri_net_unlock(internode->net);
    weiri_internode_serve(internode);
    return moved;
}

void weiri_internode_try_poll(weiri_internode *internode)
{
    if (pthread_mutex_trylock(&internode->net->lock) != 0)
        return;
    watch_poll(internode);
    weiri_net_unlock(internode->net);
}

/* Progresses the network until everything posted to connected peers has been sent, for FLUSH_NS at
 * most. The caller holds the lock. */
static void watch_flush(weiri_internode *internode)
{
    const weiri_internode_links *links = internode->links;
    uint64_t end_ns = weir_clock_ns() + FLUSH_NS;
    for (int pending = 1; pending && weir_clock_ns() < end_ns;) {
        int moved = 0;
        internode->net->ops->progress(internode->net, &moved);
        pending = 0;
        for (int i = 0; i < links->count; i++) {
            const weiri_endpoint *end = internode->peers[links->ranks[i]].endpoint;
            pending |= end->failed == WEIR_OK && !end->is_connecting && end->sent < end->posted &&
                       end->completed < end->posted;
        }
    }
}

/* Sets a word at every peer in links and waits until the signals are sent, unless *sent is set,
 * which it then sets. */
static void watch_notify(weiri_internode *internode, int *sent, size_t word, uint64_t value)
{
    weiri_net_lock(internode->net);
    if (!*sent) {
        *sent = 1;
        weiri_internode_signal_links(internode, word, value);
        watch_flush(internode);
    }
    weiri_net_unlock(internode->net);
}

void weiri_internode_abort(weiri_internode *internode, uint64_t reason)
{
    weiri_net_lock(internode->net);
    if (weiri_internode_signal_abort(internode, reason))
        watch_flush(internode);
    weiri_net_unlock(internode->net);
}

/* place: of a rank of this node. */
static void watch_send_record(weiri_internode *internode, int place, int is_final)
{
    const weiri_internode_links *links = internode->links;
    weiri_where *record = &internode->own_records[place];
    *record = internode->local->peers[place].page->where;
    for (int i = 0; i < links->count; i++)
        weiri_internode_put_record(internode, links->ranks[i],
                                   internode->local->parent_ranks[place], record, is_final);
}

void weiri_internode_show_records(weiri_internode *internode, int of_node)
{
    const int own = internode->local->rank;
    weiri_net_lock(internode->net);
    for (int place = 0; place < internode->local->nranks && !internode->record_sent; place++)
        if (place == own || of_node)
            watch_send_record(internode, place, 0);
    weiri_net_unlock(internode->net);
}

void weiri_internode_send_record(weiri_internode *internode)
{
    weiri_net_lock(internode->net);
    if (!internode->record_sent) {
        internode->record_sent = 1;
        watch_send_record(internode, internode->local->rank, 1);
        weiri_internode_pass_on(internode);
        watch_flush(internode);
    }
    weiri_net_unlock(internode->net);
}

void weiri_internode_printed(weiri_internode *internode)
{
    watch_notify(internode, &internode->printed, offsetof(weiri_internode_words, printed), 1);
}

static int watch_all_have_left(const weiri_internode *internode)
{
    const weiri_internode_links *links = internode->links;
    for (int i = 0; i < weiri_internode_link_count(links); i++) {
        const weiri_internode_peer *peer = &internode->peers[links->ranks[i]];
        if (peer->endpoint->failed == WEIR_OK && !peer->endpoint->is_connecting &&
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
    watch_notify(internode, &internode->left, offsetof(weiri_internode_words, left), 1);
    while (!watch_all_have_left(internode) && weir_clock_ns() < end_ns) {
        int moved = 0;
        weiri_net_lock(internode->net);
        internode->net->ops->progress(internode->net, &moved);
        weiri_internode_pass_on(internode);
        weiri_net_unlock(internode->net);
        nanosleep(&nap, NULL);
    }
}
