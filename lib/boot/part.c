/*
 * A bootstrap of a subset of ranks. Its messages are sent over the parent's bootstrap with modified
 * tags. Its collective operations use a binomial tree, so that a member exchanges messages with no
 * more than log2(members) others: in round k a member whose number is an odd multiple of 2^k sends
 * the parts of the 2^k members from itself on to the member 2^k below it, and the result comes back
 * the same way.
 */
#include "boot/part.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { PART_TAG = 0x50415254 }; /* "PART": combined with the caller's tags by exclusive or */

typedef struct part_boot {
    weir_boot *parent;
    int rank, count;
    int members[];
} part_boot;

static weir_status part_send(void *context, const void *data, size_t bytes, int peer, int tag)
{
    const part_boot *part = context;
    return weir_boot_send(part->parent, data, bytes, part->members[peer], tag ^ PART_TAG);
}

static weir_status part_recv(void *context, void *data, size_t bytes, int peer, int tag)
{
    const part_boot *part = context;
    return weir_boot_recv(part->parent, data, bytes, part->members[peer], tag ^ PART_TAG);
}

/* The parts of a member and of the members below it in the tree: of `step` members, fewer at the
 * end. */
static size_t part_bytes_from(const part_boot *part, int member, int step, size_t bytes)
{
    const int after = part->count - member;
    return (size_t)(step < after ? step : after) * bytes;
}

/* Receives the parts of the members below this one. Returns in *step the distance to the member
 * above it, at least the number of members if there is none. */
static weir_status part_gather(part_boot *part, char *all, size_t bytes, int *step)
{
    weir_status status = WEIR_OK;
    for (*step = 1; *step < part->count && !(part->rank & *step) && status == WEIR_OK; *step *= 2) {
        const int from = part->rank + *step;
        if (from < part->count)
            status = part_recv(part, all + (size_t)from * bytes,
                               part_bytes_from(part, from, *step, bytes), from, 0);
    }
    return status;
}

static weir_status part_allgather(void *context, void *all, size_t bytes)
{
    part_boot *part = context;
    const size_t total = bytes * (size_t)part->count;
    int step;
    weir_status status = part_gather(part, all, bytes, &step);
    if (status == WEIR_OK && step < part->count) {
        const int above = part->rank - step;
        status = part_send(part, (char *)all + (size_t)part->rank * bytes,
                           part_bytes_from(part, part->rank, step, bytes), above, 0);
        if (status == WEIR_OK)
            status = part_recv(part, all, total, above, 0);
    }
    for (step /= 2; step >= 1 && status == WEIR_OK; step /= 2)
        if (part->rank + step < part->count)
            status = part_send(part, all, total, part->rank + step, 0);
    return status;
}

static weir_status part_barrier(void *context)
{
    part_boot *part = context;
    char *all = calloc((size_t)part->count, 1);
    weir_status status = all ? part_allgather(part, all, 1)
                             : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a barrier");
    free(all);
    return status;
}

static void part_destroy(void *context)
{
    free(context);
}

weir_status weiri_boot_part_create(weir_boot *parent, const int *members, int count,
                                   weir_boot **part)
{
    static const weir_boot_ops ops = {"part",       part_allgather, part_send, part_recv,
                                      part_barrier, part_destroy,   NULL};
    part_boot *made = calloc(1, sizeof *made + (size_t)count * sizeof *made->members);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the bootstrap of %d ranks", count);
    made->parent = parent;
    made->count = count;
    made->rank = -1;
    for (int i = 0; i < count; i++) {
        made->members[i] = members[i];
        if (members[i] == weir_boot_rank(parent))
            made->rank = i;
    }
    weir_status status = weir_boot_create(&ops, made, made->rank, count, part);
    if (status != WEIR_OK)
        free(made);
    return status;
}
