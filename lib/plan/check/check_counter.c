/*
 * Counters: one direction of a channel, or a semaphore. A signaller adds a credit, a waiter
 * consumes one.
 *
 * A relaxed signal carries only the begin of its rank's launch, and a relaxed wait joins no more
 * than that of any signal.
 *
 * A waiter that consumes the n-th credit is ordered after n signals. If a single block signals the
 * counter, these are its first n signals, and the waiter joins the clock of the n-th. If several
 * blocks do, they may be any n of the signals that can have happened: for each chain the waiter
 * then joins the n-th lowest component of all signals' clocks, which is covered in any case. To
 * have all these signals at hand, such a wait is deferred until no other block can proceed. If
 * another signal appears later all the same, the byte class is simulated anew, and the waiters of
 * this counter join no clock (check_counter_balance.c).
 */
#include "plan/check/check.h"

#include <stdlib.h>

uint32_t weiri_check_counter_of(const weiri_check *check, int rank, const weiri_plan_op *op,
                                uint32_t i)
{
    uint32_t id = check->plan->gpus[rank].ids[op->first_id + i];
    int acquisitions = weiri_plan_is_wait(op->kind);
    if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP)
        return check->first_semaphore[rank] + id;
    return (acquisitions ? check->in : check->out)[rank][op->channel][id];
}

static void counter_add_signal(weiri_check *check, uint32_t block, uint32_t counter,
                               weiri_clock *clock)
{
    weiri_check_counter *at = &check->counters[counter];
    weiri_check_signal *made = weiri_check_append(check, &at->signals, &at->nsignals, sizeof *made);
    if (!made)
        return;
    *made = (weiri_check_signal){clock, block, check->blocks[block].op};
    weiri_check_wake(check, &at->waiting);
}

/* The clock that a signal from the block's thread i carries. The caller drops it. */
static weiri_clock *signal_clock(weiri_check *check, uint32_t block, const weiri_plan_op *op,
                                 uint32_t i, int is_relaxed)
{
    const weiri_check_block *at = &check->blocks[block];
    weiri_clock *clock = weiri_clock_keep(is_relaxed ? check->begin[at->rank] : at->now);
    if (is_relaxed || op->channel != WEIRI_PLAN_PORT || op->kind == WEIRI_PLAN_SEM_RELEASE_OP)
        return clock;
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    weiri_check_port *port = weiri_check_port_of(check, block, gpu->ids[op->first_id + i]);
    if (port && port->nputs) {
        weiri_clock_set(&check->clocks, &clock, port->chain, weiri_check_puts_before(at, port, i));
        weiri_clock_set(&check->clocks, &clock, port->chain + 1,
                        weiri_check_puts_before(at, port, i));
    }
    return clock;
}

void weiri_check_signal_counters(weiri_check *check, uint32_t block, const weiri_plan_op *op,
                                 int is_relaxed)
{
    const int rank = check->blocks[block].rank;
    for (uint32_t i = 0; i < op->nids && check->status == WEIR_OK; i++) {
        uint32_t counter = weiri_check_counter_of(check, rank, op, i);
        const weiri_check_counter *at = &check->counters[counter];
        weiri_clock *clock = signal_clock(check, block, op, i, is_relaxed);
        /* the signals of a single block are in order: each carries what the ones before it did */
        if (is_relaxed && at->signaller != WEIRI_CHECK_MANY && at->nsignals)
            weiri_clock_join(&check->clocks, &clock, at->signals[at->nsignals - 1].clock);
        counter_add_signal(check, block, counter, clock);
    }
}

/* The acquisitions that happened before the block's next one; each is known to have consumed a
 * credit. */
static uint32_t acquisitions_before(const weiri_check *check, const weiri_check_counter *counter,
                                    uint32_t block)
{
    const weiri_check_block *at = &check->blocks[block];
    uint32_t before = 0;
    if (counter->waiter != WEIRI_CHECK_MANY)
        return counter->nacquired;
    for (uint32_t i = 0; i < counter->nacquisitions; i++) {
        const weiri_check_acquisition *acquisition = &counter->acquisitions[i];
        before +=
            acquisition->block == block ||
            weiri_clock_covers(at->now, check->blocks[acquisition->block].chain, acquisition->tick);
    }
    return before;
}

