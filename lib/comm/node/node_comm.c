/*
 * The communicator of the ranks of one node, which may be a sub-communicator. Creation consists of
 * three agreed steps over the bootstrap: rank 0 creates the scratch segment, the ranks exchange its
 * key and their properties, and every rank maps it and backs its own part with memory. So a rank
 * needs one mapping, however many ranks there are.
 */
#define _GNU_SOURCE
#include "comm/node/node_comm.h"

#include "comm/called.h"

#include "base/config.h"
#include "base/fd.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/gpu/gpu.h"
#include "comm/internode/internode.h"
#include "comm/internode/networks.h"
#include "comm/node/peer_copy.h"
#include "comm/node/xpmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Up to FEW_RANKS, slots and messages have room for stores that avoid lines which peers have cached
 * (coll/host/slot.h); with more the memory of a node counts. */
enum {
    FEW_RANKS = 16,
    FEW_RANKS_AREA_BYTES = (2 << 20) + (128 << 10),
    DEFAULT_AREA_BYTES = 1 << 20,
};

/* What each rank sends to the others at creation. */
typedef struct introduction {
    uint64_t job;     /* a random number; rank 0's is used */
    uint64_t address; /* of job in that process, to test whether it can be read */
    uint64_t area_bytes;
    int32_t pid;
    int32_t backend;           /* weir_backend: the requested one */
    weiri_segment_key scratch; /* rank 0's is used */
    weiri_xpmem_offer xpmem;
    int32_t numa; /* the NUMA node of this rank's cores; -1: unknown */
    unsigned char cores[WEIRI_CORES_BYTES];
} introduction;

static size_t node_comm_page_bytes(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (sizeof(weiri_comm_page) + page - 1) / page * page;
}

static weir_status node_comm_introduce(weir_comm *comm, introduction *mine)
{
    memset(mine, 0, sizeof *mine);
    mine->pid = (int32_t)getpid();
    mine->backend = (int32_t)comm->requested;
    mine->area_bytes = comm->area_bytes;
    weiri_host_own_cores(comm->rank, mine->cores);
    mine->numa = weiri_host_numa(comm->rank, mine->cores);
    if (getrandom(&mine->job, sizeof mine->job, 0) != sizeof mine->job)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot read random bytes");
    mine->address = (uint64_t)(uintptr_t)&mine->job;
    weir_status status = weiri_xpmem_open(comm, &mine->job, &mine->xpmem);
    return comm->rank || status != WEIR_OK
               ? status
               : comm->transport->segment_reserve(comm->scratch_bytes, comm->nranks, &comm->scratch,
                                                  &mine->scratch);
}

/* Numbers the NUMA nodes on which ranks run; a single one if any rank's is unknown. */
static void node_comm_number_domains(weir_comm *comm, const introduction *all)
{
    int *numa = WEIRI_STACK_ARRAY(int, comm->nranks), is_known = 1;
    comm->ndomains = 0;
    for (int rank = 0; rank < comm->nranks; rank++) {
        int domain = 0;
        is_known &= all[rank].numa >= 0;
        while (domain < comm->ndomains && numa[domain] != all[rank].numa)
            domain++;
        if (domain == comm->ndomains)
            numa[comm->ndomains++] = all[rank].numa;
        comm->domain_of[rank] = (unsigned char)domain;
    }
    if (!is_known) {
        comm->ndomains = 1;
        memset(comm->domain_of, 0, sizeof comm->domain_of);
    }
}

/* Compares configurations, and the number of ranks with the number of their cores. */
static weir_status node_comm_compare(weir_comm *comm, const introduction *all)
{
    const introduction *mine = &all[comm->rank];
    comm->job = all[0].job;
    for (int rank = 0; rank < comm->nranks; rank++) {
        if (all[rank].backend != mine->backend)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "the backend differs: rank %d requests %s, rank %d requests %s; all "
                              "ranks must request the same one",
                              weiri_comm_parent_rank(comm, comm->rank),
                              weir_backend_name((weir_backend)mine->backend),
                              weiri_comm_parent_rank(comm, rank),
                              weir_backend_name((weir_backend)all[rank].backend));
        if (all[rank].area_bytes != mine->area_bytes)
            return weiri_fail(WEIR_ERR_MISMATCH,
                              "scratch_bytes differs: rank %d has %zu, rank %d has %zu; all ranks "
                              "must pass the same value",
                              weiri_comm_parent_rank(comm, comm->rank), (size_t)mine->area_bytes,
                              weiri_comm_parent_rank(comm, rank), (size_t)all[rank].area_bytes);
    }
    comm->oversubscribed = comm->nranks > weiri_host_cores(all[0].cores, sizeof *all, comm->nranks);
    node_comm_number_domains(comm, all);
    comm->guard.spins = comm->oversubscribed ? WEIRI_SPINS_SHARED : WEIRI_SPINS_ALONE;
    return WEIR_OK;
}

