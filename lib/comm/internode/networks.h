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
weir_status weiri_comm_net(weir_comm *comm, weir_transport transport, weiri_net **net);
/* The same over a table of the caller's, which stands for its transport from then on. */
weir_status weiri_comm_wire_over(weir_comm *comm, const weiri_net_ops *ops, weiri_net **net);
/* One that is open already, or NULL; any thread. */
weiri_net *weiri_comm_open_net(const weir_comm *comm, int network);
void weiri_comm_wires_close(weir_comm *comm);

/* What wires know of registered memory: of the own one their registration, of a peer's
 * its key. */
typedef struct weiri_mem_nets {
    weiri_net_mem *own[WEIRI_NETWORKS];
    int known[WEIRI_NETWORKS];
    weiri_net_key keys[WEIRI_NETWORKS];
} weiri_mem_nets;

/* Registers [base, base + bytes) with a wire unless it is. Local. */
weir_status weiri_mem_wires_add(weiri_mem_nets *nets, weiri_net *net, void *base, size_t bytes,
                                weiri_net_place place);
/* Ends all registrations. */
void weiri_mem_wires_drop(weiri_mem_nets *nets);

/* Registered memory as a wire needs it: the own one, registered if it is not yet, or
 * the key of a peer's. WEIR_ERR_UNSUPPORTED: the peer has not exported it for this one. */
weir_status weiri_mem_wired(const weir_mem *mem, weiri_net *net, const weiri_net_mem **own);
weir_status weiri_mem_wire_key(const weir_mem *mem, weir_transport transport, weiri_net_key *key);

#endif
