/* weir_plan_check: simulates the plan once for each byte class (check.h) and reports violations. */
#include "plan/check/check.h"

#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ messages */

const char *weir_plan_fault_name(weir_plan_fault fault)
{
    static const char *const names[] = {"result", "deadlock", "race", "balance", "barrier"};
    return (unsigned)fault < sizeof names / sizeof *names ? names[fault] : "?";
}

/* -------------------------------------------------------------------- blocks */

/* Moves on to the next operation, or to the next pipeline iteration. */
static void check_advance_block(weiri_check *check, weiri_check_block *block)
{
    block->op++;
    if (block->pipeline == WEIRI_CHECK_NONE)
        return;
    const weiri_plan_op *loop = weiri_check_op(check, block, block->pipeline);
    if (block->op <= block->pipeline + loop->nops)
        return;
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, block);
    uint32_t pipe = check->classes.pipe_of_op[block->rank][loop - gpu->ops];
    if (++block->iteration < (uint32_t)check->row[1 + pipe])
        block->op = block->pipeline + 1;
    else
        block->pipeline = WEIRI_CHECK_NONE;
}

/* Enters a pipeline, or skips one without iterations. */
static void check_enter_pipeline(weiri_check *check, weiri_check_block *block,
                                 const weiri_plan_op *loop)
{
    uint32_t pipe =
        check->classes.pipe_of_op[block->rank][loop - weiri_check_gpu(check, block)->ops];
    if (check->row[1 + pipe] == 0) {
        block->op += 1 + loop->nops;
        return;
    }
    block->pipeline = block->op++;
    block->iteration = 0;
}

/* Fails the check if a clock could not be allocated: it then covers too few events, and what it
 * seems to show as a race may be none. */
static void check_clocks(weiri_check *check)
{
    if (check->clocks.failed == WEIR_ERR_UNSUPPORTED)
        weiri_check_fail(check, WEIR_ERR_UNSUPPORTED,
                         "more signals under way at a time than the checker has memory for: too "
                         "large to check");
    else if (check->clocks.failed != WEIR_OK)
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
}

/* Runs a block until it waits or ends. deferred: see weiri_check_sync; for its first op only. */
static void run_block(weiri_check *check, uint32_t index, int deferred)
{
    weiri_check_block *block = &check->blocks[index];
    uint32_t nops = weiri_check_gpu(check, block)->blocks[block->index].nops;
    block->state = WEIRI_CHECK_RUNNABLE;
    while (block->op < nops && check->status == WEIR_OK) {
        const weiri_plan_op *op = weiri_check_op(check, block, block->op);
        weiri_plan_mode mode = weiri_plan_traits[op->kind].mode;
        int went_on = 1;
        if (mode == WEIRI_PLAN_LOOP) {
            check_enter_pipeline(check, block, op);
            continue;
        }
        if (mode == WEIRI_PLAN_SYNC)
            went_on = weiri_check_sync(check, index, op, deferred);
        else
            went_on = weiri_check_data(check, index, op);
        deferred = 0;
        if (!went_on)
            return;
        if (check->recorder)
            weiri_check_record(check, index);
        check_advance_block(check, block);
        check_clocks(check);
    }
    block->state = WEIRI_CHECK_ENDED;
    weiri_check_fence(check, index);
}

/* Runs blocks until none can proceed. Blocks at counters with several signallers come last. */
static void run_ready(weiri_check *check)
{
    for (;;) {
        while (check->nready && check->status == WEIR_OK)
            run_block(check, check->ready[--check->nready], 0);
        uint32_t i = 0;
        while (i < check->nblocks && check->blocks[i].state != WEIRI_CHECK_DEFERRED)
            i++;
        if (i == check->nblocks || check->status != WEIR_OK)
            return;
        run_block(check, i, 1);
    }
}

/* ------------------------------------------------------------------ launches */

/* Begins a rank's launch, which is ordered after its last one and after the caller's accesses. */
static void begin_launch(weiri_check *check, int rank)
{
    weiri_clocks *clocks = &check->clocks;
    for (uint32_t i = check->first_block[rank]; i < check->first_block[rank + 1]; i++)
        if (check->blocks[i].now)
            weiri_clock_join(clocks, &check->begin[rank], check->blocks[i].now);
    weiri_check_caller_access(check, rank);
    weiri_clock_set(clocks, &check->begin[rank], check->rank_chain + (uint32_t)rank,
                    check->launch + 1);
    weiri_check_begin_values(check, rank);
    for (uint32_t i = check->first_block[rank]; i < check->first_block[rank + 1]; i++) {
        weiri_check_block *block = &check->blocks[i];
        weiri_clock_drop(clocks, block->now);
        block->now = weiri_clock_keep(check->begin[rank]);
        block->op = block->iteration = block->ids_done = 0;
        block->pipeline = block->counter = block->place = block->barrier_index = WEIRI_CHECK_NONE;
        block->state = WEIRI_CHECK_RUNNABLE;
    }
    for (uint32_t i = check->first_block[rank + 1]; i > check->first_block[rank]; i--)
        check->ready[check->nready++] = i - 1; /* a stack: the first block runs first */
}

