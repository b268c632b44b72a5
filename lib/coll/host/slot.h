/*
 * Publishing data in slots. The writer copies chunk by chunk and stores the flag with release after
 * each chunk, so that readers follow while it is still writing. Up to WEIRI_INLINE_BYTES are in the
 * flag's own cache line.
 */
#ifndef WEIR_COLL_HOST_SLOT_H
#define WEIR_COLL_HOST_SLOT_H

#include "coll/coll.h"
#include "compute/copy.h"

#include <string.h>

/* A rank's slot in an epoch, and the one for its results. */
static inline weiri_slot *weiri_slot_in(const weiri_coll *coll, uint64_t epoch, int rank)
{
    return weiri_area_of(coll, epoch, rank)->slot[epoch & 1];
}

static inline weiri_slot *weiri_result_of(const weiri_coll *coll, int rank)
{
    return weiri_area_of(coll, coll->epoch, rank)->result[coll->epoch & 1];
}

/* Where bytes of an epoch begin in a slot, whose parts epochs of one parity use in rotation. */
static inline char *weiri_slot_data(const weiri_coll *coll, weiri_slot *slot, uint64_t epoch,
                                    size_t bytes)
{
    if (bytes <= WEIRI_INLINE_BYTES)
        return slot->small;
    return slot->data + weiri_rotate(coll->slot_rotation, epoch, bytes);
}

/* Waits for a flag of a peer's data. If two ranks wait for each other, the processor must not read
 * the data before the flag. If the peer may be far ahead, or there are more peers, the data have
 * probably arrived, and loads of data and flag overlap. */
static inline weir_status weiri_data_await(weiri_coll *coll, const weiri_flagged *flag,
                                           uint64_t target, int owner, const char *phase)
{
    weir_status status = weiri_flag_await(coll, flag, target, owner, phase);
    if (coll->nranks == 2 && !coll->is_one_way)
        weiri_read_no_earlier();
    return status;
}

/* Each rank calls it first in a call whose epochs begin as follows, or with coll->epoch++. */
static inline void weiri_slots_for_ahead(weiri_coll *coll)
{
    coll->slot_rotation = coll->ahead_rotation;
}

/* Begins an epoch in which this rank publishes bytes in its slot, and only the reader, or all
 * ranks, read them. It may be several epochs ahead of them, as far as the slot has parts for so
 * many bytes. */
weir_status weiri_slot_begin_ahead(weiri_coll *coll, size_t bytes, int reader);

/* As weiri_slot_begin_ahead, but short data, which have no parts, begin with weiri_coll_begin. */
static inline weir_status weiri_slot_begin(weiri_coll *coll, size_t bytes, int reader)
{
    return bytes < coll->ahead_rotation.from_bytes ? weiri_coll_begin(coll)
                                                   : weiri_slot_begin_ahead(coll, bytes, reader);
}

static inline uint64_t weiri_part_steps(size_t bytes)
{
    return (bytes + WEIRI_CHUNK_BYTES - 1) / WEIRI_CHUNK_BYTES;
}

static inline uint64_t weiri_slot_steps(size_t bytes)
{
    return bytes <= WEIRI_INLINE_BYTES ? 1 : weiri_part_steps(bytes);
}

/* Publishes that the first bytes are in the slot. */
static inline void weiri_slot_advance(const weiri_coll *coll, weiri_slot *slot, size_t bytes)
{
    weiri_flag_publish(coll, &slot->flag, weiri_flag(coll->epoch, weiri_slot_steps(bytes)));
}

/* A function of compute/copy.h. */
typedef void weiri_copy_fn(void *dst, const void *src, size_t bytes);

/* Copies bytes, at most piece_bytes, into this rank's slot and publishes them for an epoch, chunk
 * by chunk: the flag counts the chunks. */
static inline void weiri_slot_publish(const weiri_coll *coll, uint64_t epoch, const char *from,
                                      size_t bytes, size_t chunk, weiri_copy_fn *copy)
{
    weiri_slot *slot = weiri_slot_in(coll, epoch, coll->rank);
    if (bytes <= WEIRI_INLINE_BYTES) {
        memcpy(slot->small, from, bytes);
        weiri_flag_publish(coll, &slot->flag, weiri_flag(epoch, 1));
        return;
    }
    char *to = weiri_slot_data(coll, slot, epoch, bytes);
    uint64_t flag = weiri_flag(epoch, 0);
    for (size_t at = 0; at < bytes; at += chunk) {
        copy(to + at, from + at, bytes - at < chunk ? bytes - at : chunk);
        weiri_flag_publish(coll, &slot->flag, ++flag);
    }
}

/* This rank's slot in the current epoch, or a peer's. */
static inline weiri_slot *weiri_slot_of(const weiri_coll *coll, int rank)
{
    return weiri_slot_in(coll, coll->epoch, rank);
}

/* Waits until the first needed bytes are in the owner's slot. */
static inline weir_status weiri_slot_await(weiri_coll *coll, const weiri_slot *slot, int owner,
                                           size_t needed, const char *phase)
{
    return weiri_data_await(coll, &slot->flag, weiri_flag(coll->epoch, weiri_slot_steps(needed)),
                            owner, phase);
}

/* Points coll->sources to offset at of every rank's slot, which holds total bytes, as soon as the
 * bytes before end have arrived. own replaces this rank's slot; NULL: its slot,
 * which it has published. */
