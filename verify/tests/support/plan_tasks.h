/*
 * Converts small plans to tasks. Included by plan_runner.h: each read and write of
 * an element, each signal and each wait, and fences, of three launches.
 */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_TASKS_H
#define VERIFY_TESTS_SUPPORT_PLAN_TASKS_H

#include "plan/format/layout.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUN_LAUNCHES = 3,
    RUN_TASKS = 6000,
    RUN_CELLS = 1024,
    RUN_COUNTERS = 512,
    RUN_ENTRIES = 512,
    RUN_BARRIERS = 16,
    RUN_BLOCKS = 64,
};

typedef enum run_kind {
    RUN_CALLER, /* writes his buffers before a launch */
    RUN_READ,
    RUN_WRITE,
    RUN_FENCE,
    RUN_ARRIVE,
    RUN_ADVANCE,
    RUN_TAKE,
    RUN_EARLY_ADVANCE, /* relaxed */
    RUN_EARLY_TAKE,
    RUN_PUSH, /* a request to a port, */
    RUN_FLUSH,
    RUN_PORT_READ, /* and what it does */
    RUN_PORT_WRITE,
    RUN_PORT_ADVANCE,
} run_kind;

/* An element's way through an operation. */
typedef struct run_lane {
    uint64_t sum;
    int reads_left;
    int exists; /* 0 beyond the end of a block; packets are complete nevertheless */
} run_lane;

typedef struct run_task {
    uint8_t kind, launch, is_packets, awaits, done, ends;
    int rank, block;
    int after;        /* a task; -1 */
    int thread_after; /* what the same thread does, or signals, before it; -1 */
    int stretch;      /* between which fences; a fence ends it */
    int lane, cell, counter, barrier, entry, link;
    int arrivals; /* at the barrier, for a fence to end; 0: it is of none */
    int place;    /* in its launch's list */
    uint64_t id;  /* the same in every run */
} run_task;

typedef struct run_cell {
    uint64_t value, order, reads;
    int packets; /* launch; -1 */
} run_cell;

/* A request to a port. */
typedef struct run_entry {
    int link;                    /* of all ranks */
    int place;                   /* in its queue; -1: not there yet */
    int reads, writes, advances; /* left */
} run_entry;

typedef struct runner {
    const weir_plan *plan;
    weiri_plan_layout layout;
    int units;  /* of a chunk */
    int strong; /* operations one by one, relaxed ones as others */
    run_task tasks[RUN_TASKS];
    int ntasks;
    run_lane lanes[RUN_TASKS], lanes_then[RUN_TASKS];
    int nlanes;
    run_cell cells[RUN_CELLS];
    int first_cell[WEIRI_PLAN_RANKS_MAX][WEIR_PLAN_BUFFERS], ncells;
    int left[RUN_TASKS], left_then[RUN_TASKS]; /* tasks of a stretch; at the begin */
    int nstretches;
    long counts[RUN_COUNTERS], taken[RUN_COUNTERS], initial[RUN_COUNTERS];
    int counter_rank[RUN_COUNTERS], ncounters;
    int first_counter[WEIRI_PLAN_RANKS_MAX][3];
    long arrived[RUN_BARRIERS];
    int meeting_keys[RUN_BARRIERS][3], nmeetings;
    int passes[RUN_BLOCKS][RUN_BARRIERS]; /* of blocks of all ranks */
    run_entry entries[RUN_ENTRIES], entries_then[RUN_ENTRIES];
    int nentries;
    int open[RUN_LAUNCHES + 1][RUN_TASKS], nopen[RUN_LAUNCHES + 1]; /* tasks that are not done */
    int queued[RUN_COUNTERS];                                       /* of a link */
    int begun[WEIRI_PLAN_RANKS_MAX], ended[WEIRI_PLAN_RANKS_MAX];   /* launches; blocks of them */
    int wrong;                                                      /* a result was */
    int root;
    int too_large;
} runner;

static uint64_t run_mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

/* ------------------------------------------------------------------ elements */

static uint32_t run_chunks(const runner *run, int buffer)
{
    return weiri_plan_blocks(run->plan, (weir_plan_buffer)buffer) *
           weiri_plan_block_chunks(run->plan);
}

