/*
 * How to correct what the checker rejects: the end of every violation's text, in the words of
 * MSCCL++'s DSL and of the plan builder (weir/plan.h). For accesses that nothing orders, the
 * programs are searched for the signal or wait that was meant to: one that is relaxed, or lacks a
 * nop. It is offered only if a trial shows that the change orders the accesses (check_trial.c).
 * Other advice is not tried; in either case only a new check proves a changed plan.
 */
#include "plan/check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ADVICE_BYTES = 384 };

static const weiri_check_change nowhere = {WEIRI_CHECK_NONE, WEIRI_CHECK_NONE};

/* The lengths at which a violation shows, and how many were tried: " (at every length)". */
static void name_lengths(const weiri_check *check, char *text, size_t room)
{
    const weiri_check_classes *classes = &check->classes;
    if (!check->row || classes->columns == 0) {
        snprintf(text, room, " (at every length)");
        return;
    }
    int32_t most = 0;
    for (uint32_t i = 0; i < classes->npipes; i++)
        most = check->row[1 + i] > most ? check->row[1 + i] : most;
    if (classes->count == 0) { /* the search for the reach of pipelines, which precedes them */
        snprintf(text, room, " (at lengths of %d pipeline turn%s)", (int)most,
                 most == 1 ? "" : "s");
        return;
    }
    uint32_t tried = (uint32_t)((check->row - classes->rows) / classes->columns) + 1;
    if (classes->npipes)
        snprintf(text, room,
                 " (at lengths of %d pipeline turn%s; tried: %u of %u classes of lengths)",
                 (int)most, most == 1 ? "" : "s", tried, classes->count);
    else
        snprintf(text, room, " (tried: %u of %u classes of lengths)", tried, classes->count);
}

/* Whether the last violation has no advice yet. It has if the one that was just found repeats
 * another, or the report is full; a trial's need none. */
static int wants_advice(const weiri_check *check)
{
    const weir_plan_report *report = check->report;
    return report->nviolations > 0 && !check->trial &&
           !strstr(report->violations[report->nviolations - 1].text, WEIRI_CHECK_FIX);
}

void weiri_check_advise(weiri_check *check, const char *format, ...)
{
    weir_plan_report *report = check->report;
    char advice[ADVICE_BYTES], lengths[96];
    if (!wants_advice(check))
        return;
    char *text = report->violations[report->nviolations - 1].text;
    size_t used = strlen(text), room = sizeof report->violations[0].text - used;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(advice, sizeof advice, format, arguments);
    va_end(arguments);
    name_lengths(check, lengths, sizeof lengths);
    snprintf(text + used, room, "%s" WEIRI_CHECK_FIX "%s", lengths, advice);
}

void weiri_check_offer(weiri_check *check, weiri_check_fix_kind kind, weiri_check_change first,
                       weiri_check_change second)
{
    if (check->fixes && wants_advice(check))
        check->fixes[check->report->nviolations - 1] = (weiri_check_fix){kind, first, second};
}

/* ------------------------------------------------------- signals that are there */

/* Whether one of the channels of a signal or wait is connected to the peer. */
static int has_peer(const weiri_check *check, int rank, const weiri_plan_op *op, int peer)
{
    const weiri_plan_gpu *gpu = &check->plan->gpus[rank];
    if (op->channel != WEIRI_PLAN_MEMORY && op->channel != WEIRI_PLAN_PORT)
        return 0;
    for (uint32_t i = 0; i < op->nids; i++)
        if (gpu->links[op->channel][gpu->ids[op->first_id + i]].peer == peer)
            return 1;
    return 0;
}

/* A signal or wait that was found; op NONE: there is none. */
typedef struct found {
    uint32_t block, op;
    int is_relaxed, is_fenced;
} found;

/* The first signal of a block to a rank after an operation, or the last one. */
static found find_signal(const weiri_check *check, uint32_t block, uint32_t after, int peer,
                         int last)
{
    const weiri_check_block *at = &check->blocks[block];
    uint32_t nops = weiri_check_gpu(check, at)->blocks[at->index].nops;
    found best = {block, WEIRI_CHECK_NONE, 0, 0};
    int fenced = 0;
    for (uint32_t i = after + 1; i < nops && (last || best.op == WEIRI_CHECK_NONE); i++) {
        const weiri_plan_op *op = weiri_check_op(check, at, i);
        fenced |= weiri_plan_is_fence(op->kind);
        if (weiri_plan_is_signal(op->kind) && has_peer(check, at->rank, op, peer))
            best = (found){block, i, op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP,
                           fenced || !(op->kind == WEIRI_PLAN_SIGNAL_OP)};
    }
    return best;
}