static inline weir_status weiri_slots_await(weiri_coll *coll, const char *own, size_t at,
                                            size_t end, size_t total, const char *phase)
{
    for (int rank = 0; rank < coll->nranks; rank++) {
        weiri_slot *slot = weiri_slot_of(coll, rank);
        coll->sources[rank] = weiri_slot_data(coll, slot, coll->epoch, total) + at;
        if (rank == coll->rank) {
            coll->sources[rank] = own ? own + at : coll->sources[rank];
            continue;
        }
        weir_status status = weiri_slot_await(coll, slot, rank, end, phase);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* Parts of a slot that have one reader each. Their progress is in the flag of the message to that
 * reader (weiri_message), which no other rank polls. */

/* The place in every rank's slot of a part that begins so many bytes after the start of the data.
 * The two parts of two ranks have the same place, because the ranks trade their slots. */
static inline size_t weiri_part_place(const weiri_coll *coll, size_t from)
{
    return coll->nranks == 2 ? 0 : from;
}

/* Copies a reader's part to its place in this rank's slot and publishes it; an empty one, too,
 * because the reader concludes from it what this rank has finished. */
static inline void weiri_slot_publish_to(const weiri_coll *coll, uint64_t epoch, int reader,
                                         char *to, const char *from, size_t bytes)
{
    weiri_message *message = weiri_message_of(coll, epoch, coll->rank, reader);
    uint64_t flag = weiri_flag(epoch, 0);
    if (bytes == 0)
        weiri_flag_publish(coll, &message->flag, flag);
    for (size_t at = 0; at < bytes; at += WEIRI_CHUNK_BYTES) {
        weiri_copy_to_peer(to + at, from + at,
                           bytes - at < WEIRI_CHUNK_BYTES ? bytes - at : WEIRI_CHUNK_BYTES);
        weiri_flag_publish(coll, &message->flag, ++flag);
    }
}

/* Points coll->sources to own and to offset at of every other rank's slot, which rotates by so many
 * bytes, as soon as the bytes of this rank's part before end have arrived there. */
static inline weir_status weiri_slots_await_parts(weiri_coll *coll, const char *own, size_t at,
                                                  size_t rotated, size_t end, const char *phase)
{
    for (int rank = 0; rank < coll->nranks; rank++) {
        coll->sources[rank] = own;
        if (rank == coll->rank)
            continue;
        weiri_slot *slot = weiri_slot_of(coll, rank);
        coll->sources[rank] = weiri_slot_data(coll, slot, coll->epoch, rotated) + at;
        weir_status status =
            weiri_data_await(coll, &weiri_coll_message(coll, rank, coll->rank)->flag,
                             weiri_flag(coll->epoch, weiri_part_steps(end)), rank, phase);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* Reduces coll->sources, which are slots of peers and this rank's data. If slots are far away
 * (weiri_copy_from_peers_is_slow), works block by block while the next block is requested. (slot.c)
 */
void weiri_slots_combine(const weiri_coll *coll, const weiri_task *task, weiri_reduce_fn reduce,
                         char *out, size_t bytes);
/* Reduces the total bytes of every rank's slot as they arrive. own replaces this rank's slot. */
weir_status weiri_slots_reduce(weiri_coll *coll, const weiri_task *task, const char *own,
                               size_t total, char *out, const char *phase);

/* What copies chunks from slots into an output of so many bytes, which was not read before. */
static inline weiri_copy_fn *weiri_slot_copy(const weiri_coll *coll, size_t output_bytes)
{
    return output_bytes >= coll->streaming_from_bytes ? weiri_copy_streaming : weiri_copy_from_peer;
}

/* Whether results of a reduction are stored past the caches: with the buffers of all ranks they
 * exceed the last-level cache. In place this core has just read the lines. */
static inline int weiri_results_stream(const weiri_coll *coll, const weiri_task *task)
{
    return task->call->in != task->call->out && task->count_bytes >= coll->streaming_from_bytes;
}

/* What copies results of a reduction from slots into the output. */
static inline weiri_copy_fn *weiri_result_copy(const weiri_coll *coll, const weiri_task *task)
{
    if (weiri_results_stream(coll, task))
        return weiri_copy_streaming;
    return weiri_copies_unfetched(2 * task->count_bytes) ? weiri_copy_unfetched
                                                         : weiri_copy_from_peer;
}

/* Copies total bytes of the owner's slot, which publishes them in such chunks, as they arrive. */
static inline weir_status weiri_slot_follow(weiri_coll *coll, int owner, void *to, size_t total,
                                            size_t chunk, weiri_copy_fn *copy, const char *phase)
{
    weiri_slot *slot = weiri_slot_of(coll, owner);
    const char *data = weiri_slot_data(coll, slot, coll->epoch, total);
    uint64_t flag = weiri_flag(coll->epoch, 0);
    for (size_t at = 0; at < total; at += chunk) {
        size_t bytes = total - at < chunk ? total - at : chunk;
        weir_status status = weiri_data_await(coll, &slot->flag, ++flag, owner, phase);
        if (status != WEIR_OK)
            return status;
        copy((char *)to + at, data + at, bytes);
    }
    return WEIR_OK;
}

/* The length of the piece that begins at done in a buffer of so many bytes. */
static inline size_t weiri_piece_at(const weiri_coll *coll, size_t bytes, size_t done)
{
    size_t left = bytes > done ? bytes - done : 0;
    return left < coll->piece_bytes ? left : coll->piece_bytes;
}

#endif
