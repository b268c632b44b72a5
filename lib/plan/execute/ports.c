/*
 * Proxy, connections and semaphores for the port channels of plans.
 *
 * Setting up a pair of ranks blocks until both do it. Every rank goes through its peers in
 * ascending order, so the lowest pair that is not done can always proceed. A failure between two
 * ranks is known to both, and both go on with their next peers.
 */
#include "plan/execute/executor.h"

enum { TAG = 0x706c616e };

int weiri_plan_has_port(const weiri_plan_context *context, int peer)
{
    const weiri_channel *channels = weiri_program_channels(context->program);
    for (uint32_t i = 0; i < context->program->nchannels; i++)
        if (channels[i].is_port && channels[i].peer == peer)
            return 1;
    return 0;
}

static weir_status start_proxy(const weir_executor *executor, weiri_plan_ports *ports)
{
    if (ports->proxy)
        return WEIR_OK;
    weir_status status = weir_proxy_create(executor->comm, NULL, &ports->proxy);
    return status == WEIR_OK ? weir_proxy_start(ports->proxy) : status;
}

/* Creates semaphores with a peer, in the order of the channels, which is the same on both ranks. */
static weir_status connect_to(const weir_executor *executor, const weiri_plan_context *context,
                              weiri_plan_ports *ports, weir_sem **sems, int peer)
{
    const weiri_channel *channels = weiri_program_channels(context->program);
    weir_conn **conn = &ports->conns[peer];
    weir_status status = WEIR_OK;
    if (!*conn)
        status = weir_connect(executor->comm, peer, TAG, WEIR_TRANSPORT_AUTO, conn);
    for (uint32_t i = 0; i < context->program->nchannels && *conn; i++) {
        if (!channels[i].is_port || channels[i].peer != peer)
            continue;
        weir_status made = weir_sem_create(*conn, &sems[i]);
        status = status == WEIR_OK ? made : status;
    }
    return status;
}

weir_status weiri_plan_ports_connect(weir_executor *executor, const weiri_plan_context *context,
                                     weiri_plan_ports *ports, weir_sem **sems)
{
    if (!context->has_ports)
        return WEIR_OK;
    weir_status status = start_proxy(executor, ports);
    for (int peer = 0; peer < executor->comm->nranks; peer++)
        if (weiri_plan_has_port(context, peer)) {
            weir_status made = connect_to(executor, context, ports, sems, peer);
            status = status == WEIR_OK ? made : status;
        }
    return status;
}

void weiri_plan_ports_close(const weir_executor *executor, weiri_plan_ports *ports)
{
    weir_proxy_free(ports->proxy);
    for (int peer = 0; peer < executor->comm->nranks; peer++)
        weir_conn_free(ports->conns[peer]);
}
