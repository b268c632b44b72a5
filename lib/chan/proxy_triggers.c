/*
 * One round of a proxy's thread. It takes each trigger from the FIFO, checks it, executes it with
 * the channel's ops, and frees the slot. A flush that has not arrived goes onto a list, so that it
 * does not delay later triggers. Then the round advances the communicator's networks and completes
 * flushes. After a failure triggers are dropped; the communicator is aborted, which ends all waits.
 */
#include "chan/port.h"

#include "base/error.h"
#include "base/log.h"
#include "chan/copy_engine.h"

#include <stdio.h>
#include <stdlib.h>

void weiri_proxy_fail(weir_proxy *proxy, weir_status status)
{
    pthread_mutex_lock(&proxy->lock);
    if (proxy->status == WEIR_OK) {
        snprintf(proxy->why, sizeof proxy->why, "rank %d: proxy: %s", proxy->comm->rank,
                 weir_last_error());
        weiri_log(WEIRI_LOG_WARN, "%s", proxy->why);
        proxy->status = status;
    }
    pthread_mutex_unlock(&proxy->lock);
    weiri_comm_abort_for(proxy->comm, WEIRI_ABORT_FAILED);
}

/* ------------------------------------------------------------------ triggers */

/* Whether [at, at + bytes) lies within memory of the given size. */
static int trigger_is_within(uint64_t at, uint64_t bytes, size_t memory_bytes)
{
    return at <= memory_bytes && bytes <= memory_bytes - at;
}

static weir_status trigger_check(const weir_proxy *proxy, const weir_trigger *trigger,
                                 weir_portchan **chan)
{
    const uint32_t known = WEIR_TRIGGER_PUT | WEIR_TRIGGER_SIGNAL | WEIR_TRIGGER_FLUSH;
    weir_portchan *found = trigger->chan < proxy->nchans ? proxy->chans[trigger->chan] : NULL;
    if (!found || trigger->op & ~known || !trigger->op)
        return weiri_fail(WEIR_ERR_INVALID,
                          "a trigger of kind %#x for port channel %u, which does not exist or does "
                          "not know it (the proxy has %u channel numbers); use live channels of "
                          "this proxy",
                          trigger->op, trigger->chan, proxy->nchans);
    if (trigger->op & WEIR_TRIGGER_PUT &&
        (!trigger_is_within(trigger->to, trigger->bytes, found->remote_bytes) ||
         !trigger_is_within(trigger->from, trigger->bytes, found->local_bytes)))
        return weiri_fail(
            WEIR_ERR_INVALID,
            "a put of %llu bytes from offset %llu of %zu bytes to offset %llu of rank "
            "%d's %zu bytes exceeds the memory",
            (unsigned long long)trigger->bytes, (unsigned long long)trigger->from,
            found->local_bytes, (unsigned long long)trigger->to, found->sem->conn->peer,
            found->remote_bytes);
    *chan = found;
    return WEIR_OK;
}

static void publish_flushed(const weir_portchan *chan, uint64_t ticket)
{
    weir_store_release(&chan->sem->port.own->flushed.value, ticket + 1);
}

/* Flushes of one connection complete in order; those of several connections in any order. */
static weir_status begin_flush(weir_proxy *proxy, weir_portchan *chan, uint64_t ticket)
{
    weiri_port_flush flush = {.chan = chan, .ticket = ticket};
    int there = 0;
    weir_status status = chan->ops->flush(chan, &flush.mark);
    if (status == WEIR_OK)
        status = chan->ops->reached(chan, &flush.mark, &there);
    if (status != WEIR_OK)
        return status;
    if (there && !proxy->nflushes) {
        publish_flushed(chan, ticket);
        return WEIR_OK;
    }
    if (proxy->nflushes == proxy->most_flushes) {
        uint64_t most = 2 * proxy->most_flushes + 16;
        weiri_port_flush *more = realloc(proxy->flushes, (size_t)most * sizeof *more);
        if (!more)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %zu flushes", (size_t)most);
        proxy->flushes = more;
        proxy->most_flushes = most;
    }
    flush.since_ns = weir_clock_ns();
    proxy->flushes[proxy->nflushes] = flush;
    weir_store_relaxed(&proxy->nflushes, proxy->nflushes + 1);
    return WEIR_OK;
}

static weir_status trigger_run_port(weir_proxy *proxy, const weir_trigger *trigger, uint64_t ticket)
{
    weir_portchan *chan = NULL;
    weir_status status = trigger_check(proxy, trigger, &chan);
    if (status == WEIR_OK && trigger->op & WEIR_TRIGGER_PUT)
        status = chan->ops->put(chan, trigger->to, trigger->from, trigger->bytes);
    if (status == WEIR_OK && trigger->op & WEIR_TRIGGER_SIGNAL)
        status = chan->ops->signal(chan, ++chan->sem->port.sent);
    if (status == WEIR_OK && trigger->op & WEIR_TRIGGER_FLUSH)
        status = begin_flush(proxy, chan, ticket);
    return status;
}