/* Maps the scratch segment, and backs this rank's part. */
static weir_status node_comm_map_scratch(weir_comm *comm, const introduction *all)
{
    weir_status status = WEIR_OK;
    if (comm->rank)
        status = weiri_segment_map(&all[0].scratch, &comm->scratch);
    if (status != WEIR_OK)
        return weiri_fail_context(status, "rank %d cannot reach rank %d",
                                  weiri_comm_parent_rank(comm, comm->rank),
                                  weiri_comm_parent_rank(comm, 0));
    for (int rank = 0; rank < comm->nranks; rank++) {
        char *part = (char *)comm->scratch.base + (size_t)rank * comm->scratch_bytes;
        comm->peers[rank].page = (weiri_comm_page *)(void *)part;
        comm->peers[rank].area = part + node_comm_page_bytes();
    }
    return comm->transport->segment_back(&comm->scratch, (size_t)comm->rank * comm->scratch_bytes,
                                         comm->scratch_bytes);
}

static void node_comm_watch_peer(weir_comm *comm, int rank, const introduction *who)
{
    weiri_peer *peer = &comm->peers[rank];
    peer->pid = who->pid;
    if (rank == comm->rank)
        return;
#ifdef SYS_pidfd_open
    peer->pidfd = weiri_fd_raise((int)syscall(SYS_pidfd_open, who->pid, 0));
#endif
    if (comm->reads_unregistered && !weiri_peer_copy_probe(who->pid, who->address, who->job)) {
        weiri_log(WEIRI_LOG_DEBUG, "rank %d cannot read rank %d's memory: %s", comm->rank, rank,
                  strerror(errno));
        comm->reads_unregistered = 0;
    }
}

static weir_status node_comm_map_peers(weir_comm *comm, const introduction *all)
{
    long allowed = 1;
    weir_status status = node_comm_compare(comm, all);
    if (status == WEIR_OK)
        status = weiri_env_long(WEIRI_ENV_CMA, 0, 1, 1, &allowed);
    if (status == WEIR_OK)
        status = node_comm_map_scratch(comm, all);
    if (status != WEIR_OK)
        return status;
    comm->reads_unregistered = (int)allowed;
    for (int rank = 0; rank < comm->nranks; rank++)
        node_comm_watch_peer(comm, rank, &all[rank]);
    weir_store_release(&comm->peers[comm->rank].page->reads.value,
                       (uint64_t)((comm->reads_unregistered ? WEIRI_READS_BY_COPY : 0) |
                                  weiri_xpmem_join(comm, &all->xpmem, sizeof *all)));
    return WEIR_OK;
}

/* Unregistered memory is accessed only in the ways that work between all pairs of ranks. */
static void node_comm_agree_reads(weir_comm *comm, const introduction *all)
{
    uint64_t reads = WEIRI_READS_BY_COPY | WEIRI_READS_ATTACHED;
    for (int rank = 0; rank < comm->nranks; rank++)
        reads &= weir_load_acquire(&comm->peers[rank].page->reads.value);
    comm->reads_unregistered = (reads & WEIRI_READS_BY_COPY) != 0;
    if (!(reads & WEIRI_READS_ATTACHED))
        weiri_xpmem_decline(comm, &all->xpmem, sizeof *all);
}

/* Frees everything. Local; peers may still be running. */
static void node_comm_free(weir_comm *comm)
{
    if (comm->coll)
        comm->coll_destroy(comm->coll);
    if (comm->sem_slab)
        comm->sem_slab_destroy(comm->sem_slab);
    weiri_xpmem_close(comm);
    if (comm->peers && comm->regions) {
        weiri_region_unmap_all(comm);
        weiri_region_free_all(comm);
    }
    weiri_comm_nets_close(comm);
    if (comm->gpu)
        comm->gpu->ops->destroy(comm);
    for (int rank = 0; comm->peers && rank < comm->nranks; rank++) {
        weiri_peer *peer = &comm->peers[rank];
        if (peer->pidfd >= 0)
            close(peer->pidfd);
        free(peer->mappings);
    }
    weiri_segment_destroy(&comm->scratch);
    free(comm->peers);
    free(comm->regions);
    free(comm);
}

