/* Bundles of short blocks of alltoallv; see bundle.h. */
#include "coll/internode/bundle.h"

#include "base/error.h"
#include "compute/copy.h"
#include "coll/host/slot.h"

#include <string.h>

enum {
    WORD_BYTES = sizeof(uint64_t),
    MOST_BYTES = 32768, /* of a short block; see docs/performance/internode.md */
};

#define NOT_HEARD UINT64_MAX /* in the result's index, while the leader waits for a node */

/* In a bundle's header, in place of a block's length. */
#define BUNDLE UINT64_MAX

static size_t index_bytes(const weiri_bundles *b)
{
    return (size_t)b->x->internode->nnodes * WORD_BYTES;
}

/* The largest number of pairs in a result, and therefore in a bundle and in a rank's parts. */
static size_t most_pairs(const weiri_internode *internode, size_t nranks)
{
    size_t most = 0;
    for (int m = 0; m < internode->nnodes; m++) {
        size_t count = (size_t)internode->nodes[m].count, pairs = count * (nranks - count);
        most = pairs > most ? pairs : most;
    }
    return most;
}

/* Chooses the limit so that slots and messages suffice even if all blocks are that long. If every
 * node has one rank, there is nothing to bundle. */
void weiri_bundles_init(weiri_bundles *b, weiri_internode_coll *x)
{
    *b = (weiri_bundles){.x = x};
    const size_t pairs = most_pairs(x->internode, (size_t)x->coll->nranks);
    if (x->internode->most == 1 || !pairs)
        return;
    size_t slot = weiri_least(x->host->piece_bytes, x->host->result_bytes - index_bytes(b));
    size_t words = weiri_least(slot, x->internode->slot_bytes) / pairs / WORD_BYTES;
    b->most = words > 1 ? weiri_least((words - 1) * WORD_BYTES, MOST_BYTES) : 0;
}

/* ----------------------------------------------------------------------- parts */

static size_t padded(size_t bytes)
{
    return (bytes + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES;
}

/* The bytes of a block that are in the bundle. */
static size_t bundled_bytes(uint64_t word)
{
    return word & WEIRI_APART ? 0 : (size_t)word;
}

/* The part after this one. */
static const uint64_t *part_next(const uint64_t *part, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += bundled_bytes(part[i]);
    return part + (size_t)count + padded(bytes) / WORD_BYTES;
}

static int has_short(const uint64_t *part, int count)
{
    for (int i = 0; i < count; i++)
        if (!(part[i] & WEIRI_APART))
            return 1;
    return 0;
}

static const uint64_t *words_at(const char *data)
{
    return (const uint64_t *)(const void *)data;
}

/* Writes this rank's part for a node; returns the position of the next part. */
static char *part_write(const weiri_bundles *b, const weiri_node *other, char *at)
{
    uint64_t *words = (uint64_t *)(void *)at;
    char *data = at + (size_t)other->count * WORD_BYTES;
    size_t bytes = 0;
    for (int i = 0; i < other->count; i++) {
        const weiri_pair *pair = &b->x->task->pairs[other->ranks[i]];
        words[i] = pair->send_bytes;
        if (weiri_bundles_takes(b, pair->send_bytes)) {
            memcpy(data + bytes, pair->from, pair->send_bytes);
            bytes += pair->send_bytes;
        } else {
            words[i] |= WEIRI_APART;
        }
    }
    return data + padded(bytes);
}

/* The part for a node among a rank's published parts, which are in the order of nodes. */
static const uint64_t *find_part(const weiri_bundles *b, const char *parts, int node)
{
    const weiri_internode *internode = b->x->internode;
    const uint64_t *part = words_at(parts);
    for (int m = 0; m < node; m++)
        if (m != internode->node)
            part = part_next(part, internode->nodes[m].count);
    return part;
}

/* ----------------------------------------------------------------------- sending */

static void publish_parts(const weiri_bundles *b)
{
    const weiri_internode *internode = b->x->internode;
    weiri_slot *slot = weiri_slot_of(b->x->host, b->x->place);
    char *at = slot->data;
    for (int m = 0; m < internode->nnodes; m++)
        if (m != internode->node)
            at = part_write(b, &internode->nodes[m], at);
    weiri_slot_advance(b->x->host, slot, 0);
}

static weir_status await_parts(const weiri_bundles *b)
{
    weiri_coll *host = b->x->host;
    weir_status status = WEIR_OK;
    for (int place = 0; place < b->x->count && status == WEIR_OK; place++)
        if (place != b->x->place)
            status = weiri_slot_await(host, weiri_slot_of(host, place), place, 0, b->x->phase);
    return status;
}

/* Posts the bundle for another node, if there is one. */
static weir_status send_bundle(const weiri_bundles *b, int node)
{
    weiri_internode *internode = b->x->internode;
    int to = internode->nodes[node].ranks[0], count = internode->nodes[node].count, any = 0;
    weir_status status = weiri_internode_await_room(internode, to, b->x->phase);
    if (status != WEIR_OK)
        return status;
    char *data = weiri_internode_outgoing(internode, to);
    size_t bytes = 0;
    for (int place = 0; place < b->x->count; place++) {
        const weiri_slot *slot = weiri_slot_of(b->x->host, place);
        const uint64_t *part = find_part(b, slot->data, node);
        size_t length = (size_t)(part_next(part, count) - part) * WORD_BYTES;
        memcpy(data + bytes, part, length);
        bytes += length;
        any |= has_short(part, count);
    }
    return any ? weiri_internode_post(internode, to, NULL, bytes, BUNDLE) : WEIR_OK;
}

weir_status weiri_bundles_send(weiri_bundles *b)
{
    const weiri_internode *internode = b->x->internode;
    weir_status status = weiri_coll_begin(b->x->host);
    if (status != WEIR_OK)
        return status;
    publish_parts(b);
    if (b->x->place == 0) {
        status = await_parts(b);
        for (int step = 1; step < internode->nnodes && status == WEIR_OK; step++)
            status = send_bundle(b, (internode->node + step) % internode->nnodes);
    }
    if (status == WEIR_OK)
        weiri_coll_end(b->x->host);
    return status;
}

/* --------------------------------------------------------------------- receiving */

weir_status weiri_bundles_begin(weiri_bundles *b)
{
    weiri_coll *host = b->x->host;
    weir_status status = weiri_coll_begin(host);
    if (status != WEIR_OK)
        return status;
    b->slot = host->areas[0].result[host->epoch & 1];
    b->missing = b->x->internode->nnodes - 1;
    b->begins = (uint64_t *)(void *)b->slot->data;
    b->end = b->slot->data + index_bytes(b);
    for (int m = 0; b->x->place == 0 && m < b->x->internode->nnodes; m++)
        b->begins[m] = NOT_HEARD;
    return WEIR_OK;
}

/* The capacity of slots follows from the scratch memory, which must be equal on all nodes. */
static weir_status bundle_refuse(const weiri_bundles *b, int rank, uint64_t bytes)
{
    weir_comm *comm = b->x->coll->comm;
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d: in %s rank %d sends %llu bytes for this node's ranks, for which there "
               "is no room; give all ranks the same scratch_bytes",
               comm->rank, b->x->phase, rank, (unsigned long long)bytes);
    return weiri_comm_give_up(comm, WEIR_ERR_MISMATCH);
}

