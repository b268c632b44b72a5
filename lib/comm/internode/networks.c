/* The wires of a communicator, and registrations of memory with them. */
#include "comm/internode/networks.h"

#include "base/error.h"

weiri_wire *weiri_comm_open_wire(const weir_comm *comm, int network)
{
    return __atomic_load_n(&comm->wires[network], __ATOMIC_ACQUIRE);
}

weir_status weiri_comm_wire_over(weir_comm *comm, const weiri_wire_ops *ops, weiri_wire **wire)
{
    int network = weiri_network_of(ops->transport);
    weiri_wire *opened = weiri_comm_open_wire(comm, network);
    if (!opened) {
        int timeout_ms = (int)(comm->guard.timeout_ns / 1000000);
        weir_status status = ops->open(comm->rank, comm->nranks, timeout_ms, &opened);
        if (status != WEIR_OK)
            return status;
        __atomic_store_n(&comm->wires[network], opened, __ATOMIC_RELEASE);
    }
    *wire = opened;
    return WEIR_OK;
}

weir_status weiri_comm_wire(weir_comm *comm, weir_transport transport, weiri_wire **wire)
{
    int network = weiri_network_of(transport);
    weiri_wire *opened = network < 0 ? NULL : weiri_comm_open_wire(comm, network);
    const weiri_wire_ops *ops = opened ? opened->ops : weiri_wire_of(transport);
    if (network < 0 || !ops)
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "this build has no network transport %s",
                          weir_transport_name(transport));
    return weiri_comm_wire_over(comm, ops, wire);
}

void weiri_comm_wires_close(weir_comm *comm)
{
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        if (comm->wires[network])
            comm->wires[network]->ops->close(comm->wires[network]);
        comm->wires[network] = NULL;
    }
}

/* ------------------------------------------------------------------- memory */

weir_status weiri_mem_wires_add(weiri_mem_wires *wires, weiri_wire *wire, void *base, size_t bytes,
                                weiri_wire_place place)
{
    weiri_wire_mem **mem = &wires->own[weiri_network_of(wire->ops->transport)];
    weir_status status = WEIR_OK;
    weiri_wire_lock(wire);
    if (!*mem)
        status = wire->ops->mem_register(wire, base, bytes, place, mem);
    weiri_wire_unlock(wire);
    return status;
}

void weiri_mem_wires_drop(weiri_mem_wires *wires)
{
    for (int network = 0; network < WEIRI_NETWORKS; network++) {
        weiri_wire_mem *mem = wires->own[network];
        if (!mem)
            continue;
        weiri_wire *wire = mem->wire;
        weiri_wire_lock(wire);
        wire->ops->mem_deregister(mem);
        weiri_wire_unlock(wire);
        wires->own[network] = NULL;
    }
}