static int all_ended(const weiri_check *check)
{
    for (uint32_t i = 0; i < check->nblocks; i++)
        if (check->blocks[i].state != WEIRI_CHECK_ENDED)
            return 0;
    return 1;
}

/* Returns 0 if the simulation of this byte class has to stop. */
static int run_launch(weiri_check *check)
{
    check->nready = 0;
    check->nsources = 0;
    check->first_lane = check->nlanes;
    for (uint32_t i = 0; i < check->nlanes; i++)
        check->lanes[i].count = 0; /* no data flows from one launch into another */
    for (int rank = check->plan->nranks - 1; rank >= 0; rank--)
        begin_launch(check, rank);
    run_ready(check);
    if (check->status != WEIR_OK)
        return 0;
    if (!all_ended(check)) {
        weiri_check_deadlock(check);
        return 0;
    }
    weiri_check_propagate_reached(check);
    weiri_check_counters_balanced(check);
    if (check->restart || check->status != WEIR_OK)
        return 0;
    if (check->report->proves_result && (check->classes.columns == 0 || check->row[0]))
        weiri_check_results(check);
    return check->report->nviolations == 0;
}

/* After the last launch the caller uses its buffers. */
static void end_launches(weiri_check *check)
{
    check->launch = WEIRI_CHECK_LAUNCHES;
    for (int rank = 0; rank < check->plan->nranks; rank++) {
        for (uint32_t i = check->first_block[rank]; i < check->first_block[rank + 1]; i++)
            weiri_clock_join(&check->clocks, &check->begin[rank], check->blocks[i].now);
        weiri_check_caller_access(check, rank);
    }
}

/* --------------------------------------------------------------- byte classes */

static void clear_places(weiri_check *check)
{
    const weiri_check_access none = {WEIRI_CHECK_NONE, 0, WEIRI_CHECK_NONE, WEIRI_CHECK_NONE, 0};
    for (uint32_t i = 0; i < check->nplaces; i++)
        check->places[i] = (weiri_check_place){.value = {.culprit = WEIRI_CHECK_NONE},
                                               .last = none,
                                               .reads = WEIRI_CHECK_NONE,
                                               .waiting = WEIRI_CHECK_NONE,
                                               .packets = -1};
    check->free_access = WEIRI_CHECK_NONE;
    check->ninstances = check->nlanes = check->nsources = check->naccesses = 0;
    check->naccessed = 0;
    check->steps_left = UINT64_C(100) * 1000 * 1000;
}

static void check_simulate_class(weiri_check *check, const int32_t *row)
{
    check->row = row;
    check->restart = 0;
    clear_places(check);
    for (int rank = 0; rank < check->plan->nranks; rank++)
        check->begin[rank] = weiri_clock_new(&check->clocks);
    for (uint32_t i = 0; i < check->nblocks; i++) {
        check->blocks[i].tick = 0;
        for (uint32_t j = 0; j < check->blocks[i].nports; j++) {
            weiri_check_port *port = &check->blocks[i].ports[j];
            port->nputs = port->ncovered = 0;
            port->interval = WEIRI_CHECK_NONE; /* no put yet */
        }
    }
    check_clocks(check);
    int goes_on = check->status == WEIR_OK;
    for (check->launch = 0; goes_on && check->launch < WEIRI_CHECK_LAUNCHES; check->launch++)
        goes_on = run_launch(check);
    if (goes_on)
        end_launches(check);
    check_clocks(check);
}

/* Drops the clocks that remain: of blocks, and of signals that no block waited for. */
static void check_end_class(weiri_check *check)
{
    for (uint32_t i = 0; i < check->nblocks; i++) {
        weiri_clock_drop(&check->clocks, check->blocks[i].now);
        weiri_clock_drop(&check->clocks, check->blocks[i].pending);
        check->blocks[i].now = check->blocks[i].pending = NULL;
        check->blocks[i].pending_ranks = 0;
    }
    for (int rank = 0; rank < check->plan->nranks; rank++) {
        weiri_clock_drop(&check->clocks, check->begin[rank]);
        check->begin[rank] = NULL;
    }
    weiri_check_reset_counters(check);
}

static void check_run_class(weiri_check *check, const int32_t *row)
{
    check_simulate_class(check, row);
    check_end_class(check);
}

static weir_status plan_check_conclude(const weiri_check *check)
{
    const weir_plan *plan = check->plan;
    const weir_plan_violation *first = &check->report->violations[0];
    char where[WEIRI_PLAN_WHERE_BYTES];
    uint32_t block = 0;
    if (check->status != WEIR_OK || check->report->nviolations == 0)
        return check->status;
    while (block < plan->gpus[first->rank].nblocks &&
           plan->gpus[first->rank].blocks[block].id != first->block)
        block++;
    weiri_plan_where(plan, first->rank, block, first->op, where);
    return weiri_fail(WEIR_ERR_INVALID, "%s: %s", where, first->text);
}

