/* The messages of transfers between nodes: how they are made, sent, taken and answered. See net.h.
 */
#include "blocks/net.h"

#include <weir/target.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static blocks_list entries_list(const void *entries, uint64_t count)
{
    return (blocks_list){
        .entries = entries, .count = count, .repetitions = 1, .words = BLOCKS_NET_WORDS};
}

static size_t slot_of(uint64_t message)
{
    return (size_t)(message % BLOCKS_NET_SLOTS);
}

static char *own_pool(const struct blocks_net *n)
{
    return n->blocks->peers[n->blocks->comm->rank].pool;
}

/* ----------------------------------------------------------------- sending */

static weir_status peer_signal(const struct blocks_net *n, const blocks_net_peer *p, size_t word,
                               uint64_t value)
{
    const uint64_t to = (uint64_t)n->blocks->comm->rank * sizeof(blocks_net_words) + word;
    return n->internode->net->ops->signal(p->endpoint, &p->key, to, value);
}

/* Sends a message. A failure is the endpoint's, which waits notice. */
static void message_post(const struct blocks_net *n, blocks_net_peer *p, const char *message)
{
    const size_t bytes = (size_t)(blocks_net_data(message) - message) +
                         ((const blocks_net_head *)(const void *)message)->bytes;
    weiri_net_lock(n->internode->net);
    if (n->internode->net->ops->put(p->endpoint, n->mem, (uint64_t)(message - n->memory), &p->key,
                                    p->inbox_there + slot_of(p->sent) * n->slot_bytes,
                                    bytes) == WEIR_OK)
        peer_signal(n, p, offsetof(blocks_net_words, arrived), p->sent + 1);
    weiri_net_unlock(n->internode->net);
    p->sent++;
}

/* How many more bytes of data a message can have, with one more entry. */
static uint64_t message_room(const struct blocks_net *n, const blocks_net_head *head)
{
    const size_t used = sizeof *head + WEIR_LINE_BYTES +
                        (head->count + 1) * BLOCKS_NET_WORDS * sizeof(uint64_t) + head->bytes;
    return used < n->slot_bytes ? n->slot_bytes - used : 0;
}

/* Fills a message with the next pieces: entries are for the receiver, gathered for this rank. */
static void message_fill(const struct blocks_net *n, blocks_transfer *t, blocks_net_head *head,
                         uint64_t *gathered)
{
    enum { ALIGN = 16, SPLIT_SHARE = 4 };
    uint64_t *entry = (uint64_t *)(head + 1), room;
    const int is_request = t->kind == BLOCKS_TRANSFER_GET;
    while (t->at.repetition < t->list.repetitions && head->count < BLOCKS_NET_PIECES &&
           (room = message_room(n, head)) > 0) {
        const blocks_entry block = blocks_entry_at(&t->list, t->at.entry);
        const blocks_entry shift = blocks_shift(&t->list, t->at.repetition);
        const uint64_t source = block.source + shift.source + t->at.done;
        uint64_t bytes = block.bytes - t->at.done;
        if (!is_request && bytes > room && head->count && room < n->slot_bytes / SPLIT_SHARE)
            return; /* few blocks are cut */
        if (!is_request && bytes > room)
            bytes = room;
        entry[0] = is_request ? source : head->bytes;
        entry[1] = block.destination + shift.destination + t->at.done;
        entry[2] = bytes;
        gathered[0] = source, gathered[1] = head->bytes, gathered[2] = bytes;
        entry += BLOCKS_NET_WORDS, gathered += BLOCKS_NET_WORDS;
        head->count++;
        head->bytes += is_request ? 0 : (bytes + ALIGN - 1) / ALIGN * ALIGN;
        blocks_advance(&t->list, &t->at, bytes);
    }
}

/* Makes and sends the next message of a transfer, for which there is a slot. */
static void message_send(const struct blocks_net *n, blocks_net_peer *p, blocks_transfer *t)
{
    char *message = p->outbox + slot_of(p->sent) * blocks_net_stride(n);
    blocks_net_head *head = (blocks_net_head *)(void *)message;
    uint64_t *gathered = (uint64_t *)(void *)(message + n->slot_bytes);
    const int is_request = t->kind == BLOCKS_TRANSFER_GET;
    *head = (blocks_net_head){.kind = is_request ? BLOCKS_NET_REQUEST : BLOCKS_NET_DATA,
                              .number = t->number};
    message_fill(n, t, head, gathered);
    t->last = p->sent + 1;
    t->is_sent = t->at.repetition == t->list.repetitions;
    head->is_last = (uint64_t)t->is_sent;
    if (is_request)
        t->unanswered++;
    else if (t->is_sent && t->tag)
        head->slot = t->slot, head->tag = t->tag;
    const blocks_list list = entries_list(gathered, is_request ? 0 : head->count);
    weiri_blocks_copy_list(&list, blocks_net_data(message), own_pool(n), 0);
    message_post(n, p, message);
}

static int send_messages(const struct blocks_net *n, blocks_net_peer *p)
{
    int moved = 0;
    for (blocks_transfer *t = p->first; t; t = t->next)
        for (; !t->is_sent && p->sent - weir_load_acquire(&p->words->taken) < BLOCKS_NET_SLOTS;
             moved = 1)
            message_send(n, p, t);
    return moved;
}

/* --------------------------------------------------------------- receiving */

/* Whether the entries of a message are within this rank's pool, as the sender has checked. */
static int message_is_inside(const struct blocks_net *n, const blocks_net_head *head)
{
    const weir_blocks *b = n->blocks;
    const uint64_t pool = b->peers[b->comm->rank].bytes, *entry = (const uint64_t *)(head + 1);
    if (head->count > BLOCKS_NET_PIECES || head->slot >= (uint64_t)b->slots)
        return 0;
    for (uint64_t e = 0; e < head->count; e++, entry += BLOCKS_NET_WORDS)
        if (blocks_is_outside(entry[head->kind == BLOCKS_NET_DATA], entry[2], 0, pool))
            return 0;
    return 1;
}

