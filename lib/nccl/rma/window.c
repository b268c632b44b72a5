/*
 * The paths of puts to the windows of peers. When a window is registered, every rank sends all
 * others what its memory is: registered memory of weir, memory of ncclMemAlloc (a shared segment),
 * or unregistered memory of its process, and its key for the network. Each rank then chooses the
 * best path to each peer: a mapping, a copy by the kernel where ranks may access each other's
 * memory, or the network.
 */
#include "nccl/rma/rma.h"

#include "nccl/p2p/p2p_host.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rank's contribution. */
typedef struct window_record {
    uint64_t bytes, address;
    int64_t pid;
    int32_t has_handle, has_segment, has_key;
    int32_t is_gpu;
    uint64_t segment_offset;
    weir_mem_handle handle;
    weiri_segment_key segment;
    weiri_net_key key;
} window_record;

/* Describes this rank's window. Local. */
static weir_status window_describe(weiri_nccl_comm *comm, weiri_registration *window,
                                   window_record *mine)
{
    weir_status status = WEIR_OK;
    mine->bytes = window->size;
    mine->address = (uint64_t)(uintptr_t)window->buff;
    mine->pid = (int64_t)getpid();
    mine->is_gpu = comm->device >= 0;
    mine->has_handle = window->mem && weir_mem_shareable(window->mem) &&
                       weir_mem_export(window->mem, &mine->handle) == WEIR_OK;
    if (!mine->is_gpu)
        mine->has_segment = weiri_nccl_allocation_key(window->buff, window->size, &mine->segment,
                                                      &mine->segment_offset);
    if (comm->comm->internode && window->size)
        status = weiri_rma_net_register(comm, window);
    if (status == WEIR_ERR_UNSUPPORTED) /* a network may be unable to register GPU memory */
        return WEIR_OK;
    if (status == WEIR_OK && window->net_mem) {
        mine->has_key = 1;
        mine->key = window->net_mem->key;
    }
    return status;
}

/* Maps the shared segment of a peer of this node. */
static weir_status window_map_segment(const window_record *from, weiri_window_peer *to)
{
    weir_status status = weiri_segment_map(&from->segment, &to->segment);
    if (status != WEIR_OK)
        return status;
    to->path = WEIRI_RMA_MAPPED;
    to->mapped = (char *)to->segment.base + from->segment_offset;
    return WEIR_OK;
}

static weir_status window_import(const weiri_nccl_comm *comm, const window_record *from,
                                 weiri_window_peer *to)
{
    weir_status status = weir_mem_import(comm->comm, &from->handle, &to->imported);
    if (status != WEIR_OK)
        return status;
    to->mapped = weir_mem_pointer(to->imported);
    to->path = to->mapped ? WEIRI_RMA_MAPPED : WEIRI_RMA_UNREACHABLE;
    return WEIR_OK;
}

/* Chooses the path to a peer of this node. */
static weir_status window_connect_near(const weiri_nccl_comm *comm, const window_record *from,
                                       weiri_window_peer *to)
{
    const weir_comm *host = comm->comm->host_comm ? comm->comm->host_comm : comm->comm;
    if (!from->is_gpu && from->pid == (int64_t)getpid()) {
        to->path = WEIRI_RMA_MAPPED;
        to->mapped = (char *)(uintptr_t)from->address;
        return WEIR_OK;
    }
    if (from->has_segment)
        return window_map_segment(from, to);
    if (from->has_handle)
        return window_import(comm, from, to);
    if (!from->is_gpu && host->reads_unregistered)
        to->path = WEIRI_RMA_BY_COPY;
    return WEIR_OK;
}

static weir_status window_connect(const weiri_nccl_comm *comm, weiri_registration *window,
                                  const window_record *records)
{
    weir_status status = WEIR_OK;
    window->peers = calloc((size_t)comm->nranks, sizeof *window->peers);
    if (!window->peers)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the window of %d ranks", comm->nranks);
    for (int rank = 0; rank < comm->nranks && status == WEIR_OK; rank++) {
        const window_record *from = &records[rank];
        weiri_window_peer *to = &window->peers[rank];
        *to = (weiri_window_peer){.bytes = from->bytes,
                                  .address = from->address,
                                  .pid = (int)from->pid,
                                  .segment = {.fd = -1}};
        if (rank == comm->rank) {
            to->path = WEIRI_RMA_MAPPED;
            to->mapped = window->buff;
        } else if (!weiri_p2p_is_remote(comm, rank)) {
            status = window_connect_near(comm, from, to);
        } else if (from->has_key) {
            to->path = WEIRI_RMA_BY_NET;
            to->key = from->key;
        }
    }
    return status;
}

weir_status weiri_window_join(weiri_nccl_comm *comm, weiri_registration *window)
{
    weir_status status = weiri_rma_net_open(comm);
    if (status != WEIR_OK)
        return status;
    window_record *records = calloc((size_t)comm->nranks, sizeof *records);
    status = records ? window_describe(comm, window, &records[comm->rank])
                     : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to describe a window");
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK)
        status = weir_boot_allgather(comm->boot, records, sizeof *records);
    if (status == WEIR_OK)
        status = weir_boot_agree(comm->boot, window_connect(comm, window, records));
    free(records);
    return status;
}

void weiri_window_part(weiri_nccl_comm *comm, weiri_registration *window)
{
    for (int rank = 0; window->peers && rank < comm->nranks; rank++) {
        weir_mem_free(window->peers[rank].imported);
        weiri_segment_destroy(&window->peers[rank].segment);
    }
    free(window->peers);
    window->peers = NULL;
    if (window->net_mem)
        weiri_rma_net_deregister(comm, window->net_mem);
    window->net_mem = NULL;
}
