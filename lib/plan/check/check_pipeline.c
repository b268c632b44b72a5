/*
 * Finds how far apart in a pipeline two iterations can be and still depend on each other's exact
 * distance: the reach of the plan. It bounds the number of iterations that have to be simulated.
 *
 * Suppose that in every iteration of a pipeline a block signals a counter as often as another block
 * waits for it. The wait of iteration i then ends with the signal of iteration i - lag, where the
 * lag is the same for all i: it follows from the initial credits and from the signals and waits
 * outside of the pipeline. A chain of such dependencies from one block to another passes each block
 * at most once (if it came back to a block at an earlier or the same iteration, the blocks would
 * wait for each other, which the simulation reports), so the sum of the largest lags of the blocks
 * that depend on each other bounds the distance over which the chain acts. Call this sum, with one
 * more iteration for each block because a block may signal before it waits, the reach.
 *
 * Now consider a byte of a long message. The operations that handle it run in a few iterations; in
 * all others, blocks only synchronize. Whether one event happens before another depends on the
 * difference of their iterations only while that is at most the reach. Therefore, iterations can be
 * removed where between two successive events, the begin, and the end more than the reach remain,
 * without a change of what happens before what, of deadlocks, and of what is left in counters. The
 * byte classes are shortened in this way (check_classes.c), and finitely many cover all lengths.
 *
 * Plans that are not of this form are checked up to WEIRI_CHECK_ITERATIONS iterations only, and
 * executors refuse calls that need more.
 */
#include "plan/check/check.h"

#include <stdlib.h>

/* How the blocks use one side of a counter or barrier. */
typedef struct pipeline_use {
    uint32_t block, loop; /* the only pipeline with such operations: its block, and the index of its
                           * operation in the block; NONE: none */
    uint32_t each;        /* operations in an iteration */
    uint32_t outside;     /* operations outside of pipelines */
    int is_spread;        /* several pipelines have such operations */
} pipeline_use;

enum { PIPELINE_SIGNALS, PIPELINE_WAITS, PIPELINE_SIDES };

typedef struct pipeline_finder {
    weiri_check *check;
    pipeline_use *counters; /* by counter and side */
    uint32_t *group;        /* of each block: a block that it depends on, or itself */
    uint32_t *lag;          /* of each block: the largest of its waits */
    int is_periodic;
} pipeline_finder;

static const weiri_plan_op *pipeline_op(const weiri_check *check, uint32_t block, uint32_t op)
{
    return weiri_check_op(check, &check->blocks[block], op);
}

/* ------------------------------------------------------------------------- uses */

static void pipeline_add_use(pipeline_use *use, uint32_t block, uint32_t loop)
{
    if (loop == WEIRI_CHECK_NONE) {
        use->outside++;
        return;
    }
    if (use->each && (use->block != block || use->loop != loop))
        use->is_spread = 1;
    use->block = block;
    use->loop = loop;
    use->each++;
}

static void pipeline_add_op(pipeline_finder *in, uint32_t block, const weiri_plan_op *op,
                            uint32_t loop)
{
    const int waits = weiri_check_waits_for_credits(op);
    if (op->kind == WEIRI_PLAN_BARRIER_OP && loop != WEIRI_CHECK_NONE)
        in->is_periodic = 0;
    if (!waits && !weiri_check_adds_credits(op))
        return;
    for (uint32_t i = 0; i < op->nids; i++) {
        uint32_t counter = weiri_check_counter_of(in->check, in->check->blocks[block].rank, op, i);
        pipeline_add_use(&in->counters[counter * PIPELINE_SIDES +
                                       (waits ? PIPELINE_WAITS : PIPELINE_SIGNALS)],
                         block, loop);
    }
}

static void pipeline_add_block(pipeline_finder *in, uint32_t block)
{
    const weiri_check_block *at = &in->check->blocks[block];
    const uint32_t nops = weiri_check_gpu(in->check, at)->blocks[at->index].nops;
    uint32_t loop = WEIRI_CHECK_NONE, end = 0;
    for (uint32_t i = 0; i < nops; i++) {
        const weiri_plan_op *op = pipeline_op(in->check, block, i);
        if (loop != WEIRI_CHECK_NONE && i > end)
            loop = WEIRI_CHECK_NONE;
        if (op->kind == WEIRI_PLAN_PIPELINE_OP) {
            loop = i;
            end = i + op->nops;
        } else {
            pipeline_add_op(in, block, op, loop);
        }
    }
}

