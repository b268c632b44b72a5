/*
 * Port channels of plans on GPUs, built on plan/execute/executor.h.
 *
 * A plan's puts go from any buffer of this rank to any buffer of the peer, and the buffers change
 * from call to call; the kernel knows all their addresses. So both memories of a channel are the
 * whole address space, from WEIRI_IMAGE_PORT_BASE on, and its offsets are addresses. This requires
 * that the peers' memory is mapped, as it is between GPUs of one node.
 */
#include "plan/cuda/device.h"

#include "base/error.h"
#include "chan/chan.h"
#include "comm/mem.h"

/* Rejects plans with ports to peers whose memory is not mapped. */
static weir_status check_peers(const weir_executor *executor, const weiri_plan_context *context)
{
    const weiri_device *device = executor->own;
    for (int peer = 0; peer < executor->comm->nranks; peer++)
        if (weiri_plan_has_port(context, peer) && device->ports.conns[peer]->endpoint)
            return weiri_fail(WEIR_ERR_UNSUPPORTED,
                              "%s: port channels of plans on GPUs need mapped memory, but the "
                              "memory of rank %d is not mapped on rank %d",
                              context->name, peer, context->program->rank);
    return WEIR_OK;
}

weir_status weiri_device_ports_connect(weir_executor *executor, weiri_plan_context *context)
{
    weiri_device *device = executor->own;
    const weiri_device_context *own = context->own;
    weir_status status = weiri_plan_ports_connect(executor, context, &device->ports, own->sems);
    return status == WEIR_OK ? check_peers(executor, context) : status;
}

static weir_status make_space(weir_comm *comm, weir_mem **space)
{
    const weir_mem all = {.comm = comm,
                          .pointer = (void *)WEIRI_IMAGE_PORT_BASE,
                          .bytes = (size_t)1 << 62,
                          .kind = WEIRI_MEM_REGISTERED,
                          .owner = comm->rank};
    return weiri_mem_make(all, space);
}

/* The first channel of a connection probes its memory, for which the whole address space will not
 * do: so a channel between the segments is created first and freed again. */
static weir_status create_channel(weir_executor *executor, weiri_device_context *own,
                                  const weir_mem *space, int peer, uint32_t i)
{
    const weiri_device *device = executor->own;
    weir_portchan *first = NULL;
    weir_status status = weir_portchan_create(device->ports.proxy, own->sems[i],
                                              own->segments[peer], own->segment, &first);
    if (status == WEIR_OK)
        status =
            weir_portchan_create(device->ports.proxy, own->sems[i], space, space, &own->ports[i]);
    weir_portchan_free(first);
    if (status == WEIR_OK)
        own->port_views[i] = weir_portchan_device(own->ports[i]);
    return status;
}

weir_status weiri_device_ports_create(weir_executor *executor, weiri_plan_context *context)
{
    const weiri_channel *channels = weiri_program_channels(context->program);
    weir_mem *space = NULL;
    if (!context->has_ports)
        return WEIR_OK;
    weir_status status = make_space(executor->comm, &space);
    for (uint32_t i = 0; i < context->program->nchannels && status == WEIR_OK; i++)
        if (channels[i].is_port)
            status = create_channel(executor, context->own, space, channels[i].peer, i);
    weir_mem_free(space);
    return status;
}

void weiri_device_ports_free(weiri_plan_context *context)
{
    const weiri_device_context *own = context->own;
    for (uint32_t i = 0; i < context->program->nchannels; i++) {
        weir_portchan_free(own->ports ? own->ports[i] : NULL);
        weir_sem_free(own->sems ? own->sems[i] : NULL);
    }
}
