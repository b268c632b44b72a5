/* Creating a communicator of several nodes, and those of one node. */
#ifndef WEIR_COMM_INTERNODE_INTERNODE_COMM_H
#define WEIR_COMM_INTERNODE_INTERNODE_COMM_H

#include "comm/internode/internode.h"

/* Creates a communicator of ranks of one node. parent, members: NULL, or the communicator of
 * several nodes of which it is a sub-communicator, and the ranks' numbers in that. Otherwise like
 * weir_comm_create; config is not NULL. */
weir_status weiri_comm_create_node(weir_boot *boot, const weir_comm_config *config,
                                   weir_comm *parent, const int *members, weir_comm **comm);

/* Creates a communicator of ranks of several nodes, whose placements are known. Collective;
 * agreed. */
weir_status weiri_internode_comm_create(weir_boot *boot, const weir_comm_config *config,
                                const weiri_placement *placements, weir_comm **comm);
weir_status weiri_internode_comm_destroy(weir_comm *comm);
weir_status weiri_internode_comm_barrier(weir_comm *comm);

#endif
