/*
 * Registered memory of the tcp transport, and the keys that name it to peers. A frame names memory
 * by its id, a slot of the network's table and a generation, so that memory which has been
 * deregistered is not confused with its successor in the slot.
 */
#include "transport/net/tcp.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC_KEY 0x3179656b72696577u

_Static_assert(sizeof(weiri_tcp_key) <= WEIRI_NET_KEY_BYTES, "a key fits");

weiri_tcp_mem *weiri_tcp_mem_of(const weiri_tcp_net *net, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    if (slot >= net->nmems || !net->mems[slot] || net->mems[slot]->id != id)
        return NULL;
    return net->mems[slot];
}

/* A free slot for registered memory; net->nmems if there is no memory for one. */
static uint32_t tcp_free_mem_slot(weiri_tcp_net *net)
{
    uint32_t slot = 0;
    while (slot < net->nmems && net->mems[slot])
        slot++;
    if (slot < net->nmems)
        return slot;
    uint32_t wider = net->nmems ? 2 * net->nmems : 8;
    weiri_tcp_mem **mems = realloc(net->mems, wider * sizeof *mems);
    if (!mems)
        return slot;
    memset(mems + net->nmems, 0, (wider - net->nmems) * sizeof *mems);
    net->mems = mems;
    net->nmems = wider;
    return slot;
}

weir_status weiri_tcp_mem_register(weiri_net *base, void *memory, size_t bytes,
                                   weiri_net_place place, weiri_net_mem **registered)
{
    weiri_tcp_net *net = (weiri_tcp_net *)base;
    if (bytes == 0)
        place = WEIRI_NET_HOST; /* an empty range needs no staging */
    weir_status status = WEIR_OK;
    if (place == WEIRI_NET_CUDA)
        status = weiri_tcp_staging_add(net, memory);
    if (status != WEIR_OK)
        return status;
    weiri_tcp_mem *mem = calloc(1, sizeof *mem);
    uint32_t slot = mem ? tcp_free_mem_slot(net) : 0;
    if (!mem || slot == net->nmems) {
        free(mem);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory to register %zu bytes",
                          base->rank, bytes);
    }
    mem->id = (uint64_t)++net->generation << 32 | slot;
    mem->place = place;
    mem->base = (weiri_net_mem){.net = base, .base = memory, .bytes = bytes};
    const weiri_tcp_key key = {.magic = MAGIC_KEY,
                               .id = mem->id,
                               .bytes = bytes,
                               .rank = base->rank,
                               .place = (uint32_t)place};
    memcpy(mem->base.key.bytes, &key, sizeof key);
    net->mems[slot] = mem;
    *registered = &mem->base;
    return WEIR_OK;
}

void weiri_tcp_mem_deregister(weiri_net_mem *base)
{
    weiri_tcp_mem *mem = (weiri_tcp_mem *)base;
    weiri_tcp_net *net = (weiri_tcp_net *)base->net;
    net->mems[(uint32_t)mem->id] = NULL;
    free(mem);
}

weir_status weiri_tcp_read_key(const weiri_tcp_endpoint *end, const weiri_net_key *given,
                               uint64_t to, uint64_t bytes, weiri_tcp_key *key)
{
    memcpy(key, given->bytes, sizeof *key);
    if (key->magic != MAGIC_KEY || key->rank != end->base.peer)
        return weiri_fail(WEIR_ERR_INVALID,
                          "transport tcp: the key does not name memory of rank %d; use one that "
                          "that rank has sent",
                          end->base.peer);
    if (to > key->bytes || bytes > key->bytes - to)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "transport tcp: %llu bytes at offset %llu exceed the memory of rank %d, which "
            "has %llu bytes",
            (unsigned long long)bytes, (unsigned long long)to, end->base.peer,
            (unsigned long long)key->bytes);
    return WEIR_OK;
}
