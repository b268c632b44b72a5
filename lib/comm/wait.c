/*
 * The slow path of waits, how waits fail, and aborts. A wait polls, then yields between polls, and
 * regularly checks whether the communicator was aborted, a relevant rank has died, or the deadline
 * has passed (weir_waiter_step of weir/device.h, where the fast path is, reads the clock). The rank
 * that detects a reason first aborts all others; each rank reports its position in its last error
 * and in its state record (report.c). A death is passed on with the
 * abort, so that every rank names the dead one.
 *
 * A rank that has begun to destroy the communicator has done its part: its death affects only ranks
 * that wait for it. In sends and receives (is_for_one) that holds for every rank. The aborting rank
 * may have done its part before it aborted, so waits continue for a moment after an abort. In a
 * sub-communicator a wait also progresses the network, and ranks are numbered as in the parent.
 */
#define _GNU_SOURCE
#include "comm/comm.h"

#include "base/error.h"
#include "base/log.h"
#include "comm/called.h"
#include "comm/internode/internode.h"

#include <stdio.h>
#include <time.h>

enum {
    GRACE_NS = 100000000,
    LIFE_CHECK_NS = 100000000,    /* the longest time between checks for dead ranks, and for each */
    LIFE_CHECK_NS_EACH = 1000000, /* rank of the node */
    POLLS_PER_CLOCK = 64,
    WAIT_TEXT_BYTES = 512,
    NAP_FROM_NS = 1000000, /* waits that are shorter only yield */
    NAP_SHARE = 32,        /* a nap takes this part of the time waited so far */
    NAP_MOST_NS = 500000,
};

/* Returns the parent's number of a dead rank whose death affects a wait for `awaited`; -1: none. */
static int wait_find_dead(const weir_comm *comm, const weiri_waiter *waiter, int awaited)
{
    weiri_internode *internode = comm->parent ? comm->parent->internode : NULL;
    for (int peer = 0; peer < comm->nranks; peer++) {
        const int number = weiri_comm_parent_rank(comm, peer);
        const int is_harmless = waiter->is_for_one || weiri_comm_has_finished(comm, peer);
        if ((number == awaited || !is_harmless) && weiri_comm_is_dead(comm, peer))
            return number;
    }
    /* Last, as a rank of another node may have ended because of one of these. */
    if (internode && weiri_internode_is_remote(internode, awaited)) {
        if (weiri_internode_is_gone(internode, awaited))
            return awaited;
        weiri_internode_reach(internode, awaited); /* so that its loss is noticed */
    }
    return -1;
}

/* Returns 1 if an abort was seen so long ago that earlier writes of the aborting rank have
 * arrived. */
static int wait_has_settled(weiri_waiter *waiter)
{
    const uint64_t now_ns = weir_clock_ns();
    if (!waiter->aborted_ns)
        waiter->aborted_ns = now_ns;
    return now_ns - waiter->aborted_ns > GRACE_NS;
}

/* Returns 1 if dead ranks are to be looked for after this poll. Polls are rare where many ranks
 * share a core, so the time counts, too. A suspicion is confirmed soon. */
static int wait_life_is_due(const weir_comm *comm, weiri_waiter *waiter)
{
    const uint64_t polls = waiter->polls.polls;
    if (polls % WEIRI_POLLS_PER_LIFE_CHECK == 0)
        return 1;
    if (polls % POLLS_PER_CLOCK || !waiter->polls.started_ns)
        return 0;
    const uint64_t now_ns = weir_clock_ns(), each_ns = LIFE_CHECK_NS_EACH;
    const uint64_t since_ns =
        waiter->lives_ns > waiter->polls.started_ns ? waiter->lives_ns : waiter->polls.started_ns;
    if (!waiter->suspicions && now_ns - since_ns < LIFE_CHECK_NS + each_ns * (uint64_t)comm->nranks)
        return 0;
    waiter->lives_ns = now_ns;
    return 1;
}

/* Naps. If ranks share cores, ranks that wait long leave the cores to ranks that work: a core that
 * is only yielded is soon given back. Naps that grow with the wait delay its end little. The
 * network of several nodes needs polls, so its ranks take no naps. */
static void wait_nap(const weir_comm *comm, const weiri_waiter *waiter)
{
    if (!comm->oversubscribed || !waiter->polls.started_ns ||
        (comm->parent && comm->parent->internode))
        return;
    const uint64_t waited_ns = weir_clock_ns() - waiter->polls.started_ns;
    const uint64_t nap_ns = waited_ns / NAP_SHARE;
    if (waited_ns < NAP_FROM_NS)
        return;
    nanosleep(&(struct timespec){.tv_nsec = (long)(nap_ns < NAP_MOST_NS ? nap_ns : NAP_MOST_NS)},
              NULL);
}

