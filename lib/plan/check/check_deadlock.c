/*
 * Why nothing moves any more: what each block waits for, who could still give it, and what
 * that one waits for. Told first is who waits for what nobody will give; if all wait for each
 * other, the cycle.
 */
#include "plan/check/check.h"

#include <stdio.h>
#include <string.h>

enum { CHAIN_MAX = 4 /* blocks that a message names */ };

/* What a block waits for, in words. */
static void name_wait(const weiri_check *check, const weiri_check_block *block, char *text,
                      size_t room)
{
    char name[WEIRI_CHECK_TEXT];
    if (block->place != WEIRI_CHECK_NONE) {
        snprintf(text, room, "packets in %s", weiri_check_place_name(check, block->place, name));
    } else if (block->meeting != WEIRI_CHECK_NONE) {
        const weiri_check_meeting *meeting = &check->meetings[block->meeting];
        snprintf(text, room, "barrier %u, where %u of %u thread blocks are", meeting->barrier,
                 meeting->arrived, meeting->nblocks);
    } else if (block->counter != WEIRI_CHECK_NONE) {
        const weiri_check_counter *counter = &check->counters[block->counter];
        if (counter->type == WEIRI_PLAN_SWITCH)
            snprintf(text, room, "release %u of semaphore %u",
                     counter->ntaken + 1 - counter->initial, counter->ordinal);
        else
            snprintf(text, room, "signal %u of %s channel %u from rank %d", counter->ntaken + 1,
                     weiri_plan_channel_name((weiri_plan_channel)counter->type),
                     counter->ordinal, counter->from);
    }
}

static int advances(const weiri_check *check, int rank, const weiri_plan_op *op, uint32_t counter)
{
    switch (op->kind) {
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
    case WEIRI_PLAN_SEM_RELEASE_OP:
    case WEIRI_PLAN_PUT_SIGNAL_OP:
    case WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP:
        for (uint32_t i = 0; i < op->nids; i++)
            if (weiri_check_counter_of(check, rank, op, i) == counter)
                return 1;
        return 0;
    default:
        return 0;
    }
}

static int writes_packets(const weiri_check *check, const weiri_check_block *block,
                          const weiri_plan_op *op, uint32_t place)
{
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, block);
    for (uint32_t i = 0; i < op->ndsts; i++) {
        const weiri_plan_ref *ref = &gpu->refs[op->first_dst + i];
        if (!ref->is_packets)
            continue;
        const weiri_plan_switch *group =
            ref->place == WEIRI_PLAN_GROUP ? &gpu->switches[ref->rank] : NULL;
        for (uint32_t j = 0; j < (group ? group->nranks : 1); j++) {
            int rank = group ? (int)gpu->ids[group->first_rank + j]
                       : ref->place == WEIRI_PLAN_LOCAL ? block->rank : ref->rank;
            uint32_t first = weiri_check_first_place(check, rank, ref->buffer, ref->index);
            if (place >= first && place < first + ref->size)
                return 1;
        }
    }
    return 0;
}

static int gives(const weiri_check *check, const weiri_check_block *giver,
                 const weiri_check_block *block, const weiri_plan_op *op)
{
    if (block->place != WEIRI_CHECK_NONE)
        return writes_packets(check, giver, op, block->place);
    if (block->counter != WEIRI_CHECK_NONE)
        return advances(check, giver->rank, op, block->counter);
    return op->kind == WEIRI_PLAN_BARRIER_OP && giver->rank == block->rank &&
           op->barrier == check->meetings[block->meeting].barrier &&
           op->nblocks == check->meetings[block->meeting].nblocks;
}

/* Whether a stuck block would give what another one waits for, were it to go on. Its present
 * operation counts, and in a pipeline all of the body. */
static int would_give(const weiri_check *check, const weiri_check_block *giver,
                      const weiri_check_block *block)
{
    uint32_t nops = weiri_check_gpu(check, giver)->blocks[giver->index].nops;
    uint32_t from = giver->pipeline != WEIRI_CHECK_NONE ? giver->pipeline : giver->op;
    for (uint32_t i = from; i < nops; i++)
        if (gives(check, giver, block, weiri_check_op(check, giver, i)))
            return 1;
    return 0;
}

/* The first stuck block that would give it; NONE: nobody will. */
static uint32_t giver_of(const weiri_check *check, uint32_t stuck)
{
    for (uint32_t i = 0; i < check->nblocks; i++)
        if (i != stuck && check->blocks[i].state != WEIRI_CHECK_ENDED &&
            !(check->blocks[stuck].meeting != WEIRI_CHECK_NONE &&
              check->blocks[i].meeting == check->blocks[stuck].meeting) &&
            would_give(check, &check->blocks[i], &check->blocks[stuck]))
            return i;
    return WEIRI_CHECK_NONE;
}

/* "; rank 1, ... would give it, but waits for ...". */
static void add_chain(const weiri_check *check, uint32_t stuck, uint32_t giver, char *text,
                      size_t room)
{
    uint32_t at = giver;
    for (int i = 0; i < CHAIN_MAX && at != WEIRI_CHECK_NONE; i++) {
        char where[WEIRI_CHECK_TEXT], what[2 * WEIRI_CHECK_TEXT];
        size_t used = strlen(text);
        if (at == stuck) {
            snprintf(text + used, room - used, ": a cycle");
            return;
        }
        name_wait(check, &check->blocks[at], what, sizeof what);
        snprintf(text + used, room - used, "; it would come of %s, which waits for %s",
                 weiri_check_where(check, at, check->blocks[at].op, where), what);
        at = giver_of(check, at);
    }
}

static void tell(weiri_check *check, uint32_t stuck)
{
    char what[2 * WEIRI_CHECK_TEXT], text[sizeof((weir_plan_violation *)0)->text];
    const weiri_check_block *block = &check->blocks[stuck];
    uint32_t giver = giver_of(check, stuck);
    name_wait(check, block, what, sizeof what);
    snprintf(text, sizeof text, "waits for ever for %s", what);
    if (giver == WEIRI_CHECK_NONE)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", which nobody gives");
    add_chain(check, stuck, giver, text, sizeof text);
    weiri_check_violate(check, WEIR_PLAN_FAULT_DEADLOCK, block->rank, stuck, block->op, "%s",
                        text);
}

void weiri_check_stuck(weiri_check *check)
{
    int told = 0;
    for (int given = 0; given < 2; given++)
        for (uint32_t i = 0; i < check->nblocks && told < WEIR_PLAN_VIOLATIONS_MAX; i++) {
            if (check->blocks[i].state == WEIRI_CHECK_ENDED)
                continue;
            if ((giver_of(check, i) != WEIRI_CHECK_NONE) != given)
                continue;
            tell(check, i);
            told++;
        }
}
