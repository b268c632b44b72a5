/* The state of a builder that all build_*.c files share: the first failure, lists, and blocks. */
#include "plan/build/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------- failures */

void weiri_build_reject(weir_plan_builder *builder, const char *call, int rank, const char *format,
                        ...)
{
    char what[256];
    va_list arguments;
    if (builder->status != WEIR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (rank < 0)
        snprintf(builder->message, sizeof builder->message, "%s: %s", call, what);
    else
        snprintf(builder->message, sizeof builder->message, "%s: rank %d: %s", call, rank, what);
    builder->status = WEIR_ERR_INVALID;
}

void weiri_build_no_memory(weir_plan_builder *builder)
{
    if (builder->status == WEIR_OK)
        snprintf(builder->message, sizeof builder->message, "no memory for the plan");
    if (builder->status == WEIR_OK)
        builder->status = WEIR_ERR_NO_MEMORY;
}

/* ---------------------------------------------------------------------- lists */

void weiri_build_add(weir_plan_builder *builder, weiri_build_list *list, uint32_t item)
{
    if (builder->status != WEIR_OK)
        return;
    uint32_t *place = weiri_plan_append(&list->items, &list->count, sizeof item);
    if (place)
        *place = item;
    else
        weiri_build_no_memory(builder);
}

uint32_t weiri_build_find(const weiri_build_list *list, uint32_t item)
{
    uint32_t place = 0;
    while (place < list->count && list->items[place] != item)
        place++;
    return place;
}

weiri_build_block *weiri_build_block_of(weir_plan_builder *builder, int rank, uint32_t block)
{
    weiri_build_rank *in = &builder->ranks[rank];
    while (in->nblocks <= block)
        if (!weiri_plan_append(&in->blocks, &in->nblocks, sizeof *in->blocks)) {
            weiri_build_no_memory(builder);
            return NULL;
        }
    return &in->blocks[block];
}

void weiri_build_op_free(weiri_build_op *op)
{
    free(op->srcs);
    free(op->dsts);
    free(op->ids);
}