/* The caller has excluded services. */
static void transfer_append(blocks_net_peer *p, blocks_transfer *t)
{
    blocks_transfer **end = &p->first;
    while (*end)
        end = &(*end)->next;
    *end = t;
    blocks_advance(&t->list, &t->at, 0);
}

/* Returns 0 if there is no memory. */
static int request_take(blocks_net_peer *p, const blocks_net_head *head)
{
    const size_t bytes = head->count * BLOCKS_NET_WORDS * sizeof(uint64_t);
    blocks_transfer *t = malloc(sizeof *t + bytes);
    if (!t)
        return 0;
    *t = (blocks_transfer){.kind = BLOCKS_TRANSFER_ANSWER,
                           .list = entries_list(memcpy(t + 1, head + 1, bytes), head->count),
                           .number = head->number};
    transfer_append(p, t);
    return 1;
}

/* Scatters the data of a message, and then stores its tag. */
static void message_scatter(const struct blocks_net *n, const blocks_net_peer *p,
                            const blocks_net_head *head, const blocks_list *list)
{
    const weir_blocks *b = n->blocks;
    weiri_blocks_copy_list(list, own_pool(n), blocks_net_data((const char *)head), 0);
    if (head->tag)
        weir_store_release((uint64_t *)weir_mem_pointer(b->tags) +
                               (size_t)p->rank * (size_t)b->slots + head->slot,
                           head->tag);
}

/* Acts on a message that has arrived: takes a request, or scatters data. */
static void message_take(const struct blocks_net *n, blocks_net_peer *p, blocks_net_head *head)
{
    const int has_pool = !weiri_blocks_pool_is_freed(n->blocks, n->blocks->comm->rank);
    blocks_list list = entries_list(head + 1, head->count);
    int is_good = has_pool && message_is_inside(n, head);
    if (is_good && head->kind == BLOCKS_NET_REQUEST)
        is_good = request_take(p, head);
    if (!is_good || head->kind == BLOCKS_NET_REQUEST)
        list.count = head->tag = 0;
    if (!is_good) {
        weiri_net_lock(n->internode->net);
        peer_signal(n, p, offsetof(blocks_net_words, refused),
                    has_pool ? BLOCKS_NET_REFUSED : BLOCKS_NET_FREED);
        weiri_net_unlock(n->internode->net);
    }
    message_scatter(n, p, head, &list);
}

/* Counts a message that was taken, and frees its slot. */
static void message_end(const struct blocks_net *n, blocks_net_peer *p, const blocks_net_head *head)
{
    if (head->kind == BLOCKS_NET_DATA && head->number && head->is_last)
        for (blocks_transfer *t = p->first; t; t = t->next)
            if (t->kind == BLOCKS_TRANSFER_GET && t->number == head->number)
                t->unanswered--;
    p->taken++;
    if (!head->is_last && p->taken - p->credited < BLOCKS_NET_SLOTS / 2)
        return; /* the peer has slots left, and would only wake for one message */
    p->credited = p->taken;
    weiri_net_lock(n->internode->net);
    peer_signal(n, p, offsetof(blocks_net_words, taken), p->taken);
    weiri_net_unlock(n->internode->net);
}

static int take_messages(const struct blocks_net *n, blocks_net_peer *p)
{
    int moved = 0;
    for (; p->taken < weir_load_acquire(&p->words->arrived); moved = 1) {
        char *message = p->inbox + slot_of(p->taken) * n->slot_bytes;
        message_take(n, p, (blocks_net_head *)(void *)message);
        message_end(n, p, (const blocks_net_head *)(void *)message);
    }
    return moved;
}

/* -------------------------------------------------------------------- ends */

/* Whether a transfer has nothing left to do. */
static int transfer_has_ended(const blocks_net_peer *p, const blocks_transfer *t)
{
    if (!t->is_sent || t->unanswered)
        return 0;
    return t->kind == BLOCKS_TRANSFER_PUT ? weir_load_acquire(&p->words->taken) >= t->last
                                          : p->sent >= t->last;
}

static int end_transfers(blocks_net_peer *p)
{
    int moved = 0;
    for (blocks_transfer **at = &p->first; *at;) {
        blocks_transfer *t = *at;
        if (!transfer_has_ended(p, t)) {
            at = &t->next;
            continue;
        }
        moved = 1;
        if (t->kind == BLOCKS_TRANSFER_GET && t->tag) { /* all is in place: its tag is put */
            t->kind = BLOCKS_TRANSFER_PUT;
            t->number = 0;
            t->is_sent = 0;
            continue;
        }
        *at = t->next;
        if (t->kind == BLOCKS_TRANSFER_ANSWER)
            free(t);
        else
            __atomic_store_n(&t->is_done, 1, __ATOMIC_RELEASE);
    }
    return moved;
}

void weiri_blocks_net_append(struct blocks_net *n, blocks_net_peer *p, blocks_transfer *t)
{
    weiri_internode_serve_begin(n->internode);
    t->number = t->kind == BLOCKS_TRANSFER_GET ? ++n->gets : 0;
    transfer_append(p, t);
    weiri_internode_serve_end(n->internode);
}

void weiri_blocks_net_serve(void *net)
{
    const struct blocks_net *n = net;
    for (int rank = 0; rank < n->blocks->comm->nranks; rank++) {
        blocks_net_peer *p = &n->peers[rank];
        if (!p->endpoint)
            continue;
        while (take_messages(n, p) | send_messages(n, p) | end_transfers(p))
            ;
    }
}
