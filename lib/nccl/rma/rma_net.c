/*
 * One-sided calls between nodes: puts and signals of the network to whose endpoints the
 * communicator is connected already (comm/internode/internode.h). Each rank registers its `arrived`
 * words, with a block for every other rank, and the memory of its windows. They are set up when the
 * first window is registered, because only then do all ranks know that they are needed.
 *
 * A network performs operations of one endpoint in the order of posting, so signals need nothing
 * more for their order. A put returns when the network reports its arrival, because its source may
 * be changed then.
 */
#include "nccl/rma/rma.h"

#include "nccl/gpu/gpu.h"

#include "base/error.h"

#include <stdlib.h>

enum { PAGE_BYTES = 4096 };

typedef struct weiri_rma_net {
    int is_open;
    size_t stride;
    uint64_t *arrived;      /* nranks * stride words, registered */
    uint64_t *sent, *taken; /* nranks * stride */
    weiri_net_mem *mem;     /* of arrived */
    weiri_net_key *keys;    /* nranks: of their arrived words */
    struct weiri_internode_progress *progress;
} weiri_rma_net;

static weiri_net *net_of(const weiri_nccl_comm *comm)
{
    return comm->comm->internode->net;
}

static weiri_endpoint *endpoint_of(const weiri_nccl_comm *comm, int rank)
{
    return comm->comm->internode->peers[rank].endpoint;
}

void weiri_rma_net_discard(weiri_rma_net *net)
{
    free(net->arrived);
    free(net->sent);
    free(net->taken);
    free(net->keys);
    free(net);
}

static weir_status rma_net_allocate(weiri_nccl_comm *comm)
{
    const size_t n = (size_t)comm->nranks, words = n * comm->rma->stride;
    const size_t bytes = (words * sizeof(uint64_t) / PAGE_BYTES + 1) * PAGE_BYTES;
    weiri_rma_net *net = calloc(1, sizeof *net);
    if (net) {
        net->stride = comm->rma->stride;
        net->arrived = aligned_alloc(PAGE_BYTES, bytes);
        net->sent = calloc(words + 1, sizeof *net->sent);
        net->taken = calloc(words + 1, sizeof *net->taken);
        net->keys = calloc(n, sizeof *net->keys);
    }
    if (!net || !net->arrived || !net->sent || !net->taken || !net->keys) {
        if (net)
            weiri_rma_net_discard(net);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for signals between %zu ranks", n);
    }
    for (size_t i = 0; i < words; i++)
        net->arrived[i] = 0;
    comm->rma->net = net;
    return WEIR_OK;
}

static weir_status rma_net_register_memory(weiri_nccl_comm *comm, void *base, size_t bytes,
                                           weiri_net_place place, weiri_net_mem **mem)
{
    weiri_net *net = net_of(comm);
    weiri_net_lock(net);
    weir_status status = net->ops->mem_register(net, base, bytes, place, mem);
    weiri_net_unlock(net);
    return status;
}

void weiri_rma_net_deregister(weiri_nccl_comm *comm, weiri_net_mem *mem)
{
    weiri_net *net = net_of(comm);
    weiri_net_lock(net);
    net->ops->mem_deregister(mem);
    weiri_net_unlock(net);
}

weir_status weiri_rma_net_open(weiri_nccl_comm *comm)
{
    weir_status status = WEIR_OK;
    if (!comm->comm->internode || (comm->rma->net && comm->rma->net->is_open))
        return WEIR_OK;
    if (!comm->rma->net)
        status = rma_net_allocate(comm);
    weiri_rma_net *net = comm->rma->net;
    if (status == WEIR_OK)
        status = rma_net_register_memory(comm, net->arrived,
                                         (size_t)comm->nranks * net->stride * sizeof(uint64_t),
                                         WEIRI_NET_HOST, &net->mem);
    if (status == WEIR_OK)
        status = weiri_internode_progress_start(comm->comm->internode, &net->progress);
    status = weir_boot_agree(comm->boot, status);
    if (status == WEIR_OK) {
        net->keys[comm->rank] = net->mem->key;
        status = weir_boot_allgather(comm->boot, net->keys, sizeof *net->keys);
    }
    if (net)
        net->is_open = status == WEIR_OK;
    if (status != WEIR_OK)
        weiri_rma_net_close(comm, 0);
    return status;
}

