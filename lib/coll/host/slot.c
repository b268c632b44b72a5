/* Slots: limits how far a writer may be ahead of its readers, and reduces data directly from the
 * ranks' slots while they arrive. */
#include "coll/host/slot.h"

enum { SMALLEST_BLOCK_BYTES = 512, LARGEST_BLOCK_BYTES = 2048 };

static uint64_t epochs_ahead(uint64_t parts)
{
    return 2 * parts < WEIRI_EPOCHS_AHEAD ? 2 * parts : WEIRI_EPOCHS_AHEAD;
}

/* Of two ranks with a core each, the time of a copy decides who copies unregistered memory
 * (weiri_lends_unregistered), and a reader at work would prolong it. */
static int ahead_is_timed(const weiri_coll *coll)
{
    return coll->nranks == 2 && !coll->comm->oversubscribed && weiri_copy_to_peer_is_timed();
}

static weir_status ahead_await(weiri_coll *coll, uint64_t finished, int reader)
{
    weir_status status = weiri_coll_await_done(coll, finished, reader);
    coll->ahead.done = reader == WEIRI_ALL_RANKS
                           ? coll->all_done
                           : weir_load_acquire(&coll->areas[reader].done->value);
    return status;
}

/* The epoch's part was last used a rotation ago, or before the series, in the epoch before the last
 * or earlier, and then by any rank. Like weiri_coll_begin_ahead, it waits until more than one part
 * is free. */
weir_status weiri_slot_begin_ahead(weiri_coll *coll, size_t bytes, int reader)
{
    weiri_ahead *ahead = &coll->ahead;
    const size_t part = weiri_part_bytes(bytes);
    uint64_t epoch = ++coll->epoch;
    uint64_t depth = epochs_ahead(weiri_rotated_parts(coll->slot_rotation, bytes));
    if (part != ahead->part_bytes || reader != ahead->reader)
        *ahead = (weiri_ahead){epoch, part, reader, 0};
    if (WEIRI_UNLIKELY(ahead_is_timed(coll)))
        return ahead_await(coll, epoch - 1, WEIRI_ALL_RANKS);
    uint64_t before = ahead->from + 1 < epoch ? ahead->from + 1 : epoch; /* + 2, like all here */
    if (epoch < before + depth - 1) {
        if (WEIRI_LIKELY(coll->all_done + 2 >= before))
            return WEIR_OK;
        return weiri_coll_await_done(coll, before - 2, WEIRI_ALL_RANKS);
    }
    if (WEIRI_LIKELY(ahead->done + depth >= epoch))
        return WEIR_OK;
    return ahead_await(coll, epoch - depth + depth / 2 - 1, reader);
}

/* The part of a chunk that is reduced at once while the next part of all sources is requested: both
 * fit the first-level cache. A multiple of every element size. */
static size_t slots_block_bytes(const weiri_coll *coll)
{
    size_t block = WEIRI_BLOCK_BYTES / (size_t)coll->nranks / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    if (block < SMALLEST_BLOCK_BYTES)
        return SMALLEST_BLOCK_BYTES;
    return block < LARGEST_BLOCK_BYTES ? block : LARGEST_BLOCK_BYTES;
}

static void slots_prefetch(const weiri_coll *coll, const void *const *sources, size_t at,
                           size_t bytes)
{
    for (int rank = 0; rank < coll->nranks; rank++)
        if (rank != coll->rank)
            weiri_prefetch((const char *)sources[rank] + at, bytes);
}

void weiri_slots_combine(const weiri_coll *coll, const weiri_task *task, weiri_reduce_fn reduce,
                         char *out, size_t bytes)
{
    size_t block = slots_block_bytes(coll);
    if (bytes <= SMALLEST_BLOCK_BYTES || !weiri_copy_from_peers_is_slow()) {
        reduce(out, coll->sources, coll->nranks, bytes / task->element_bytes,
               (uint64_t)coll->nranks, 0);
        return;
    }
    const void **parts = WEIRI_STACK_ARRAY(const void *, coll->nranks);
    slots_prefetch(coll, coll->sources, 0, bytes < block ? bytes : block);
    for (size_t at = 0; at < bytes; at += block) {
        size_t length = bytes - at < block ? bytes - at : block;
        size_t left = bytes - at - length;
        slots_prefetch(coll, coll->sources, at + length, left < block ? left : block);
        for (int rank = 0; rank < coll->nranks; rank++)
            parts[rank] = (const char *)coll->sources[rank] + at;
        reduce(out + at, parts, coll->nranks, length / task->element_bytes, (uint64_t)coll->nranks,
               0);
    }
}

weir_status weiri_slots_reduce(weiri_coll *coll, const weiri_task *task, const char *own,
                               size_t total, char *out, const char *phase)
{
    weiri_reduce_fn reduce = weiri_reduce_get(task->call->dtype, task->call->op);
    for (size_t at = 0; at < total; at += WEIRI_CHUNK_BYTES) {
        size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
        weir_status status = weiri_slots_await(coll, own, at, at + bytes, total, phase);
        if (status != WEIR_OK)
            return status;
        weiri_slots_combine(coll, task, reduce, out + at, bytes);
    }
    return WEIR_OK;
}
