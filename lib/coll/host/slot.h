/*
 * Publishing and reading through a slot: the writer copies chunk after chunk
 * and steps the flag behind each, so readers follow while it is still writing.
 * Up to WEIRI_INLINE_BYTES travel on the flag's own line.
 */
#ifndef WEIR_COLL_HOST_SLOT_H
#define WEIR_COLL_HOST_SLOT_H

#include "coll/coll.h"

#include <string.h>

static inline char *weiri_slot_data(weiri_slot *slot, size_t bytes)
{
    return bytes <= WEIRI_INLINE_BYTES ? slot->small : slot->data;
}

static inline uint64_t weiri_slot_steps(size_t bytes)
{
    return bytes <= WEIRI_INLINE_BYTES ? 1 : (bytes + WEIRI_CHUNK_BYTES - 1) / WEIRI_CHUNK_BYTES;
}

/* Tells readers that the first bytes are in the slot. */
static inline void weiri_slot_advance(const weiri_coll *coll, weiri_slot *slot, size_t bytes)
{
    weir_store_release(&slot->flag, weiri_flag(coll->epoch, weiri_slot_steps(bytes)));
}

/* Copies bytes (at most the slot's size) and publishes them for an epoch. */
static inline void weiri_slot_publish(weiri_slot *slot, uint64_t epoch, const void *from,
                                      size_t bytes)
{
    if (bytes <= WEIRI_INLINE_BYTES) {
        memcpy(slot->small, from, bytes);
        weir_store_release(&slot->flag, weiri_flag(epoch, 1));
        return;
    }
    for (size_t at = 0; at < bytes; at += WEIRI_CHUNK_BYTES) {
        size_t length = bytes - at < WEIRI_CHUNK_BYTES ? bytes - at : WEIRI_CHUNK_BYTES;
        memcpy(slot->data + at, (const char *)from + at, length);
        weir_store_release(&slot->flag, weiri_flag(epoch, at / WEIRI_CHUNK_BYTES + 1));
    }
}

/* Waits until the first needed bytes of owner's slot are there. */
static inline weir_status weiri_slot_await(weiri_coll *coll, const weiri_slot *slot, int owner,
                                           size_t needed, const char *phase)
{
    return weiri_comm_wait(coll->comm, &slot->flag,
                           weiri_flag(coll->epoch, weiri_slot_steps(needed)), owner, phase);
}

/* Copies total bytes of owner's slot as they arrive. */
static inline weir_status weiri_slot_follow(weiri_coll *coll, weiri_slot *slot, int owner, void *to,
                                            size_t total, const char *phase)
{
    const char *data = weiri_slot_data(slot, total);
    for (size_t at = 0; at < total; at += WEIRI_CHUNK_BYTES) {
        size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
        weir_status status = weiri_slot_await(coll, slot, owner, at + bytes, phase);
        if (status != WEIR_OK)
            return status;
        memcpy((char *)to + at, data + at, bytes);
    }
    return WEIR_OK;
}

/* Bytes of the piece that begins at done, of a buffer of so many. */
static inline size_t weiri_piece_at(const weiri_coll *coll, size_t bytes, size_t done)
{
    size_t left = bytes > done ? bytes - done : 0;
    return left < coll->piece_bytes ? left : coll->piece_bytes;
}

/* This rank's slot of the current epoch, and a peer's. */
static inline weiri_slot *weiri_slot_of(const weiri_coll *coll, int rank)
{
    return coll->areas[rank].slot[coll->epoch & 1];
}

#endif
