/* A communicator of ranks of several nodes. */
#ifndef WEIR_COMM_INTERNODE_INTERNODE_COMM_H
#define WEIR_COMM_INTERNODE_INTERNODE_COMM_H

#include "comm/internode/internode.h"
#include "comm/node/node_comm.h"

/* Creates a communicator of ranks of several nodes, whose placements are known. Collective;
 * agreed. */
weir_status weiri_internode_comm_create(weir_boot *boot, const weir_comm_config *config,
                                        const weiri_placement *placements, weir_comm **comm);
/* Creates the lanes of a communicator with one GPU on each node; does nothing on other nodes.
 * Collective; agreed. */
weir_status weiri_internode_open_lanes(weir_comm *comm, const weir_comm_config *config,
                                       const weiri_placement *placements);
weir_status weiri_internode_comm_destroy(weir_comm *comm);
weir_status weiri_internode_comm_barrier(weir_comm *comm);

#endif
