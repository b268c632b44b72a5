/*
 * A communicator of several nodes. It owns a host sub-communicator of the ranks of its node, in
 * which everything within the node works as usual (memory, barrier, aborts, deaths, state
 * records), on the cuda backend also a GPU sub-communicator with the GPUs' memory, and the paths
 * to the other nodes. Between nodes the host moves the data.
 */
#include "comm/internode/internode_comm.h"

#include "base/env.h"
#include "base/error.h"
#include "base/float_env.h"
#include "base/log.h"
#include "boot/part.h"
#include "comm/called.h"
#include "comm/internode/networks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds the ranks of this node by their placements, and creates the sub-communicators. */
static weir_status internode_create_sub_communicators(weir_comm *comm,
                                                      const weir_comm_config *config,
                                                      const weiri_placement *placements)
{
    comm->members = calloc((size_t)comm->nranks, sizeof *comm->members);
    if (!comm->members)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the ranks of a node");
    int count = 0;
    for (int rank = 0; rank < comm->nranks; rank++) {
        if (placements[rank].host == placements[comm->rank].host)
            comm->members[count++] = rank;
        comm->hardware_rank +=
            rank < comm->rank && placements[rank].hardware == placements[comm->rank].hardware;
    }
    weir_status status =
        weiri_boot_part_create(comm->boot, comm->members, count, &comm->local_boot);
    if (status == WEIR_OK)
        status =
            weiri_comm_create_node(comm->local_boot, config, comm, comm->members, &comm->host_comm);
    if (status != WEIR_OK || !comm->host_comm->gpu)
        return status;
    weir_comm_config on_host = *config; /* for the host sub-communicator */
    on_host.backend = WEIR_BACKEND_HOST;
    comm->gpu_comm = comm->host_comm;
    comm->host_comm = NULL;
    return weiri_comm_create_node(comm->local_boot, &on_host, comm, comm->members,
                                  &comm->host_comm);
}

/* Nodes may share cores: containers of one machine do, and nodes that only WEIR_HOSTID
 * distinguishes. */
static void internode_check_oversubscription(weir_comm *comm, const weiri_placement *placements)
{
    unsigned char cores[WEIRI_CORES_BYTES] = {0}; /* of all ranks of this kernel */
    int count = 0;
    for (int rank = 0; rank < comm->nranks; rank++) {
        if (placements[rank].kernel != placements[comm->rank].kernel)
            continue;
        for (size_t i = 0; i < sizeof cores; i++)
            cores[i] |= placements[rank].cores[i];
        count++;
    }
    const int ncores = weiri_host_cores(cores, sizeof cores, 1);
    const weiri_float_env environment = weiri_float_begin();
    comm->crowding = (double)count / (ncores > 0 ? ncores : 1);
    weiri_float_end(environment);
    if (count <= ncores)
        return;
    weiri_log(WEIRI_LOG_INFO,
              "rank %d: %d ranks of this machine's nodes share %d core%s: waits yield", comm->rank,
              count, ncores, ncores == 1 ? "" : "s");
    comm->host_comm->oversubscribed = 1;
    comm->host_comm->guard.spins = WEIRI_SPINS_SHARED_NETWORK;
}

/* Copies the properties that callers and collectives read. */
static void internode_copy_node_properties(weir_comm *comm)
{
    const weir_comm *local = comm->host_comm;
    const weir_comm *node = weiri_comm_node(comm);
    comm->transport = local->transport;
    comm->memory = node->memory;
    comm->gpu = node->gpu;
    comm->requested = node->requested;
    comm->local_rank = local->rank;
    comm->local_nranks = local->nranks;
    comm->oversubscribed = local->oversubscribed;
    comm->guard = local->guard;
    comm->progress = weiri_internode_try_poll;
    comm->where = local->where;
    comm->job = local->job;
}

/* What a rank has chosen, to be compared with all others, and found. */
typedef struct node_choice {
    uint64_t job;
    uint64_t has_gpus;
    double crowding;
} node_choice;

/* Some nodes may have found GPUs and others none. All agree on the crowding of the most crowded
 * machine. */
static weir_status internode_compare_choices(weir_comm *comm, const node_choice *all)
{
    comm->job = all[0].job;
    for (int rank = 0; rank < comm->nranks; rank++)
        comm->crowding = fmax(comm->crowding, all[rank].crowding);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (all[rank].has_gpus != all[comm->rank].has_gpus)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "the backend differs: rank %d found %s, rank %d found %s; set %s to "
                              "the same backend on all ranks",
                              comm->rank, comm->gpu ? "cuda" : "host", rank,
                              all[rank].has_gpus ? "cuda" : "host",
                              weiri_env_name(WEIRI_ENV_BACKEND));
    return WEIR_OK;
}

static weir_status internode_agree_on_choices(weir_comm *comm)
{
    node_choice *all = calloc((size_t)comm->nranks, sizeof *all);
    weir_status status = weir_boot_agree(
        comm->boot, all ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for all backends"));
    if (status == WEIR_OK) {
        all[comm->rank] = (node_choice){comm->job, comm->gpu != NULL, comm->crowding};
        status = weir_boot_allgather(comm->boot, all, sizeof *all);
    }
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot, internode_compare_choices(comm, all));
    free(all);
    return status;
}