/* Whether a wait consumes what a signal adds. */
static int is_for(const weiri_check *check, const weiri_check_block *at, const weiri_plan_op *wait,
                  found signal)
{
    const weiri_check_block *from = &check->blocks[signal.block];
    const weiri_plan_op *op = weiri_check_op(check, from, signal.op);
    for (uint32_t i = 0; i < wait->nids; i++)
        for (uint32_t j = 0; j < op->nids; j++)
            if (weiri_check_counter_of(check, at->rank, wait, i) ==
                weiri_check_counter_of(check, from->rank, op, j))
                return 1;
    return 0;
}

/* The last wait of a block before an operation for a rank's signal; if one was found, for that. */
static found find_wait(const weiri_check *check, uint32_t block, uint32_t before, int peer,
                       found signal)
{
    const weiri_check_block *at = &check->blocks[block];
    found best = {block, WEIRI_CHECK_NONE, 0, 0};
    for (uint32_t i = 0; i < before; i++) {
        const weiri_plan_op *op = weiri_check_op(check, at, i);
        best.is_fenced |= weiri_plan_is_fence(op->kind);
        if (weiri_plan_is_wait(op->kind) && has_peer(check, at->rank, op, peer) &&
            (signal.op == WEIRI_CHECK_NONE || is_for(check, at, op, signal)))
            best = (found){block, i, op->kind == WEIRI_PLAN_RELAXED_WAIT_OP, 0};
    }
    return best;
}

/* As find_wait, in any block of a rank, up to the end; the end of a block is a fence. */
static found find_last_wait(const weiri_check *check, int rank, int peer, found signal)
{
    found best = {WEIRI_CHECK_NONE, WEIRI_CHECK_NONE, 0, 0};
    for (uint32_t i = check->first_block[rank]; i < check->first_block[rank + 1]; i++) {
        const weiri_check_block *at = &check->blocks[i];
        uint32_t nops = weiri_check_gpu(check, at)->blocks[at->index].nops;
        found wait = find_wait(check, i, nops, peer, signal);
        if (wait.op != WEIRI_CHECK_NONE && (best.op == WEIRI_CHECK_NONE || !wait.is_relaxed))
            best = wait;
    }
    best.is_fenced = 1;
    return best;
}

/* ------------------------------------------------------------------------ order */

static int is_weak(found at)
{
    return at.op != WEIRI_CHECK_NONE && (at.is_relaxed || !at.is_fenced);
}

static void advise_stronger_signal(weiri_check *check, found signal, int to)
{
    char where[WEIRI_CHECK_TEXT];
    weiri_check_where(check, signal.block, signal.op, where);
    if (signal.is_relaxed)
        weiri_check_advise(check,
                           "make the signal to rank %d non-relaxed, %s: signal(data_sync="
                           "SyncType.before) (weir_plan_signal, WEIR_PLAN_BEFORE)",
                           to, where);
    else
        weiri_check_advise(check,
                           "add a nop before %s: signal(data_sync=SyncType.before) "
                           "(WEIR_PLAN_BEFORE)",
                           where);
}

static void advise_stronger_wait(weiri_check *check, found wait)
{
    char where[WEIRI_CHECK_TEXT];
    weiri_check_where(check, wait.block, wait.op, where);
    if (wait.is_relaxed)
        weiri_check_advise(check,
                           "make the wait non-relaxed, %s: wait(data_sync=SyncType.after) "
                           "(weir_plan_wait, WEIR_PLAN_AFTER)",
                           where);
    else
        weiri_check_advise(
            check, "add a nop after %s: wait(data_sync=SyncType.after) (WEIR_PLAN_AFTER)", where);
}

/* Advises to strengthen the weak ones of the signal and the wait. 0: that would not order the
 * accesses. */