static weir_status node_comm_make_tables(weir_comm *comm)
{
    comm->peers = calloc((size_t)comm->nranks, sizeof *comm->peers);
    comm->regions = calloc(WEIRI_REGIONS_MAX, sizeof *comm->regions);
    for (int rank = 0; comm->peers && rank < comm->nranks; rank++)
        comm->peers[rank].pidfd = -1;
    for (int id = 0; comm->regions && id < WEIRI_REGIONS_MAX; id++)
        comm->regions[id].segment.fd = -1;
    if (!comm->peers || !comm->regions)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the tables of %d ranks", comm->nranks);
    return WEIR_OK;
}

/* Computes the sizes of scratch memory, in whole pages. */
static weir_status node_comm_size_scratch(weir_comm *comm, const weir_comm_config *config)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t least = weiri_comm_least_area_bytes(comm->nranks);
    size_t usual = comm->nranks <= FEW_RANKS ? FEW_RANKS_AREA_BYTES : DEFAULT_AREA_BYTES;
    usual = least < usual ? usual : least;
    size_t area = config->scratch_bytes ? config->scratch_bytes : usual;
    if (area > SIZE_MAX / 2)
        return weiri_fail(WEIR_ERR_NO_MEMORY,
                          "scratch_bytes is %zu, more than any node has; 0 selects the default",
                          area);
    if (area < least)
        return weiri_fail(WEIR_ERR_INVALID, "scratch_bytes is %zu; %d ranks need at least %zu",
                          area, comm->nranks, least);
    comm->area_bytes = (area + page - 1) / page * page;
    comm->scratch_bytes = node_comm_page_bytes() + comm->area_bytes;
    return WEIR_OK;
}

/* Determines the requested backend: the configuration's, or with auto the environment's. */
static weir_status node_comm_choose_backend(weir_backend wanted, weir_backend *asked)
{
    const char *name = weiri_env(WEIRI_ENV_BACKEND);
    *asked = wanted;
    if (!weir_backend_name(wanted))
        return weiri_fail(WEIR_ERR_INVALID, "weir_comm_create: unknown backend %d", (int)wanted);
    if (wanted == WEIR_BACKEND_AUTO && name) {
        for (*asked = WEIR_BACKEND_HOST; *asked <= WEIR_BACKEND_AUTO; ++*asked)
            if (strcmp(name, weir_backend_name(*asked)) == 0)
                break;
        if (*asked > WEIR_BACKEND_AUTO)
            return weiri_fail(WEIR_ERR_INVALID, "%s=%s: expected auto, host or cuda",
                              weiri_env_name(WEIRI_ENV_BACKEND), name);
    }
    if (weiri_gpu_ops_get() || *asked == WEIR_BACKEND_HOST)
        return WEIR_OK;
    if (*asked == WEIR_BACKEND_CUDA)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "backend cuda: this build of weir has no CUDA; build it with nvcc");
    *asked = WEIR_BACKEND_HOST;
    return WEIR_OK;
}

/* The local part of creation, before the first exchange. */
static weir_status node_comm_new(weir_boot *boot, const weir_comm_config *config, weir_comm **comm)
{
    weir_comm *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a communicator");
    made->boot = boot;
    made->forks = weiri_fork_count();
    weiri_comm_count_nothing(made);
    made->rank = made->local_rank = weir_boot_rank(boot);
    made->nranks = made->local_nranks = weir_boot_nranks(boot);
    made->nnodes = 1;
    made->invariant = config->invariant;
    made->budget = weiri_budget_of_config(config);
    int timeout_ms = config->timeout_ms > 0 ? config->timeout_ms : weiri_config_timeout_ms();
    made->guard.timeout_ns = (uint64_t)timeout_ms * 1000000u;
    weir_status status = weiri_transport_select(&made->transport);
    made->memory = made->transport;
    if (status == WEIR_OK)
        status = node_comm_choose_backend(config->backend, &made->requested);
    if (status == WEIR_OK)
        status = node_comm_size_scratch(made, config);
    if (status == WEIR_OK && made->nranks > WEIRI_RANKS_MAX)
        status = weiri_fail(WEIR_ERR_UNSUPPORTED, "%d ranks: at most %d are supported on the host",
                            made->nranks, WEIRI_RANKS_MAX);
    if (status == WEIR_OK)
        status = node_comm_make_tables(made);
    if (status == WEIR_OK)
        *comm = made;
    else
        node_comm_free(made);
    return status;
}

