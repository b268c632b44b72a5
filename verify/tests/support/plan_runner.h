/*
 * Included by tests. Runs small plans in random order, with the weakest memory ordering that is
 * allowed, to compare the results with those of the plan checker, with which it shares only the
 * plan and the layout.
 *
 * A plan's three launches become tasks: each read and write of an element, each signal, each wait,
 * and fences. Tasks of a thread block between two fences run in any order; a port executes its
 * requests later, in order; a relaxed signal may arrive as early as its launch, and a relaxed wait
 * may end as early as the other rank's launch. A run picks a random task among those that can run,
 * until there are none.
 *
 * Two runs of a plan without races read and write every element in the same order, which is
 * compared by a hash over all elements. A correct plan ends and leaves correct results. Data are
 * random numbers, and a reduction is their sum.
 */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_RUNNER_H
#define VERIFY_TESTS_SUPPORT_PLAN_RUNNER_H

#include "verify/tests/support/plan_tasks.h"

/* --------------------------------------------------------------------- runs */

/* Outputs of a rank's launch. */
static uint64_t run_expected(const runner *run, int rank, uint32_t chunk, int unit, int launch)
{
    const uint32_t of_block = weiri_plan_block_chunks(run->plan);
    const int nranks = run->plan->nranks;
    uint64_t sum = 0;
    switch (run->plan->collective) {
    case WEIR_COLL_ALLGATHER:
        return run_input((int)(chunk / of_block), chunk % of_block, unit, launch);
    case WEIR_COLL_ALLTOALL:
        return run_input((int)(chunk / of_block), (uint32_t)rank * of_block + chunk % of_block,
                         unit, launch);
    case WEIR_COLL_BROADCAST:
        return run_input(run->root, chunk, unit, launch);
    case WEIR_COLL_REDUCE_SCATTER:
        chunk += (uint32_t)rank * of_block;
        break;
    default:
        break;
    }
    for (int i = 0; i < nranks; i++)
        sum += run_input(i, chunk, unit, launch);
    return sum;
}

static void run_judge(runner *run, int rank, int launch)
{
    if (run->plan->collective < 0 ||
        (run->plan->collective == WEIR_COLL_REDUCE && rank != run->root))
        return;
    for (uint32_t i = 0; i < run_chunks(run, WEIR_PLAN_OUTPUT); i++)
        for (int unit = 0; unit < run_units(run, WEIR_PLAN_OUTPUT, i); unit++)
            run->wrong |= run->cells[run_cell_of(run, rank, WEIR_PLAN_OUTPUT, i, unit, 0)].value !=
                          run_expected(run, rank, i, unit, launch);
}

static void run_write(run_cell *cell, uint64_t id, uint64_t value, int packets)
{
    cell->order = run_mix(cell->order + cell->reads * 3 + id);
    cell->reads = 0;
    cell->value = value;
    cell->packets = packets;
}

static void run_caller(runner *run, const run_task *task)
{
    if (task->launch > 0)
        run_judge(run, task->rank, task->launch - 1);
    for (int buffer = WEIR_PLAN_OUTPUT; buffer >= WEIR_PLAN_INPUT; buffer--)
        for (uint32_t i = 0; i < run_chunks(run, buffer); i++)
            for (int unit = 0; unit < run->units; unit++)
                run_write(&run->cells[run_cell_of(run, task->rank, buffer, i, unit, 0)], task->id,
                          buffer == WEIR_PLAN_INPUT ? run_input(task->rank, i, unit, task->launch)
                                                    : task->id,
                          -1);
    run->begun[task->rank] = task->launch + 1;
}

/* All requests before one in its queue, or all there are, have nothing of that left. */
static int run_queue_done(const runner *run, int link, int place, int with_writes)
{
    for (int i = 0; i < run->nentries; i++) {
        const run_entry *entry = &run->entries[i];
        if (entry->link == link && entry->place >= 0 && entry->place < place &&
            (entry->reads || (with_writes && (entry->writes || entry->advances))))
            return 0;
    }
    return 1;
}

