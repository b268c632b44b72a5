/*
 * Proves that pipelines with many iterations behave as those with fewer do, and finds how far apart
 * two iterations can be and still depend on each other's exact distance: the reach of the plan. It
 * bounds the byte classes that have to be simulated (check_classes.c).
 *
 * Which plans: all pipelines have the same number of iterations, n. No counter has several
 * signallers or waiters, except semaphores by which blocks only exclude each other: each block
 * releases what it has acquired before it waits for anything else, so they delay, but order
 * nothing and cannot cause a deadlock; and counters with one waiter that are used outside of
 * pipelines only: what their waiter joins depends on the order of components only, and for the
 * absence of deadlocks it is assumed to wait for all signals. In corresponding pipelines, a
 * counter is signalled in each iteration as often as it is waited for, and all blocks enter a
 * barrier equally often between its pipelines and in each iteration. There are no packets. Then
 * the k-th wait of iteration i ends with a certain signal of iteration i - d, where d depends on
 * neither i nor n, and |d| is at most the initial credits plus the signals and waits outside of
 * pipelines: the lag. Let D be the largest lag.
 *
 * What is measured: an execution without data of n iterations in three launches. After each
 * operation, a component of a block's vector clock is a position in the program of another block. A
 * position within a pipeline is either a constant, or in iteration j it is that of iteration j - m,
 * for some m. Let Z be such that in iterations Z to n - Z - 1 each component of each operation is
 * of the same one of these two kinds, that all constants are within Z iterations of the begin or
 * end of a pipeline, and let M be the largest |m|. The run is accepted if n is at least
 * 2 (Z + M + D) + 4.
 *
 * Claim: in a run with n + 1 iterations the clocks are the same, except that constants near the
 * end, and iterations near the end, move by one; so, by induction, in all longer runs. Proof: take
 * the clocks that the claim says, and a synchronization, or a successor in a block. Both events
 * have counterparts in the run with n iterations: the same ones if they are in the first half of
 * the pipeline, those of the previous iteration if they are in the second half; as the two are at
 * most D iterations apart, and n is large enough, either choice leaves them outside of the Z
 * iterations where it would matter. The clock of an event is the maximum over its predecessors, and
 * the order of the positions that are compared is the same in both runs: constants near the begin,
 * positions at most M + D from the middle, constants near the end. So the claimed clocks satisfy
 * the equations that determine the clocks. These equations have one solution unless events wait for
 * each other in a cycle, and there is no cycle: along it, the clocks of a run in which every
 * operation is ordered after its predecessor (is_strong) would have to increase for ever, but the
 * claim holds for such a run as well, which is measured too. Therefore longer runs do not deadlock
 * either.
 *
 * Hence, from n iterations on, whether one event happens before another depends on the distances
 * between their iterations, the begin and the end of the pipeline only as far as these are at most
 * max(Z, M) + 1: the reach. The data of a byte are handled by a few operations, in iterations that
 * the message length determines; races and values follow from the order of these operations. So
 * distances beyond the reach may be shortened as long as n iterations remain.
 *
 * Balance: the numbers of signals and waits are linear functions of n, which agree for all n if
 * they do for two.
 */
#include "plan/check/check.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIPELINE_LOOPS_MAX = 8,         /* pipelines of a block that use the same counter */
    PIPELINE_ITERATIONS_MAX = 1024, /* of a measured run */
};
#define PIPELINE_BYTES_MAX (UINT64_C(256) << 20) /* of recorded clocks */

/* ------------------------------------------------------------- uses of a counter */

/* How often a block does something: outside[i] times before pipeline i of the pipelines that do it,
 * each[i] times in each iteration of that pipeline, and outside[nloops] times after the last one.
 */
typedef struct pipeline_use {
    uint32_t nloops, each[PIPELINE_LOOPS_MAX], outside[PIPELINE_LOOPS_MAX + 1];
    int is_too_long;
} pipeline_use;