static int run_cell_of(const runner *run, int rank, int buffer, uint32_t index, int unit,
                       int launch)
{
    uint32_t ins = run_chunks(run, WEIR_PLAN_INPUT), outs = run_chunks(run, WEIR_PLAN_OUTPUT);
    uint32_t own = (uint32_t)rank * weiri_plan_block_chunks(run->plan);
    if (buffer == WEIR_PLAN_SCRATCH && run->plan->double_scratch && launch % 2)
        index += run->plan->gpus[rank].chunks[WEIR_PLAN_SCRATCH];
    if (run->plan->in_place && buffer == WEIR_PLAN_INPUT && ins < outs) {
        buffer = WEIR_PLAN_OUTPUT;
        index += own;
    } else if (run->plan->in_place && buffer == WEIR_PLAN_OUTPUT && ins >= outs) {
        buffer = WEIR_PLAN_INPUT;
        index += ins > outs ? own : 0;
    }
    return run->first_cell[rank][buffer] + (int)index * run->units + unit;
}

static void run_place_cells(runner *run)
{
    for (int rank = 0; rank < run->plan->nranks; rank++)
        for (int buffer = 0; buffer < WEIR_PLAN_BUFFERS; buffer++) {
            uint32_t chunks = buffer == WEIR_PLAN_SCRATCH ? 2 * run->plan->gpus[rank].chunks[buffer]
                                                          : run_chunks(run, buffer);
            run->first_cell[rank][buffer] = run->ncells;
            run->ncells += (int)chunks * run->units;
        }
    run->too_large |= run->ncells > RUN_CELLS;
}

/* Units of a chunk that there are. */
static int run_units(const runner *run, int buffer, uint32_t index)
{
    uint64_t bytes = weiri_plan_chunk_bytes(&run->layout, (weir_plan_buffer)buffer, index);
    return (int)(bytes / run->plan->alignment);
}

static uint64_t run_input(int rank, uint32_t chunk, int unit, int launch)
{
    return run_mix(run_mix((uint64_t)rank * 977 + chunk) + (uint64_t)unit * 31 + (uint64_t)launch);
}

/* ------------------------------------------------------------------- tasks */

/* Where tasks are added: a block's program. */
typedef struct run_writer {
    runner *run;
    const weiri_plan_gpu *gpu;
    int rank, block, launch;
    uint32_t op, turn;
    int caller, after, stretch;
    int thread_last[8]; /* requests to ports since the last fence, by thread */
    int last_signal[RUN_COUNTERS];
} run_writer;

static run_task *run_add(run_writer *to, run_kind kind, uint64_t detail)
{
    runner *run = to->run;
    if (run->ntasks >= RUN_TASKS - 1) {
        run->too_large = 1;
        run->ntasks = RUN_TASKS - 2;
    }
    run_task *task = &run->tasks[run->ntasks++];
    *task = (run_task){.kind = (uint8_t)kind,
                       .launch = (uint8_t)to->launch,
                       .rank = to->rank,
                       .block = to->block,
                       .after = to->after,
                       .thread_after = -1,
                       .stretch = to->stretch,
                       .entry = -1,
                       .link = -1};
    task->id = run_mix(run_mix((uint64_t)to->rank << 40 | (uint64_t)to->block << 32 | to->op) +
                       ((uint64_t)to->launch << 48 | (uint64_t)to->turn << 32) + detail * 64 +
                       (uint64_t)kind);
    if (kind != RUN_PORT_READ && kind != RUN_PORT_WRITE && kind != RUN_PORT_ADVANCE &&
        kind != RUN_CALLER)
        run->left[to->stretch]++;
    return task;
}

/* Later tasks wait for all earlier ones of the block. */
static void run_fence(run_writer *to)
{
    run_add(to, RUN_FENCE, 0);
    to->run->left[to->stretch]--; /* it does not wait for itself */
    to->after = to->run->ntasks - 1;
    to->stretch = to->run->nstretches++;
    for (int i = 0; i < 8; i++)
        to->thread_last[i] = -1;
}

static void run_thread(run_writer *to, run_task *task, uint32_t i)
{
    task->thread_after = to->thread_last[i % 8];
    to->thread_last[i % 8] = (int)(task - to->run->tasks);
}

