/* Windows: their layout, which every rank knows of every window, and the exchange of their keys. */
#include "comm/internode/internode.h"

#include "base/error.h"
#include "comm/mem.h"

#include <stdlib.h>

enum {
    BOXES_BYTES = 16 << 20, /* all inboxes and outboxes of a rank, unless slot sizes are limited */
    SLOT_LEAST_BYTES = 8 << 10,
    SLOT_MOST_BYTES = 128 << 10,
};

/* Returns the index of peer among the remote peers of rank: ranks of rank's node do not count. */
static int window_index_of(const weiri_internode *internode, int rank, int peer)
{
    const weiri_node *node = &internode->nodes[internode->node_of[rank]];
    int low = 0, high = node->count; /* the ranks of the node below peer end between them */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (node->ranks[middle] < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return peer - low;
}

static int window_remote_count_of(const weiri_internode *internode, int rank)
{
    return internode->parent->nranks - internode->nodes[internode->node_of[rank]].count;
}

static uint64_t window_mirrors_at(const weiri_internode *internode, int rank)
{
    return (uint64_t)window_remote_count_of(internode, rank) * sizeof(weiri_internode_words);
}

/* After the mirrors there are copies of the records of the node's ranks. */
static uint64_t window_boxes_at(const weiri_internode *internode, int rank)
{
    return window_mirrors_at(internode, rank) +
           (uint64_t)internode->parent->nranks * sizeof(weiri_where);
}

uint64_t weiri_internode_words_at(const weiri_internode *internode, int there, int rank)
{
    return (uint64_t)window_index_of(internode, there, rank) * sizeof(weiri_internode_words);
}

uint64_t weiri_internode_mirror_at(const weiri_internode *internode, int there, int rank)
{
    return window_mirrors_at(internode, there) +
           (uint64_t)window_index_of(internode, there, rank) * sizeof(weiri_where);
}

static void window_lay_out(weiri_internode *internode)
{
    int own = internode->parent->rank;
    size_t ring = WEIRI_INTERNODE_SLOTS * weiri_internode_stride(internode);
    internode->own_records =
        (weiri_where *)(void *)(internode->window + window_mirrors_at(internode, own)) +
        internode->nremote;
    for (int rank = 0; rank < internode->parent->nranks; rank++) {
        weiri_internode_peer *peer = &internode->peers[rank];
        if (internode->node_of[rank] == internode->node)
            continue;
        peer->here = window_index_of(internode, own, rank);
        peer->there = window_index_of(internode, rank, own);
        size_t here = (size_t)peer->here, there = (size_t)peer->there;
        peer->words = (weiri_internode_words *)(void *)internode->window + here;
        peer->mirror =
            (weiri_where *)(void *)(internode->window + window_mirrors_at(internode, own)) + here;
        peer->inbox = internode->window + window_boxes_at(internode, own) + here * 2 * ring;
        peer->outbox = peer->inbox + ring;
        peer->stride = weiri_internode_stride(internode);
        peer->closed = internode->is_first_use ? internode : NULL;
        peer->words_there = weiri_internode_words_at(internode, rank, own);
        peer->inbox_there = window_boxes_at(internode, rank) + there * 2 * ring;
    }
}

static weir_status window_allocate(weiri_internode *internode)
{
    size_t ring = WEIRI_INTERNODE_SLOTS * weiri_internode_stride(internode);
    internode->window_bytes =
        window_boxes_at(internode, internode->parent->rank) + (size_t)internode->nremote * 2 * ring;
    const uint64_t head = window_boxes_at(internode, internode->parent->rank);
    weir_status status =
        internode->is_first_use
            ? weiri_mem_reserve(internode->local, internode->window_bytes, &internode->memory)
            : weir_mem_alloc(internode->local, internode->window_bytes, &internode->memory);
    if (status == WEIR_OK && internode->is_first_use)
        status = weiri_mem_back(internode->memory, 0, head);
    if (status != WEIR_OK)
        return status;
    internode->window = weir_mem_pointer(internode->memory);
    window_lay_out(internode);
    weiri_net_lock(internode->net);
    status =
        internode->net->ops->mem_register(internode->net, internode->window,
                                          internode->window_bytes, WEIRI_NET_HOST, &internode->mem);
    weiri_net_unlock(internode->net);
    return status;
}

weir_status weiri_internode_window_open(weiri_internode *internode, int rank)
{
    weiri_internode_peer *peer = &internode->peers[rank];
    const size_t ring = WEIRI_INTERNODE_SLOTS * weiri_internode_stride(internode);
    if (!__atomic_load_n(&peer->closed, __ATOMIC_RELAXED))
        return WEIR_OK;
    weir_status status =
        weiri_mem_back(internode->memory, (size_t)(peer->inbox - internode->window), 2 * ring);
    if (status == WEIR_OK)
        __atomic_store_n(&peer->closed, NULL, __ATOMIC_RELAXED);
    return status;
}

/* The key of a window, and for the ranks of its node where it is mapped. */
typedef struct window_name {
    weiri_net_key key;
    weiri_desc desc;
} window_name;

static weir_status window_exchange_keys(weiri_internode *internode)
{
    const weir_comm *parent = internode->parent;
    window_name *names = calloc((size_t)parent->nranks, sizeof *names);
    if (names)
        names[parent->rank] = (window_name){internode->mem->key, internode->memory->desc};
    weir_status status = weir_boot_agree(
        parent->boot, names ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for keys"));
    if (status == WEIR_OK)
        status = weir_boot_allgather(parent->boot, names, sizeof *names);
    for (int rank = 0; status == WEIR_OK && rank < parent->nranks; rank++)
        internode->peers[rank].key = names[rank].key;
    if (status == WEIR_OK)
        internode->leader_window = names[internode->nodes[internode->node].ranks[0]].desc;
    free(names);
    return status;
}

weir_status weiri_internode_window_create(weiri_internode *internode)
{
    internode->memory = NULL;
    internode->mem = NULL;
    /* Slots have the same size on all ranks, given by the rank with the most remote peers. */
    size_t most = (size_t)(internode->parent->nranks - internode->fewest);
    size_t bytes = BOXES_BYTES / 2 / WEIRI_INTERNODE_SLOTS / most / 4096 * 4096;
    bytes = bytes > SLOT_LEAST_BYTES ? bytes : SLOT_LEAST_BYTES;
    internode->slot_bytes = bytes < SLOT_MOST_BYTES ? bytes : SLOT_MOST_BYTES;
    weir_status status = weir_boot_agree(internode->parent->boot, window_allocate(internode));
    return status == WEIR_OK ? window_exchange_keys(internode) : status;
}

void weiri_internode_window_destroy(weiri_internode *internode)
{
    if (internode->mem)
        internode->net->ops->mem_deregister(internode->mem);
    weir_mem_free(internode->memory);
    internode->mem = NULL;
    internode->memory = NULL;
}