/* Called after an unsuccessful poll. On WEIR_ERR_PEER *dead is the dead rank's number in the
 * parent. A rank that wrote the awaited word and then ended is dead before the word has been polled
 * again: so only the second check that finds a dead rank counts, or the one at the deadline. */
static weir_status wait_step(weir_comm *comm, weiri_waiter *waiter, int awaited, int *dead)
{
    int status = weir_waiter_step(&waiter->polls, &comm->guard);
    if (status == 0)
        wait_nap(comm, waiter);
    if (status == WEIR_ERR_ABORTED) {
        if (waiter->aborted_ns == 0)
            weiri_called_show(comm, 0);
        if (!wait_has_settled(waiter))
            return WEIR_OK;
        uint64_t reason = weir_load_acquire(comm->guard.abort_word);
        if (reason < WEIRI_ABORT_DEATH || reason >= WEIRI_ABORT_BUFFER)
            return WEIR_ERR_ABORTED;
        *dead = (int)(reason - WEIRI_ABORT_DEATH);
        return WEIR_ERR_PEER;
    }
    if (status != WEIR_ERR_TIMEOUT && !wait_life_is_due(comm, waiter))
        return (weir_status)status;
    *dead = wait_find_dead(comm, waiter, awaited);
    if (*dead >= 0 && (waiter->suspicions++ || status == WEIR_ERR_TIMEOUT))
        return WEIR_ERR_PEER;
    weiri_called_show(comm, 0);
    return weiri_called_compare(comm) == WEIR_OK ? (weir_status)status : WEIR_ERR_MISMATCH;
}

/* Writes the state of a wait into this rank's record. */
static void wait_note(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                      const char *phase, uint64_t since_ns)
{
    weir_wait_record *record = &comm->where->wait;
    weiri_called_note(comm);
    weiri_text_store(comm->where->phase, phase);
    weir_store_relaxed(&record->peer, (uint64_t)(int64_t)peer);
    weir_store_relaxed(&record->expected, target);
    weir_store_relaxed(&record->seen, weir_load_relaxed(word));
    weir_store_relaxed(&comm->where->since_ns, since_ns);
    weir_store_release(&record->kind, WEIR_WAIT_WORD);
}

/* Completes a failed wait: error line, log, abort and final record. */
static weir_status wait_fail(weir_comm *comm, weir_status status, int dead, const char *where)
{
    char text[WAIT_TEXT_BYTES];
    int rank = weiri_comm_parent_rank(comm, comm->rank);
    weir_status because;
    const char *why =
        comm->parent && comm->parent->internode ? comm->parent->internode->failure : "";
    if (status == WEIR_ERR_PEER)
        weiri_fail(status, "rank %d: rank %d has died; %s", rank, dead, where);
    else if (weiri_called_await(comm) != WEIR_OK)
        status = WEIR_ERR_MISMATCH;
    else if (status == WEIR_ERR_TIMEOUT)
        weiri_fail(status, "rank %d: deadline of %llu ms passed; %s", rank,
                   (unsigned long long)(comm->guard.timeout_ns / 1000000), where);
    else if ((because = weiri_comm_fail_buffer(comm, where)) != WEIR_OK)
        status = because;
    else
        weiri_fail(status, "rank %d: the communicator was aborted%s%s; %s", rank, *why ? ": " : "",
                   why, where);
    snprintf(text, sizeof text, "%s", weir_last_error());
    weiri_log(status == WEIR_ERR_MISMATCH ? WEIRI_LOG_ERROR : WEIRI_LOG_INFO, "%s", text);
    if (status == WEIR_ERR_MISMATCH)
        weiri_called_show(comm, 1);
    weiri_comm_abort_for(comm, status == WEIR_ERR_PEER ? WEIRI_ABORT_DEATH + (uint64_t)dead
                                                       : WEIRI_ABORT_FAILED);
    weir_store_release(&comm->where->answered, 1);
    if (comm->parent && comm->parent->internode)
        weiri_internode_send_record(comm->parent->internode);
    return weiri_fail(status, "%s", text); /* again: the network may have failed, too */
}

weir_status weiri_comm_idle(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                            uint64_t target, int peer, const char *phase)
{
    return weiri_comm_idle_for(comm, waiter, word, target, weiri_comm_parent_rank(comm, peer),
                               phase);
}