static int run_counter(const runner *run, const weiri_plan_gpu *gpu, int rank,
                       const weiri_plan_op *op, uint32_t i, int takes)
{
    uint32_t id = gpu->ids[op->first_id + i];
    if (op->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || op->kind == WEIRI_PLAN_SEM_RELEASE_OP)
        return run->first_counter[rank][2] + (int)id;
    if (!takes)
        return run->first_counter[rank][op->channel] + (int)id;
    const weiri_plan_link *own = &gpu->links[op->channel][id];
    const weiri_plan_gpu *peer = &run->plan->gpus[own->peer];
    for (uint32_t j = 0; j < peer->nlinks[op->channel]; j++)
        if (peer->links[op->channel][j].peer == rank &&
            peer->links[op->channel][j].ordinal == own->ordinal)
            return run->first_counter[own->peer][op->channel] + (int)j;
    return RUN_COUNTERS - 1;
}

static int run_entry_new(runner *run, int link)
{
    if (run->nentries == RUN_ENTRIES - 1) {
        run->too_large = 1;
        run->nentries--;
    }
    run->entries[run->nentries] = (run_entry){.link = link, .place = -1};
    return run->nentries++;
}

static void run_add_signals(run_writer *to, const weiri_plan_op *op)
{
    int early = op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP && !to->run->strong;
    for (uint32_t i = 0; i < op->nids; i++) {
        int counter = run_counter(to->run, to->gpu, to->rank, op, i, 0);
        if (op->channel == WEIRI_PLAN_PORT && op->kind != WEIRI_PLAN_SEM_RELEASE_OP && !early) {
            run_task *push = run_add(to, RUN_PUSH, 1000 + i);
            push->link = counter;
            push->entry = run_entry_new(to->run, counter);
            run_thread(to, push, i);
            run_task *later = run_add(to, RUN_PORT_ADVANCE, i);
            later->entry = push->entry;
            later->counter = counter;
            to->run->entries[push->entry].advances++;
            continue;
        }
        run_task *task = run_add(to, early ? RUN_EARLY_ADVANCE : RUN_ADVANCE, i);
        task->counter = counter;
        task->thread_after = to->last_signal[counter];
        if (early)
            task->after = to->caller;
        to->last_signal[counter] = (int)(task - to->run->tasks);
    }
}

static void run_add_takes(run_writer *to, const weiri_plan_op *op)
{
    int early = op->kind == WEIRI_PLAN_RELAXED_WAIT_OP && !to->run->strong;
    for (uint32_t i = 0; i < op->nids; i++) {
        run_task *task = run_add(to, early ? RUN_EARLY_TAKE : RUN_TAKE, i);
        task->counter = run_counter(to->run, to->gpu, to->rank, op, i, 1);
    }
}

static int run_barrier_of(runner *run, int rank, const weiri_plan_op *op)
{
    int i = 0, key[3] = {rank, (int)op->barrier, (int)op->nblocks};
    while (i < run->nmeetings && memcmp(run->meeting_keys[i], key, sizeof key) != 0)
        i++;
    if (i == run->nmeetings)
        memcpy(run->meeting_keys[run->nmeetings++], key, sizeof key);
    if (run->nmeetings == RUN_BARRIERS) {
        run->too_large = 1;
        run->nmeetings--;
        i = 0;
    }
    return i;
}

static void run_add_meeting(run_writer *to, const weiri_plan_op *op)
{
    runner *run = to->run;
    int barrier = run_barrier_of(run, to->rank, op), block = to->block;
    for (int rank = 0; rank < to->rank; rank++)
        block += (int)run->plan->gpus[rank].nblocks;
    run_fence(to);
    run_add(to, RUN_ARRIVE, 0)->barrier = barrier;
    run_fence(to);
    run->tasks[to->after].barrier = barrier;
    run->tasks[to->after].arrivals = (int)op->nblocks * ++run->passes[block % RUN_BLOCKS][barrier];
    run->too_large |= block >= RUN_BLOCKS;
}

/* The elements of one source or destination. */
static void run_add_access(run_writer *to, const weiri_plan_op *op, const weiri_plan_ref *ref,
                           uint32_t k, int unit, int lane, int entry, int is_write, uint32_t which)
{
    runner *run = to->run;
    const weiri_plan_switch *group =
        ref->place == WEIRI_PLAN_GROUP ? &to->gpu->switches[ref->rank] : NULL;
    if (!run->lanes[lane].exists && !ref->is_packets)
        return;
    for (uint32_t i = 0; i < (group ? group->nranks : 1); i++) {
        int rank = group                            ? (int)to->gpu->ids[group->first_rank + i]
                   : ref->place == WEIRI_PLAN_LOCAL ? to->rank
                                                    : ref->rank;
        run_kind kind = entry >= 0 ? (is_write ? RUN_PORT_WRITE : RUN_PORT_READ)
                                   : (is_write ? RUN_WRITE : RUN_READ);
        run_task *task = run_add(to, kind, ((uint64_t)which * 64 + i) * 4096 + (uint64_t)lane);
        task->lane = lane;
        task->cell = run_cell_of(run, rank, ref->buffer, ref->index + k, unit, to->launch);
        task->is_packets = ref->is_packets;
        task->awaits = ref->is_packets && op->kind != WEIRI_PLAN_PUT_PACKETS_OP;
        task->entry = entry;
        run->lanes[lane].reads_left += !is_write;
        if (entry >= 0)
            *(is_write ? &run->entries[entry].writes : &run->entries[entry].reads) += 1;
    }
}