static int advise_stronger(weiri_check *check, found signal, found wait, int to)
{
    const weiri_check_trial trial = {
        is_weak(signal) ? (weiri_check_change){signal.block, signal.op} : nowhere,
        is_weak(wait) ? (weiri_check_change){wait.block, wait.op} : nowhere};
    char from[WEIRI_CHECK_TEXT], at[WEIRI_CHECK_TEXT];
    if ((!is_weak(signal) && !is_weak(wait)) || !weiri_check_would_help(check, &trial))
        return 0;
    weiri_check_offer(check, WEIRI_CHECK_FIX_STRONGER, trial.signal, trial.wait);
    if (!is_weak(wait))
        advise_stronger_signal(check, signal, to);
    else if (!is_weak(signal))
        advise_stronger_wait(check, wait);
    else
        weiri_check_advise(check,
                           "replace %s by signal(data_sync=SyncType.before) (weir_plan_signal, "
                           "WEIR_PLAN_BEFORE), and %s by wait(data_sync=SyncType.after) "
                           "(weir_plan_wait, WEIR_PLAN_AFTER)",
                           weiri_check_where(check, signal.block, signal.op, from),
                           weiri_check_where(check, wait.block, wait.op, at));
    return 1;
}

/* How to order what follows `wait` on a rank after an operation of another rank, given the signal
 * and wait that were found. until: the operation of rank `to` that must be ordered, or its end. */
static void advise_signal(weiri_check *check, found signal, uint32_t after, found wait,
                          weiri_check_change until, int to)
{
    const weiri_check_block *from = &check->blocks[signal.block];
    uint32_t id = weiri_check_gpu(check, from)->blocks[from->index].id;
    char where[WEIRI_CHECK_TEXT], before[WEIRI_CHECK_TEXT] = "the end";
    if (until.op != WEIRI_CHECK_NONE)
        snprintf(before, sizeof before, "op %u", until.op);
    if (advise_stronger(check, signal, wait, to))
        return;
    if (signal.op != WEIRI_CHECK_NONE && !is_weak(signal) && wait.op == WEIRI_CHECK_NONE) {
        weiri_check_offer(check, WEIRI_CHECK_FIX_WAIT, (weiri_check_change){signal.block, after},
                          until);
        weiri_check_advise(check,
                           "on rank %d, before %s, add wait(data_sync=SyncType.after) "
                           "(weir_plan_wait, WEIR_PLAN_AFTER) for the signal of %s",
                           to, before, weiri_check_where(check, signal.block, signal.op, where));
        return;
    }
    weiri_check_offer(check, WEIRI_CHECK_FIX_ORDER, (weiri_check_change){signal.block, after},
                      until);
    weiri_check_advise(check,
                       "after op %u in thread block %u of rank %d add signal(data_sync="
                       "SyncType.before) to rank %d (weir_plan_signal, WEIR_PLAN_BEFORE), and "
                       "on rank %d, before %s, wait(data_sync=SyncType.after) (weir_plan_wait)",
                       after, id, from->rank, to, to, before);
}

/* Both are operations of one thread block. */
static void advise_nop(weiri_check *check, uint32_t index, int is_one_op)
{
    const weiri_check_block *block = &check->blocks[index];
    uint32_t id = weiri_check_gpu(check, block)->blocks[block->index].id;
    if (is_one_op) {
        weiri_check_advise(check, "divide it into two operations with a nop between them, or use "
                                  "another chunk of scratch (Buffer, weir_plan_scratch)");
        return;
    }
    weiri_check_offer(check, WEIRI_CHECK_FIX_NOP, (weiri_check_change){index, block->op}, nowhere);
    weiri_check_advise(check,
                       "add a nop before op %u: rank.barrier([%u]) (weir_plan_barrier(b, %d, "
                       "%u)), or build without WEIR_PLAN_NO_FENCES",
                       block->op, id, block->rank, id);
}

/* The flush of a put's port channel after it; the number of operations if there is none. */
static uint32_t find_flush(const weiri_check *check, const weiri_check_block *at, uint32_t put,
                           int peer)
{
    const uint32_t nops = weiri_check_gpu(check, at)->blocks[at->index].nops;
    uint32_t i = put + 1;
    while (i < nops && (weiri_check_op(check, at, i)->kind != WEIRI_PLAN_FLUSH_OP ||
                        !has_peer(check, at->rank, weiri_check_op(check, at, i), peer)))
        i++;
    return i;
}

