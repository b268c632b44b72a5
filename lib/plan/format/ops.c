/* The table of operations, names in files and messages, the append function of all lists, and
 * the public accessors of a plan. */
#include "plan/format/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const weiri_plan_trait weiri_plan_traits[WEIRI_PLAN_KINDS] = {
#define TRAIT(symbol, name, mode, packets, channels, places)                                       \
    [WEIRI_PLAN_##symbol##                                                                         \
        _OP] = {name, WEIRI_PLAN_##mode, WEIRI_PLAN_PACKETS_##packets, channels, places},
    WEIRI_PLAN_OP_MAP(TRAIT)
#undef TRAIT
};

const char weiri_plan_buffer_letters[WEIR_PLAN_BUFFERS] = {'i', 'o', 's'};

const char *weiri_plan_channel_name(weiri_plan_channel type)
{
    static const char *const names[] = {"memory", "port", "switch", "none"};
    return names[type];
}

int weiri_plan_gpu_has_packets(const weiri_plan_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->nops; i++)
        if (weiri_plan_traits[gpu->ops[i].kind].packets)
            return 1;
    return 0;
}

const char *weiri_plan_where(const weir_plan *plan, int rank, uint32_t block, uint32_t op,
                             char *text)
{
    size_t room = WEIRI_PLAN_WHERE_BYTES;
    int at = snprintf(text, room, "%.160s", plan->file);
    if (rank < 0 || rank >= plan->nranks)
        return text;
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    at += snprintf(text + at, room - (size_t)at, ": rank %d", rank);
    if (block >= gpu->nblocks)
        return text;
    const weiri_plan_block *in = &gpu->blocks[block];
    at += snprintf(text + at, room - (size_t)at, ", thread block %u", in->id);
    if (op < in->nops)
        snprintf(text + at, room - (size_t)at, ", op %u (%s)", op,
                 weiri_plan_kind_name(gpu->ops[in->first_op + op].kind));
    return text;
}

void *weiri_plan_append(void *list, uint32_t *count, size_t element_bytes)
{
    char *items;
    memcpy(&items, list, sizeof items);
    if ((*count & (*count - 1)) == 0) {
        items = realloc(items, (*count ? 2 * (size_t)*count : 1) * element_bytes);
        if (!items)
            return NULL;
        memcpy(list, &items, sizeof items);
    }
    return memset(items + (*count)++ * element_bytes, 0, element_bytes);
}

void weir_plan_free(weir_plan *plan)
{
    if (!plan)
        return;
    for (int rank = 0; plan->gpus && rank < plan->nranks; rank++) {
        weiri_plan_gpu *gpu = &plan->gpus[rank];
        free(gpu->links[0]);
        free(gpu->links[1]);
        free(gpu->switches);
        free(gpu->remotes);
        free(gpu->semaphores);
        free(gpu->blocks);
        free(gpu->ops);
        free(gpu->refs);
        free(gpu->ids);
    }
    free(plan->gpus);
    free(plan->proof);
    free(plan->name);
    free(plan->file);
    free(plan->collective_name);
    free(plan);
}

const char *weir_plan_name(const weir_plan *plan)
{
    return plan->name;
}

const char *weir_plan_collective(const weir_plan *plan)
{
    return plan->collective_name;
}

int weir_plan_nranks(const weir_plan *plan)
{
    return plan->nranks;
}

int weir_plan_in_place(const weir_plan *plan)
{
    return plan->in_place;
}

void weir_plan_range(const weir_plan *plan, uint64_t *min_bytes, uint64_t *max_bytes)
{
    *min_bytes = plan->min_bytes;
    *max_bytes = plan->max_bytes;
}