static int run_exists(const run_writer *to, uint32_t first, uint32_t count, uint32_t k, int unit)
{
    for (uint32_t i = 0; i < count; i++) {
        const weiri_plan_ref *ref = &to->gpu->refs[first + i];
        if (ref->buffer != WEIR_PLAN_SCRATCH &&
            unit >= run_units(to->run, ref->buffer, ref->index + k))
            return 0;
    }
    return 1;
}

/* One piece: these sources into these destinations; entry -1: the block does it. */
static void run_add_piece(run_writer *to, const weiri_plan_op *op, uint64_t turn_bytes,
                          uint32_t src, uint32_t nsrcs, uint32_t dst, uint32_t ndsts, int entry)
{
    runner *run = to->run;
    uint32_t size = to->gpu->refs[src].size;
    weiri_plan_span span = weiri_plan_part(&run->layout, op, size, to->turn, turn_bytes);
    for (uint64_t at = span.first; at < span.end; at += run->plan->alignment) {
        uint32_t k = (uint32_t)(at / run->layout.chunk_bytes);
        int unit = (int)(at % run->layout.chunk_bytes / run->plan->alignment);
        int lane = run->nlanes++;
        if (run->nlanes == RUN_TASKS) {
            run->too_large = 1;
            run->nlanes--;
        }
        run->lanes[lane] = (run_lane){0};
        run->lanes[lane].exists =
            run_exists(to, src, nsrcs, k, unit) && run_exists(to, dst, ndsts, k, unit);
        for (uint32_t i = 0; i < nsrcs; i++)
            run_add_access(to, op, &to->gpu->refs[src + i], k, unit, lane, entry, 0, src + i);
        for (uint32_t i = 0; i < ndsts; i++)
            run_add_access(to, op, &to->gpu->refs[dst + i], k, unit, lane, entry, 1, dst + i);
    }
}

static void run_add_data(run_writer *to, const weiri_plan_op *op, uint64_t turn_bytes)
{
    weiri_plan_mode mode = weiri_plan_traits[op->kind].mode;
    int port = op->channel == WEIRI_PLAN_PORT;
    uint32_t pieces = mode == WEIRI_PLAN_PAIRS            ? op->nsrcs
                      : mode == WEIRI_PLAN_SPREAD && port ? op->ndsts
                                                          : 1;
    for (uint32_t i = 0; i < pieces; i++) {
        int entry = -1;
        if (port) {
            run_task *push = run_add(to, RUN_PUSH, i);
            push->link = run_counter(to->run, to->gpu, to->rank, op, i, 0);
            push->entry = entry = run_entry_new(to->run, push->link);
            run_thread(to, push, i);
        }
        run_add_piece(to, op, turn_bytes, op->first_src + (mode == WEIRI_PLAN_PAIRS ? i : 0),
                      mode == WEIRI_PLAN_PAIRS ? 1 : op->nsrcs,
                      op->first_dst + (pieces > 1 || mode == WEIRI_PLAN_PAIRS ? i : 0),
                      pieces > 1 || mode == WEIRI_PLAN_PAIRS ? 1 : op->ndsts, entry);
    }
}

static void run_add_flush(run_writer *to, const weiri_plan_op *op)
{
    for (uint32_t i = 0; op->channel == WEIRI_PLAN_PORT && i < op->nids; i++) {
        run_task *task = run_add(to, RUN_FLUSH, 2000 + i);
        task->link = run_counter(to->run, to->gpu, to->rank, op, i, 0);
        run_thread(to, task, i);
    }
}

