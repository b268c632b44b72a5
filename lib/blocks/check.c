/*
 * Checks of a list before anything is copied. Bounds take one pass. Overlaps of destinations are
 * found in one of three ways, the first that applies:
 *
 *   - destinations ascend: none overlap;
 *   - all begin and end at multiples of a granule, and the range that they span has few of them:
 *     each block sets its granules' bits in a map, and meets a bit that is set;
 *   - otherwise, by sorting.
 *
 * A block is an entry in one repetition of the list.
 */
#include "blocks/blocks.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MAP_LEAST_BYTES = 1 << 16, /* a map that costs nothing worth mentioning */
    MAP_SHARE = 64,            /* a larger one: so small a part of the bytes that are moved */
    NAME_BYTES = 64,
};

/* What the pass over the list finds. */
typedef struct blocks_extent {
    uint64_t low, high, total; /* the bytes of destinations: first, last + 1, and their sum */
    uint64_t bits;             /* all offsets and lengths of destinations, or'ed */
    int ascends;
} blocks_extent;

static const char *block_name(const blocks_call *call, size_t e, uint64_t r, char *text)
{
    if (call->list.repetitions == 1)
        snprintf(text, NAME_BYTES, "entry %zu", e);
    else
        snprintf(text, NAME_BYTES, "entry %zu in repetition %" PRIu64, e, r);
    return text;
}

/* -------------------------------------------------------------------- pools */

int weiri_blocks_pool_is_freed(const weir_blocks *b, int rank)
{
    const weiri_desc *desc = &b->peers[rank].desc;
    const int place = weiri_comm_node_rank(b->comm, rank);
    const uint64_t *generation =
        &weiri_comm_node(b->comm)->peers[place].page->directory[desc->region].generation;
    return desc->generation && weir_load_acquire(generation) != desc->generation;
}

weir_status weiri_blocks_fail_freed(const char *function, int rank)
{
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: rank %d has freed its pool; it must call weir_blocks_free before",
                      function, rank);
}

/* ------------------------------------------------------------------- bounds */

weir_status weiri_blocks_fail_outside(const char *function, uint64_t e, int is_source, int rank,
                                      uint64_t offset, uint64_t bytes, uint64_t reach,
                                      uint64_t pool_bytes)
{
    char moved[64] = "";
    if (reach)
        snprintf(moved, sizeof moved, " and up to %" PRIu64 " further on", reach);
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: entry %" PRIu64 ": %" PRIu64 " bytes at %s offset %" PRIu64
                      "%s are not within the %" PRIu64 " bytes of rank %d's pool",
                      function, e, bytes, is_source ? "source" : "destination", offset, moved,
                      pool_bytes, rank);
}

static weir_status fail_outside(const blocks_call *call, size_t e, int is_source)
{
    const blocks_entry entry = blocks_entry_at(&call->list, e), *reach = &call->reach;
    const int rank = is_source ? call->source : call->destination;
    return weiri_blocks_fail_outside(call->function, e, is_source, rank,
                                     is_source ? entry.source : entry.destination, entry.bytes,
                                     is_source ? reach->source : reach->destination,
                                     call->blocks->peers[rank].bytes);
}

static weir_status check_bounds(const blocks_call *call, blocks_extent *extent)
{
    const uint64_t source_bytes = call->blocks->peers[call->source].bytes;
    const uint64_t destination_bytes = call->blocks->peers[call->destination].bytes;
    blocks_extent x = {.low = UINT64_MAX, .ascends = call->list.repetitions == 1};
    const blocks_entry reach = call->reach;
    *extent = x;
    for (size_t e = 0; e < call->list.count; e++) {
        const blocks_entry entry = blocks_entry_at(&call->list, e);
        if (blocks_is_outside(entry.source, entry.bytes, reach.source, source_bytes))
            return fail_outside(call, e, 1);
        if (blocks_is_outside(entry.destination, entry.bytes, reach.destination, destination_bytes))
            return fail_outside(call, e, 0);
        if (!entry.bytes)
            continue;
        x.ascends &= entry.destination >= x.high;
        x.low = entry.destination < x.low ? entry.destination : x.low;
        if (entry.destination + entry.bytes > x.high)
            x.high = entry.destination + entry.bytes;
        x.total += entry.bytes;
        x.bits |= entry.destination | entry.bytes;
    }
    if (__builtin_mul_overflow(x.total, call->list.repetitions, &x.total))
        x.total = UINT64_MAX;
    x.high += reach.destination;
    for (int d = 0; d < call->list.ndims; d++)
        x.bits |= call->list.dims[d].destination_stride;
    *extent = x;
    return WEIR_OK;
}

/* ----------------------------------------------------------------- overlaps */

static weir_status fail_overlap(const blocks_call *call, size_t e, uint64_t r, size_t other,
                                uint64_t other_r)
{
    char one[NAME_BYTES], two[NAME_BYTES];
    const uint64_t at =
        blocks_entry_at(&call->list, e).destination + blocks_shift(&call->list, r).destination;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: %s and %s write the same bytes of rank %d's pool, near offset %" PRIu64,
                      call->function, block_name(call, other, other_r, one),
                      block_name(call, e, r, two), call->destination, at);
}

