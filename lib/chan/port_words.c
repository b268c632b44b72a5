/* The segment of port channels' words, and those of peers that are mapped here. */
#include "chan/port_words.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

#include <stdlib.h>

/* A segment here, and as this rank's kernels see it. */
typedef struct mapping {
    weiri_segment segment;
    char *there;
} mapping;

struct weiri_port_slab {
    weir_comm *comm;
    weiri_segment_key key;
    mapping own;
    mapping *peers; /* nranks; empty where none is needed yet */
    weiri_mem_nets nets;
};

static weir_status pin(const weiri_port_slab *slab, mapping *of)
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

static void unpin(const weiri_port_slab *slab, mapping *of)
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
        weiri_fail(status, "no memory for the words of port channels");
        goto free_made;
    }
    made->comm = comm;
    status = comm->transport->segment_create((size_t)ends * sizeof(weiri_port_words),
                                             &made->own.segment, &made->key);
    if (status == WEIR_OK)
        status = pin(made, &made->own);
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
    weiri_mem_wires_drop(&slab->nets);
    for (int peer = 0; peer < slab->comm->nranks; peer++)
        unpin(slab, &slab->peers[peer]);
    unpin(slab, &slab->own);
    free(slab->peers);
    free(slab);
}

weir_status weiri_port_slab_open(weiri_port_slab *slab, int end, weiri_net *net,
                                 weiri_port_end *own, weiri_port_card *card)
{
    weiri_port_words *words = (weiri_port_words *)slab->own.segment.base + end;
    *card = (weiri_port_card){.segment = slab->key, .at = (uint64_t)end * sizeof *words};
    weir_store_relaxed(&words->inbound.value, 0);
    weir_store_relaxed(&words->flushed.value, 0);
    weir_store_relaxed(&words->reached.value, 0);
    *own = (weiri_port_end){.own = words,
                            .own_there = (weiri_port_words *)(void *)slab->own.there + end};
    if (!net)
        return WEIR_OK;
    weir_status status = weiri_mem_wires_add(&slab->nets, net, slab->own.segment.base,
                                             slab->own.segment.bytes, WEIRI_NET_HOST);
    if (status == WEIR_OK)
        card->key = slab->nets.own[weiri_network_of(net->ops->transport)]->key;
    return status;
}

weir_status weiri_port_slab_join(weiri_port_slab *slab, int peer, weiri_net *net,
                                 const weiri_port_card *card, weiri_port_end *own)
{
    mapping *of = &slab->peers[peer];
    own->remote_key = card->key;
    own->remote_at = card->at;
    if (net)
        return WEIR_OK;
    weir_status status = WEIR_OK;
    if (!of->segment.base) {
        status = weiri_segment_map(&card->segment, &of->segment);
        if (status == WEIR_OK)
            status = pin(slab, of);
    }
    if (status == WEIR_OK && card->at > of->segment.bytes - sizeof(weiri_port_words))
        status = weiri_fail(WEIR_ERR_MISMATCH, "rank %d's semaphore lies outside its memory", peer);
    if (status == WEIR_OK) {
        own->remote = (weiri_port_words *)(void *)((char *)of->segment.base + card->at);
        own->remote_there = (weiri_port_words *)(void *)(of->there + card->at);
    }
    return status;
}
