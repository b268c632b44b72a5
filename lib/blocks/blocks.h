/*
 * Transfers of blocks: what an object holds, and a call after its arguments have been resolved.
 *
 * Each rank has an array of tags in memory that its peers map: the word of source rank s and slot k
 * is at s * slots + k. Only that source writes it, with release after its copies; the owner reads
 * it with acquire.
 */
#ifndef WEIR_BLOCKS_BLOCKS_H
#define WEIR_BLOCKS_BLOCKS_H

#include "comm/mem.h"
#include <weir/blocks.h>

/* What a rank knows about the pool and the tags of one rank, itself included. */
typedef struct blocks_peer {
    char *pool;                              /* mapped here; NULL: only the kernel can copy */
    uint64_t *tags;                          /* NULL: the rank is on another node */
    uint64_t bytes;                          /* of the pool */
    uint64_t address;                        /* of the pool in its owner's process */
    weiri_desc desc;                         /* of the pool; generation 0: unregistered memory */
    weir_mem *imported_pool, *imported_tags; /* NULL: none */
} blocks_peer;

struct weir_blocks {
    weir_comm *comm;
    weir_mem *pool, *tags; /* tags is owned */
    int slots;
    blocks_peer *peers; /* one for each rank */
};

/* One call. Ranks are those of the communicator. */
typedef struct blocks_call {
    const char *function; /* "weir_blocks_put" */
    weir_blocks *blocks;
    weir_blocks_args args;
    int source, destination; /* ranks */
    size_t words;            /* of an entry */
    uint64_t repetitions;    /* of the list */
} blocks_call;

typedef struct blocks_entry {
    uint64_t source, destination, bytes;
} blocks_entry;

/* Returns entry e as it stands in the list. */
static inline blocks_entry blocks_entry_at(const blocks_call *call, size_t e)
{
    const uint64_t *words = call->args.list + e * call->words;
    return (blocks_entry){words[0], words[1], call->words == 2 ? call->args.block_bytes : words[2]};
}

/* Returns what repetition r adds to the offsets of every entry. */
static inline blocks_entry blocks_shift(const blocks_call *call, uint64_t r)
{
    blocks_entry shift = {0, 0, 0};
    for (int d = call->args.ndims - 1; d >= 0; d--) {
        const weir_blocks_dim *dim = &call->args.dims[d];
        const uint64_t index = r % dim->count;
        shift.source += index * dim->source_stride;
        shift.destination += index * dim->destination_stride;
        r /= dim->count;
    }
    return shift;
}

/* Checks all entries: bounds, and overlapping destinations. *bytes becomes the number of bytes to
 * copy. WEIR_ERR_INVALID names the entries; WEIR_ERR_NO_MEMORY. Local. */
weir_status weiri_blocks_check(const blocks_call *call, uint64_t *bytes);
/* Copies all blocks, which have been checked: by stores and loads, if both pools are mapped here,
 * else by the kernel. bytes is their sum, not 0. Blocking. */
weir_status weiri_blocks_copy(const blocks_call *call, uint64_t bytes);

#endif
