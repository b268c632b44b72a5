/*
 * Counters: a channel's one direction, or a semaphore. Who signals or releases advances one,
 * who waits or acquires takes one of it.
 *
 * A relaxed signal carries the begin of its launch alone, and a relaxed wait takes no more
 * than that of any signal.
 *
 * Who takes the n-th of a counter knows that n have advanced it. If one block alone does
 * that, these are its first n. If several do, they may be any n of those that can have come:
 * then of each chain is known what the n-th of them knows that know least of it. So that all
 * of these are there to be looked at, such a taking is put off until nothing else moves. If
 * there was one more after all, the world is run again, and this counter then tells nothing
 * (check_balance.c).
 */
#include "plan/check/check.h"

#include <stdlib.h>

uint32_t weiri_check_counter_of(const weiri_check *check, int rank, const weiri_plan_op *op,
                                uint32_t i)
{
    uint32_t id = check->plan->gpus[rank].ids[op->first_id + i];
    int takes = op->kind == WEIRI_PLAN_WAIT_OP || op->kind == WEIRI_PLAN_RELAXED_WAIT_OP;
    if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP)
        return check->first_semaphore[rank] + id;
    return (takes ? check->in : check->out)[rank][op->channel][id];
}

static void release(weiri_check *check, uint32_t block, uint32_t counter, weiri_clock *clock)
{
    weiri_check_counter *at = &check->counters[counter];
    weiri_check_signal *made =
        weiri_check_append(check, &at->signals, &at->nsignals, sizeof *made);
    if (!made)
        return;
    *made = (weiri_check_signal){clock, block, check->blocks[block].op};
    weiri_check_wake(check, &at->waiting);
}

/* What a signal of the block's thread i carries; the caller's. */
static weiri_clock *carried(weiri_check *check, uint32_t block, const weiri_plan_op *op,
                            uint32_t i, int is_relaxed)
{
    const weiri_check_block *at = &check->blocks[block];
    weiri_clock *clock = weiri_clock_keep(is_relaxed ? check->begin[at->rank] : at->now);
    if (is_relaxed || op->channel != WEIRI_PLAN_PORT || op->kind == WEIRI_PLAN_SEM_RELEASE_OP)
        return clock;
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    weiri_check_port *port = weiri_check_port_of(check, block, gpu->ids[op->first_id + i]);
    if (port && port->nputs) {
        weiri_clock_set(&check->clocks, &clock, port->chain, weiri_check_covered(at, port, i));
        weiri_clock_set(&check->clocks, &clock, port->chain + 1,
                        weiri_check_covered(at, port, i));
    }
    return clock;
}

void weiri_check_signal_ids(weiri_check *check, uint32_t block, const weiri_plan_op *op,
                            int is_relaxed)
{
    const int rank = check->blocks[block].rank;
    for (uint32_t i = 0; i < op->nids && check->status == WEIR_OK; i++) {
        uint32_t counter = weiri_check_counter_of(check, rank, op, i);
        const weiri_check_counter *at = &check->counters[counter];
        weiri_clock *clock = carried(check, block, op, i, is_relaxed);
        /* one block's signals are in order: the last carries what the first did */
        if (is_relaxed && at->releaser != WEIRI_CHECK_MANY && at->nsignals)
            weiri_clock_join(&check->clocks, &clock, at->signals[at->nsignals - 1].clock);
        release(check, block, counter, clock);
    }
}

/* Of how many a taking knows that they have advanced the counter: itself and those takings
 * that are ordered before it, less what was there initially. */
static uint32_t takings_before(const weiri_check *check, const weiri_check_counter *counter,
                               uint32_t block)
{
    const weiri_check_block *at = &check->blocks[block];
    uint32_t before = 0;
    if (counter->acquirer != WEIRI_CHECK_MANY)
        return counter->ntaken;
    for (uint32_t i = 0; i < counter->ntakes; i++) {
        const weiri_check_take *take = &counter->takes[i];
        before += take->block == block ||
                  weiri_clock_knows(at->now, check->blocks[take->block].chain, take->tick);
    }
    return before;
}

static int up(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int weiri_check_is_behind(const weiri_check *check, const weiri_check_signal *signal,
                     const weiri_check_take *take)
{
    return take && weiri_clock_knows(signal->clock, check->blocks[take->block].chain, take->tick);
}

weiri_clock *weiri_check_known_of(weiri_check *check, const weiri_check_counter *counter,
                                  uint32_t n, const weiri_check_take *take)
{
    weiri_clock *clock = weiri_clock_new(&check->clocks);
    uint32_t *at = malloc((counter->nsignals + 1) * sizeof *at);
    if (!at)
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
    if (!clock || !at) {
        free(at);
        return clock;
    }
    for (uint32_t chain = 0; chain < check->clocks.nchains; chain++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < counter->nsignals; i++)
            if (!weiri_check_is_behind(check, &counter->signals[i], take))
                at[count++] = counter->signals[i].clock->at[chain];
        if (count < n)
            continue;
        qsort(at, count, sizeof *at, up);
        clock->at[chain] = at[n - 1];
    }
    free(at);
    return clock;
}

static void add_take(weiri_check *check, weiri_check_counter *counter, uint32_t block, uint32_t n,
                     weiri_clock *clock)
{
    weiri_check_take *take =
        weiri_check_append(check, &counter->takes, &counter->ntakes, sizeof *take);
    if (take)
        *take = (weiri_check_take){.clock = clock ? weiri_clock_keep(clock) : NULL,
                                   .block = block,
                                   .op = check->blocks[block].op,
                                   .tick = check->blocks[block].tick,
                                   .advances = n,
                                   .nsignals = counter->nsignals};
}

/* What the next taking of the block knows; the caller's; NULL: nothing. */
static weiri_clock *taken(weiri_check *check, weiri_check_counter *counter, uint32_t block)
{
    uint32_t n = takings_before(check, counter, block) + 1;
    int several = counter->releaser == WEIRI_CHECK_MANY;
    weiri_clock *clock = NULL;
    if (counter->acquirer == WEIRI_CHECK_MANY && n <= counter->ntakes)
        counter->is_contended = 1;
    n = n > counter->initial ? n - counter->initial : 0;
    if (n && several && !counter->tells_nothing)
        clock = weiri_check_known_of(check, counter, n, NULL);
    else if (n && !several)
        clock = weiri_clock_keep(counter->signals[n - 1].clock);
    if (several || counter->acquirer == WEIRI_CHECK_MANY)
        add_take(check, counter, block, n, several ? clock : NULL);
    return clock;
}

int weiri_check_take_one(weiri_check *check, uint32_t block, uint32_t counter, int is_relaxed,
                         int take)
{
    weiri_check_counter *at = &check->counters[counter];
    weiri_check_block *own = &check->blocks[block];
    if (at->initial + at->nsignals <= at->ntaken) {
        own->state = WEIRI_CHECK_WAITS;
        own->counter = counter;
        own->next = at->waiting;
        at->waiting = block;
        return 0;
    }
    if (at->releaser == WEIRI_CHECK_MANY && !take) {
        own->state = WEIRI_CHECK_DEFERS;
        return 0;
    }
    weiri_clock *clock = taken(check, at, block);
    at->ntaken++;
    if (clock && is_relaxed && at->from >= 0)
        weiri_check_take_over(check, block, check->begin[at->from]);
    else if (clock)
        weiri_check_take_over(check, block, clock);
    weiri_clock_drop(&check->clocks, clock);
    return 1;
}