/* The last wait of a rank before its operation `until`, or its end, for a signal. */
static found find_wait_until(const weiri_check *check, weiri_check_change until, int rank, int peer,
                             found signal)
{
    return until.op == WEIRI_CHECK_NONE ? find_last_wait(check, rank, peer, signal)
                                        : find_wait(check, until.block, until.op, peer, signal);
}

/* A read by a port channel, which ends with a flush. */
static void advise_port_read(weiri_check *check, weiri_check_change put, int peer,
                             weiri_check_change until, int to)
{
    const weiri_check_block *at = &check->blocks[put.block];
    const weiri_plan_block *block = &weiri_check_gpu(check, at)->blocks[at->index];
    const uint32_t flush = find_flush(check, at, put.op, peer);
    if (flush == block->nops) {
        weiri_check_offer(check, WEIRI_CHECK_FIX_FLUSH, put, nowhere);
        weiri_check_advise(check,
                           "add flush(data_sync=SyncType.after) on the port channel to rank %d "
                           "(weir_plan_flush, WEIR_PLAN_AFTER) after op %u in thread block %u of "
                           "rank %d",
                           peer, put.op, block->id, at->rank);
    } else if (to != at->rank && flush + 1 < block->nops &&
               weiri_plan_is_fence(weiri_check_op(check, at, flush + 1)->kind)) {
        const found signal = find_signal(check, put.block, flush, to, 0);
        advise_signal(check, signal, flush, find_wait_until(check, until, to, at->rank, signal),
                      until, to);
    } else {
        weiri_check_offer(check, WEIRI_CHECK_FIX_NOP, (weiri_check_change){put.block, flush + 1},
                          nowhere);
        weiri_check_advise(check,
                           "add a nop after the flush, op %u: flush(data_sync=SyncType.after) "
                           "(WEIR_PLAN_AFTER)",
                           flush);
    }
}

/* An access that a port channel makes for an operation, and which is not ordered before `until`:
 * writes have arrived when a later signal of the channel has. */
static void advise_port(weiri_check *check, weiri_check_change put, int is_read,
                        weiri_check_change until, int to)
{
    const weiri_check_block *at = &check->blocks[put.block];
    const weiri_plan_gpu *gpu = weiri_check_gpu(check, at);
    const weiri_plan_op *op = weiri_check_op(check, at, put.op);
    const int peer = op->nids ? gpu->links[WEIRI_PLAN_PORT][gpu->ids[op->first_id]].peer : -1;
    if (is_read) {
        advise_port_read(check, put, peer, until, to);
        return;
    }
    found signal =
        find_signal(check, put.block, put.op - (uint32_t)weiri_plan_is_signal(op->kind), to, 0);
    if (signal.op != WEIRI_CHECK_NONE &&
        weiri_check_op(check, at, signal.op)->channel == WEIRI_PLAN_PORT &&
        advise_stronger(check, signal, find_wait_until(check, until, to, at->rank, signal), to))
        return;
    weiri_check_advise(check,
                       "signal() on the same port channel after op %u in thread block %u of "
                       "rank %d (weir_plan_signal), and wait(data_sync=SyncType.after) for it "
                       "(weir_plan_wait) before the other access",
                       put.op, gpu->blocks[at->index].id, at->rank);
}

static void advise_blocks(weiri_check *check, weiri_check_change earlier, weiri_check_change later)
{
    const weiri_check_block *a = &check->blocks[earlier.block], *b = &check->blocks[later.block];
    weiri_check_offer(check, WEIRI_CHECK_FIX_BLOCKS, earlier, later);
    uint32_t first = weiri_check_gpu(check, a)->blocks[a->index].id;
    uint32_t second = weiri_check_gpu(check, b)->blocks[b->index].id;
    weiri_check_advise(check,
                       "add rank.barrier([%u, %u]) (weir_plan_barrier with weir_plan_group) "
                       "between the two, or a Semaphore: release in one thread block, acquire in "
                       "the other (weir_plan_release, weir_plan_acquire)",
                       first < second ? first : second, first < second ? second : first);
}

static int is_in_scratch(const weiri_check *check, uint32_t place)
{
    const int nranks = check->plan->nranks;
    for (int rank = 0; rank < nranks; rank++)
        if (place >= check->first_place[rank][WEIR_PLAN_SCRATCH] &&
            (rank + 1 == nranks || place < check->first_place[rank + 1][WEIR_PLAN_INPUT]))
            return 1;
    return 0;
}