static weir_status trigger_run(weir_proxy *proxy, const weir_trigger *trigger, uint64_t ticket)
{
    weir_status status = WEIR_OK;
    if (trigger->op == WEIR_TRIGGER_CUSTOM && proxy->config.handler) {
        status = proxy->config.handler(proxy->config.argument, trigger);
        return status == WEIR_OK ? status
                                 : weiri_fail_context(status, "the trigger handler failed");
    }
    if (trigger->op == WEIR_TRIGGER_CUSTOM)
        return weiri_fail(WEIR_ERR_INVALID, "a custom trigger, but the proxy has no handler");
    pthread_mutex_lock(&proxy->lock);
    status = trigger_run_port(proxy, trigger, ticket);
    pthread_mutex_unlock(&proxy->lock);
    return status;
}

/* Takes at most as many triggers as the FIFO holds, so that flushes and networks also advance. */
static int take_triggers(weir_proxy *proxy)
{
    weiri_fifo_end *end = &proxy->fifo.end;
    weir_trigger trigger;
    int taken = 0;
    while (taken < 1 << end->shift && weiri_fifo_peek(end, &trigger)) {
        if (proxy->status == WEIR_OK) {
            weir_status status = trigger_run(proxy, &trigger, end->taken);
            if (status != WEIR_OK)
                weiri_proxy_fail(proxy, status);
        }
        weiri_fifo_pop(end);
        taken++;
    }
    return taken;
}

/* ------------------------------------------------------------------- flushes */

static weir_status flush_check(const weir_proxy *proxy, const weiri_port_flush *flush, int *there)
{
    const weir_conn *conn = flush->chan->sem->conn;
    weir_status status = flush->chan->ops->reached(flush->chan, &flush->mark, there);
    if (status != WEIR_OK || *there ||
        weir_clock_ns() - flush->since_ns <= proxy->comm->guard.timeout_ns)
        return status;
    status = conn->stream.engine ? weiri_copy_engine_check(conn->stream.engine) : WEIR_OK;
    return status != WEIR_OK
               ? status
               : weiri_fail(WEIR_ERR_TIMEOUT,
                            "data put to rank %d over %s have not arrived within %llu ms",
                            conn->peer, weir_transport_name(conn->transport),
                            (unsigned long long)(proxy->comm->guard.timeout_ns / 1000000));
}

/* Completes the flushes that have arrived. After a failure the others are dropped. */
static int finish_flushes(weir_proxy *proxy)
{
    weir_status status = proxy->status;
    uint64_t left = 0;
    proxy->polls = 0;
    if (!weir_load_relaxed(&proxy->nflushes))
        return 0;
    pthread_mutex_lock(&proxy->lock);
    const uint64_t all = proxy->nflushes;
    for (uint64_t i = 0; i < all; i++) {
        weiri_port_flush *flush = &proxy->flushes[i];
        int there = 0;
        if (status == WEIR_OK)
            status = flush_check(proxy, flush, &there);
        if (there)
            publish_flushed(flush->chan, flush->ticket);
        else if (status == WEIR_OK)
            proxy->flushes[left++] = *flush;
        proxy->polls |= !there && !flush->chan->sem->conn->endpoint;
    }
    weir_store_relaxed(&proxy->nflushes, left);
    pthread_mutex_unlock(&proxy->lock);
    if (status != WEIR_OK && proxy->status == WEIR_OK)
        weiri_proxy_fail(proxy, status);
    return left < all;
}

/* --------------------------------------------------------------------- rounds */

static int progress_nets(weir_proxy *proxy)
{
    int moved = 0;
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        weiri_net *net = weiri_comm_open_net(proxy->comm, network);
        if (!net)
            continue;
        weiri_net_lock(net);
        weir_status status = net->ops->progress(net, &moved);
        weiri_net_unlock(net);
        if (status != WEIR_OK && proxy->status == WEIR_OK)
            weiri_proxy_fail(proxy, status);
    }
    return moved;
}

int weiri_proxy_run_triggers(weir_proxy *proxy)
{
    int moved = take_triggers(proxy);
    moved |= progress_nets(proxy);
    return moved | finish_flushes(proxy);
}

int weiri_proxy_is_busy(weir_proxy *proxy)
{
    weir_trigger trigger;
    uint64_t head = 0;
    int busy = weiri_fifo_peek(&proxy->fifo.end, &trigger) || weir_load_relaxed(&proxy->nflushes);
    if (proxy->status != WEIR_OK || weir_load_acquire(proxy->comm->guard.abort_word))
        return 0; /* outstanding work will not be completed */
    if (!proxy->comm->gpu && weiri_fifo_head(&proxy->fifo, &head) == WEIR_OK)
        busy |= head != proxy->fifo.end.taken;
    pthread_mutex_lock(&proxy->lock);
    for (uint32_t id = 0; id < proxy->nchans && !busy; id++) {
        weir_portchan *chan = proxy->chans[id];
        weiri_port_mark mark;
        int there = 1;
        if (chan && (chan->ops->flush(chan, &mark) != WEIR_OK ||
                     chan->ops->reached(chan, &mark, &there) != WEIR_OK))
            there = 1;
        busy |= !there;
    }
    pthread_mutex_unlock(&proxy->lock);
    return busy;
}
