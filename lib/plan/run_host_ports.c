/*
 * Port channels of plans on the host: a proxy for the executor, a connection to each peer that
 * a plan has ports to, and for each of a context's port channels a semaphore and a channel
 * between the two arenas.
 *
 * Set-up between two ranks blocks until both are there. Every rank goes through its peers in
 * their order, so the pair that comes first in the order of pairs can always go on; and
 * what fails between two ranks, both know, and go on with the next.
 */
#include "plan/run_host.h"

#include "base/error.h"

enum { TAG = 0x706c616e };

int weiri_host_has_port(const weiri_context *context, int peer)
{
    const weiri_channel *channels = weiri_program_channels(context->program);
    for (uint32_t i = 0; i < context->program->nchannels; i++)
        if (channels[i].is_port && channels[i].peer == peer)
            return 1;
    return 0;
}

static weir_status start_proxy(weir_executor *executor)
{
    weiri_host *host = executor->own;
    if (host->proxy)
        return WEIR_OK;
    weir_status status = weir_proxy_create(executor->comm, NULL, &host->proxy);
    if (status == WEIR_OK)
        status = weir_proxy_start(host->proxy);
    return status;
}

/* Semaphores with a peer, in the order of the channels at both ends. */
static weir_status connect_to(weir_executor *executor, weiri_context *context, int peer)
{
    weiri_host *host = executor->own;
    weiri_host_context *own = context->own;
    const weiri_channel *channels = weiri_program_channels(context->program);
    weir_status status = WEIR_OK;
    if (!host->conns[peer])
        status = weir_connect(executor->comm, peer, TAG, WEIR_TRANSPORT_AUTO, &host->conns[peer]);
    for (uint32_t i = 0; i < context->program->nchannels && host->conns[peer]; i++) {
        if (!channels[i].is_port || channels[i].peer != peer)
            continue;
        weir_status made = weir_sem_create(host->conns[peer], &own->channels[i].sem);
        status = status == WEIR_OK ? made : status;
    }
    return status;
}

weir_status weiri_host_ports_connect(weir_executor *executor, weiri_context *context)
{
    weir_status status = WEIR_OK;
    if (!context->has_ports)
        return WEIR_OK;
    status = start_proxy(executor);
    for (int peer = 0; peer < executor->comm->nranks; peer++)
        if (weiri_host_has_port(context, peer)) {
            weir_status made = connect_to(executor, context, peer);
            status = status == WEIR_OK ? made : status;
        }
    return status;
}

weir_status weiri_host_ports_create(weir_executor *executor, weiri_context *context)
{
    const weiri_host *host = executor->own;
    weiri_host_context *own = context->own;
    const weiri_channel *channels = weiri_program_channels(context->program);
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < context->program->nchannels && status == WEIR_OK; i++)
        if (channels[i].is_port)
            status = weir_portchan_create(host->proxy, own->channels[i].sem,
                                          own->arenas[channels[i].peer], own->arena,
                                          &own->channels[i].port);
    return status;
}

weir_status weiri_host_ports_settle(weir_executor *executor, weiri_context *context)
{
    const weiri_host *host = executor->own;
    const weiri_host_context *own = context->own;
    for (uint32_t i = 0; i < context->program->nchannels; i++) {
        weir_portchan *port = own->channels[i].port;
        if (!port || !weir_port_flush(weir_portchan_device(port)))
            continue;
        weir_status status = weir_proxy_status(host->proxy);
        return status != WEIR_OK
                   ? status
                   : weiri_fail(WEIR_ERR_TIMEOUT, "%s: a port channel did not end its puts in time",
                                context->name);
    }
    return WEIR_OK;
}

void weiri_host_ports_free(weiri_context *context)
{
    const weiri_host_context *own = context->own;
    for (uint32_t i = 0; own->channels && i < context->program->nchannels; i++) {
        weir_portchan_free(own->channels[i].port);
        weir_sem_free(own->channels[i].sem);
    }
}

void weiri_host_ports_close(weir_executor *executor)
{
    weiri_host *host = executor->own;
    weir_proxy_free(host->proxy);
    for (int peer = 0; peer < executor->comm->nranks; peer++)
        weir_conn_free(host->conns[peer]);
}