static void run_add_op(run_writer *to, const weiri_plan_op *op, uint64_t turn_bytes)
{
    switch (op->kind) {
    case WEIRI_PLAN_NOP_OP:
        run_fence(to);
        break;
    case WEIRI_PLAN_BARRIER_OP:
        run_add_meeting(to, op);
        break;
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
    case WEIRI_PLAN_SEM_RELEASE_OP:
        run_add_signals(to, op);
        break;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        run_add_takes(to, op);
        break;
    case WEIRI_PLAN_FLUSH_OP:
        run_add_flush(to, op);
        break;
    default:
        run_add_data(to, op, turn_bytes);
        if (op->kind == WEIRI_PLAN_PUT_SIGNAL_OP || op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP) {
            if (op->channel == WEIRI_PLAN_MEMORY)
                run_fence(to);
            run_add_signals(to, op);
        }
        if (op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP)
            run_add_flush(to, op);
    }
    if (to->run->strong)
        run_fence(to);
}

static void run_add_block(runner *run, int rank, int block, int launch, int caller)
{
    const weiri_plan_gpu *gpu = &run->plan->gpus[rank];
    const weiri_plan_block *of = &gpu->blocks[block];
    run_writer to = {.run = run,
                     .gpu = gpu,
                     .rank = rank,
                     .block = block,
                     .launch = launch,
                     .caller = caller,
                     .after = caller,
                     .stretch = run->nstretches++};
    memset(to.thread_last, -1, sizeof to.thread_last);
    memset(to.last_signal, -1, sizeof to.last_signal);
    for (to.op = 0; to.op < of->nops; to.op++) {
        const weiri_plan_op *op = &gpu->ops[of->first_op + to.op];
        to.turn = 0;
        if (op->kind != WEIRI_PLAN_PIPELINE_OP) {
            run_add_op(&to, op, 0);
            continue;
        }
        uint32_t at = to.op;
        for (; to.turn < weiri_plan_turns(&run->layout, op) && !run->too_large; to.turn++)
            for (uint32_t i = 1; i <= op->nops; i++) {
                to.op = at + i;
                run_add_op(&to, op + i, op->unit_bytes);
            }
        to.op = at + op->nops;
    }
    run_fence(&to);
    run->tasks[to.after].ends = 1;
}

static void run_add_launch(runner *run, int launch)
{
    for (int rank = 0; rank < run->plan->nranks; rank++) {
        run_writer to = {.run = run, .rank = rank, .block = 99, .launch = launch, .after = -1};
        run_add(&to, RUN_CALLER, 0);
        int caller = run->ntasks - 1;
        for (uint32_t i = 0; i < run->plan->gpus[rank].nblocks && launch < RUN_LAUNCHES; i++)
            run_add_block(run, rank, (int)i, launch, caller);
    }
}

static void run_place_counters(runner *run)
{
    for (int rank = 0; rank < run->plan->nranks; rank++) {
        const weiri_plan_gpu *gpu = &run->plan->gpus[rank];
        for (int type = 0; type < 3; type++) {
            uint32_t count = type < 2 ? gpu->nlinks[type] : gpu->nsemaphores;
            run->first_counter[rank][type] = run->ncounters;
            run->too_large |= run->ncounters + (int)count >= RUN_COUNTERS - 1;
            for (uint32_t i = 0; i < count && !run->too_large; i++) {
                run->initial[run->ncounters] = type < 2 ? 0 : gpu->semaphores[i];
                run->counter_rank[run->ncounters++] = rank;
            }
        }
    }
}

/* Makes the tasks of a plan, of so many units a block. 0: there are too many. */
static int run_prepare(runner *run, const weir_plan *plan, uint64_t units, int strong, int root)
{
    memset(run, 0, sizeof *run);
    run->plan = plan;
    run->strong = strong;
    run->root = root;
    uint64_t bytes = units * plan->alignment;
    if (weiri_plan_lay_out(plan, bytes * weiri_plan_blocks(plan, WEIR_PLAN_INPUT),
                           bytes * weiri_plan_blocks(plan, WEIR_PLAN_OUTPUT), 4,
                           &run->layout) != WEIR_OK)
        return 0;
    run->units = (int)(run->layout.chunk_bytes / plan->alignment);
    run_place_cells(run);
    run_place_counters(run);
    for (int launch = 0; launch <= RUN_LAUNCHES && !run->too_large; launch++)
        run_add_launch(run, launch);
    memcpy(run->left_then, run->left, sizeof run->left);
    memcpy(run->lanes_then, run->lanes, sizeof run->lanes);
    memcpy(run->entries_then, run->entries, sizeof run->entries);
    return !run->too_large;
}

#endif
