/*
 * Checks that each channel of a builder's program has as many waits at one end as signals at the
 * other, inside and outside of pipelines. Equal counts do not prove that the program is free of
 * deadlocks; the checker (plan/check) does.
 */
#include "plan/build/build.h"

#include "base/words.h"

#include <stdlib.h>

enum { SIGNALS, WAITS, SIDES };

/* For each rank, the number of signals and of waits on each of its channels of one type; the second
 * half of a list counts those in pipelines. */
typedef struct tally {
    weiri_plan_channel type;
    uint32_t *counts[WEIRI_PLAN_RANKS_MAX][SIDES];
} tally;

static int plan_signals_side_of(weiri_plan_kind kind)
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

static void plan_signals_count_block(const weiri_build_block *block, uint32_t channels,
                                     weiri_plan_channel type, uint32_t **counts)
{
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_build_op *op = &block->ops[i];
        int side = plan_signals_side_of(op->kind);
        for (uint32_t id = 0; side < SIDES && op->channel == type && id < op->nids; id++)
            counts[side][op->ids[id] + (op->loop ? channels : 0)]++;
    }
}

/* The index of the peer's end of a rank's channel; the peer's number of channels if it has none. */
static uint32_t plan_signals_other_end(const weir_plan_builder *builder, int rank,
                                       weiri_plan_channel type, uint32_t index)
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

/* Compares the signals of a rank on a channel with the waits at the other end. If there is no other
 * end, the rank must not wait on the channel either. */
static void plan_signals_compare_ends(weir_plan_builder *builder, const tally *all, int rank,
                                      uint32_t index, int in_pipelines)
{
    const weiri_build_list *peers = &builder->ranks[rank].peers[all->type];
    int peer = (int)peers->items[index];
    uint32_t theirs = builder->ranks[peer].peers[all->type].count;
    uint32_t end = plan_signals_other_end(builder, rank, all->type, index);
    uint32_t at = index + (in_pipelines ? peers->count : 0);
    uint32_t there = end + (in_pipelines ? theirs : 0);
    uint32_t sent = all->counts[rank][SIGNALS][at];
    uint32_t taken = end < theirs ? all->counts[peer][WAITS][there] : 0;
    const char *where = in_pipelines ? " in pipelines" : "";
    if (sent != taken)
        weiri_build_reject(builder, "weir_plan_build", rank,
                           "%u signal%s on %s channel %u to rank %d%s, but %u wait%s at the other "
                           "end; expected equal numbers",
                           sent, weiri_s(sent), weiri_plan_channel_name(all->type), index, peer,
                           where, taken, weiri_s(taken));
    if (end == theirs && all->counts[rank][WAITS][at])
        weiri_build_reject(builder, "weir_plan_build", rank,
                           "a wait on %s channel %u to rank %d%s, but that rank has not created "
                           "the other end of the channel",
                           weiri_plan_channel_name(all->type), index, peer, where);
}

/* Returns 0 if there is no memory. */
static int plan_signals_count_all(weir_plan_builder *builder, tally *all, int nranks)
{
    for (int rank = 0; rank < nranks; rank++) {
        const weiri_build_rank *from = &builder->ranks[rank];
        uint32_t channels = from->peers[all->type].count;
        for (int side = 0; side < SIDES; side++) {
            all->counts[rank][side] = calloc(2 * (size_t)channels + 1, sizeof(uint32_t));
            if (!all->counts[rank][side]) {
                weiri_build_no_memory(builder);
                return 0;
            }
        }
        for (uint32_t i = 0; i < from->nblocks; i++)
            plan_signals_count_block(&from->blocks[i], channels, all->type, all->counts[rank]);
    }
    return 1;
}

void weiri_build_check_signals(weir_plan_builder *builder, weiri_plan_channel type)
{
    const int nranks = builder->spec.nranks;
    tally all = {.type = type};
    int counted = builder->status == WEIR_OK && plan_signals_count_all(builder, &all, nranks);
    for (int rank = 0; counted && rank < nranks && builder->status == WEIR_OK; rank++)
        for (uint32_t i = 0; i < builder->ranks[rank].peers[type].count; i++)
            for (int in_pipelines = 0; in_pipelines <= 1; in_pipelines++)
                plan_signals_compare_ends(builder, &all, rank, i, in_pipelines);
    for (int rank = 0; rank < nranks; rank++)
        for (int side = 0; side < SIDES; side++)
            free(all.counts[rank][side]);
}
