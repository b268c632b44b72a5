/* Reductions straight out of the ranks' slots, as their data arrive. */
#include "coll/host/slot.h"

enum { SMALLEST_BLOCK_BYTES = 512, LARGEST_BLOCK_BYTES = 2048 };

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

void weiri_slots_combine(const weiri_coll *coll, weiri_reduce_fn reduce, char *out, size_t bytes)
{
    const void *parts[WEIRI_RANKS_MAX];
    size_t block = slots_block_bytes(coll);
    if (bytes <= SMALLEST_BLOCK_BYTES || !weiri_copy_from_peers_is_slow()) {
        reduce(out, coll->sources, coll->nranks, bytes / coll->element_bytes,
               (uint64_t)coll->nranks, 0);
        return;
    }
    slots_prefetch(coll, coll->sources, 0, bytes < block ? bytes : block);
    for (size_t at = 0; at < bytes; at += block) {
        size_t length = bytes - at < block ? bytes - at : block;
        size_t left = bytes - at - length;
        slots_prefetch(coll, coll->sources, at + length, left < block ? left : block);
        for (int rank = 0; rank < coll->nranks; rank++)
            parts[rank] = (const char *)coll->sources[rank] + at;
        reduce(out + at, parts, coll->nranks, length / coll->element_bytes,
               (uint64_t)coll->nranks, 0);
    }
}

weir_status weiri_slots_reduce(weiri_coll *coll, const weir_call *call, const char *own,
                               size_t total, char *out, const char *phase)
{
    weiri_reduce_fn reduce = weiri_reduce_get(call->dtype, call->op);
    for (size_t at = 0; at < total; at += WEIRI_CHUNK_BYTES) {
        size_t bytes = total - at < WEIRI_CHUNK_BYTES ? total - at : WEIRI_CHUNK_BYTES;
        weir_status status = weiri_slots_await(coll, own, at, at + bytes, total, phase);
        if (status != WEIR_OK)
            return status;
        weiri_slots_combine(coll, reduce, out + at, bytes);
    }
    return WEIR_OK;
}
