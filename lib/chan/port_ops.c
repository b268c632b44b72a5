/*
 * How a port channel's bytes move: one ops table per kind of connection.
 *
 *   host   mapped host memory: the proxy's thread copies and stores, so everything is complete when
 *          the function returns
 *   copy   mapped GPU memory: the copy engine copies on the connection's stream. A signal is a
 * plain store while the stream is idle. After a copy the stream itself stores it, so the thread
 *          neither waits nor calls CUDA: the word that the stream stored last shows its progress.
 *   net    memory reached over a network: the network's put and signal
 */
#include "chan/port.h"

#include "base/error.h"
#include "chan/copy_engine.h"

#include <string.h>

static weir_status word_reached(weir_portchan *chan, const weiri_port_mark *mark, int *there)
{
    (void)chan;
    *there = !mark->word || weir_load_acquire(mark->word) >= mark->value;
    return WEIR_OK;
}

/* ------------------------------------------------------- mapped host memory */

static weir_status host_put(weir_portchan *chan, uint64_t to, uint64_t from, uint64_t bytes)
{
    if (bytes)
        memcpy(chan->remote + to, chan->local + from, bytes);
    return WEIR_OK;
}

static weir_status host_signal(weir_portchan *chan, uint64_t value)
{
    weir_store_release(&chan->sem->port.remote->inbound.value, value);
    return WEIR_OK;
}

static weir_status host_flush(weir_portchan *chan, weiri_port_mark *mark)
{
    (void)chan;
    *mark = (weiri_port_mark){NULL, 0};
    return WEIR_OK;
}

static const weiri_port_ops host_ops = {host_put, host_signal, host_flush, word_reached};

/* -------------------------------------------------------------- copy engine */

/* Whether the connection's stream has no outstanding work. */
static int stream_is_idle(const weiri_stream *stream)
{
    return !stream->copying &&
           (!stream->last.word || weir_load_acquire(stream->last.word) >= stream->last.value);
}

static weir_status copy_put(weir_portchan *chan, uint64_t to, uint64_t from, uint64_t bytes)
{
    weiri_stream *stream = &chan->sem->conn->stream;
    if (bytes)
        stream->copying = 1;
    return weiri_copy_engine_copy(stream->engine, chan->remote + to, chan->local + from, bytes);
}

static weir_status copy_signal(weir_portchan *chan, uint64_t value)
{
    weiri_stream *stream = &chan->sem->conn->stream;
    uint64_t *word = &chan->sem->port.remote->inbound.value;
    if (stream_is_idle(stream)) {
        weir_store_release(word, value);
        return WEIR_OK;
    }
    stream->copying = 0;
    stream->last = (weiri_port_mark){word, value};
    return weiri_copy_engine_store(stream->engine, &chan->sem->port.remote_on_device->inbound.value,
                                   value);
}

static weir_status copy_flush(weir_portchan *chan, weiri_port_mark *mark)
{
    weiri_stream *stream = &chan->sem->conn->stream;
    weiri_port_end *port = &chan->sem->port;
    weir_status status = WEIR_OK;
    if (stream->copying) {
        stream->copying = 0;
        stream->last = (weiri_port_mark){&port->own->reached.value, ++port->marks};
        status = weiri_copy_engine_store(stream->engine, &port->own_on_device->reached.value,
                                         port->marks);
    }
    *mark = stream->last;
    return status;
}

static const weiri_port_ops copy_ops = {copy_put, copy_signal, copy_flush, word_reached};

/* ------------------------------------------------------------------- networks */

static weir_status net_put(weir_portchan *chan, uint64_t to, uint64_t from, uint64_t bytes)
{
    weiri_endpoint *endpoint = chan->sem->conn->endpoint;
    weiri_net *net = endpoint->net;
    weiri_net_lock(net);
    weir_status status =
        net->ops->put(endpoint, chan->local_net_mem, from, &chan->remote_key, to, bytes);
    weiri_net_unlock(net);
    return status;
}

static weir_status net_signal(weir_portchan *chan, uint64_t value)
{
    const weiri_port_end *port = &chan->sem->port;
    weiri_endpoint *endpoint = chan->sem->conn->endpoint;
    weiri_net *net = endpoint->net;
    uint64_t at = port->remote_at + offsetof(weiri_port_counters, inbound);
    weiri_net_lock(net);
    weir_status status = net->ops->signal(endpoint, &port->remote_key, at, value);
    weiri_net_unlock(net);
    return status;
}

static weir_status net_flush(weir_portchan *chan, weiri_port_mark *mark)
{
    weiri_endpoint *endpoint = chan->sem->conn->endpoint;
    weiri_net_lock(endpoint->net);
    *mark = (weiri_port_mark){&endpoint->completed, endpoint->posted};
    weiri_net_unlock(endpoint->net);
    return WEIR_OK;
}

static weir_status net_reached(weir_portchan *chan, const weiri_port_mark *mark, int *there)
{
    weiri_endpoint *endpoint = chan->sem->conn->endpoint;
    weiri_net_lock(endpoint->net);
    weir_status failed = endpoint->failed;
    *there = endpoint->completed >= mark->value;
    weiri_net_unlock(endpoint->net);
    if (failed == WEIR_OK || *there)
        return WEIR_OK;
    return weiri_fail(failed, "the connection to rank %d over %s has failed", endpoint->peer,
                      weir_transport_name(chan->sem->conn->transport));
}

static const weiri_port_ops net_ops = {net_put, net_signal, net_flush, net_reached};

/* -------------------------------------------------------------------- choice */

static weir_status choose_net(weir_portchan *chan, const weir_mem *remote, const weir_mem *local)
{
    const weir_conn *conn = chan->sem->conn;
    chan->ops = &net_ops;
    weir_status status = weiri_mem_net_key(remote, conn->transport, &chan->remote_key);
    if (status == WEIR_OK)
        status = weiri_mem_net_registration(local, conn->endpoint->net, &chan->local_net_mem);
    return status;
}

/* Creates the connection's copy engine with its first channel; later channels share it. */
static weir_status choose_copy(weir_portchan *chan)
{
    weir_conn *conn = chan->sem->conn;
    chan->ops = &copy_ops;
    if (conn->stream.engine)
        return WEIR_OK;
    weir_status status = weiri_copy_engine_create(conn->comm, &conn->stream.engine);
    if (status == WEIR_OK)
        status =
            weiri_copy_engine_try(conn->stream.engine, chan->remote_bytes < 8 ? NULL : chan->remote,
                                  &chan->sem->port.own_on_device->reached.value);
    return status;
}

weir_status weiri_port_choose(weir_portchan *chan, const weir_mem *remote, const weir_mem *local)
{
    const weir_conn *conn = chan->sem->conn;
    chan->remote = weir_mem_pointer(remote);
    chan->local = weir_mem_pointer(local);
    chan->remote_bytes = weir_mem_bytes(remote);
    chan->local_bytes = weir_mem_bytes(local);
    if (conn->endpoint)
        return choose_net(chan, remote, local);
    if (!chan->remote)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "rank %d's memory is not mapped here", conn->peer);
    if (conn->comm->gpu)
        return choose_copy(chan);
    chan->ops = &host_ops;
    return WEIR_OK;
}
