/* Opening the networks of a communicator, and registering memory with them. */
#include "comm/internode/networks.h"

#include "base/error.h"

weiri_net *weiri_comm_open_net(const weir_comm *comm, int network)
{
    return __atomic_load_n(&comm->nets[network], __ATOMIC_ACQUIRE);
}

weir_status weiri_comm_net(weir_comm *comm, weir_transport transport, weiri_net **net)
{
    int network = weiri_network_of(transport);
    weiri_net *opened = network < 0 ? NULL : weiri_comm_open_net(comm, network);
    const weiri_net_ops *ops = opened ? opened->ops : weiri_net_ops_of(transport);
    if (network < 0 || !ops)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "this build has no network transport %s",
                          weir_transport_name(transport));
    if (!opened) {
        int timeout_ms = (int)(comm->guard.timeout_ns / 1000000);
        weir_status status = ops->open(comm->rank, comm->nranks, timeout_ms, &opened);
        if (status != WEIR_OK)
            return status;
        __atomic_store_n(&comm->nets[network], opened, __ATOMIC_RELEASE);
    }
    *net = opened;
    return WEIR_OK;
}

void weiri_comm_nets_close(weir_comm *comm)
{
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        if (comm->nets[network])
            comm->nets[network]->ops->close(comm->nets[network]);
        comm->nets[network] = NULL;
    }
}

/* ------------------------------------------------------------------- memory */

weir_status weiri_mem_nets_register(weiri_mem_nets *nets, weiri_net *net, void *base, size_t bytes,
                                    weiri_net_place place)
{
    weiri_net_mem **mem = &nets->own[weiri_network_of(net->ops->transport)];
    weir_status status = WEIR_OK;
    weiri_net_lock(net);
    if (!*mem)
        status = net->ops->mem_register(net, base, bytes, place, mem);
    weiri_net_unlock(net);
    return status;
}

void weiri_mem_nets_deregister(weiri_mem_nets *nets)
{
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        weiri_net_mem *mem = nets->own[network];
        if (!mem)
            continue;
        weiri_net *net = mem->net;
        weiri_net_lock(net);
        net->ops->mem_deregister(mem);
        weiri_net_unlock(net);
        nets->own[network] = NULL;
    }
}