static void internode_comm_free(weir_comm *comm)
{
    if (comm->coll)
        comm->coll_destroy(comm->coll);
    if (comm->sem_slab)
        comm->sem_slab_destroy(comm->sem_slab);
    if (comm->internode)
        comm->nets[weiri_network_of(comm->internode->net->ops->transport)] = NULL;
    weiri_comm_nets_close(comm);
    weiri_internode_destroy(comm->internode);
    comm->internode = NULL;
    weir_comm *parts[] = {comm->gpu_comm, comm->host_comm};
    for (int i = 0; i < 2; i++)
        if (parts[i]) {
            parts[i]->parent = NULL;
            (void)weiri_node_comm_destroy(parts[i]); /* the parent's last barrier has the status */
        }
    weir_boot_destroy(comm->local_boot);
    free(comm->members);
    free(comm);
}

/* Many connections to each rank would need many open files. */
enum { LANES_UP_TO_REMOTE = 64 };

weir_status weiri_internode_open_lanes(weir_comm *comm, const weir_comm_config *config,
                                       const weiri_placement *placements)
{
    const int wanted = comm->internode->nremote <= LANES_UP_TO_REMOTE ? WEIRI_COMM_LANES : 1;
    weir_comm_config on_host = *config;
    weir_status status = WEIR_OK;
    if (comm->nranks != comm->nnodes)
        return WEIR_OK; /* GPUs of one node exchange data without the host (coll/internode/staged.c)
                         */
    on_host.backend = WEIR_BACKEND_HOST;
    while (status == WEIR_OK && comm->nlanes < wanted) {
        weir_comm *lane = NULL;
        status = weiri_internode_comm_create(comm->boot, &on_host, placements, &lane);
        if (status != WEIR_OK)
            break;
        lane->lane_of = comm;
        weiri_called_open(lane);
        comm->lanes[comm->nlanes++] = lane;
    }
    return status;
}

/* Ends the threads that use the lanes, and destroys these. */
static void internode_close_lanes(weir_comm *comm)
{
    const int nlanes = comm->nlanes;
    if (!nlanes)
        return;
    if (comm->coll)
        comm->coll_destroy(comm->coll);
    comm->coll = NULL;
    comm->nlanes = 0;
    for (int i = 0; i < nlanes; i++)
        (void)weiri_internode_comm_destroy(
            comm->lanes[i]); /* the parent's barrier has the status */
}

weir_status weiri_internode_comm_create(weir_boot *boot, const weir_comm_config *config,
                                        const weiri_placement *placements, weir_comm **comm)
{
    weir_comm *made = calloc(1, sizeof *made);
    weir_status status = weir_boot_agree(
        boot, made ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a communicator"));
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    made->boot = boot;
    made->forks = weiri_fork_count();
    weiri_comm_count_nothing(made);
    made->rank = weir_boot_rank(boot);
    made->nranks = weir_boot_nranks(boot);
    made->invariant = config->invariant;
    made->budget = weiri_budget_of_config(config);
    if (made->nranks > WEIRI_RANKS_MAX)
        status = weiri_fail(WEIR_ERR_UNSUPPORTED, "%d ranks: at most %d are supported",
                            made->nranks, WEIRI_RANKS_MAX);
    else
        status = internode_create_sub_communicators(made, config, placements);
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK) {
        internode_check_oversubscription(made, placements);
        internode_copy_node_properties(made);
        status = internode_agree_on_choices(made);
    }
    if (status == WEIR_OK)
        status = weiri_internode_create(made, placements, &made->internode);
    if (status != WEIR_OK) {
        internode_comm_free(made);
        return status;
    }
    made->nnodes = made->internode->nnodes;
    weiri_log(WEIRI_LOG_INFO,
              "communicator of %d ranks on %d nodes over %s, %zu bytes for paths between nodes",
              made->nranks, made->nnodes, weir_transport_name(made->internode->net->ops->transport),
              made->internode->window_bytes);
    /* Connections and registered memory use the same network. */
    made->nets[weiri_network_of(made->internode->net->ops->transport)] = made->internode->net;
    *comm = made;
    return WEIR_OK;
}

weir_status weiri_internode_comm_destroy(weir_comm *comm)
{
    weir_boot *owned_boot = comm->owned_boot;
    weiri_comm_finish(comm);
    weir_status status = weiri_comm_check_aborted(comm);
    if (status == WEIR_OK)
        status = weiri_internode_comm_barrier(comm);
    if (status == WEIR_ERR_ABORTED && weiri_comm_fail_lane(comm) != WEIR_OK)
        status = (weir_status) - (int)comm->failure;
    char error[512]; /* which the sub-communicators' destruction replaces */
    snprintf(error, sizeof error, "%s", weir_last_error());
    internode_close_lanes(comm);
    weiri_internode_leave(comm->internode);
    internode_comm_free(comm);
    weir_boot_destroy(owned_boot);
    return status == WEIR_OK ? WEIR_OK : weiri_fail(status, "%s", error);
}

/* A barrier within the node, one among the nodes' leaders, and another one within the node. */
weir_status weiri_internode_comm_barrier(weir_comm *comm)
{
    weir_status status = weiri_node_comm_barrier(comm->host_comm);
    if (status == WEIR_OK && comm->local_rank == 0)
        status = weiri_internode_barrier(comm->internode);
    return status == WEIR_OK ? weiri_node_comm_barrier(comm->host_comm) : status;
}
