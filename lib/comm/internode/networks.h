/*
 * The networks of a communicator, at most one per network transport: opened when the first
 * connection needs them, closed with the communicator. And memory registered with them.
 */
#ifndef WEIR_COMM_INTERNODE_NETWORKS_H
#define WEIR_COMM_INTERNODE_NETWORKS_H

#include "comm/comm.h"
#include "transport/net/net.h"

/* Returns the communicator's network over a transport, and opens it on first use. Local; may block
 * while opening. WEIR_ERR_UNSUPPORTED if this build or node has none. */
weir_status weiri_comm_net(weir_comm *comm, weir_transport transport, weiri_net **net);
/* Returns a network if it is open, else NULL. Thread-safe. */
weiri_net *weiri_comm_open_net(const weir_comm *comm, int network);
/* Closes all networks. */
void weiri_comm_nets_close(weir_comm *comm);

/* The registrations of this rank's memory with networks, or the keys of a peer's memory. */
typedef struct weiri_mem_nets {
    weiri_net_mem *own[WEIRI_NETWORKS];
    int known[WEIRI_NETWORKS];
    weiri_net_key keys[WEIRI_NETWORKS];
} weiri_mem_nets;

/* Registers [base, base + bytes) with a network unless that is done. Local. */
weir_status weiri_mem_nets_register(weiri_mem_nets *nets, weiri_net *net, void *base, size_t bytes,
                                    weiri_net_place place);
/* Ends all registrations. */
void weiri_mem_nets_deregister(weiri_mem_nets *nets);

/* Return the registration of this rank's memory with a network, which is made on first use, and the
 * key of a peer's memory. WEIR_ERR_UNSUPPORTED if the peer has not exported it for this network. */
weir_status weiri_mem_net_registration(const weir_mem *mem, weiri_net *net,
                                       const weiri_net_mem **own);
weir_status weiri_mem_net_key(const weir_mem *mem, weir_transport transport, weiri_net_key *key);

#endif
