/* Port channels: adding a channel to the proxy's table, and the plain struct through which host
 * threads and kernels use it. */
#include "chan/port.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* Finds a free channel number, growing the table if necessary. The caller holds the proxy's
 * lock. */
static weir_status portchan_take_number(weir_proxy *proxy, weir_portchan *chan)
{
    uint32_t id = 0;
    while (id < proxy->nchans && proxy->chans[id])
        id++;
    if (id == proxy->nchans) {
        uint32_t most = proxy->nchans ? 2 * proxy->nchans : 16;
        weir_portchan **more = realloc(proxy->chans, most * sizeof *more);
        if (!more)
            return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %u port channels", most);
        memset(more + id, 0, (most - id) * sizeof *more);
        proxy->chans = more;
        proxy->nchans = most;
    }
    proxy->chans[id] = chan;
    chan->id = id;
    return WEIR_OK;
}

static weir_status portchan_fill_device(weir_portchan *chan)
{
    const weir_sem *sem = chan->sem;
    weir_comm *comm = sem->conn->comm;
    weiri_sem_words *words = weir_mem_pointer(sem->local);
    chan->device = (weir_portchan_dev){.fifo = chan->proxy->fifo.device,
                                       .inbound = &sem->port.own_on_device->inbound.value,
                                       .flushed = &sem->port.own_on_device->flushed.value,
                                       .expected = &words->port_expected,
                                       .id = chan->id,
                                       .remote_bytes = chan->remote_bytes,
                                       .local_bytes = chan->local_bytes};
    chan->device.fifo.guard.peer = sem->conn->peer;
    return weiri_gpu_keep(comm, &chan->device, sizeof chan->device, &chan->kept);
}

static weir_status portchan_add(weir_portchan *chan, const weir_mem *remote, const weir_mem *local)
{
    weir_proxy *proxy = chan->proxy;
    weir_sem *sem = chan->sem;
    weir_status status = weiri_port_choose(chan, remote, local);
    if (status != WEIR_OK)
        return status;
    if (!sem->port.channels) /* flushed counts tickets of this proxy's FIFO from now on */
        weir_store_release(&sem->port.own->flushed.value, 0);
    pthread_mutex_lock(&proxy->lock);
    status = portchan_take_number(proxy, chan);
    pthread_mutex_unlock(&proxy->lock);
    if (status == WEIR_OK)
        sem->port.channels++;
    return status;
}

weir_status weir_portchan_create(weir_proxy *proxy, weir_sem *sem, const weir_mem *remote,
                                 const weir_mem *local, weir_portchan **chan)
{
    if (!proxy || !sem || !remote || !local || !chan)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_portchan_create: proxy, sem, remote, local and chan are required");
    weir_conn *conn = sem->conn;
    if (conn->comm != proxy->comm || (conn->proxy && conn->proxy != proxy))
        return weiri_fail(WEIR_ERR_INVALID,
                          "the connection to rank %d is used by another proxy; a connection can "
                          "have only one",
                          conn->peer);
    weir_portchan *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a port channel");
    *made = (weir_portchan){.proxy = proxy, .sem = sem};
    weir_status status = portchan_add(made, remote, local);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    conn->proxy = proxy;
    conn->port_channels++;
    status = portchan_fill_device(made);
    if (status == WEIR_OK)
        *chan = made;
    else
        weir_portchan_free(made);
    return status;
}

weir_portchan_dev *weir_portchan_device(weir_portchan *chan)
{
    return chan->kept ? chan->kept : &chan->device;
}

void weir_portchan_free(weir_portchan *chan)
{
    if (!chan)
        return;
    weir_conn *conn = chan->sem->conn;
    weir_proxy *proxy = chan->proxy;
    pthread_mutex_lock(&proxy->lock);
    proxy->chans[chan->id] = NULL;
    uint64_t left = 0;
    for (uint64_t i = 0; i < proxy->nflushes; i++) /* left over if stop reached its deadline */
        if (proxy->flushes[i].chan != chan)
            proxy->flushes[left++] = proxy->flushes[i];
    weir_store_relaxed(&proxy->nflushes, left);
    if (conn->stream.last.word == &chan->sem->port.own->reached.value ||
        (chan->sem->port.remote &&
         conn->stream.last.word == &chan->sem->port.remote->inbound.value))
        conn->stream.last.word = NULL; /* the word is about to be freed */
    pthread_mutex_unlock(&proxy->lock);
    chan->sem->port.channels--;
    if (--conn->port_channels == 0)
        conn->proxy = NULL;
    weiri_gpu_release(conn->comm, chan->kept);
    free(chan);
}