/* ------------------------------------------------------------------------ reach */

static uint32_t pipeline_group(pipeline_finder *in, uint32_t block)
{
    while (in->group[block] != block)
        block = in->group[block] = in->group[in->group[block]];
    return block;
}

/* Whether two pipeline operations have the same number of iterations for every length. */
static int pipeline_is_same(const weiri_plan_op *a, const weiri_plan_op *b)
{
    return a->unit_bytes == b->unit_bytes && a->num_chunks == b->num_chunks;
}

static void pipeline_add_lag(pipeline_finder *in, uint32_t index)
{
    const weiri_check_counter *counter = &in->check->counters[index];
    const pipeline_use *signals = &in->counters[index * PIPELINE_SIDES + PIPELINE_SIGNALS];
    const pipeline_use *waits = &in->counters[index * PIPELINE_SIDES + PIPELINE_WAITS];
    if (!signals->each && !waits->each)
        return;
    if (signals->is_spread || waits->is_spread || signals->each != waits->each ||
        counter->signaller == WEIRI_CHECK_MANY || counter->waiter == WEIRI_CHECK_MANY ||
        !pipeline_is_same(pipeline_op(in->check, signals->block, signals->loop),
                          pipeline_op(in->check, waits->block, waits->loop))) {
        in->is_periodic = 0;
        return;
    }
    const uint32_t ahead = counter->initial + signals->outside;
    const uint32_t most = ahead > waits->outside ? ahead : waits->outside;
    const uint32_t lag = (most + signals->each - 1) / signals->each + 1;
    if (in->lag[waits->block] < lag)
        in->lag[waits->block] = lag;
    in->group[pipeline_group(in, signals->block)] = pipeline_group(in, waits->block);
}

/* The largest sum of the lags of blocks that depend on each other. */
static uint32_t pipeline_longest(pipeline_finder *in)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < in->check->nblocks; i++) {
        uint64_t sum = 0;
        for (uint32_t j = 0; pipeline_group(in, i) == i && j < in->check->nblocks; j++)
            sum += pipeline_group(in, j) == i ? in->lag[j] : 0;
        if (sum > WEIRI_CHECK_REACH_MAX)
            return WEIRI_CHECK_NONE;
        most = sum > most ? (uint32_t)sum : most;
    }
    return most;
}

/* Whether all pipelines divide chunks in the same unit, which consists of whole units of the
 * alignment. */
static int pipeline_has_one_unit(const weir_plan *plan)
{
    uint64_t unit = 0;
    for (int rank = 0; rank < plan->nranks; rank++)
        for (uint32_t i = 0; i < plan->gpus[rank].nops; i++) {
            const weiri_plan_op *op = &plan->gpus[rank].ops[i];
            if (op->kind != WEIRI_PLAN_PIPELINE_OP)
                continue;
            if ((unit && op->unit_bytes != unit) || op->unit_bytes % plan->alignment)
                return 0;
            unit = op->unit_bytes;
        }
    return 1;
}

uint32_t weiri_check_reach(weiri_check *check)
{
    const size_t nblocks = check->nblocks + 1, nuses = check->ncounters * PIPELINE_SIDES + 1;
    pipeline_finder in = {.check = check, .counters = calloc(nuses, sizeof *in.counters),
                          .group = calloc(nblocks, sizeof *in.group),
                          .lag = calloc(nblocks, sizeof *in.lag),
                          .is_periodic = pipeline_has_one_unit(check->plan)};
    uint32_t reach = WEIRI_CHECK_NONE;
    if (!in.counters || !in.group || !in.lag) {
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
    } else {
        for (uint32_t i = 0; i < check->nblocks; i++) {
            in.group[i] = i;
            pipeline_add_block(&in, i);
        }
        for (uint32_t i = 0; i < check->ncounters && in.is_periodic; i++)
            pipeline_add_lag(&in, i);
        if (in.is_periodic)
            reach = pipeline_longest(&in);
    }
    free(in.counters);
    free(in.group);
    free(in.lag);
    return reach;
}