/* Leader: copies the bundle if another leader's first message is one. */
static weir_status bundle_take_first(weiri_bundles *b, int node)
{
    weiri_internode *internode = b->x->internode;
    int from = internode->nodes[node].ranks[0];
    const char *data = weiri_internode_incoming(internode, from);
    const weiri_internode_head *head = weiri_internode_head_of(data);
    b->missing--;
    b->begins[node] = 0;
    if (head->total_bytes != BUNDLE)
        return WEIR_OK;
    if (head->bytes > b->x->host->result_bytes - (size_t)(b->end - b->slot->data))
        return bundle_refuse(b, from, head->bytes);
    b->begins[node] = (uint64_t)(b->end - b->slot->data);
    weiri_copy(b->end, data, head->bytes);
    b->end += head->bytes;
    return weiri_internode_take(internode, from);
}

static weir_status bundle_lead(weiri_bundles *b, int *moved)
{
    const weiri_internode *internode = b->x->internode;
    weir_status status = WEIR_OK;
    for (int m = 0; m < internode->nnodes && status == WEIR_OK; m++) {
        if (m == internode->node || b->begins[m] != NOT_HEARD ||
            !weiri_internode_has_arrived(&internode->peers[internode->nodes[m].ranks[0]]))
            continue;
        status = bundle_take_first(b, m);
        *moved = 1;
    }
    if (status == WEIR_OK && !b->missing)
        weiri_slot_advance(b->x->host, b->slot, 0);
    return status;
}

weir_status weiri_bundles_look(weiri_bundles *b, int *moved, int *ready)
{
    weir_status status = b->x->place == 0 ? bundle_lead(b, moved) : WEIR_OK;
    *ready = weir_load_acquire(&b->slot->flag.value) >= weiri_flag(b->x->host->epoch, 1);
    return status;
}

weir_status weiri_bundles_idle(const weiri_bundles *b, weiri_waiter *waiter)
{
    const weiri_internode *internode = b->x->internode;
    weir_comm *host = b->x->host->comm;
    int m = 0;
    if (b->x->place != 0)
        return weiri_comm_idle(host, waiter, &b->slot->flag.value, weiri_flag(b->x->host->epoch, 1),
                               0, b->x->phase);
    while (m == internode->node || b->begins[m] != NOT_HEARD)
        m++;
    int from = internode->nodes[m].ranks[0];
    const weiri_internode_peer *peer = &internode->peers[from];
    return weiri_comm_idle_for(host, waiter, &peer->words->arrived, peer->taken + 1, from,
                               b->x->phase);
}

/* Finds this rank's blocks in one node's bundle. */
static void read_bundle(const weiri_bundles *b, const weiri_node *other, const uint64_t *part,
                        weiri_block_info *blocks)
{
    int count = b->x->internode->nodes[b->x->internode->node].count;
    for (int place = 0; place < other->count; place++) {
        const char *data = (const char *)(part + count);
        for (int i = 0; i < b->x->place; i++)
            data += bundled_bytes(part[i]);
        uint64_t word = part[b->x->place];
        blocks[other->ranks[place]] =
            (weiri_block_info){1, (size_t)(word & ~WEIRI_APART), word & WEIRI_APART ? NULL : data};
        part = part_next(part, count);
    }
}

void weiri_bundles_read(const weiri_bundles *b, weiri_block_info *blocks)
{
    const weiri_internode *internode = b->x->internode;
    for (int m = 0; m < internode->nnodes; m++) {
        const weiri_node *other = &internode->nodes[m];
        if (m == internode->node)
            continue;
        for (int place = 0; place < other->count; place++)
            blocks[other->ranks[place]] = (weiri_block_info){0, 0, NULL};
        if (b->begins[m])
            read_bundle(b, other, words_at(b->slot->data + b->begins[m]), blocks);
    }
}

void weiri_bundles_end(const weiri_bundles *b)
{
    weiri_coll_end(b->x->host);
}