/* Orders an operation after an access by a rank in the previous launch. */
static void advise_launch(weiri_check *check, int from, weiri_check_change later, uint32_t place)
{
    const int to = check->blocks[later.block].rank;
    int can_double = !check->plan->double_scratch && is_in_scratch(check, place);
    weiri_check_offer(check, can_double ? WEIRI_CHECK_FIX_SCRATCH : WEIRI_CHECK_FIX_BEGIN,
                      (weiri_check_change){weiri_check_first_block(check, from), 0}, later);
    weiri_check_advise(check,
                       "%slet rank %d begin with signal(relaxed=True) to rank %d "
                       "(weir_plan_relaxed_signal), and rank %d with wait(relaxed=True, "
                       "data_sync=SyncType.after) for it (weir_plan_relaxed_wait)",
                       can_double ? "set use_double_scratch_buffer (double_scratch), or " : "",
                       from, to, to);
}

void weiri_check_advise_race(weiri_check *check, uint32_t block, uint32_t place,
                             const weiri_check_access *other, int other_is_read)
{
    const weiri_check_instance *instance = &check->instances[check->lanes[other->lane].instance];
    const weiri_check_block *own = &check->blocks[block], *theirs = &check->blocks[instance->block];
    const weiri_check_change earlier = {instance->block, instance->op}, later = {block, own->op};
    if (!wants_advice(check))
        return;
    if (other->chain != theirs->chain) {
        advise_port(check, earlier, other_is_read, later, own->rank);
    } else if (instance->block == block) {
        advise_nop(check, block,
                   instance->launch == check->launch && instance->op == own->op &&
                       instance->iteration == own->iteration);
    } else if (theirs->rank == own->rank) {
        advise_blocks(check, earlier, later);
    } else if (instance->launch != check->launch) {
        advise_launch(check, theirs->rank, later, place);
    } else {
        found signal = find_signal(check, instance->block, instance->op, own->rank, 0);
        advise_signal(check, signal, instance->op,
                      find_wait(check, block, own->op, theirs->rank, signal), later, own->rank);
    }
}

void weiri_check_advise_begin(weiri_check *check, uint32_t block, int owner)
{
    const weiri_check_block *own = &check->blocks[block];
    const found any = {block, WEIRI_CHECK_NONE, 0, 0};
    char where[WEIRI_CHECK_TEXT];
    if (!wants_advice(check))
        return;
    found wait = find_wait(check, block, own->op, owner, any);
    const int lacks_nop = wait.op != WEIRI_CHECK_NONE && !wait.is_fenced;
    if (lacks_nop)
        weiri_check_offer(check, WEIRI_CHECK_FIX_NOP, (weiri_check_change){block, wait.op + 1},
                          nowhere);
    else
        weiri_check_offer(check, WEIRI_CHECK_FIX_BEGIN,
                          (weiri_check_change){weiri_check_first_block(check, owner), 0},
                          (weiri_check_change){block, own->op});
    if (lacks_nop)
        weiri_check_advise(check,
                           "add a nop after %s: wait(data_sync=SyncType.after) (WEIR_PLAN_AFTER)",
                           weiri_check_where(check, block, wait.op, where));
    else
        weiri_check_advise(check,
                           "let rank %d begin with signal(relaxed=True) to rank %d "
                           "(weir_plan_relaxed_signal), and before op %u add wait(relaxed=True, "
                           "data_sync=SyncType.after) (weir_plan_relaxed_wait, WEIR_PLAN_AFTER)",
                           owner, own->rank, own->op);
}

void weiri_check_advise_end(weiri_check *check, const weiri_check_access *late, int late_is_read,
                            int owner)
{
    const weiri_check_instance *instance = &check->instances[check->lanes[late->lane].instance];
    const weiri_check_block *from = &check->blocks[instance->block];
    if (!wants_advice(check))
        return;
    const found signal = find_signal(check, instance->block, instance->op, owner, 1);
    const found wait = find_last_wait(check, owner, from->rank, signal);
    const weiri_check_change until = {
        wait.block == WEIRI_CHECK_NONE ? weiri_check_first_block(check, owner) : wait.block,
        WEIRI_CHECK_NONE};
    if (late->chain != from->chain)
        advise_port(check, (weiri_check_change){instance->block, instance->op}, late_is_read, until,
                    owner);
    else
        advise_signal(check, signal, instance->op, wait, until, owner);
}