static int compare_uint32(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int weiri_check_is_after(const weiri_check *check, const weiri_check_signal *signal,
                         const weiri_check_acquisition *acquisition)
{
    return acquisition && weiri_clock_covers(signal->clock, check->blocks[acquisition->block].chain,
                                             acquisition->tick);
}

weiri_clock *weiri_check_common_clock(weiri_check *check, const weiri_check_counter *counter,
                                      uint32_t n, const weiri_check_acquisition *acquisition)
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
            if (!weiri_check_is_after(check, &counter->signals[i], acquisition))
                at[count++] = weiri_clock_at(counter->signals[i].clock, chain);
        if (count < n)
            continue;
        qsort(at, count, sizeof *at, compare_uint32);
        if (at[n - 1])
            weiri_clock_set(&check->clocks, &clock, chain, at[n - 1]);
    }
    free(at);
    return clock;
}

static void record_acquisition(weiri_check *check, weiri_check_counter *counter, uint32_t block,
                               uint32_t n, weiri_clock *clock)
{
    weiri_check_acquisition *acquisition = weiri_check_append(
        check, &counter->acquisitions, &counter->nacquisitions, sizeof *acquisition);
    if (acquisition)
        *acquisition = (weiri_check_acquisition){.clock = clock ? weiri_clock_keep(clock) : NULL,
                                                 .block = block,
                                                 .op = check->blocks[block].op,
                                                 .tick = check->blocks[block].tick,
                                                 .advances = n,
                                                 .nsignals = counter->nsignals};
}

/* The clock that the block's next acquisition joins, which the caller drops; NULL: none. */
static weiri_clock *acquired_clock(weiri_check *check, weiri_check_counter *counter, uint32_t block)
{
    uint32_t n = acquisitions_before(check, counter, block) + 1;
    int several = counter->signaller == WEIRI_CHECK_MANY;
    weiri_clock *clock = NULL;
    if (counter->waiter == WEIRI_CHECK_MANY && n <= counter->nacquisitions)
        counter->has_unordered_waiters = 1;
    n = n > counter->initial ? n - counter->initial : 0;
    if (n && several && !counter->order_unknown)
        clock = weiri_check_common_clock(check, counter, n, NULL);
    else if (n && !several)
        clock = weiri_clock_keep(counter->signals[n - 1].clock);
    if (several || counter->waiter == WEIRI_CHECK_MANY)
        record_acquisition(check, counter, block, n, several ? clock : NULL);
    return clock;
}

int weiri_check_acquire_credit(weiri_check *check, uint32_t block, uint32_t counter, int is_relaxed,
                               int deferred)
{
    weiri_check_counter *at = &check->counters[counter];
    weiri_check_block *own = &check->blocks[block];
    const int awaits_all = check->is_strong && at->awaited;
    if (at->initial + at->nsignals <= at->nacquired || (awaits_all && at->nsignals < at->awaited)) {
        own->state = WEIRI_CHECK_BLOCKED;
        own->counter = counter;
        own->next = at->waiting;
        at->waiting = block;
        return 0;
    }
    for (uint32_t i = 0; awaits_all && i < at->nsignals; i++)
        weiri_check_join_pending(check, block, at->signals[i].clock);
    if (at->signaller == WEIRI_CHECK_MANY && !deferred && !awaits_all) {
        own->state = WEIRI_CHECK_DEFERRED;
        return 0;
    }
    weiri_clock *clock = acquired_clock(check, at, block);
    at->nacquired++;
    if (clock && is_relaxed && at->from >= 0)
        weiri_check_join_pending(check, block, check->begin[at->from]);
    else if (clock)
        weiri_check_join_pending(check, block, clock);
    weiri_clock_drop(&check->clocks, clock);
    return 1;
}
