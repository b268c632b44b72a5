/*
 * After a launch: every counter is as it was before; blocks that take of one counter without
 * order between them can do so in any order; and none knew more than holds in every order.
 */
#include "plan/check/check.h"

#include <stdio.h>

static void name_counter(const weiri_check_counter *counter, char *text, size_t room)
{
    if (counter->type == WEIRI_PLAN_SWITCH)
        snprintf(text, room, "semaphore %u", counter->ordinal);
    else
        snprintf(text, room, "%s channel %u from rank %d to rank %d",
                 weiri_plan_channel_name((weiri_plan_channel)counter->type), counter->ordinal,
                 counter->from, counter->to);
}

/* Whether every taking knew no more than what holds whichever advance came first. What came
 * behind it in this run may come before it in another. */
static int knew_too_much(weiri_check *check, const weiri_check_counter *counter)
{
    int more = 0;
    for (uint32_t i = 0; i < counter->ntakes && !more && check->status == WEIR_OK; i++) {
        const weiri_check_take *take = &counter->takes[i];
        if (!take->clock)
            continue;
        weiri_clock *all = weiri_check_known_of(check, counter, take->advances, take);
        for (uint32_t chain = 0; all && chain < check->clocks.nchains; chain++)
            more |= all->at[chain] < take->clock->at[chain];
        weiri_clock_drop(&check->clocks, all);
    }
    return more;
}

/* Whether an operation may wait. */
static int may_wait(const weiri_check *check, const weiri_check_block *block,
                    const weiri_plan_op *op)
{
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, block);
    for (uint32_t i = 0; i < op->nsrcs; i++)
        if (gpu->refs[op->first_src + i].is_packets)
            return 1;
    return op->kind == WEIRI_PLAN_WAIT_OP || op->kind == WEIRI_PLAN_RELAXED_WAIT_OP ||
           op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_BARRIER_OP ||
           op->kind == WEIRI_PLAN_PIPELINE_OP;
}

/* Whether a taking is of a semaphore that the block releases again before it may wait. */
static int gives_back(const weiri_check *check, const weiri_check_take *take, uint32_t semaphore)
{
    const weiri_check_block *block = &check->blocks[take->block];
    const weiri_plan_op *op = weiri_check_op(check, block, take->op);
    uint32_t nops = weiri_check_gpu(check, block)->blocks[block->index].nops;
    if (op->nids != 1)
        return 0;
    for (uint32_t i = take->op + 1; i < nops; i++) {
        op = weiri_check_op(check, block, i);
        if (may_wait(check, block, op))
            return 0;
        if (op->kind != WEIRI_PLAN_SEM_RELEASE_OP)
            continue;
        for (uint32_t j = 0; j < op->nids; j++)
            if (weiri_check_counter_of(check, block->rank, op, j) == semaphore)
                return 1;
    }
    return 0;
}

/* Blocks that take of one counter in no order. Whoever comes first, all get theirs, if all
 * that advances the counter comes without any of them, or if each gives back what it took. */
static void check_contention(weiri_check *check, uint32_t index)
{
    const weiri_check_counter *counter = &check->counters[index];
    char name[WEIRI_CHECK_TEXT];
    int depends = 0;
    for (uint32_t i = 0; i < counter->ntakes; i++)
        for (uint32_t j = 0; j < counter->nsignals; j++)
            depends |= weiri_check_is_behind(check, &counter->signals[j], &counter->takes[i]) ||
                       (j >= counter->takes[i].nsignals &&
                        counter->signals[j].block == counter->takes[i].block);
    for (uint32_t i = 0; depends && i < counter->ntakes; i++) {
        const weiri_check_take *take = &counter->takes[i];
        if (gives_back(check, take, index))
            continue;
        name_counter(counter, name, sizeof name);
        weiri_check_violate(check, WEIR_PLAN_FAULT_DEADLOCK, check->blocks[take->block].rank,
                            take->block, take->op,
                            "%s: several thread blocks take of it in any order, and this one may "
                            "wait for something else before it gives back what it took",
                            name);
    }
}

static void reset(weiri_check *check, weiri_check_counter *counter)
{
    for (uint32_t i = 0; i < counter->nsignals; i++)
        weiri_clock_drop(&check->clocks, counter->signals[i].clock);
    for (uint32_t i = 0; i < counter->ntakes; i++)
        weiri_clock_drop(&check->clocks, counter->takes[i].clock);
    counter->nsignals = counter->ntakes = counter->ntaken = 0;
    counter->is_contended = 0;
    counter->waiting = WEIRI_CHECK_NONE;
}

void weiri_check_balance(weiri_check *check)
{
    for (uint32_t i = 0; i < check->ncounters; i++) {
        weiri_check_counter *counter = &check->counters[i];
        const int is_semaphore = counter->type == WEIRI_PLAN_SWITCH;
        if (counter->nsignals != counter->ntaken) {
            char name[WEIRI_CHECK_TEXT];
            const weiri_check_signal *last =
                counter->nsignals ? &counter->signals[counter->nsignals - 1] : NULL;
            name_counter(counter, name, sizeof name);
            weiri_check_violate(check, WEIR_PLAN_FAULT_BALANCE,
                                last ? check->blocks[last->block].rank : counter->to,
                                last ? last->block : WEIRI_CHECK_NONE,
                                last ? last->op : WEIRI_CHECK_NONE,
                                "a launch %s %s %u times and %s it %u times: the next launch "
                                "would not find it as this one did",
                                is_semaphore ? "releases" : "signals", name, counter->nsignals,
                                is_semaphore ? "acquires" : "waits for", counter->ntaken);
        }
        if (counter->is_contended)
            check_contention(check, i);
        if (knew_too_much(check, counter))
            counter->tells_nothing = check->again = 1;
        reset(check, counter);
    }
}

void weiri_check_forget_signals(weiri_check *check)
{
    for (uint32_t i = 0; i < check->ncounters; i++)
        reset(check, &check->counters[i]);
    for (uint32_t i = 0; i < check->nmeetings; i++) {
        check->meetings[i].arrived = 0;
        check->meetings[i].waiting = WEIRI_CHECK_NONE;
    }
}
