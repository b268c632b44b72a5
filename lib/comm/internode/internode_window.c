/*
 * Windows: their layout, which every rank knows of every window, and the keys by which
 * peers put into them.
 */
#include "comm/internode/internode.h"

#include "base/error.h"

#include <stdlib.h>

enum {
    BOXES_BYTES = 8 << 20, /* all boxes of a rank, if slots get the size that they may */
    SLOT_LEAST_BYTES = 8 << 10,
    SLOT_MOST_BYTES = 128 << 10,
};

/* Which of rank's remote peers another one is. */
static int place_at(const weiri_net *net, int rank, int peer)
{
    int place = 0;
    for (int other = 0; other < peer; other++)
        place += net->machine_of[other] != net->machine_of[rank];
    return place;
}

static int remote_count_of(const weiri_net *net, int rank)
{
    return net->whole->nranks - net->machines[net->machine_of[rank]].count;
}

/* Slots have one size everywhere: what the rank with most remote peers can have. */
static void size_slots(weiri_net *net)
{
    size_t most = (size_t)(net->whole->nranks - net->fewest);
    size_t bytes = BOXES_BYTES / 2 / WEIRI_NET_SLOTS / most / 4096 * 4096;
    bytes = bytes > SLOT_LEAST_BYTES ? bytes : SLOT_LEAST_BYTES;
    net->slot_bytes = bytes < SLOT_MOST_BYTES ? bytes : SLOT_MOST_BYTES;
}

static uint64_t mirrors_at(const weiri_net *net, int rank)
{
    return (uint64_t)remote_count_of(net, rank) * sizeof(weiri_net_words);
}

/* Behind the mirrors is one more, which the own record is copied to. */
static uint64_t boxes_at(const weiri_net *net, int rank)
{
    return mirrors_at(net, rank) + (uint64_t)(remote_count_of(net, rank) + 1) * sizeof(weiri_where);
}

static void lay_out(weiri_net *net)
{
    int own = net->whole->rank;
    size_t ring = WEIRI_NET_SLOTS * weiri_net_stride(net);
    net->told_from = (weiri_where *)(void *)(net->window + mirrors_at(net, own)) + net->nremote;
    for (int rank = 0; rank < net->whole->nranks; rank++) {
        weiri_net_peer *peer = &net->peers[rank];
        if (net->machine_of[rank] == net->machine)
            continue;
        peer->here = place_at(net, own, rank);
        peer->there = place_at(net, rank, own);
        size_t here = (size_t)peer->here, there = (size_t)peer->there;
        peer->words = (weiri_net_words *)(void *)net->window + here;
        peer->mirror = (weiri_where *)(void *)(net->window + mirrors_at(net, own)) + here;
        peer->inbox = net->window + boxes_at(net, own) + here * 2 * ring;
        peer->outbox = peer->inbox + ring;
        peer->words_there = there * sizeof(weiri_net_words);
        peer->mirror_there = mirrors_at(net, rank) + there * sizeof(weiri_where);
        peer->inbox_there = boxes_at(net, rank) + there * 2 * ring;
    }
}

static weir_status make_window(weiri_net *net)
{
    size_t ring = WEIRI_NET_SLOTS * weiri_net_stride(net);
    net->window_bytes = boxes_at(net, net->whole->rank) + (size_t)net->nremote * 2 * ring;
    weir_status status = weir_mem_alloc(net->local, net->window_bytes, &net->memory);
    if (status != WEIR_OK)
        return status;
    net->window = weir_mem_pointer(net->memory);
    lay_out(net);
    weiri_wire_lock(net->wire);
    status = net->wire->ops->mem_register(net->wire, net->window, net->window_bytes,
                                          WEIRI_WIRE_HOST, &net->mem);
    weiri_wire_unlock(net->wire);
    return status;
}

static weir_status exchange_keys(weiri_net *net)
{
    const weir_comm *whole = net->whole;
    weiri_wire_key *keys = calloc((size_t)whole->nranks, sizeof *keys);
    if (keys)
        keys[whole->rank] = net->mem->key;
    weir_status status = weir_boot_agree(
        whole->boot, keys ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for keys"));
    if (status == WEIR_OK)
        status = weir_boot_allgather(whole->boot, keys, sizeof *keys);
    for (int rank = 0; status == WEIR_OK && rank < whole->nranks; rank++)
        net->peers[rank].key = keys[rank];
    free(keys);
    return status;
}

weir_status weiri_net_window_create(weiri_net *net)
{
    net->memory = NULL;
    net->mem = NULL;
    size_slots(net);
    weir_status status = weir_boot_agree(net->whole->boot, make_window(net));
    return status == WEIR_OK ? exchange_keys(net) : status;
}

void weiri_net_window_destroy(weiri_net *net)
{
    if (net->mem)
        net->wire->ops->mem_deregister(net->mem);
    weir_mem_free(net->memory);
    net->mem = NULL;
    net->memory = NULL;
}
