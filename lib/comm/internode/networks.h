/*
 * The wires of a communicator, one for each network at most: opened when the first
 * connection needs one, closed with the communicator. And memory as wires know it.
 */
#ifndef WEIR_COMM_INTERNODE_NETWORKS_H
#define WEIR_COMM_INTERNODE_NETWORKS_H

#include "comm/comm.h"
#include "transport/net/net.h"

/* Where a network stands in tables; -1: the transport is none. */
static inline int weiri_network_of(weir_transport transport)
{
    switch (transport) {
    case WEIR_TRANSPORT_IB:
        return 0;
    case WEIR_TRANSPORT_TCP:
        return 1;
    case WEIR_TRANSPORT_SHM:
        return 2; /* of ranks that act as different machines */
    default:
        return -1;
    }
}

/* The communicator's wire over a transport, opened if it is not yet. Local. May block as
 * opening does. WEIR_ERR_UNSUPPORTED: this build or machine has none. */
weir_status weiri_comm_wire(weir_comm *comm, weir_transport transport, weiri_wire **wire);
/* The same over a table of the caller's, which stands for its transport from then on. */
weir_status weiri_comm_wire_over(weir_comm *comm, const weiri_wire_ops *ops, weiri_wire **wire);
/* One that is open already, or NULL; any thread. */
weiri_wire *weiri_comm_open_wire(const weir_comm *comm, int network);
void weiri_comm_wires_close(weir_comm *comm);

/* What wires know of registered memory: of the own one their registration, of a peer's
 * its key. */
typedef struct weiri_mem_wires {
    weiri_wire_mem *own[WEIRI_NETWORKS];
    int known[WEIRI_NETWORKS];
    weiri_wire_key keys[WEIRI_NETWORKS];
} weiri_mem_wires;

/* Registers [base, base + bytes) with a wire unless it is. Local. */
weir_status weiri_mem_wires_add(weiri_mem_wires *wires, weiri_wire *wire, void *base, size_t bytes,
                                weiri_wire_place place);
/* Ends all registrations. */
void weiri_mem_wires_drop(weiri_mem_wires *wires);

/* Registered memory as a wire needs it: the own one, registered if it is not yet, or
 * the key of a peer's. WEIR_ERR_UNSUPPORTED: the peer has not exported it for this one. */
weir_status weiri_mem_wired(const weir_mem *mem, weiri_wire *wire, const weiri_wire_mem **own);
weir_status weiri_mem_wire_key(const weir_mem *mem, weir_transport transport, weiri_wire_key *key);

#endif