/* Executes all byte classes. Returns 0 if a waiter has turned out to be less ordered than when the
 * reach was found, so that other classes are needed. */
static int check_run_classes(weiri_check *check)
{
    const weiri_check_classes *classes = &check->classes;
    weir_plan_report *report = check->report;
    for (uint32_t i = 0; i < classes->count && check->status == WEIR_OK && !report->nviolations;
         i++) {
        check_run_class(check, classes->rows ? &classes->rows[i * (size_t)classes->columns] : NULL);
        if (!check->restart)
            continue;
        report->nviolations = 0;
        if (classes->npipes && classes->reach != WEIRI_CHECK_NONE)
            return 0;
        i--;
    }
    return 1;
}

/* Describes the lengths that the byte classes cover. */
static void check_report_lengths(weiri_check *check)
{
    const weiri_check_classes *classes = &check->classes;
    weir_plan_report *report = check->report;
    report->nworlds = classes->count;
    report->all_lengths = classes->max_chunk_bytes == 0;
    report->max_chunk_bytes = classes->max_chunk_bytes;
    report->max_turns = 0;
    for (uint32_t i = 0; i < classes->npipes && !report->all_lengths; i++) {
        const weiri_check_pipe *pipe = &classes->pipes[i];
        const uint64_t bytes = pipe->num_chunks * classes->max_chunk_bytes;
        const uint64_t turns = (bytes + pipe->unit_bytes - 1) / pipe->unit_bytes;
        report->max_turns = turns > report->max_turns ? (unsigned)turns : report->max_turns;
    }
}

void weiri_check_describe_lengths(const weir_plan_report *report, char *text)
{
    if (report->all_lengths)
        snprintf(text, WEIRI_CHECK_TEXT, "for every length");
    else if (report->max_turns)
        snprintf(text, WEIRI_CHECK_TEXT,
                 "for up to %u turns of a pipeline (chunks of up to %llu bytes)", report->max_turns,
                 (unsigned long long)report->max_chunk_bytes);
    else
        snprintf(text, WEIRI_CHECK_TEXT, "for chunks of up to %llu bytes",
                 (unsigned long long)report->max_chunk_bytes);
}

/* Reports violations, or the lengths for which there are none. */
static void check_plan(weiri_check *check)
{
    weiri_check_set_up(check);
    if (check->status == WEIR_OK && check->classes.npipes &&
        !weiri_check_is_short(check->plan, &check->classes, WEIRI_CHECK_ITERATIONS))
        weiri_check_find_reach(check);
    if (check->status != WEIR_OK || check->report->nviolations)
        return;
    for (int is_done = 0; !is_done && check->status == WEIR_OK;) {
        check->status = weiri_check_find_classes(check->plan, &check->classes);
        if (check->status != WEIR_OK)
            return;
        check_report_lengths(check);
        is_done = check_run_classes(check);
        if (!is_done)
            check->classes.reach = WEIRI_CHECK_NONE;
    }
}

/* Keeps what executors need of a proof with the plan, which is constant for its users. Several
 * threads may check a plan at once; the first proof stays. */
static void plan_keep_proof(const weir_plan *plan, const weir_plan_report *report)
{
    weiri_plan_proof *made = calloc(1, sizeof *made), *none = NULL;
    if (!made) /* executors check again */
        return;
    made->root = report->root;
    made->max_chunk_bytes = report->max_chunk_bytes;
    weiri_check_describe_lengths(report, made->lengths);
    if (!__atomic_compare_exchange_n(&((weir_plan *)(uintptr_t)plan)->proof, &none, made, 0,
                                     __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        free(made);
    weiri_log(WEIRI_LOG_DEBUG, "plan %s: proved", plan->file);
}

weir_status weiri_check_plan(const weir_plan *plan, int is_strict, weir_plan_report *report,
                             weiri_check_fix *fixes)
{
    weir_plan_report *made = calloc(1, sizeof *made);
    weiri_check check = {.run_class = check_run_class,
                         .plan = plan,
                         .report = made,
                         .fixes = fixes,
                         .status = WEIR_OK,
                         .is_strict = is_strict};
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to check the plan", plan->file);
    made->proves_result = weiri_check_knows_result(plan);
    check.status = weiri_check_find_shapes(plan, &check.classes);
    if (check.status == WEIR_OK) {
        check_plan(&check);
        weiri_check_free_classes(plan, &check.classes);
        weiri_check_tear_down(&check);
        weiri_clocks_free(&check.clocks);
    }
    weir_status status = plan_check_conclude(&check);
    if (report && check.status == WEIR_OK)
        *report = *made;
    if (status == WEIR_OK)
        plan_keep_proof(plan, made);
    free(made);
    return status;
}

weir_status weir_plan_check(const weir_plan *plan, weir_plan_report *report)
{
    WEIRI_REQUIRE(plan);
    return weiri_check_plan(plan, 0, report, NULL);
}

weir_status weir_plan_check_strict(const weir_plan *plan, weir_plan_report *report)
{
    WEIRI_REQUIRE(plan);
    return weiri_check_plan(plan, 1, report, NULL);
}