static int run_can(const runner *run, const run_task *task)
{
    const run_entry *entry = task->entry >= 0 ? &run->entries[task->entry] : NULL;
    int is_ports = task->kind == RUN_PORT_READ || task->kind == RUN_PORT_WRITE ||
                   task->kind == RUN_PORT_ADVANCE;
    if (!is_ports && task->after >= 0 && !run->tasks[task->after].done)
        return 0;
    if (!is_ports && task->thread_after >= 0 && !run->tasks[task->thread_after].done)
        return 0;
    switch ((run_kind)task->kind) {
    case RUN_CALLER:
        return run->ended[task->rank] == task->launch * (int)run->plan->gpus[task->rank].nblocks;
    case RUN_READ:
        return !task->awaits || run->cells[task->cell].packets == task->launch;
    case RUN_WRITE:
        return run->lanes[task->lane].reads_left == 0;
    case RUN_FENCE:
        return run->left[task->stretch] == 0 &&
               (task->arrivals == 0 || run->arrived[task->barrier] >= task->arrivals);
    case RUN_TAKE:
        return run->counts[task->counter] > run->taken[task->counter];
    case RUN_EARLY_TAKE:
        return run->begun[run->counter_rank[task->counter]] > task->launch;
    case RUN_FLUSH:
        return run_queue_done(run, task->link, run->queued[task->link], 0);
    case RUN_PORT_READ:
        return entry->place >= 0 && run_queue_done(run, entry->link, entry->place, 0) &&
               (!task->awaits || run->cells[task->cell].packets == task->launch);
    case RUN_PORT_WRITE:
        return entry->place >= 0 && run->lanes[task->lane].reads_left == 0 &&
               run_queue_done(run, entry->link, entry->place, 1);
    case RUN_PORT_ADVANCE:
        return entry->place >= 0 && run_queue_done(run, entry->link, entry->place, 1);
    default:
        return 1;
    }
}

static void run_read(runner *run, const run_task *task)
{
    run_cell *cell = &run->cells[task->cell];
    run_lane *lane = &run->lanes[task->lane];
    int is_packets = cell->packets >= 0;
    cell->reads += task->id;
    lane->reads_left--;
    if (lane->exists)
        lane->sum += is_packets == task->is_packets ? cell->value : run_mix(task->id);
}

static void run_do(runner *run, run_task *task)
{
    run_entry *entry = task->entry >= 0 ? &run->entries[task->entry] : NULL;
    switch ((run_kind)task->kind) {
    case RUN_CALLER:
        run_caller(run, task);
        break;
    case RUN_PORT_READ:
        entry->reads--;
        run_read(run, task);
        break;
    case RUN_READ:
        run_read(run, task);
        break;
    case RUN_PORT_WRITE:
        entry->writes--;
        run_write(&run->cells[task->cell], task->id, run->lanes[task->lane].sum,
                  task->is_packets ? task->launch : -1);
        break;
    case RUN_WRITE:
        run_write(&run->cells[task->cell], task->id, run->lanes[task->lane].sum,
                  task->is_packets ? task->launch : -1);
        break;
    case RUN_ARRIVE:
        run->arrived[task->barrier]++;
        break;
    case RUN_ADVANCE:
    case RUN_EARLY_ADVANCE:
        run->counts[task->counter]++;
        break;
    case RUN_PORT_ADVANCE:
        entry->advances--;
        run->counts[task->counter]++;
        break;
    case RUN_TAKE:
    case RUN_EARLY_TAKE:
        run->taken[task->counter]++;
        break;
    case RUN_PUSH:
        entry->place = run->queued[task->link]++;
        break;
    default:
        break;
    }
    if (task->kind != RUN_PORT_READ && task->kind != RUN_PORT_WRITE &&
        task->kind != RUN_PORT_ADVANCE && task->kind != RUN_CALLER && task->kind != RUN_FENCE)
        run->left[task->stretch]--;
    run->ended[task->rank] += task->ends;
    task->done = 1;
}

static int run_next_random(uint64_t *state, int below)
{
    *state = run_mix(*state + 1);
    return (int)(*state % (uint64_t)below);
}

/* Which tasks a run puts off as long as any other can run. */
typedef struct run_bias {
    enum { RUN_NONE, RUN_SOME, RUN_RANK, RUN_BLOCK, RUN_ONE } kind;
    uint64_t salt;
    unsigned share; /* of 100 tasks; SOME */
    run_task like;  /* RANK, BLOCK: of the same; ONE: this one */
} run_bias;

