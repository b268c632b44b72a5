/*
 * Operations that order: fences, barriers, and counters, which are a channel's one direction
 * or a semaphore.
 *
 * A signal carries what is ordered before it: what its block did before the last fence, for
 * behind one all threads of the block have done it. A relaxed signal carries the begin of its
 * launch alone, and a relaxed wait takes no more than that of any signal. What a wait takes
 * over is ordered before what its block does behind the next fence.
 *
 * Who takes the n-th of a counter knows that n have advanced it. If one block alone does
 * that, these are its first n. If several do, they may be any n of those that can have come:
 * then of each chain is known what the n-th of them knows that know least of it. So that all
 * of these are there to be looked at, such a taking is put off until nothing else moves. If
 * there was one more after all, the world is run again, and this counter then tells nothing.
 */
#include "plan/check.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------- fence, ports */

/* All threads of the block meet. */
void weiri_check_fence(weiri_check *check, uint32_t block)
{
    weiri_check_block *at = &check->blocks[block];
    if (at->pending)
        weiri_clock_join(&check->clocks, &at->now, at->pending);
    weiri_clock_drop(&check->clocks, at->pending);
    at->pending = NULL;
    for (uint64_t ranks = at->pending_ranks; ranks; ranks &= ranks - 1)
        weiri_clock_join(&check->clocks, &at->now, check->begin[__builtin_ctzll(ranks)]);
    at->pending_ranks = 0;
    weiri_clock_set(&check->clocks, &at->now, at->chain, ++at->tick);
}

weiri_check_port *weiri_check_port_of(weiri_check *check, uint32_t block, uint32_t link)
{
    weiri_check_block *at = &check->blocks[block];
    for (uint32_t i = 0; i < at->nports; i++)
        if (at->ports[i].link == link)
            return &at->ports[i];
    return NULL;
}

/* The block's puts to a channel that a request of its thread i comes behind. */
static uint32_t covered(const weiri_check_block *block, const weiri_check_port *port, uint32_t i)
{
    if (port->stretch != block->tick || port->thread == i)
        return port->nputs;
    return port->ncovered;
}

static void take_over(weiri_check *check, uint32_t block, const weiri_clock *clock)
{
    weiri_check_block *at = &check->blocks[block];
    if (!at->pending)
        at->pending = weiri_clock_new(&check->clocks);
    if (at->pending)
        weiri_clock_join(&check->clocks, &at->pending, clock);
}

void weiri_check_learn(weiri_check *check, uint32_t block, uint32_t chain, uint32_t events)
{
    weiri_check_block *at = &check->blocks[block];
    if (!at->pending)
        at->pending = weiri_clock_new(&check->clocks);
    if (at->pending && at->pending->at[chain] < events)
        weiri_clock_set(&check->clocks, &at->pending, chain, events);
}

/* Of a port channel: the sources of its puts are read. A memory channel's are anyway. */
void weiri_check_flush(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    const weiri_check_block *at = &check->blocks[block];
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    for (uint32_t i = 0; op->channel == WEIRI_PLAN_PORT && i < op->nids; i++) {
        weiri_check_port *port = weiri_check_port_of(check, block, gpu->ids[op->first_id + i]);
        if (port)
            weiri_check_learn(check, block, port->chain, covered(at, port, i));
    }
}

/* ----------------------------------------------------------------- counters */

uint32_t weiri_check_counter_of(const weiri_check *check, int rank, const weiri_plan_op *op,
                                uint32_t i)
{
    uint32_t id = check->plan->gpus[rank].ids[op->first_id + i];
    int takes = op->kind == WEIRI_PLAN_WAIT_OP || op->kind == WEIRI_PLAN_RELAXED_WAIT_OP;
    if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP)
        return check->first_semaphore[rank] + id;
    return (takes ? check->in : check->out)[rank][op->channel][id];
}