/* What is counted: signals or waits of a counter, or entries of a barrier. */
typedef struct pipeline_subject {
    uint32_t counter; /* NONE: the barrier */
    int waits;
    const weiri_check_barrier *barrier;
} pipeline_subject;

static uint32_t pipeline_count_op(const weiri_check *check, const weiri_check_block *block,
                                  const weiri_plan_op *op, const pipeline_subject *subject)
{
    uint32_t count = 0;
    if (subject->counter == WEIRI_CHECK_NONE)
        return op->kind == WEIRI_PLAN_BARRIER_OP && op->barrier == subject->barrier->barrier &&
               op->nblocks == subject->barrier->nblocks;
    if (!(subject->waits ? weiri_check_waits_for_credits(op) : weiri_check_adds_credits(op)))
        return 0;
    for (uint32_t i = 0; i < op->nids; i++)
        count += weiri_check_counter_of(check, block->rank, op, i) == subject->counter;
    return count;
}

static pipeline_use pipeline_use_of(const weiri_check *check, uint32_t index,
                                    const pipeline_subject *subject)
{
    const weiri_check_block *block = &check->blocks[index];
    const uint32_t nops = weiri_check_gpu(check, block)->blocks[block->index].nops;
    pipeline_use use = {0};
    for (uint32_t i = 0; i < nops && !use.is_too_long; i++) {
        const weiri_plan_op *op = weiri_check_op(check, block, i);
        uint32_t each = 0;
        if (op->kind != WEIRI_PLAN_PIPELINE_OP) {
            use.outside[use.nloops] += pipeline_count_op(check, block, op, subject);
            continue;
        }
        for (uint32_t end = i + op->nops; i < end; i++)
            each += pipeline_count_op(check, block, weiri_check_op(check, block, i + 1), subject);
        use.is_too_long = each && use.nloops == PIPELINE_LOOPS_MAX;
        if (each && !use.is_too_long)
            use.each[use.nloops++] = each;
    }
    return use;
}

/* ------------------------------------------------------------------------- the lag */

static uint32_t pipeline_sum_outside(const pipeline_use *use)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= use->nloops; i++)
        sum += use->outside[i];
    return sum;
}

/* The signals of a counter with one waiter that is only used outside of pipelines; NONE for
 * others. */
static uint32_t pipeline_signals_outside(const weiri_check *check, uint32_t index)
{
    const weiri_check_counter *counter = &check->counters[index];
    uint32_t sums[2] = {0, 0};
    if (counter->waiter == WEIRI_CHECK_MANY || counter->initial)
        return WEIRI_CHECK_NONE;
    for (uint32_t i = 0; i < check->nblocks; i++)
        for (int waits = 0; waits < 2; waits++) {
            const pipeline_use use =
                pipeline_use_of(check, i, &(pipeline_subject){index, waits, NULL});
            if (use.nloops || use.is_too_long)
                return WEIRI_CHECK_NONE;
            sums[waits] += use.outside[0];
        }
    return sums[0] == sums[1] ? sums[0] : WEIRI_CHECK_NONE;
}

/* The lag of a counter; NONE if it is not used as required. */
static uint32_t pipeline_lag_of_counter(weiri_check *check, uint32_t index)
{
    weiri_check_counter *counter = &check->counters[index];
    if (counter->signaller == WEIRI_CHECK_MANY) {
        const uint32_t signals = pipeline_signals_outside(check, index);
        counter->awaited = signals != WEIRI_CHECK_NONE ? signals : 0;
        return signals != WEIRI_CHECK_NONE ? 0 : WEIRI_CHECK_NONE;
    }
    if (counter->waiter == WEIRI_CHECK_MANY)
        return WEIRI_CHECK_NONE;
    if (counter->signaller == WEIRI_CHECK_NONE || counter->waiter == WEIRI_CHECK_NONE)
        return counter->signaller == counter->waiter ? 0 : WEIRI_CHECK_NONE;
    const pipeline_use signals =
        pipeline_use_of(check, counter->signaller, &(pipeline_subject){index, 0, NULL});
    const pipeline_use waits =
        pipeline_use_of(check, counter->waiter, &(pipeline_subject){index, 1, NULL});
    if (signals.is_too_long || waits.is_too_long || signals.nloops != waits.nloops ||
        memcmp(signals.each, waits.each, sizeof signals.each) != 0)
        return WEIRI_CHECK_NONE;
    return signals.nloops == 0 ? 0
                               : counter->initial + pipeline_sum_outside(&signals) +
                                     pipeline_sum_outside(&waits) + 1;
}