static run_bias run_choose_bias(const runner *run, uint64_t *state, uint64_t seed)
{
    static const unsigned shares[] = {5, 15, 40};
    run_bias made = {RUN_NONE, 0, 0, {0}};
    made.kind = (int)(seed % 8) < 5 ? (int)(seed % 8) : RUN_ONE;
    made.share = shares[seed / 8 % 3];
    made.salt = *state = run_mix(*state);
    made.like = run->tasks[run_next_random(state, run->ntasks)];
    return made;
}

static int run_puts_off(const run_bias *bias, const run_task *task)
{
    switch (bias->kind) {
    case RUN_SOME:
        return run_mix((task->id >> 1) ^ bias->salt) % 100 < bias->share;
    case RUN_RANK:
        return task->rank == bias->like.rank;
    case RUN_BLOCK:
        return task->rank == bias->like.rank && task->block == bias->like.block;
    case RUN_ONE:
        return task->id == bias->like.id;
    default:
        return 0;
    }
}

/* A task that can run, or -1. */
static int run_pick(runner *run, uint64_t *state, const run_bias *bias, int late)
{
    static const run_bias none = {RUN_NONE, 0, 0, {0}};
    for (int l = 0; l <= RUN_LAUNCHES; l++) {
        int launch = late ? RUN_LAUNCHES - l : l;
        int count = run->nopen[launch], first = count ? run_next_random(state, count) : 0;
        for (int i = 0; i < count; i++) {
            int at = run->open[launch][(first + i) % count];
            const run_task *task = &run->tasks[at];
            if (!run_puts_off(bias, task) && run_can(run, task))
                return at;
        }
    }
    return bias->kind == RUN_NONE ? -1 : run_pick(run, state, &none, late);
}

typedef struct run_outcome {
    int ended, wrong, unbalanced;
    uint64_t order; /* in which elements were written and read */
} run_outcome;

static void run_reset(runner *run)
{
    memcpy(run->left, run->left_then, (size_t)run->nstretches * sizeof *run->left);
    memcpy(run->lanes, run->lanes_then, (size_t)run->nlanes * sizeof *run->lanes);
    memcpy(run->entries, run->entries_then, (size_t)run->nentries * sizeof *run->entries);
    memcpy(run->counts, run->initial, sizeof run->counts);
    memset(run->taken, 0, sizeof run->taken);
    memset(run->arrived, 0, sizeof run->arrived);
    memset(run->queued, 0, sizeof run->queued);
    memset(run->begun, 0, sizeof run->begun);
    memset(run->ended, 0, sizeof run->ended);
    memset(run->nopen, 0, sizeof run->nopen);
    for (int i = 0; i < run->ncells; i++)
        run->cells[i] = (run_cell){run_mix((uint64_t)i), 0, 0, -1};
    for (int i = 0; i < run->ntasks; i++) {
        int launch = run->tasks[i].launch;
        run->tasks[i].done = 0;
        run->tasks[i].place = run->nopen[launch];
        run->open[launch][run->nopen[launch]++] = i;
    }
    run->wrong = 0;
}

/* One run, which seed decides. */
static run_outcome run_once(runner *run, uint64_t seed)
{
    uint64_t state = run_mix(seed);
    const run_bias bias = run_choose_bias(run, &state, seed);
    run_outcome made = {0, 0, 0, 0};
    int at, late = bias.kind >= RUN_RANK || seed / 8 % 2;
    run_reset(run);
    while ((at = run_pick(run, &state, &bias, late)) >= 0) {
        run_task *task = &run->tasks[at];
        int *open = run->open[task->launch], last = --run->nopen[task->launch];
        open[task->place] = open[last];
        run->tasks[open[last]].place = task->place;
        run_do(run, task);
    }
    made.ended = 1;
    for (int launch = 0; launch <= RUN_LAUNCHES; launch++)
        made.ended &= run->nopen[launch] == 0;
    made.wrong = run->wrong;
    for (int i = 0; i < run->ncounters; i++)
        made.unbalanced |= run->counts[i] - run->taken[i] != run->initial[i];
    for (int i = 0; i < run->ncells; i++)
        made.order = run_mix(made.order + run->cells[i].order + run->cells[i].reads * 3);
    return made;
}

#endif
