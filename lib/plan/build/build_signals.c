/*
 * Whether each signal of a builder's program is one that the other end of its channel waits
 * for, as far as counting tells: inside and outside of pipelines, for each channel. What the
 * counts leave open is the checker's.
 */
#include "plan/build/build.h"

#include <stdlib.h>

enum { SIGNALS, WAITS, SIDES };

/* For each rank the signals and the waits on each of its channels of a type; the second half
 * of a list is of those in pipelines. */
typedef struct tally {
    weiri_plan_channel type;
    uint32_t *counts[WEIRI_PLAN_RANKS_MAX][SIDES];
} tally;

static int side_of(weiri_plan_kind kind)
{
    switch (kind) {
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
    case WEIRI_PLAN_PUT_SIGNAL_OP:
    case WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP:
        return SIGNALS;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
        return WAITS;
    default:
        return SIDES;
    }
}

static void count_block(const weiri_build_block *block, uint32_t channels,
                        weiri_plan_channel type, uint32_t **counts)
{
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_build_op *op = &block->ops[i];
        int side = side_of(op->kind);
        for (uint32_t id = 0; side < SIDES && op->channel == type && id < op->nids; id++)
            counts[side][op->ids[id] + (op->loop ? channels : 0)]++;
    }
}

/* Which of the peer's channels is the other end of a rank's; their count: none. */
static uint32_t other_end(const weir_plan_builder *builder, int rank, weiri_plan_channel type,
                          uint32_t index)
{
    const weiri_build_list *own = &builder->ranks[rank].peers[type];
    const weiri_build_list *theirs = &builder->ranks[own->items[index]].peers[type];
    uint32_t ordinal = 0, at = 0;
    for (uint32_t i = 0; i < index; i++)
        ordinal += own->items[i] == own->items[index];
    for (; at < theirs->count; at++)
        if (theirs->items[at] == (uint32_t)rank && ordinal-- == 0)
            break;
    return at;
}

/* What a rank sends on a channel against what its other end takes, and, where there is no
 * other end, what the rank itself would wait for. */
static void compare_ends(weir_plan_builder *builder, const tally *all, int rank, uint32_t index,
                         int in_pipelines)
{
    const weiri_build_list *peers = &builder->ranks[rank].peers[all->type];
    int peer = (int)peers->items[index];
    uint32_t theirs = builder->ranks[peer].peers[all->type].count;
    uint32_t end = other_end(builder, rank, all->type, index);
    uint32_t at = index + (in_pipelines ? peers->count : 0);
    uint32_t there = end + (in_pipelines ? theirs : 0);
    uint32_t sent = all->counts[rank][SIGNALS][at];
    uint32_t taken = end < theirs ? all->counts[peer][WAITS][there] : 0;
    const char *where = in_pipelines ? " in pipelines" : "";
    if (sent != taken)
        weiri_build_refuse(builder, "weir_plan_build", rank,
                           "%u signals on its %s channel %u to rank %d%s, which has %u waits at "
                           "the other end; each signal needs its wait",
                           sent, weiri_plan_channel_name(all->type), index, peer, where, taken);
    if (end == theirs && all->counts[rank][WAITS][at])
        weiri_build_refuse(builder, "weir_plan_build", rank,
                           "it waits on its %s channel %u to rank %d%s, which has made no other "
                           "end of it",
                           weiri_plan_channel_name(all->type), index, peer, where);
}

static void count_all(weir_plan_builder *builder, tally *all)
{
    for (int rank = 0; rank < builder->spec.nranks; rank++) {
        const weiri_build_rank *from = &builder->ranks[rank];
        uint32_t channels = from->peers[all->type].count;
        for (int side = 0; side < SIDES; side++) {
            all->counts[rank][side] = calloc(2 * (size_t)channels + 1, sizeof(uint32_t));
            if (!all->counts[rank][side]) {
                weiri_build_no_memory(builder);
                return;
            }
        }
        for (uint32_t i = 0; i < from->nblocks; i++)
            count_block(&from->blocks[i], channels, all->type, all->counts[rank]);
    }
}

void weiri_build_check_signals(weir_plan_builder *builder, weiri_plan_channel type)
{
    tally all = {.type = type};
    if (builder->status == WEIR_OK)
        count_all(builder, &all);
    for (int rank = 0; rank < builder->spec.nranks && builder->status == WEIR_OK; rank++)
        for (uint32_t i = 0; i < builder->ranks[rank].peers[type].count; i++)
            for (int in_pipelines = 0; in_pipelines <= 1; in_pipelines++)
                compare_ends(builder, &all, rank, i, in_pipelines);
    for (int rank = 0; rank < builder->spec.nranks; rank++)
        for (int side = 0; side < SIDES; side++)
            free(all.counts[rank][side]);
}