weir_status weiri_comm_idle_for(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word,
                                uint64_t target, int peer, const char *phase)
{
    int dead = -1;
    comm->idles++;
    if (comm->parent && comm->parent->internode) {
        const int awaited = weir_load_acquire(word) < target; /* else for something else, too */
        weiri_internode_poll(comm->parent->internode);
        if (awaited && weir_load_acquire(word) >= target)
            return WEIR_OK; /* it has arrived: yielding would only delay the caller */
    }
    weir_status status = wait_step(comm, waiter, peer, &dead);
    if (WEIRI_LIKELY(status == WEIR_OK && waiter->polls.started_ns == waiter->noted_ns))
        return WEIR_OK;
    waiter->noted_ns = waiter->polls.started_ns;
    wait_note(comm, word, target, peer, phase, waiter->noted_ns);
    if (status == WEIR_OK)
        return WEIR_OK;
    waiter->noted_ns = 0; /* the record stays: see weiri_comm_idle_end */
    char where[160];
    snprintf(where, sizeof where, "in %s, waiting for rank %d: expected %llu, seen %llu", phase,
             peer, (unsigned long long)target, (unsigned long long)weir_load_acquire(word));
    return wait_fail(comm, status, dead, where);
}

weir_status weiri_comm_wait_slow(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                                 const char *phase)
{
    weiri_waiter waiter = {.polls = {0, 0}};
    while (weir_load_acquire(word) < target) {
        weir_status status = weiri_comm_idle(comm, &waiter, word, target, peer, phase);
        if (WEIRI_UNLIKELY(status != WEIR_OK))
            return status;
    }
    weiri_comm_idle_end(comm, &waiter);
    return WEIR_OK;
}

/* ------------------------------------------------------------------- aborts */

void weiri_comm_abort_for(weir_comm *comm, uint64_t reason)
{
    weir_comm *host = comm->host_comm ? comm->host_comm : comm;
    weiri_comm_abort_node(host, reason);
    if (host->parent && host->parent->internode)
        weiri_internode_abort(host->parent->internode, reason);
    const weir_comm *all = host->parent ? host->parent : host;
    for (int i = 0; i < all->nlanes; i++)
        weiri_comm_abort_for(all->lanes[i], reason);
}

void weir_comm_abort(weir_comm *comm)
{
    if (comm && !weiri_comm_is_forked(comm))
        weiri_comm_abort_for(comm, WEIRI_ABORT_ASKED);
}

weir_status weiri_comm_fail_buffer(const weir_comm *comm, const char *where)
{
    const uint64_t cause = weir_load_acquire(comm->guard.abort_word);
    const int own = weiri_comm_parent_rank(comm, comm->rank);
    if (cause < WEIRI_ABORT_BUFFER)
        return WEIR_OK;
    const int rank = (int)(cause - WEIRI_ABORT_BUFFER);
    char whose[96] = "bad buffer: ";
    if (rank != own)
        snprintf(whose, sizeof whose,
                 "the communicator was aborted because of a bad buffer of rank %d: ", rank);
    return weiri_fail(
        rank == own ? WEIR_ERR_INVALID : WEIR_ERR_ABORTED,
        "rank %d: %sit is shorter than the counts of its call say, not mapped, or does "
        "not permit the access%s; %s",
        own, whose, comm->xpmem ? " (with WEIR_XPMEM=0 it may be a device driver's)" : "", where);
}

weir_status weiri_comm_abort_for_buffer(weir_comm *comm, int rank)
{
    const uint64_t never = 0;
    const int number = weiri_comm_parent_rank(comm, rank);
    weiri_comm_abort_for(comm, WEIRI_ABORT_BUFFER + (uint64_t)number);
    return weiri_comm_wait_slow(comm, &never, 1, rank, "access to a buffer");
}

weir_status weiri_comm_give_up(weir_comm *comm, weir_status status)
{
    char text[WAIT_TEXT_BYTES];
    if (status == WEIR_ERR_MISMATCH) /* if the calls differ, that is why lengths do */
        (void)weiri_called_compare(comm);
    snprintf(text, sizeof text, "%s", weir_last_error());
    weiri_log(WEIRI_LOG_ERROR, "%s", text);
    if (status == WEIR_ERR_MISMATCH)
        weiri_called_show(comm, 1);
    weir_store_relaxed(&comm->where->gave_up, (uint64_t) - (int)status);
    weiri_comm_abort_for(comm, WEIRI_ABORT_FAILED);
    return weiri_fail(status, "%s", text);
}

weir_status weiri_comm_refuse_chain(weir_comm *comm)
{
    return weiri_called_compare(comm) == WEIR_OK ? WEIR_OK
                                                 : weiri_comm_give_up(comm, WEIR_ERR_MISMATCH);
}
