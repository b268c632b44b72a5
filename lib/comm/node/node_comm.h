/*
 * A communicator of ranks of one node: the implementation below weir_comm_create. comm.c calls it
 * for communicators of one node, internode_comm.c for the sub-communicators of several nodes.
 */
#ifndef WEIR_COMM_NODE_NODE_COMM_H
#define WEIR_COMM_NODE_NODE_COMM_H

#include "comm/comm.h"

/* Creates the communicator. parent, members: NULL, or the communicator of several nodes of which it
 * is a sub-communicator, and the ranks' numbers in that, which must stay valid. Otherwise like
 * weir_comm_create; config is not NULL. */
weir_status weiri_comm_create_node(weir_boot *boot, const weir_comm_config *config,
                                   weir_comm *parent, const int *members, weir_comm **comm);
weir_status weiri_node_comm_destroy(weir_comm *comm);
/* Returns WEIR_ERR_ABORTED, or WEIR_ERR_MISMATCH if calls differed, if the communicator was
 * aborted; destroying it then does not wait. */
weir_status weiri_comm_check_aborted(weir_comm *comm);

static inline weir_status weiri_node_comm_barrier(weir_comm *comm)
{
    uint64_t round = ++comm->barriers;
    weir_store_release(&comm->peers[comm->rank].page->barrier.value, round);
    for (int rank = 0; rank < comm->nranks; rank++) {
        weir_status status =
            weiri_comm_wait(comm, &comm->peers[rank].page->barrier.value, round, rank, "barrier");
        if (status != WEIR_OK)
            return status;
    }
    weiri_region_sweep(comm);
    return WEIR_OK;
}

#endif
