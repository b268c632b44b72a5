/* The slab of port channels' counters of this rank, and the mapped slabs of its peers. */
#include "chan/port_counters.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>

/* A mapped segment, and its address for kernels. */
typedef struct mapping {
    weiri_segment segment;
    char *there;
} mapping;

struct weiri_port_slab {
    weir_comm *comm;
    weiri_segment_key key;
    mapping own;
    mapping *peers; /* nranks elements; empty until first needed */
    weiri_mem_nets nets;
};

static weir_status port_slab_pin(const weiri_port_slab *slab, mapping *of)
{
    of->there = of->segment.base;
    if (!slab->comm->gpu)
        return WEIR_OK;
    void *there = NULL;
    weir_status status =
        slab->comm->gpu->ops->pin(slab->comm, of->segment.base, of->segment.bytes, &there);
    if (status == WEIR_OK)
        of->there = there;
    else
        weiri_segment_destroy(&of->segment);
    return status;
}

static void port_slab_unpin(const weiri_port_slab *slab, mapping *of)
{
    if (!of->segment.base)
        return;
    if (slab->comm->gpu)
        slab->comm->gpu->ops->unpin(slab->comm, of->segment.base);
    weiri_segment_destroy(&of->segment);
}

weir_status weiri_port_slab_create(weir_comm *comm, int ends, weiri_port_slab **slab)
{
    weiri_port_slab *made = calloc(1, sizeof *made);
    weir_status status = WEIR_ERR_NO_MEMORY;
    if (made)
        made->peers = calloc((size_t)comm->nranks, sizeof *made->peers);
    if (!made || !made->peers) {
        weiri_fail(status, "no memory for the counters of port channels");
        goto free_made;
    }
    made->comm = comm;
    status = comm->transport->segment_create((size_t)ends * sizeof(weiri_port_counters),
                                             &made->own.segment, &made->key);
    if (status == WEIR_OK)
        status = port_slab_pin(made, &made->own);
    if (status == WEIR_OK) {
        *slab = made;
        return WEIR_OK;
    }
free_made:
    if (made)
        free(made->peers);
    free(made);
    return status;
}

void weiri_port_slab_destroy(weiri_port_slab *slab)
{
    if (!slab)
        return;
    weiri_mem_nets_deregister(&slab->nets);
    for (int peer = 0; peer < slab->comm->nranks; peer++)
        port_slab_unpin(slab, &slab->peers[peer]);
    port_slab_unpin(slab, &slab->own);
    free(slab->peers);
    free(slab);
}

weir_status weiri_port_slab_open(weiri_port_slab *slab, int end, weiri_net *net,
                                 weiri_port_end *own, weiri_port_address *address)
{
    weiri_port_counters *counters = (weiri_port_counters *)slab->own.segment.base + end;
    *address = (weiri_port_address){.segment = slab->key, .at = (uint64_t)end * sizeof *counters};
    weir_store_relaxed(&counters->inbound.value, 0);
    weir_store_relaxed(&counters->flushed.value, 0);
    weir_store_relaxed(&counters->reached.value, 0);
    *own = (weiri_port_end){.own = counters,
                            .own_on_device = (weiri_port_counters *)(void *)slab->own.there + end};
    if (!net)
        return WEIR_OK;
    weir_status status = weiri_mem_nets_register(&slab->nets, net, slab->own.segment.base,
                                                 slab->own.segment.bytes, WEIRI_NET_HOST);
    if (status == WEIR_OK)
        address->key = slab->nets.own[weiri_network_of(net->ops->transport)]->key;
    return status;
}

weir_status weiri_port_slab_join(weiri_port_slab *slab, int peer, weiri_net *net,
                                 const weiri_port_address *address, weiri_port_end *own)
{
    mapping *of = &slab->peers[peer];
    own->remote_key = address->key;
    own->remote_at = address->at;
    if (net)
        return WEIR_OK;
    weir_status status = WEIR_OK;
    if (!of->segment.base) {
        status = weiri_segment_map(&address->segment, &of->segment);
        if (status == WEIR_OK)
            status = port_slab_pin(slab, of);
    }
    if (status == WEIR_OK && address->at > of->segment.bytes - sizeof(weiri_port_counters))
        status = weiri_fail(WEIR_ERR_MISMATCH, "rank %d's semaphore lies outside its memory", peer);
    if (status == WEIR_OK) {
        own->remote = (weiri_port_counters *)(void *)((char *)of->segment.base + address->at);
        own->remote_on_device = (weiri_port_counters *)(void *)(of->there + address->at);
    }
    return status;
}