/* Whether each acquisition of a block is followed by the release, in the same iteration and before
 * the block may wait for anything else, and the block does not release otherwise. */
static int pipeline_block_excludes(const weiri_check *check, uint32_t index, uint32_t counter)
{
    const weiri_check_block *block = &check->blocks[index];
    const uint32_t nops = weiri_check_gpu(check, block)->blocks[block->index].nops;
    const pipeline_subject releases = {counter, 0, NULL}, acquisitions = {counter, 1, NULL};
    int holds = 0;
    uint32_t in_body = 0;
    for (uint32_t i = 0; i < nops; i++) {
        const weiri_plan_op *op = weiri_check_op(check, block, i);
        const uint32_t acquired = pipeline_count_op(check, block, op, &acquisitions);
        const uint32_t released = pipeline_count_op(check, block, op, &releases);
        if (holds && (op->in_body != in_body || weiri_check_may_wait(check, block, op)))
            return 0;
        if ((acquired && op->nids != 1) || released > (uint32_t)holds)
            return 0;
        holds += (int)acquired - (int)released;
        in_body = op->in_body;
    }
    return !holds;
}

/* Whether a semaphore only lets blocks exclude each other: it then orders nothing, and nobody waits
 * for it for ever. */
static int pipeline_is_exclusion(const weiri_check *check, uint32_t index)
{
    const weiri_check_counter *counter = &check->counters[index];
    if (counter->type != WEIRI_PLAN_SWITCH || counter->initial == 0 ||
        counter->signaller != WEIRI_CHECK_MANY || counter->waiter != WEIRI_CHECK_MANY)
        return 0;
    for (uint32_t i = check->first_block[counter->to]; i < check->first_block[counter->to + 1]; i++)
        if (!pipeline_block_excludes(check, i, index))
            return 0;
    return 1;
}

/* Whether all blocks use a barrier in the same way. */
static int pipeline_barrier_is_regular(const weiri_check *check, const weiri_check_barrier *barrier)
{
    const pipeline_subject subject = {WEIRI_CHECK_NONE, 0, barrier};
    const int rank = barrier->rank;
    pipeline_use first = {0};
    int has_first = 0;
    if (barrier->nusers != barrier->nblocks)
        return 0;
    for (uint32_t i = check->first_block[rank]; i < check->first_block[rank + 1]; i++) {
        const pipeline_use use = pipeline_use_of(check, i, &subject);
        if (use.nloops == 0 && use.outside[0] == 0)
            continue;
        if (use.is_too_long || (has_first && memcmp(&use, &first, sizeof use) != 0))
            return 0;
        first = use;
        has_first = 1;
    }
    return 1;
}

/* The largest lag; NONE if the plan is not of the form that is described above. */
static uint32_t pipeline_largest_lag(weiri_check *check)
{
    uint32_t most = 1;
    if (check->plan->has_packets || check->classes.npipes != 1)
        return WEIRI_CHECK_NONE;
    for (uint32_t i = 0; i < check->ncounters; i++) {
        if (pipeline_is_exclusion(check, i)) {
            check->counters[i].order_unknown = 1;
            continue;
        }
        const uint32_t lag = pipeline_lag_of_counter(check, i);
        if (lag > PIPELINE_ITERATIONS_MAX)
            return WEIRI_CHECK_NONE;
        most = lag > most ? lag : most;
    }
    for (uint32_t i = 0; i < check->nbarriers; i++)
        if (!pipeline_barrier_is_regular(check, &check->barriers[i]))
            return WEIRI_CHECK_NONE;
    return most;
}

