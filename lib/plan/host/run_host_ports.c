/*
 * Port channels of plans on the host: each connects the arenas of the two ranks. Proxy, connections
 * and semaphores come from plan/execute/executor.h.
 */
#include "plan/host/run_host.h"

#include "base/error.h"

weir_status weiri_host_ports_connect(weir_executor *executor, weiri_plan_context *context)
{
    weiri_host *host = executor->own;
    const weiri_host_context *own = context->own;
    return weiri_plan_ports_connect(executor, context, &host->ports, own->sems);
}

weir_status weiri_host_ports_create(weir_executor *executor, weiri_plan_context *context)
{
    const weiri_host *host = executor->own;
    weiri_host_context *own = context->own;
    const weiri_channel *channels = weiri_program_channels(context->program);
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < context->program->nchannels && status == WEIR_OK; i++)
        if (channels[i].is_port)
            status =
                weir_portchan_create(host->ports.proxy, own->sems[i], own->arenas[channels[i].peer],
                                     own->arena, &own->channels[i].port);
    return status;
}

weir_status weiri_host_ports_settle(weir_executor *executor, weiri_plan_context *context)
{
    const weiri_host *host = executor->own;
    const weiri_host_context *own = context->own;
    for (uint32_t i = 0; i < context->program->nchannels; i++) {
        weir_portchan *port = own->channels[i].port;
        if (!port || !weir_port_flush(weir_portchan_device(port)))
            continue;
        weir_status status = weir_proxy_status(host->ports.proxy);
        return status != WEIR_OK
                   ? status
                   : weiri_fail(WEIR_ERR_TIMEOUT,
                                "%s: a port channel did not complete its puts before the deadline",
                                context->name);
    }
    return WEIR_OK;
}

void weiri_host_ports_free(weiri_plan_context *context)
{
    const weiri_host_context *own = context->own;
    for (uint32_t i = 0; own->channels && own->sems && i < context->program->nchannels; i++) {
        weir_portchan_free(own->channels[i].port);
        weir_sem_free(own->sems[i]);
    }
}