void weiri_check_wake(weiri_check *check, uint32_t *waiting)
{
    while (*waiting != WEIRI_CHECK_NONE) {
        weiri_check_block *block = &check->blocks[*waiting];
        check->ready[check->nready++] = *waiting;
        *waiting = block->next;
        block->state = WEIRI_CHECK_RUNS;
        block->place = block->counter = WEIRI_CHECK_NONE;
    }
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
        weiri_clock_set(&check->clocks, &clock, port->chain, covered(at, port, i));
        weiri_clock_set(&check->clocks, &clock, port->chain + 1, covered(at, port, i));
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

/* Whether a signal can only have come behind a taking. */
static int is_behind(const weiri_check *check, const weiri_check_signal *signal,
                     const weiri_check_take *take)
{
    return take && weiri_clock_knows(signal->clock, check->blocks[take->block].chain, take->tick);
}

/* Known of n advances, of whichever blocks; those behind take, if it is not NULL, are none. */
static weiri_clock *known_of(weiri_check *check, const weiri_check_counter *counter, uint32_t n,
                             const weiri_check_take *take)
{
    weiri_clock *clock = weiri_clock_new(&check->clocks);
    uint32_t *at = malloc((counter->nsignals + 1) * sizeof *at);
    if (!clock || !at) {
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
        free(at);
        return clock;
    }
    for (uint32_t chain = 0; chain < check->clocks.nchains; chain++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < counter->nsignals; i++)
            if (!is_behind(check, &counter->signals[i], take))
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
        clock = known_of(check, counter, n, NULL);
    else if (n && !several)
        clock = weiri_clock_keep(counter->signals[n - 1].clock);
    if (several || counter->acquirer == WEIRI_CHECK_MANY)
        add_take(check, counter, block, n, several ? clock : NULL);
    return clock;
}

/* Takes one of a counter. 0: there is none to take, or not yet (take). */
static int acquire(weiri_check *check, uint32_t block, uint32_t counter, int is_relaxed, int take)
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
        take_over(check, block, check->begin[at->from]);
    else if (clock)
        take_over(check, block, clock);
    weiri_clock_drop(&check->clocks, clock);
    return 1;
}

/* ----------------------------------------------------------------- barriers */

static weiri_check_meeting *meeting_of(weiri_check *check, int rank, const weiri_plan_op *op)
{
    for (uint32_t i = 0; i < check->nmeetings; i++)
        if (check->meetings[i].rank == rank && check->meetings[i].barrier == op->barrier &&
            check->meetings[i].nblocks == op->nblocks)
            return &check->meetings[i];
    return NULL;
}

/* All have come: what any knows, all know. */
static void part(weiri_check *check, weiri_check_meeting *meeting)
{
    weiri_clock *all = weiri_clock_keep(check->blocks[meeting->waiting].now);
    for (uint32_t i = meeting->waiting; i != WEIRI_CHECK_NONE; i = check->blocks[i].next)
        weiri_clock_join(&check->clocks, &all, check->blocks[i].now);
    for (uint32_t i = meeting->waiting; i != WEIRI_CHECK_NONE; i = check->blocks[i].next) {
        weiri_check_block *block = &check->blocks[i];
        weiri_clock_drop(&check->clocks, block->now);
        block->now = weiri_clock_keep(all);
        block->meeting = WEIRI_CHECK_NONE;
        block->ids_done = 1; /* it has met */
    }
    weiri_clock_drop(&check->clocks, all);
    meeting->arrived = 0;
    weiri_check_wake(check, &meeting->waiting);
}

static int meet(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    weiri_check_block *at = &check->blocks[block];
    weiri_check_meeting *meeting = meeting_of(check, at->rank, op);
    if (at->ids_done) {
        at->ids_done = 0;
        return 1;
    }
    weiri_check_fence(check, block);
    at->state = WEIRI_CHECK_MEETS;
    at->meeting = (uint32_t)(meeting - check->meetings);
    at->next = meeting->waiting;
    meeting->waiting = block;
    if (++meeting->arrived == meeting->nblocks)
        part(check, meeting);
    return 0;
}

/* ------------------------------------------------------------- an operation */

static int take_ids(weiri_check *check, uint32_t block, const weiri_plan_op *op, int is_relaxed,
                    int take)
{
    weiri_check_block *at = &check->blocks[block];
    while (at->ids_done < op->nids) {
        uint32_t counter = weiri_check_counter_of(check, at->rank, op, at->ids_done);
        if (!acquire(check, block, counter, is_relaxed, take))
            return 0;
        at->ids_done++;
    }
    at->ids_done = 0;
    return 1;
}

int weiri_check_sync(weiri_check *check, uint32_t block, const weiri_plan_op *op, int take)
{
    switch (op->kind) {
    case WEIRI_PLAN_NOP_OP:
        weiri_check_fence(check, block);
        return 1;
    case WEIRI_PLAN_BARRIER_OP:
        return meet(check, block, op);
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
    case WEIRI_PLAN_SEM_RELEASE_OP:
        weiri_check_signal_ids(check, block, op, op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP);
        return 1;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        return take_ids(check, block, op, op->kind == WEIRI_PLAN_RELAXED_WAIT_OP, take);
    default:
        weiri_check_flush(check, block, op);
        return 1;
    }
}

/* ------------------------------------------------------------ after a launch */

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
        weiri_clock *all = known_of(check, counter, take->advances, take);
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
            depends |= is_behind(check, &counter->signals[j], &counter->takes[i]) ||
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