/* ----------------------------------------------------------------- positions of chains */

/* A part of a chain's events in a launch: the events of a pipeline, or between two pipelines. */
typedef struct pipeline_part {
    uint32_t first; /* event of a launch */
    uint32_t each;  /* events in an iteration; 0: not of a pipeline, or there are none */
} pipeline_part;

typedef struct pipeline_chain {
    pipeline_part *parts;
    uint32_t nparts;
    uint32_t total; /* events in a launch; 0: one for each launch */
} pipeline_chain;

/* How an operation's clock component changes from one iteration to the next. */
typedef enum pipeline_kind { PIPELINE_NEW, PIPELINE_CONSTANT, PIPELINE_MOVES } pipeline_kind;

/* The clock components of an operation when it was last executed. */
typedef struct pipeline_entry {
    uint32_t at;
    uint8_t kind; /* pipeline_kind */
} pipeline_entry;

typedef struct weiri_check_recorder {
    uint32_t iterations, nchains;
    pipeline_chain *chains;
    pipeline_entry **entries; /* by block: for each operation, its clock and pending clock */
    uint32_t zone, shift;     /* Z and M */
} pipeline_recorder;

static void pipeline_free_recorder(const weiri_check *check, pipeline_recorder *in)
{
    for (uint32_t i = 0; in->chains && i < in->nchains; i++)
        free(in->chains[i].parts);
    for (uint32_t i = 0; in->entries && i < check->nblocks; i++)
        free(in->entries[i]);
    free(in->chains);
    free(in->entries);
}

/* The events of a chain that an operation of its block causes: fences of the block (port NULL), or
 * requests to one of its ports. */
static uint32_t pipeline_events(const weiri_check *check, const weiri_check_block *block,
                                const weiri_plan_op *op, const weiri_check_port *port)
{
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, block);
    uint32_t count = 0;
    if (!port)
        return (uint32_t)check->is_strong + (op->kind == WEIRI_PLAN_NOP_OP) +
               (op->kind == WEIRI_PLAN_BARRIER_OP) +
               (weiri_plan_is_put_signal(op->kind) && op->channel == WEIRI_PLAN_MEMORY);
    for (uint32_t i = 0; op->channel == WEIRI_PLAN_PORT && i < op->ndsts; i++)
        count += gpu->ids[op->first_id + i] == port->link;
    return count;
}

static void pipeline_add_part(weiri_check *check, pipeline_chain *chain, uint32_t each)
{
    pipeline_part *part = weiri_check_append(check, &chain->parts, &chain->nparts, sizeof *part);
    if (part)
        *part = (pipeline_part){chain->total, each};
}

static void pipeline_describe_chain(weiri_check *check, uint32_t index, pipeline_chain *chain,
                                    const weiri_check_port *port)
{
    const weiri_check_block *block = &check->blocks[index];
    const uint32_t nops = weiri_check_gpu(check, block)->blocks[block->index].nops;
    pipeline_add_part(check, chain, 0);
    for (uint32_t i = 0; i < nops && check->status == WEIR_OK; i++) {
        const weiri_plan_op *op = weiri_check_op(check, block, i);
        uint32_t each = 0;
        if (op->kind != WEIRI_PLAN_PIPELINE_OP) {
            chain->total += pipeline_events(check, block, op, port);
            continue;
        }
        for (uint32_t end = i + op->nops; i < end; i++)
            each += pipeline_events(check, block, weiri_check_op(check, block, i + 1), port);
        pipeline_add_part(check, chain, each);
        chain->total += each * check->recorder->iterations;
        pipeline_add_part(check, chain, 0);
    }
    chain->total += !port; /* the end of a block is a fence */
}