/* Fills in the guard of waits. */
static void node_comm_set_guard(weir_comm *comm)
{
    weiri_comm_page *page = comm->peers[comm->rank].page;
    comm->where = &page->where;
    comm->guard.abort_word = &page->abort.value;
    comm->guard.peer = -1;
    comm->guard.record = &page->where.wait;
}

/* The exchanges of creation. On failure the caller frees comm. */
static weir_status node_comm_join(weir_comm *comm, introduction *all, int device)
{
    weir_status status = weir_boot_agree(comm->boot, node_comm_introduce(comm, &all[comm->rank]));
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, all, sizeof *all);
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot, node_comm_map_peers(comm, all));
    if (status == WEIR_OK)
        node_comm_set_guard(comm);
    if (status == WEIR_OK)
        node_comm_agree_reads(comm, all);
    if (status == WEIR_OK && comm->requested != WEIR_BACKEND_HOST)
        status = weiri_gpu_ops_get()->join(comm, comm->requested, device);
    return status;
}

/* Rank 0 says once in its process that unregistered memory of peers cannot be read. */
static void node_comm_log_no_reads(const weir_comm *comm)
{
    static int is_logged;
    if (comm->nranks == 1 || comm->rank || comm->reads_unregistered || comm->xpmem ||
        __atomic_exchange_n(&is_logged, 1, __ATOMIC_RELAXED))
        return;
    weiri_log(WEIRI_LOG_INFO,
              "unregistered buffers of these ranks pass through shared memory: %s is 0, or the "
              "system forbids process_vm_readv between some of them (ptrace scope, container, "
              "users, processes that are not dumpable); WEIR_LOG=debug shows which",
              weiri_env_name(WEIRI_ENV_CMA));
}

weir_status weiri_comm_create_node(weir_boot *boot, const weir_comm_config *config,
                                   weir_comm *parent, const int *members, weir_comm **comm)
{
    weir_comm *made = NULL;
    introduction *all = calloc((size_t)weir_boot_nranks(boot), sizeof *all);
    weir_status status = all ? node_comm_new(boot, config, &made)
                             : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the exchange");
    status = weir_boot_agree(boot, status);
    if (made) {
        made->parent = parent;
        made->parent_ranks = members;
    }
    if (status == WEIR_OK)
        status = node_comm_join(made, all, config->device);
    free(all);
    if (status != WEIR_OK) {
        if (made)
            node_comm_free(made);
        return status;
    }
    weiri_log(WEIRI_LOG_INFO, "communicator of %d ranks on one node, %zu bytes of scratch%s",
              made->nranks, made->scratch_bytes,
              made->oversubscribed ? ", more ranks than cores" : "");
    node_comm_log_no_reads(made);
    *comm = made;
    return WEIR_OK;
}

void weiri_comm_finish(weir_comm *comm)
{
    const weir_comm *host = comm->host_comm ? comm->host_comm : comm;
    weir_store_release(&host->peers[host->rank].page->finished.value, 1);
    if (comm->internode)
        weiri_internode_signal_finished(comm->internode);
}

weir_status weiri_comm_check_aborted(weir_comm *comm)
{
    const uint64_t reason = weir_load_acquire(comm->guard.abort_word);
    if (!reason)
        return WEIR_OK;
    if (reason == WEIRI_ABORT_FAILED && weiri_called_await(comm) != WEIR_OK)
        return WEIR_ERR_MISMATCH;
    return weiri_fail(WEIR_ERR_ABORTED,
                      "rank %d: weir_comm_destroy: the communicator was aborted, so other ranks "
                      "were not waited for",
                      comm->rank);
}

weir_status weiri_node_comm_destroy(weir_comm *comm)
{
    weir_boot *owned_boot = comm->owned_boot;
    weiri_comm_finish(comm);
    if (comm->gpu)
        comm->gpu->ops->quiesce(comm);
    weir_status status = weiri_comm_check_aborted(comm);
    if (status == WEIR_OK)
        status = weiri_node_comm_barrier(comm);
    if (comm->gpu) {
        /* Peers have unmapped this rank's GPU memory after the barrier. */
        weiri_region_unmap_all(comm);
        comm->gpu->ops->unmap(comm);
        const weir_status left =
            weir_load_acquire(comm->guard.abort_word) ? WEIR_OK : weiri_node_comm_barrier(comm);
        status = status == WEIR_OK ? left : status;
    }
    node_comm_free(comm);
    weir_boot_destroy(owned_boot);
    return status;
}
