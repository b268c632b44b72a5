/*
 * Checks at the end of a launch: every counter is back at its initial value, blocks that acquire
 * credits of a counter without order between them can do so in any order, and no waiter joined more
 * than it may in every order.
 */
#include "plan/check/check.h"

#include "base/words.h"

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

/* Whether an acquisition joined more than holds whichever signals came first: a signal that came
 * after it in this run may come before it in another. */
static int joined_too_much(weiri_check *check, const weiri_check_counter *counter)
{
    int more = 0;
    for (uint32_t i = 0; i < counter->nacquisitions && !more && check->status == WEIR_OK; i++) {
        const weiri_check_acquisition *acquisition = &counter->acquisitions[i];
        if (!acquisition->clock)
            continue;
        weiri_clock *all =
            weiri_check_common_clock(check, counter, acquisition->advances, acquisition);
        for (uint32_t chain = 0; all && chain < check->clocks.nchains; chain++)
            more |= weiri_clock_at(all, chain) < weiri_clock_at(acquisition->clock, chain);
        weiri_clock_drop(&check->clocks, all);
    }
    return more;
}

/* Whether an operation may wait. */
int weiri_check_may_wait(const weiri_check *check, const weiri_check_block *block,
                         const weiri_plan_op *op)
{
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, block);
    for (uint32_t i = 0; i < op->nsrcs; i++)
        if (gpu->refs[op->first_src + i].is_packets)
            return 1;
    return weiri_plan_is_wait(op->kind) || op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP ||
           op->kind == WEIRI_PLAN_BARRIER_OP || op->kind == WEIRI_PLAN_PIPELINE_OP;
}

/* Whether the block releases the acquired semaphore again before it may wait. */
static int releases_again(const weiri_check *check, const weiri_check_acquisition *acquisition,
                          uint32_t semaphore)
{
    const weiri_check_block *block = &check->blocks[acquisition->block];
    const weiri_plan_op *op = weiri_check_op(check, block, acquisition->op);
    uint32_t nops = weiri_check_gpu(check, block)->blocks[block->index].nops;
    if (op->nids != 1)
        return 0;
    for (uint32_t i = acquisition->op + 1; i < nops; i++) {
        op = weiri_check_op(check, block, i);
        if (weiri_check_may_wait(check, block, op))
            return 0;
        if (op->kind != WEIRI_PLAN_SEM_RELEASE_OP)
            continue;
        for (uint32_t j = 0; j < op->nids; j++)
            if (weiri_check_counter_of(check, block->rank, op, j) == semaphore)
                return 1;
    }
    return 0;
}

/* Checks blocks that acquire credits of a counter in no order. In any order all of them succeed if
 * none of the counter's signals depends on an acquisition, or if each block releases what it
 * acquired. */
static void check_unordered_waiters(weiri_check *check, uint32_t index)
{
    const weiri_check_counter *counter = &check->counters[index];
    char name[WEIRI_CHECK_TEXT];
    int depends = 0;
    for (uint32_t i = 0; i < counter->nacquisitions; i++)
        for (uint32_t j = 0; j < counter->nsignals; j++)
            depends |=
                weiri_check_is_after(check, &counter->signals[j], &counter->acquisitions[i]) ||
                (j >= counter->acquisitions[i].nsignals &&
                 counter->signals[j].block == counter->acquisitions[i].block);
    for (uint32_t i = 0; depends && i < counter->nacquisitions; i++) {
        const weiri_check_acquisition *acquisition = &counter->acquisitions[i];
        if (releases_again(check, acquisition, index))
            continue;
        name_counter(counter, name, sizeof name);
        weiri_check_report_violation(
            check, WEIR_PLAN_FAULT_DEADLOCK, check->blocks[acquisition->block].rank,
            acquisition->block, acquisition->op,
            "%s: several thread blocks acquire it in any order, and this one may "
            "wait for something else before it releases it again",
            name);
        weiri_check_advise(check, "release it (weir_plan_release) before any other wait, or use "
                                  "one Semaphore (weir_plan_semaphore_create) for each block");
    }
}

static void counter_reset(weiri_check *check, weiri_check_counter *counter)
{
    for (uint32_t i = 0; i < counter->nsignals; i++)
        weiri_clock_drop(&check->clocks, counter->signals[i].clock);
    for (uint32_t i = 0; i < counter->nacquisitions; i++)
        weiri_clock_drop(&check->clocks, counter->acquisitions[i].clock);
    counter->nsignals = counter->nacquisitions = counter->nacquired = 0;
    counter->has_unordered_waiters = 0;
    counter->waiting = WEIRI_CHECK_NONE;
}

/* A block that may wait for the counter. */
static uint32_t counter_waiter(const weiri_check *check, const weiri_check_counter *counter)
{
    return counter->waiter < check->nblocks ? counter->waiter
                                            : weiri_check_first_block(check, counter->to);
}

void weiri_check_counters_balanced(weiri_check *check)
{
    for (uint32_t i = 0; i < check->ncounters; i++) {
        weiri_check_counter *counter = &check->counters[i];
        const int is_semaphore = counter->type == WEIRI_PLAN_SWITCH;
        if (counter->nsignals != counter->nacquired) {
            char name[WEIRI_CHECK_TEXT];
            const weiri_check_signal *last =
                counter->nsignals ? &counter->signals[counter->nsignals - 1] : NULL;
            name_counter(counter, name, sizeof name);
            weiri_check_report_violation(
                check, WEIR_PLAN_FAULT_BALANCE,
                last ? check->blocks[last->block].rank : counter->to,
                last ? last->block : WEIRI_CHECK_NONE, last ? last->op : WEIRI_CHECK_NONE,
                "a launch %s %s %u time%s and %s it %u time%s: the next launch "
                "would start with another value",
                is_semaphore ? "releases" : "signals", name, counter->nsignals,
                weiri_s(counter->nsignals), is_semaphore ? "acquires" : "waits for",
                counter->nacquired, weiri_s(counter->nacquired));
            if (last && counter->nsignals > counter->nacquired)
                weiri_check_offer(
                    check, WEIRI_CHECK_FIX_WAIT, (weiri_check_change){last->block, last->op},
                    (weiri_check_change){counter_waiter(check, counter), WEIRI_CHECK_NONE});
            weiri_check_advise(check, "add %s on rank %d, or drop as many %s",
                               is_semaphore ? "acquire (weir_plan_acquire)"
                                            : "wait (weir_plan_wait)",
                               counter->to, is_semaphore ? "releases" : "signals");
        }
        if (counter->has_unordered_waiters)
            check_unordered_waiters(check, i);
        if (joined_too_much(check, counter))
            counter->order_unknown = check->restart = 1;
        counter_reset(check, counter);
    }
}

void weiri_check_reset_counters(weiri_check *check)
{
    for (uint32_t i = 0; i < check->ncounters; i++)
        counter_reset(check, &check->counters[i]);
    for (uint32_t i = 0; i < check->nbarriers; i++) {
        check->barriers[i].arrived = check->barriers[i].nentries = 0;
        check->barriers[i].waiting = WEIRI_CHECK_NONE;
    }
}
