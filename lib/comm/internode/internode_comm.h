/* A communicator whose ranks sit on several machines; net.h has its paths. */
#ifndef WEIR_COMM_INTERNODE_INTERNODE_COMM_H
#define WEIR_COMM_INTERNODE_INTERNODE_COMM_H

#include "comm/internode/internode.h"

/* A communicator of ranks that share a machine. whole, members: NULL, or the one across
 * machines that it is a part of, and which of its ranks these are. As weir_comm_create
 * otherwise. */
weir_status weiri_comm_create_node(weir_boot *boot, const weir_comm_config *config,
                                   weir_comm *parent, const int *members, weir_comm **comm);

/* One over ranks of several machines, whose placements are known. Collective; agreed. */
weir_status weiri_internode_comm_create(weir_boot *boot, const weir_comm_config *config,
                                const weiri_placement *placements, weir_comm **comm);
weir_status weiri_internode_comm_destroy(weir_comm *comm);
weir_status weiri_internode_comm_barrier(weir_comm *comm);

#endif
