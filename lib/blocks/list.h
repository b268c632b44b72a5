/* A list of blocks as plain data, and its entries, for the host and for kernels. */
#ifndef WEIR_BLOCKS_LIST_H
#define WEIR_BLOCKS_LIST_H

#include <weir/blocks.h>
#include <weir/target.h>

/* A list, and how its dimensions repeat it. */
typedef struct blocks_list {
    const uint64_t *entries;
    uint64_t count, block_bytes; /* block_bytes 0: entries have their own lengths */
    uint64_t repetitions;
    weir_blocks_dim dims[WEIR_BLOCKS_DIMS_MAX];
    int32_t ndims, words; /* words of an entry */
} blocks_list;

typedef struct blocks_entry {
    uint64_t source, destination, bytes;
} blocks_entry;

/* Returns entry e as it stands in the list. */
WEIR_FN blocks_entry blocks_entry_at(const blocks_list *list, uint64_t e)
{
    const uint64_t *words = list->entries + e * (uint64_t)list->words;
    const blocks_entry entry = {words[0], words[1],
                                list->words == 2 ? list->block_bytes : words[2]};
    return entry;
}

/* Returns what repetition r adds to the offsets of every entry. */
WEIR_FN blocks_entry blocks_shift(const blocks_list *list, uint64_t r)
{
    blocks_entry shift = {0, 0, 0};
    for (int d = list->ndims - 1; d >= 0; d--) {
        const weir_blocks_dim *dim = &list->dims[d];
        const uint64_t index = r % dim->count;
        shift.source += index * dim->source_stride;
        shift.destination += index * dim->destination_stride;
        r /= dim->count;
    }
    return shift;
}

/* The next byte of a list. */
typedef struct blocks_cursor {
    uint64_t repetition, entry, done; /* done: bytes of this block */
} blocks_cursor;

/* Moves the cursor on by bytes, and past empty blocks. */
WEIR_FN void blocks_advance(const blocks_list *list, blocks_cursor *at, uint64_t bytes)
{
    while (at->repetition < list->repetitions) {
        const uint64_t left =
            at->entry < list->count ? blocks_entry_at(list, at->entry).bytes - at->done : 0;
        if (bytes < left) {
            at->done += bytes;
            return;
        }
        bytes -= left;
        at->done = 0;
        if (++at->entry >= list->count) {
            at->entry = 0;
            at->repetition++;
        }
    }
}

/* Whether bytes at an offset, or at up to `reach` further on, exceed a pool. */
WEIR_FN int blocks_is_outside(uint64_t offset, uint64_t bytes, uint64_t reach, uint64_t pool)
{
    return bytes > pool || reach > pool - bytes || offset > pool - bytes - reach;
}

#endif