/* Describes the chains of all blocks and ports. The chains of ranks keep a total of 0. */
static void pipeline_describe_chains(weiri_check *check)
{
    pipeline_chain *chains = check->recorder->chains;
    for (uint32_t i = 0; i < check->nblocks && check->status == WEIR_OK; i++) {
        const weiri_check_block *block = &check->blocks[i];
        pipeline_describe_chain(check, i, &chains[block->chain], NULL);
        for (uint32_t j = 0; j < block->nports; j++)
            for (uint32_t k = 0; k < 2; k++)
                pipeline_describe_chain(check, i, &chains[block->ports[j].chain + k],
                                        &block->ports[j]);
    }
}

/* Returns 0 if the clocks of all operations would take too much memory. */
static int pipeline_make_recorder(weiri_check *check, pipeline_recorder *in)
{
    const size_t each = 2 * (size_t)in->nchains * sizeof(pipeline_entry);
    uint64_t nops = 0;
    for (int rank = 0; rank < check->plan->nranks; rank++)
        nops += check->plan->gpus[rank].nops;
    if (nops * each > PIPELINE_BYTES_MAX)
        return 0;
    in->chains = calloc(in->nchains, sizeof *in->chains);
    in->entries = calloc(check->nblocks, sizeof *in->entries);
    int is_made = in->chains && in->entries;
    for (uint32_t i = 0; is_made && i < check->nblocks; i++) {
        const weiri_check_block *block = &check->blocks[i];
        in->entries[i] = calloc(weiri_check_gpu(check, block)->blocks[block->index].nops + 1, each);
        is_made = in->entries[i] != NULL;
    }
    if (!is_made)
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
    return is_made;
}

/* ------------------------------------------------------------------------- records */

static void pipeline_raise(uint32_t *most, uint32_t to)
{
    *most = *most < to ? to : *most;
}

/* Finds the pipeline that contains a position of a chain; NULL: none does. Sets the iteration. */
static const pipeline_part *pipeline_locate(const pipeline_chain *chain, uint32_t at,
                                            uint32_t *iteration)
{
    if (chain->total == 0)
        return NULL;
    const uint32_t event = at % chain->total;
    uint32_t i = chain->nparts;
    while (i > 1 && chain->parts[i - 1].first > event)
        i--;
    const pipeline_part *part = &chain->parts[i - 1];
    if (!part->each)
        return NULL;
    *iteration = (event - part->first) / part->each;
    return part;
}

/* How far an iteration is from the begin or end of a pipeline. */
static uint32_t pipeline_margin(const pipeline_recorder *in, uint32_t iteration)
{
    const uint32_t from_begin = iteration + 1, to_end = in->iterations - iteration;
    return from_begin < to_end ? from_begin : to_end;
}

/* Records a component of a clock after an operation in an iteration. in_loop: the operation is part
 * of a pipeline, and this is not its first iteration. */
static void pipeline_record_component(pipeline_recorder *in, uint32_t chain, pipeline_entry *entry,
                                      uint32_t at, uint32_t launch, uint32_t iteration, int in_loop)
{
    const pipeline_chain *of = &in->chains[chain];
    uint32_t now = 0, before = 0;
    if (in_loop && entry->at == at && entry->kind == PIPELINE_CONSTANT)
        return;
    const pipeline_part *part = pipeline_locate(of, at, &now);
    pipeline_kind kind = PIPELINE_NEW;
    if (in_loop && entry->at == at)
        kind = PIPELINE_CONSTANT;
    else if (in_loop && part && at / of->total == launch && entry->at / of->total == launch &&
             part == pipeline_locate(of, entry->at, &before) && at - entry->at == part->each)
        kind = PIPELINE_MOVES;
    if (in_loop && (kind == PIPELINE_NEW || (entry->kind != PIPELINE_NEW && entry->kind != kind)))
        pipeline_raise(&in->zone, pipeline_margin(in, iteration) + 1);
    if (kind == PIPELINE_MOVES)
        pipeline_raise(&in->shift, now > iteration ? now - iteration : iteration - now);
    else if (part)
        pipeline_raise(&in->zone, pipeline_margin(in, now));
    *entry = (pipeline_entry){at, (uint8_t)kind};
}