void weiri_rma_net_close(weiri_nccl_comm *comm, int keeps_counts)
{
    weiri_rma_net *net = comm->rma->net;
    if (!net)
        return;
    weiri_internode_progress_stop(net->progress);
    net->progress = NULL;
    if (net->mem)
        weiri_rma_net_deregister(comm, net->mem);
    net->mem = NULL;
    net->is_open = 0;
    if (keeps_counts)
        return;
    weiri_rma_net_discard(net);
    comm->rma->net = NULL;
}

weir_status weiri_rma_net_register(weiri_nccl_comm *comm, weiri_registration *window)
{
    return rma_net_register_memory(comm, window->buff, window->size,
                                   comm->device >= 0 ? WEIRI_NET_CUDA : WEIRI_NET_HOST,
                                   &window->net_mem);
}

/* ---------------------------------------------------------------------- calls */

/* Posts a put, if mem is not NULL, and a signal. *posted: the endpoint's count after the put. */
static weir_status rma_net_post(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                                const weiri_window_peer *to, const weiri_net_mem *mem,
                                uint64_t *posted)
{
    weiri_net *net = net_of(comm);
    weiri_endpoint *end = endpoint_of(comm, call->peer);
    weiri_rma_net *own = comm->rma->net;
    uint64_t *sent = &own->sent[(size_t)call->peer * own->stride + (size_t)call->index];
    const uint64_t word =
        ((uint64_t)comm->rank * own->stride + (uint64_t)call->index) * sizeof(uint64_t);
    weir_status status = WEIR_OK;
    weiri_net_lock(net);
    if (mem)
        status = net->ops->put(end, mem, (uint64_t)((const char *)call->from - mem->base), &to->key,
                               call->offset, call->bytes);
    *posted = end->posted;
    if (status == WEIR_OK)
        status = net->ops->signal(end, &own->keys[call->peer], word, *sent + 1);
    *sent += status == WEIR_OK;
    weiri_net_unlock(net);
    weiri_internode_poll(comm->comm->internode);
    return status;
}

weir_status weiri_rma_net_put(weiri_nccl_comm *comm, const weiri_nccl_onesided *call,
                              const weiri_window_peer *to)
{
    if (!call->bytes)
        return weiri_rma_net_signal(comm, call->peer, call->index);
    const weiri_registration *source = weiri_registration_at(comm->handle, call->from, call->bytes);
    weiri_net_mem *mem = source ? source->net_mem : NULL, *own = NULL;
    weir_status status = WEIR_OK;
    uint64_t posted = 0;
    if (!mem) /* memory outside of all windows is registered for this put */
        status = rma_net_register_memory(comm, (void *)(uintptr_t)call->from, call->bytes,
                                         comm->device >= 0 ? WEIRI_NET_CUDA : WEIRI_NET_HOST, &own);
    mem = mem ? mem : own;
    if (status == WEIR_OK)
        status = rma_net_post(comm, call, to, mem, &posted);
    if (status == WEIR_OK)
        status =
            weiri_rma_await(comm, &endpoint_of(comm, call->peer)->completed, posted, call->peer);
    if (own)
        weiri_rma_net_deregister(comm, own);
    return status;
}

weir_status weiri_rma_net_signal(weiri_nccl_comm *comm, int peer, int index)
{
    const weiri_nccl_onesided call = {.kind = WEIRI_ONESIDED_SIGNAL, .peer = peer, .index = index};
    uint64_t posted;
    return rma_net_post(comm, &call, NULL, NULL, &posted);
}

weir_status weiri_rma_net_wait(weiri_nccl_comm *comm, const weiri_onesided_wait *wait)
{
    weiri_rma_net *own = comm->rma->net;
    const size_t at = (size_t)wait->peer * own->stride + (size_t)wait->index;
    const uint64_t target = own->taken[at] + wait->count;
    weir_status status = weiri_rma_await(comm, &own->arrived[at], target, wait->peer);
    if (status == WEIR_OK)
        own->taken[at] = target;
    return status;
}
