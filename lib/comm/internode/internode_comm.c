/*
 * A communicator across machines. It owns an ordinary communicator of the ranks of its
 * own machine, in which everything inside the machine stays as it is (memory, barrier,
 * aborts, deaths, the record that a report is made of), and the paths to the others. On
 * GPUs it owns two: one has the GPUs' memory, and the other, in host memory, the rest,
 * since between machines the host moves the data.
 */
#include "comm/internode/internode_comm.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "boot/part.h"
#include "comm/internode/networks.h"

#include <stdlib.h>
#include <string.h>

int weiri_comm_place(const weir_comm *comm, int rank)
{
    return comm->net ? comm->net->place_of[rank] : rank;
}

int weiri_comm_maps(const weir_comm *comm, int rank)
{
    return comm->net ? !weiri_net_is_remote(comm->net, rank) : comm->peers[rank].page != NULL;
}

/* This machine's ranks, by their berths. */
static weir_status create_local(weir_comm *comm, const weir_comm_config *config,
                                const weiri_berth *berths)
{
    comm->members = calloc((size_t)comm->nranks, sizeof *comm->members);
    if (!comm->members)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the ranks of a machine");
    int count = 0;
    for (int rank = 0; rank < comm->nranks; rank++) {
        int first = 1;
        for (int earlier = 0; earlier < rank; earlier++)
            first &= berths[earlier].host != berths[rank].host;
        comm->nnodes += first;
        if (berths[rank].host == berths[comm->rank].host)
            comm->members[count++] = rank;
        comm->metal_rank += rank < comm->rank && berths[rank].metal == berths[comm->rank].metal;
    }
    weir_status status = weiri_boot_part_create(comm->boot, comm->members, count,
                                                &comm->local_boot);
    if (status == WEIR_OK)
        status = weiri_comm_create_here(comm->local_boot, config, comm, comm->members,
                                        &comm->local);
    if (status != WEIR_OK || !comm->local->gpu)
        return status;
    weir_comm_config on_host = *config; /* whoever has a GPU has asked for it */
    on_host.backend = WEIR_BACKEND_HOST;
    comm->device = comm->local;
    comm->local = NULL;
    return weiri_comm_create_here(comm->local_boot, &on_host, comm, comm->members, &comm->local);
}

/* Ranks that act as different machines share one's cores. */
static void count_sharers(weir_comm *comm, const weiri_berth *berths)
{
    unsigned char masks[WEIRI_RANKS_MAX][WEIRI_CORES_BYTES];
    int count = 0;
    for (int rank = 0; rank < comm->nranks; rank++)
        if (berths[rank].metal == berths[comm->rank].metal)
            memcpy(masks[count++], berths[rank].cores, sizeof *masks);
    if (count <= weiri_host_cores(masks, sizeof *masks, count))
        return;
    comm->local->oversubscribed = 1;
    comm->local->guard.spins = WEIRI_SPINS_SHARED;
}

/* What callers and the collectives read of a communicator. */
static void take_over(weir_comm *comm)
{
    const weir_comm *local = comm->local;
    const weir_comm *here = comm->device ? comm->device : local;
    comm->transport = local->transport;
    comm->memory = here->memory;
    comm->gpu = here->gpu;
    comm->asked = here->asked;
    comm->local_rank = local->rank;
    comm->local_nranks = local->nranks;
    comm->oversubscribed = local->oversubscribed;
    comm->guard = local->guard;
    comm->where = local->where;
    comm->job = local->job;
}

/* What a machine chose. */
typedef struct choice {
    uint64_t job;
    uint64_t has_gpus;
} choice;

/* One machine may have found GPUs and another none. */
static weir_status compare(weir_comm *comm, const choice *all)
{
    comm->job = all[0].job;
    for (int rank = 0; rank < comm->nranks; rank++)
        if (all[rank].has_gpus != all[comm->rank].has_gpus)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "the backend differs: rank %d has %s, rank %d %s; say which with %s",
                              comm->rank, comm->gpu ? "cuda" : "host", rank,
                              all[rank].has_gpus ? "cuda" : "host",
                              weiri_env_name(WEIRI_ENV_BACKEND));
    return WEIR_OK;
}

static weir_status compare_all(weir_comm *comm)
{
    choice *all = calloc((size_t)comm->nranks, sizeof *all);
    weir_status status = weir_boot_agree(
        comm->boot, all ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to agree"));
    if (status == WEIR_OK) {
        all[comm->rank] = (choice){comm->job, comm->gpu != NULL};
        status = weir_boot_allgather(comm->boot, all, sizeof *all);
    }
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot, compare(comm, all));
    free(all);
    return status;
}

static void free_all(weir_comm *comm)
{
    if (comm->coll)
        comm->coll_destroy(comm->coll);
    if (comm->sem_slab)
        comm->sem_slab_destroy(comm->sem_slab);
    if (comm->net)
        comm->wires[weiri_network_of(comm->net->wire->ops->transport)] = NULL;
    weiri_comm_wires_close(comm);
    weiri_net_destroy(comm->net);
    comm->net = NULL;
    weir_comm *parts[] = {comm->device, comm->local};
    for (int i = 0; i < 2; i++)
        if (parts[i]) {
            parts[i]->whole = NULL;
            weir_comm_destroy(parts[i]);
        }
    weir_boot_destroy(comm->local_boot);
    free(comm->members);
    free(comm);
}

weir_status weiri_across_create(weir_boot *boot, const weir_comm_config *config,
                                const weiri_berth *berths, weir_comm **comm)
{
    weir_comm *made = calloc(1, sizeof *made);
    weir_status status = weir_boot_agree(
        boot, made ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a communicator"));
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    made->boot = boot;
    made->rank = weir_boot_rank(boot);
    made->nranks = weir_boot_nranks(boot);
    if (made->nranks > WEIRI_RANKS_MAX)
        status = weiri_fail(WEIR_ERR_UNSUPPORTED, "%d ranks: at most %d are supported",
                            made->nranks, WEIRI_RANKS_MAX);
    else
        status = create_local(made, config, berths);
    status = weir_boot_agree(boot, status);
    if (status == WEIR_OK) {
        count_sharers(made, berths);
        take_over(made);
        status = compare_all(made);
    }
    if (status == WEIR_OK)
        status = weiri_net_create(made, berths, &made->net);
    if (status != WEIR_OK) {
        free_all(made);
        return status;
    }
    weiri_log(WEIRI_LOG_INFO,
              "communicator of %d ranks on %d machines over %s, %zu bytes for paths to them",
              made->nranks, made->nnodes, weir_transport_name(made->net->wire->ops->transport),
              made->net->window_bytes);
    /* Connections and memory use it, too. */
    made->wires[weiri_network_of(made->net->wire->ops->transport)] = made->net->wire;
    *comm = made;
    return WEIR_OK;
}

void weiri_across_destroy(weir_comm *comm)
{
    if (!weir_load_acquire(comm->guard.abort_word))
        weir_comm_barrier(comm);
    weiri_net_leave(comm->net);
    free_all(comm);
}

/* The machine's ranks meet, its leader meets the others', and the ranks meet again. */
weir_status weiri_across_barrier(weir_comm *comm)
{
    weir_status status = weir_comm_barrier(comm->local);
    if (status == WEIR_OK && comm->local_rank == 0)
        status = weiri_net_meet(comm->net);
    return status == WEIR_OK ? weir_comm_barrier(comm->local) : status;
}
