/*
 * Executes synchronizing operations: fences, barriers, and requests to ports. Signals, waits and
 * semaphores are in check_counter.c.
 *
 * A signal carries what is ordered before it: what its block did before its last fence, after which
 * all threads of the block have done it. What a waiter joins is ordered before what its block does
 * after its next fence.
 */
#include "plan/check/check.h"

/* ------------------------------------------------------------- fence, ports */

/* A barrier of all threads of the block. */
void weiri_check_fence(weiri_check *check, uint32_t block)
{
    weiri_check_block *at = &check->blocks[block];
    if (at->pending)
        weiri_clock_join(&check->clocks, &at->now, at->pending);
    weiri_clock_drop(&check->clocks, at->pending);
    at->pending = NULL;
    for (weiri_rank_set ranks = at->pending_ranks; ranks; ranks &= ranks - 1)
        weiri_clock_join(&check->clocks, &at->now, check->begin[weiri_rank_set_lowest(ranks)]);
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

uint32_t weiri_check_puts_before(const weiri_check_block *block, const weiri_check_port *port,
                                 uint32_t i)
{
    if (port->interval != block->tick || port->thread == i)
        return port->nputs;
    return port->ncovered;
}

void weiri_check_join_pending(weiri_check *check, uint32_t block, const weiri_clock *clock)
{
    weiri_check_block *at = &check->blocks[block];
    if (!at->pending)
        at->pending = weiri_clock_new(&check->clocks);
    if (at->pending)
        weiri_clock_join(&check->clocks, &at->pending, clock);
}

void weiri_check_order_pending(weiri_check *check, uint32_t block, uint32_t chain, uint32_t events)
{
    weiri_check_block *at = &check->blocks[block];
    if (!at->pending)
        at->pending = weiri_clock_new(&check->clocks);
    if (at->pending && weiri_clock_at(at->pending, chain) < events)
        weiri_clock_set(&check->clocks, &at->pending, chain, events);
}

/* Waits until a port channel has read the sources of its puts. Memory channels need no flush. */
void weiri_check_flush(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    const weiri_check_block *at = &check->blocks[block];
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    for (uint32_t i = 0; op->channel == WEIRI_PLAN_PORT && i < op->nids; i++) {
        weiri_check_port *port = weiri_check_port_of(check, block, gpu->ids[op->first_id + i]);
        if (port)
            weiri_check_order_pending(check, block, port->chain,
                                      weiri_check_puts_before(at, port, i));
    }
}

/* ----------------------------------------------------------------- barriers */

void weiri_check_wake(weiri_check *check, uint32_t *waiting)
{
    while (*waiting != WEIRI_CHECK_NONE) {
        weiri_check_block *block = &check->blocks[*waiting];
        check->ready[check->nready++] = *waiting;
        *waiting = block->next;
        block->state = WEIRI_CHECK_RUNNABLE;
        block->place = block->counter = WEIRI_CHECK_NONE;
    }
}

static weiri_check_barrier *barrier_of(weiri_check *check, int rank, const weiri_plan_op *op)
{
    for (uint32_t i = 0; i < check->nbarriers; i++)
        if (check->barriers[i].rank == rank && check->barriers[i].barrier == op->barrier &&
            check->barriers[i].nblocks == op->nblocks)
            return &check->barriers[i];
    return NULL;
}

/* Reports an entry that may come before the entries that completed the barrier last, if more blocks
 * use the barrier than it has: executors only count entries. */
static void barrier_check_entry(weiri_check *check, uint32_t block, const weiri_plan_op *op,
                                weiri_check_barrier *barrier)
{
    const weiri_check_block *at = &check->blocks[block];
    for (uint32_t i = 0; barrier->nusers > barrier->nblocks && i < barrier->nentries; i++) {
        const weiri_check_entry *entry = &barrier->entries[i];
        char where[WEIRI_CHECK_TEXT];
        if (weiri_clock_at(at->now, check->blocks[entry->block].chain) >= entry->tick)
            continue;
        weiri_check_report_violation(
            check, WEIR_PLAN_FAULT_BARRIER, at->rank, block, at->op,
            "barrier %u expects %u thread blocks, but %u of the rank use it, and nothing orders "
            "this entry after that of %s",
            op->barrier, op->nblocks, barrier->nusers,
            weiri_check_where(check, entry->block, check->blocks[entry->block].op, where));
        weiri_check_advise(check, "give these thread blocks a barrier that the others do not use "
                                  "(rank.barrier, weir_plan_group), or order the two by a "
                                  "Semaphore: release after the earlier barrier, acquire before "
                                  "this one (weir_plan_release, weir_plan_acquire)");
    }
}

/* All blocks have arrived: each joins the clocks of all. */
static void barrier_release_all(weiri_check *check, weiri_check_barrier *barrier)
{
    weiri_clock *all = weiri_clock_keep(check->blocks[barrier->waiting].now);
    barrier->nentries = 0;
    for (uint32_t i = barrier->waiting; i != WEIRI_CHECK_NONE; i = check->blocks[i].next)
        weiri_clock_join(&check->clocks, &all, check->blocks[i].now);
    for (uint32_t i = barrier->waiting; i != WEIRI_CHECK_NONE; i = check->blocks[i].next) {
        weiri_check_block *block = &check->blocks[i];
        weiri_clock_drop(&check->clocks, block->now);
        block->now = weiri_clock_keep(all);
        block->barrier_index = WEIRI_CHECK_NONE;
        block->ids_done = 1; /* it has passed the barrier */
        barrier->entries[barrier->nentries++] = (weiri_check_entry){i, block->tick};
    }
    weiri_clock_drop(&check->clocks, all);
    barrier->arrived = 0;
    weiri_check_wake(check, &barrier->waiting);
}

static int barrier_enter(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    weiri_check_block *at = &check->blocks[block];
    weiri_check_barrier *barrier = barrier_of(check, at->rank, op);
    if (at->ids_done) {
        at->ids_done = 0;
        return 1;
    }
    weiri_check_fence(check, block);
    barrier_check_entry(check, block, op, barrier);
    at->state = WEIRI_CHECK_IN_BARRIER;
    at->barrier_index = (uint32_t)(barrier - check->barriers);
    at->next = barrier->waiting;
    barrier->waiting = block;
    if (++barrier->arrived == barrier->nblocks)
        barrier_release_all(check, barrier);
    return 0;
}

/* ------------------------------------------------------------ one operation */

static int acquire_ids(weiri_check *check, uint32_t block, const weiri_plan_op *op, int is_relaxed,
                       int deferred)
{
    weiri_check_block *at = &check->blocks[block];
    while (at->ids_done < op->nids) {
        uint32_t counter = weiri_check_counter_of(check, at->rank, op, at->ids_done);
        if (!weiri_check_acquire_credit(check, block, counter, is_relaxed, deferred))
            return 0;
        at->ids_done++;
    }
    at->ids_done = 0;
    return 1;
}

static int is_changed(const weiri_check *check, uint32_t block, const weiri_check_change *change)
{
    return change->block == block && change->op == check->blocks[block].op;
}

static void sync_signal(weiri_check *check, uint32_t block, const weiri_plan_op *op)
{
    const int changed = check->trial && is_changed(check, block, &check->trial->signal);
    const int is_relaxed = op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP && !check->is_strong;
    if (changed)
        weiri_check_fence(check, block);
    weiri_check_signal_counters(check, block, op, is_relaxed && !changed);
}

static int sync_wait(weiri_check *check, uint32_t block, const weiri_plan_op *op, int deferred)
{
    const int changed = check->trial && is_changed(check, block, &check->trial->wait);
    const int is_relaxed = op->kind == WEIRI_PLAN_RELAXED_WAIT_OP && !check->is_strong;
    if (!acquire_ids(check, block, op, is_relaxed && !changed, deferred))
        return 0;
    if (changed)
        weiri_check_fence(check, block);
    return 1;
}

int weiri_check_sync(weiri_check *check, uint32_t block, const weiri_plan_op *op, int deferred)
{
    switch (op->kind) {
    case WEIRI_PLAN_NOP_OP:
        weiri_check_fence(check, block);
        return 1;
    case WEIRI_PLAN_BARRIER_OP:
        return barrier_enter(check, block, op);
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
    case WEIRI_PLAN_SEM_RELEASE_OP:
        sync_signal(check, block, op);
        return 1;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        return sync_wait(check, block, op, deferred);
    default:
        weiri_check_flush(check, block, op);
        return 1;
    }
}