/* Finds the first block that overlaps a block which comes later. */
static weir_status find_overlap(const blocks_call *call, size_t e, uint64_t r)
{
    const blocks_entry late = blocks_entry_at(&call->list, e);
    const uint64_t at = late.destination + blocks_shift(&call->list, r).destination;
    for (uint64_t other_r = 0; other_r <= r; other_r++) {
        const uint64_t shift = blocks_shift(&call->list, other_r).destination;
        const size_t end = other_r < r ? call->list.count : e;
        for (size_t other = 0; other < end; other++) {
            const blocks_entry early = blocks_entry_at(&call->list, other);
            if (early.bytes && early.destination + shift < at + late.bytes &&
                at < early.destination + shift + early.bytes)
                return fail_overlap(call, e, r, other, other_r);
        }
    }
    return weiri_fail(WEIR_ERR_INTERNAL, "%s: the list changed during the call", call->function);
}

/* Sets bits first to end - 1. Returns 1 if one of them was set before. */
static int map_take(uint64_t *map, uint64_t first, uint64_t end)
{
    uint64_t taken = 0;
    while (first < end) {
        const uint64_t word = first / 64, from = first % 64;
        const uint64_t many = end - first < 64 - from ? end - first : 64 - from;
        const uint64_t mask = (many == 64 ? UINT64_MAX : ((uint64_t)1 << many) - 1) << from;
        taken |= map[word] & mask;
        map[word] |= mask;
        first += many;
    }
    return taken != 0;
}

static weir_status check_by_map(const blocks_call *call, const blocks_extent *x, int granule_log)
{
    const uint64_t bits = (x->high - x->low) >> granule_log;
    weir_status status = WEIR_OK;
    uint64_t *map = calloc((size_t)(bits / 64 + 1), sizeof *map);
    if (!map)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to check the list", call->function);
    for (uint64_t r = 0; r < call->list.repetitions && status == WEIR_OK; r++) {
        const uint64_t base = blocks_shift(&call->list, r).destination - x->low;
        for (size_t e = 0; e < call->list.count; e++) {
            const blocks_entry entry = blocks_entry_at(&call->list, e);
            const uint64_t first = (entry.destination + base) >> granule_log;
            if (map_take(map, first, first + (entry.bytes >> granule_log))) {
                status = find_overlap(call, e, r);
                break;
            }
        }
    }
    free(map);
    return status;
}

typedef struct sorted_block {
    uint64_t begin, end, number; /* number: in the order of copying */
} sorted_block;

static int compare_blocks(const void *a, const void *b)
{
    const sorted_block *one = a, *two = b;
    return one->begin < two->begin ? -1 : one->begin > two->begin;
}

static weir_status check_sorted(const blocks_call *call, const sorted_block *blocks, size_t count)
{
    const size_t entries = call->list.count;
    for (size_t i = 1; i < count; i++) {
        const uint64_t one = blocks[i - 1].number, two = blocks[i].number;
        const uint64_t late = one > two ? one : two, early = one > two ? two : one;
        if (blocks[i].begin < blocks[i - 1].end)
            return fail_overlap(call, late % entries, late / entries, early % entries,
                                early / entries);
    }
    return WEIR_OK;
}

static weir_status check_by_sorting(const blocks_call *call)
{
    const uint64_t most = call->list.repetitions * call->list.count;
    size_t count = 0;
    sorted_block *blocks = most > SIZE_MAX / sizeof *blocks ? NULL : malloc(most * sizeof *blocks);
    if (!blocks)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to check the list", call->function);
    for (uint64_t r = 0; r < call->list.repetitions; r++) {
        const uint64_t shift = blocks_shift(&call->list, r).destination;
        for (size_t e = 0; e < call->list.count; e++) {
            const blocks_entry entry = blocks_entry_at(&call->list, e);
            const uint64_t at = entry.destination + shift;
            if (entry.bytes)
                blocks[count++] = (sorted_block){at, at + entry.bytes, r * call->list.count + e};
        }
    }
    qsort(blocks, count, sizeof *blocks, compare_blocks);
    weir_status status = check_sorted(call, blocks, count);
    free(blocks);
    return status;
}

weir_status weiri_blocks_check(const blocks_call *call, uint64_t *bytes)
{
    blocks_extent x;
    weir_status status = check_bounds(call, &x);
    *bytes = x.total;
    if (status != WEIR_OK || x.ascends || !x.total)
        return status;
    const int granule_log = __builtin_ctzll(x.bits);
    const uint64_t map_bytes = (x.high - x.low) >> granule_log >> 3;
    /* More bytes than the range has overlap for certain, after few blocks. */
    if (map_bytes <= MAP_LEAST_BYTES || map_bytes <= x.total / MAP_SHARE ||
        x.total > x.high - x.low)
        return check_by_map(call, &x, granule_log);
    return check_by_sorting(call);
}
