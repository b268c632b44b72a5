/*
 * A bootstrap of a subset of ranks. Its messages are sent over the parent's bootstrap with modified
 * tags. In its collective operations the first member gathers all parts and sends the result to the
 * others.
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

static weir_status part_gather_at_first(part_boot *part, char *all, size_t bytes)
{
    weir_status status = WEIR_OK;
    for (int peer = 1; peer < part->count && status == WEIR_OK; peer++)
        status = part_recv(part, all + (size_t)peer * bytes, bytes, peer, 0);
    for (int peer = 1; peer < part->count && status == WEIR_OK; peer++)
        status = part_send(part, all, bytes * (size_t)part->count, peer, 0);
    return status;
}

static weir_status part_allgather(void *context, void *all, size_t bytes)
{
    part_boot *part = context;
    if (part->rank == 0)
        return part_gather_at_first(part, all, bytes);
    weir_status status = part_send(part, (char *)all + (size_t)part->rank * bytes, bytes, 0, 0);
    return status == WEIR_OK ? part_recv(part, all, bytes * (size_t)part->count, 0, 0) : status;
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
    static const weir_boot_ops ops = {"part",    part_allgather, part_send, part_recv,
                                      part_barrier, part_destroy, NULL};
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
