/*
 * Explains a deadlock: what each block waits for, which block could provide it, and what that one
 * waits for. Blocks that wait for something that no block will provide are reported first; if there
 * are none, a cycle is reported.
 */
#include "plan/check/check.h"

#include <stdio.h>
#include <string.h>

enum { CHAIN_MAX = 4 /* blocks named in a message */ };

/* Describes what a block waits for. */
static void name_wait(const weiri_check *check, const weiri_check_block *block, char *text,
                      size_t room)
{
    char name[WEIRI_CHECK_TEXT];
    if (block->place != WEIRI_CHECK_NONE) {
        snprintf(text, room, "packets in %s", weiri_check_place_name(check, block->place, name));
    } else if (block->barrier_index != WEIRI_CHECK_NONE) {
        const weiri_check_barrier *barrier = &check->barriers[block->barrier_index];
        snprintf(text, room, "barrier %u, which %u of %u thread blocks have reached",
                 barrier->barrier, barrier->arrived, barrier->nblocks);
    } else if (block->counter != WEIRI_CHECK_NONE) {
        const weiri_check_counter *counter = &check->counters[block->counter];
        if (counter->type == WEIRI_PLAN_SWITCH)
            snprintf(text, room, "release %u of semaphore %u",
                     counter->nacquired + 1 - counter->initial, counter->ordinal);
        else
            snprintf(text, room, "signal %u of %s channel %u from rank %d", counter->nacquired + 1,
                     weiri_plan_channel_name((weiri_plan_channel)counter->type), counter->ordinal,
                     counter->from);
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
            int rank = group                            ? (int)gpu->ids[group->first_rank + j]
                       : ref->place == WEIRI_PLAN_LOCAL ? block->rank
                                                        : ref->rank;
            uint32_t first = weiri_check_first_place(check, rank, ref->buffer, ref->index);
            if (place >= first && place < first + ref->size)
                return 1;
        }
    }
    return 0;
}

static int op_unblocks(const weiri_check *check, const weiri_check_block *unblocker,
                       const weiri_check_block *block, const weiri_plan_op *op)
{
    if (block->place != WEIRI_CHECK_NONE)
        return writes_packets(check, unblocker, op, block->place);
    if (block->counter != WEIRI_CHECK_NONE)
        return advances(check, unblocker->rank, op, block->counter);
    return op->kind == WEIRI_PLAN_BARRIER_OP && unblocker->rank == block->rank &&
           op->barrier == check->barriers[block->barrier_index].barrier &&
           op->nblocks == check->barriers[block->barrier_index].nblocks;
}

/* Whether a waiting block would provide what another one waits for if it went on. Its current
 * operation counts, and inside a pipeline all of the body. */
static int could_unblock(const weiri_check *check, const weiri_check_block *unblocker,
                         const weiri_check_block *block)
{
    uint32_t nops = weiri_check_gpu(check, unblocker)->blocks[unblocker->index].nops;
    uint32_t from = unblocker->pipeline != WEIRI_CHECK_NONE ? unblocker->pipeline : unblocker->op;
    for (uint32_t i = from; i < nops; i++)
        if (op_unblocks(check, unblocker, block, weiri_check_op(check, unblocker, i)))
            return 1;
    return 0;
}

/* The first waiting block that would provide it; NONE: no block will. */
static uint32_t find_unblocker(const weiri_check *check, uint32_t stuck)
{
    for (uint32_t i = 0; i < check->nblocks; i++)
        if (i != stuck && check->blocks[i].state != WEIRI_CHECK_ENDED &&
            !(check->blocks[stuck].barrier_index != WEIRI_CHECK_NONE &&
              check->blocks[i].barrier_index == check->blocks[stuck].barrier_index) &&
            could_unblock(check, &check->blocks[i], &check->blocks[stuck]))
            return i;
    return WEIRI_CHECK_NONE;
}

/* Appends "; it would come from rank 1, ..., which waits for ...", up to a block that is named
 * already. */
static void append_wait_chain(const weiri_check *check, uint32_t stuck, uint32_t unblocker,
                              char *text, size_t room)
{
    uint32_t named[CHAIN_MAX + 1] = {stuck}, at = unblocker;
    for (int i = 0; i <= CHAIN_MAX && at != WEIRI_CHECK_NONE; i++) {
        char where[WEIRI_CHECK_TEXT], what[2 * WEIRI_CHECK_TEXT];
        size_t used = strlen(text);
        for (int k = 0; k <= i; k++)
            if (at == named[k]) {
                if (k == 0)
                    snprintf(text + used, room - used, ": a cycle");
                else
                    snprintf(text + used, room - used, ": a cycle of the last %d", i + 1 - k);
                return;
            }
        if (i == CHAIN_MAX)
            return;
        named[i + 1] = at;
        name_wait(check, &check->blocks[at], what, sizeof what);
        snprintf(text + used, room - used, "; it would come from %s, which waits for %s",
                 weiri_check_where(check, at, check->blocks[at].op, where), what);
        at = find_unblocker(check, at);
    }
}

/* How to end a wait. */
static void advise_stuck(weiri_check *check, const weiri_check_block *block, uint32_t unblocker)
{
    const weiri_check_counter *counter =
        block->counter != WEIRI_CHECK_NONE ? &check->counters[block->counter] : NULL;
    if (unblocker != WEIRI_CHECK_NONE)
        weiri_check_advise(check, "in one of these thread blocks, move what the other waits for "
                                  "before its own wait");
    else if (block->place != WEIRI_CHECK_NONE)
        weiri_check_advise(check, "send the packets: put_packets (weir_plan_put_packets) or, "
                                  "within the rank, copy_packets (weir_plan_copy_packets)");
    else if (counter && counter->type == WEIRI_PLAN_SWITCH)
        weiri_check_advise(check, "add a release (weir_plan_release), raise the semaphore's "
                                  "initial value, or drop this acquire");
    else if (counter)
        weiri_check_advise(check,
                           "add signal() on rank %d (weir_plan_signal) on its %s channel to rank "
                           "%d, or drop this wait",
                           counter->from,
                           weiri_plan_channel_name((weiri_plan_channel)counter->type), counter->to);
    else
        weiri_check_advise(check, "let the other thread blocks call rank.barrier "
                                  "(weir_plan_barrier) as often as this one");
}

static void report_deadlock(weiri_check *check, uint32_t stuck)
{
    char what[2 * WEIRI_CHECK_TEXT], text[sizeof((weir_plan_violation *)0)->text];
    const weiri_check_block *block = &check->blocks[stuck];
    uint32_t unblocker = find_unblocker(check, stuck);
    name_wait(check, block, what, sizeof what);
    snprintf(text, sizeof text, "waits forever for %s", what);
    if (unblocker == WEIRI_CHECK_NONE)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 ", which no thread block provides");
    append_wait_chain(check, stuck, unblocker, text, sizeof text);
    weiri_check_report_violation(check, WEIR_PLAN_FAULT_DEADLOCK, block->rank, stuck, block->op,
                                 "%s", text);
    advise_stuck(check, block, unblocker);
}

void weiri_check_deadlock(weiri_check *check)
{
    int reported = 0;
    for (int given = 0; given < 2; given++)
        for (uint32_t i = 0; i < check->nblocks && reported < WEIR_PLAN_VIOLATIONS_MAX; i++) {
            if (check->blocks[i].state == WEIRI_CHECK_ENDED)
                continue;
            if ((find_unblocker(check, i) != WEIRI_CHECK_NONE) != given)
                continue;
            report_deadlock(check, i);
            reported++;
        }
}