void weiri_check_record(weiri_check *check, uint32_t block)
{
    pipeline_recorder *in = check->recorder;
    weiri_check_block *at = &check->blocks[block];
    const int in_loop = at->pipeline != WEIRI_CHECK_NONE && at->iteration > 0;
    if (check->is_strong)
        weiri_check_fence(check, block);
    pipeline_entry *entries = in->entries[block] + (size_t)at->op * 2 * in->nchains;
    for (uint32_t i = 0; i < in->nchains; i++) {
        pipeline_record_component(in, i, &entries[i], weiri_clock_at(at->now, i), check->launch,
                                  at->iteration, in_loop);
        pipeline_record_component(in, i, &entries[in->nchains + i],
                                  at->pending ? weiri_clock_at(at->pending, i) : 0, check->launch,
                                  at->iteration, in_loop);
    }
}

/* ------------------------------------------------------------------------- one run */

/* Whether the chains of blocks and ports have as many events as described. */
static int pipeline_is_as_described(const weiri_check *check, const pipeline_recorder *in)
{
    for (uint32_t i = 0; i < check->nblocks; i++) {
        const weiri_check_block *block = &check->blocks[i];
        if (block->tick != WEIRI_CHECK_LAUNCHES * in->chains[block->chain].total)
            return 0;
        for (uint32_t j = 0; j < block->nports; j++)
            if (block->ports[j].nputs !=
                WEIRI_CHECK_LAUNCHES * in->chains[block->ports[j].chain].total)
                return 0;
    }
    return 1;
}

/* Executes the plan without data, with this number of iterations; raises *zone and *shift. Returns
 * 0 if they cannot be found. */
static int pipeline_measure(weiri_check *check, uint32_t iterations, int is_strong, uint32_t *zone,
                            uint32_t *shift)
{
    const weiri_check_classes *classes = &check->classes;
    pipeline_recorder recorder = {.iterations = iterations, .nchains = check->clocks.nchains};
    int32_t *row = malloc(classes->columns * sizeof *row);
    if (!row)
        weiri_check_fail(check, WEIR_ERR_NO_MEMORY, "no memory to check the plan");
    for (uint32_t i = 0; row && i < classes->columns; i++)
        row[i] = i == 0 ? 0 : i == 1 ? (int32_t)iterations : -1;
    check->recorder = &recorder;
    check->is_strong = is_strong;
    int is_regular = row && pipeline_make_recorder(check, &recorder);
    if (is_regular) {
        pipeline_describe_chains(check);
        check->run_class(check, row);
        is_regular = check->status == WEIR_OK && !check->report->nviolations && !check->restart &&
                     pipeline_is_as_described(check, &recorder);
    }
    if (is_strong) /* what happens only then is no violation */
        check->report->nviolations = 0;
    check->recorder = NULL;
    check->is_strong = 0;
    pipeline_free_recorder(check, &recorder);
    free(row);
    pipeline_raise(zone, recorder.zone);
    pipeline_raise(shift, recorder.shift);
    return is_regular;
}

void weiri_check_find_reach(weiri_check *check)
{
    const uint32_t lag = pipeline_largest_lag(check);
    uint32_t iterations = 4, enough = lag != WEIRI_CHECK_NONE ? 2 * lag + 4 : UINT32_MAX;
    uint32_t zone = 0, shift = 0;
    while (iterations < enough && enough <= PIPELINE_ITERATIONS_MAX) {
        iterations = iterations * 2 < enough ? iterations * 2 : enough;
        zone = shift = 0;
        if (weiri_check_is_short(check->plan, &check->classes, iterations))
            return; /* the run would be longer than any of the plan */
        for (int is_strong = 0; is_strong < 2; is_strong++)
            if (!pipeline_measure(check, iterations, is_strong, &zone, &shift))
                return;
        enough = 2 * (zone + shift + lag) + 4;
    }
    if (iterations < enough)
        return;
    check->classes.reach = (zone > shift ? zone : shift) + 2;
    check->classes.regular = iterations;
}
