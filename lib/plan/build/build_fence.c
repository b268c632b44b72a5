/*
 * Places the fences (nop) of a thread block: first those that the caller requested at signals and
 * waits, then those needed between operations on the same chunks; finally removes fences that order
 * nothing.
 *
 * A fence orders the operations before it, back to the preceding fences, before the operations
 * after it, up to the following fences. It is needed if for some such pair of operations
 *
 *   - the first moves data or waits, and the second signals, which here means anything that
 *     publishes to others: a signal, a release, a put with signal, a flush, or packets;
 *   - the first waits (a wait, an acquire, a flush, or reading packets), and the second moves data;
 *   - both move data, and one writes chunks that the other reads or writes;
 *   - the first puts to a port channel with one thread, and the second signals or flushes that
 *     channel with another thread.
 *
 * No other operations of a block need order: later operations may overtake a signal, and a wait may
 * begin early. In the body of a pipeline, a fence also has the end of the previous turn before it
 * and the beginning of the next turn after it. For operations outside a pipeline, fences in its
 * body do not count, because a call without data has no turns.
 *
 * Turns of a pipeline handle different bytes of a chunk, so two turns that use the same chunks at
 * the same position do not conflict.
 *
 * "Beside" a place below means: not separated from it by a fence.
 */
#include "plan/build/build.h"

#include <stdlib.h>
#include <string.h>

enum { SIGNALS = 1, WAITS = 2, MOVES = 4 };

static unsigned plan_fence_roles_of(const weiri_build_op *op)
{
    switch (op->kind) {
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
    case WEIRI_PLAN_SEM_RELEASE_OP:
        return SIGNALS;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        return WAITS;
    case WEIRI_PLAN_FLUSH_OP:
        return SIGNALS | WAITS;
    case WEIRI_PLAN_PUT_SIGNAL_OP:
        return SIGNALS | MOVES;
    case WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP:
        return SIGNALS | MOVES | WAITS;
    default:
        break;
    }
    const weiri_plan_trait *trait = &weiri_plan_traits[op->kind];
    if (trait->mode == WEIRI_PLAN_SYNC || trait->mode == WEIRI_PLAN_LOOP)
        return 0;
    return MOVES | (trait->packets & WEIRI_PLAN_PACKETS_TO ? SIGNALS : 0u) |
           (trait->packets & WEIRI_PLAN_PACKETS_FROM ? WAITS : 0u);
}

/* The operations of a block while fences are added. Their references still belong to the block. */
typedef struct list {
    weir_plan_builder *builder;
    int rank;
    weiri_build_op *ops;
    uint32_t nops;
} list;

static weiri_build_op plan_fence_new_fence(uint32_t loop)
{
    return (weiri_build_op){
        .kind = WEIRI_PLAN_NOP_OP, .channel = WEIRI_PLAN_NO_CHANNEL, .loop = loop, .nparts = 1};
}

static void plan_fence_insert_op(list *to, uint32_t at, const weiri_build_op *op)
{
    weiri_build_op moved = *op;
    if (to->builder->status != WEIR_OK)
        return;
    if (!weiri_plan_append(&to->ops, &to->nops, sizeof *to->ops)) {
        weiri_build_no_memory(to->builder);
        return;
    }
    memmove(&to->ops[at + 1], &to->ops[at], (to->nops - 1 - at) * sizeof *to->ops);
    to->ops[at] = moved;
}

/* ------------------------------------------------------------ requested fences */

/* Appends an operation. Of two adjacent fences only one is kept, a barrier if there is one. */
static void plan_fence_push_single(list *to, const weiri_build_op *op)
{
    weiri_build_op *last = to->nops ? &to->ops[to->nops - 1] : NULL;
    int is_double = last && weiri_plan_is_fence(last->kind) && weiri_plan_is_fence(op->kind) &&
                    last->loop == op->loop;
    if (is_double && last->kind == WEIRI_PLAN_NOP_OP)
        *last = *op;
    else if (!is_double || op->kind == WEIRI_PLAN_BARRIER_OP)
        plan_fence_insert_op(to, to->nops, op);
}

static void plan_fence_add_requested(list *to, const weiri_build_block *block)
{
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_build_op *op = &block->ops[i];
        const weiri_build_op fence = plan_fence_new_fence(op->loop);
        if (op->sync & WEIR_PLAN_BEFORE)
            plan_fence_push_single(to, &fence);
        plan_fence_push_single(to, op);
        if (op->sync & WEIR_PLAN_AFTER)
            plan_fence_push_single(to, &fence);
    }
}

/* ----------------------------------------------------------------- conflicts */

static const weiri_plan_ref *plan_fence_ref_of(const weiri_build_op *op, uint32_t i)
{
    return i < op->nsrcs ? &op->srcs[i] : &op->dsts[i - op->nsrcs];
}

/* 1 if all chunks that two operations share have the same position in both. */
static int plan_fence_at_same_places(const list *in, const weiri_build_op *a,
                                     const weiri_build_op *b)
{
    for (uint32_t i = 0; i < a->nsrcs + a->ndsts; i++)
        for (uint32_t j = 0; j < b->nsrcs + b->ndsts; j++)
            if (weiri_build_overlap(in->builder, in->rank, plan_fence_ref_of(a, i),
                                    plan_fence_ref_of(b, j)) &&
                !weiri_build_same_place(in->builder, in->rank, plan_fence_ref_of(a, i),
                                        plan_fence_ref_of(b, j)))
                return 0;
    return 1;
}

/* 1 if b signals on a port channel, or flushes it, with another thread than a puts there: thread i
 * of the block serves the i-th channel of an operation. */
static int plan_fence_overtakes_put(const weiri_build_op *a, const weiri_build_op *b)
{
    if (!(plan_fence_roles_of(a) & MOVES) || !(plan_fence_roles_of(b) & SIGNALS) ||
        a->channel != WEIRI_PLAN_PORT || b->channel != WEIRI_PLAN_PORT)
        return 0;
    for (uint32_t i = 0; i < a->nids; i++)
        for (uint32_t j = 0; j < b->nids; j++)
            if (a->ids[i] == b->ids[j] && i != j)
                return 1;
    return 0;
}

/* 1 if b must not begin before a has finished. later_turn: b runs in a later turn of their
 * pipeline. */
static int plan_fence_conflicts(const list *in, const weiri_build_op *a, const weiri_build_op *b,
                                int later_turn)
{
    if (plan_fence_overtakes_put(a, b))
        return 1;
    if (!(plan_fence_roles_of(a) & MOVES) || !(plan_fence_roles_of(b) & MOVES) ||
        !weiri_build_conflict(in->builder, in->rank, a, b))
        return 0;
    return !later_turn || a->part != b->part || a->nparts != b->nparts ||
           !plan_fence_at_same_places(in, a, b);
}

/* A range [first, end) of a list's operations. */
typedef struct span {
    uint32_t first, end;
} span;

/* The operations beside a place in the list, on one side of it. */
enum { SPANS_MAX = 16 };
typedef struct side {
    span at[SPANS_MAX];
    unsigned count;
    int leaves_body; /* 1: it reaches the end of the place's pipeline body, so that operations at
                      * the other end of the body are beside the place, too */
    int is_long;     /* 1: there are more than SPANS_MAX spans */
} side;

/* The pipeline body that contains an operation, or the operations around it that are in none. */
static span plan_fence_body_of(const list *in, uint32_t at)
{
    span body = {at, at + 1};
    while (body.first && in->ops[body.first - 1].loop == in->ops[at].loop)
        body.first--;
    while (body.end < in->nops && in->ops[body.end].loop == in->ops[at].loop)
        body.end++;
    return body;
}

/* The operations beside a place, searched from operation `at` on, forward (step 1) or backward
 * (-1). own: the number of the pipeline that contains the place; 0: none. */
static side plan_fence_spans_beside(const list *in, int64_t at, int step, uint32_t own)
{
    side found = {.leaves_body = own != 0};
    while (at >= 0 && at < in->nops) {
        uint32_t loop = in->ops[at].loop;
        span body = plan_fence_body_of(in, (uint32_t)at);
        int64_t from = at, end = step > 0 ? (int64_t)body.end : (int64_t)body.first - 1;
        while (at != end && !weiri_plan_is_fence(in->ops[at].kind))
            at += step;
        if (at != from && found.count == SPANS_MAX)
            found.is_long = 1;
        else if (at != from)
            found.at[found.count++] = step > 0 ? (span){(uint32_t)from, (uint32_t)at}
                                               : (span){(uint32_t)(at + 1), (uint32_t)from + 1};
        if (at != end && loop == own)
            found.leaves_body = 0;
        if (at != end && (loop == own || loop == 0))
            break;
        at = end;
    }
    return found;
}

/* The operations of a pipeline's body that follow its beginning (step 1) or precede its end (-1)
 * without a fence between, not beyond the fence at `except`. */
static side plan_fence_spans_in_body(const list *in, span body, span except, int step)
{
    uint32_t at = step > 0 ? body.first : body.end;
    uint32_t end = step > 0 ? except.first : except.end;
    side found = {.count = 1};
    if (step > 0)
        while (at < end && !weiri_plan_is_fence(in->ops[at].kind))
            at++;
    else
        while (at > end && !weiri_plan_is_fence(in->ops[at - 1].kind))
            at--;
    found.at[0] = step > 0 ? (span){body.first, at} : (span){at, body.end};
    return found;
}

/* Adds a fence at the beginning of the pipeline's body at the end of the list, if the end of one
 * turn conflicts with the beginning of the next. */
static void plan_fence_finish_body(list *to)
{
    span body = plan_fence_body_of(to, to->nops - 1), none_before = {body.first, body.first},
         none_after = {body.end, body.end};
    side tail = plan_fence_spans_in_body(to, body, none_before, -1);
    side head = plan_fence_spans_in_body(to, body, none_after, 1);
    const weiri_build_op fence = plan_fence_new_fence(to->ops[body.first].loop);
    for (uint32_t a = tail.at[0].first; a < tail.at[0].end; a++)
        for (uint32_t b = head.at[0].first; b < head.at[0].end; b++)
            if (plan_fence_conflicts(to, &to->ops[a], &to->ops[b], 1)) {
                plan_fence_insert_op(to, body.first, &fence);
                return;
            }
}

/* 1 if op conflicts with an operation beside the end of the list; *found is then the last one. */
static int plan_fence_find_conflict(const list *to, const weiri_build_op *op, const side *before,
                                    uint32_t *found)
{
    for (unsigned i = 0; i < before->count; i++)
        for (uint32_t a = before->at[i].end; a > before->at[i].first; a--)
            if (plan_fence_conflicts(to, &to->ops[a - 1], op, 0)) {
                *found = a - 1;
                return 1;
            }
    *found = to->nops - 1;
    return before->is_long;
}

/* Appends an operation, with a fence before it if it needs one. If an operation of a pipeline's
 * body conflicts with one before the pipeline, the fence is placed before the pipeline rather than
 * in every turn. */
static void plan_fence_push_ordered(list *to, const weiri_build_op *op)
{
    for (;;) {
        side before = plan_fence_spans_beside(to, (int64_t)to->nops - 1, -1, op->loop);
        uint32_t with;
        if (!to->nops || !plan_fence_find_conflict(to, op, &before, &with))
            break;
        int in_body = to->ops[to->nops - 1].loop == op->loop;
        int outside = op->loop && to->ops[with].loop != op->loop;
        const weiri_build_op fence = plan_fence_new_fence(outside ? 0 : op->loop);
        plan_fence_insert_op(
            to, outside && in_body ? plan_fence_body_of(to, to->nops - 1).first : to->nops, &fence);
        if (to->builder->status != WEIR_OK)
            return;
    }
    plan_fence_insert_op(to, to->nops, op);
}

static void plan_fence_add_needed(list *to, const list *from)
{
    for (uint32_t i = 0; i < from->nops && to->builder->status == WEIR_OK; i++) {
        uint32_t loop = from->ops[i].loop;
        plan_fence_push_ordered(to, &from->ops[i]);
        if (loop && to->builder->status == WEIR_OK &&
            (i + 1 == from->nops || from->ops[i + 1].loop != loop))
            plan_fence_finish_body(to);
    }
}

/* ------------------------------------------------- fences that order nothing */

static int plan_fence_orders_spans(const list *in, span before, span after, int later_turn)
{
    for (uint32_t a = before.first; a < before.end; a++)
        for (uint32_t b = after.first; b < after.end; b++) {
            unsigned first = plan_fence_roles_of(&in->ops[a]),
                     second = plan_fence_roles_of(&in->ops[b]);
            if ((first & (MOVES | WAITS) && second & SIGNALS) ||
                (first & WAITS && second & MOVES) ||
                plan_fence_conflicts(in, &in->ops[a], &in->ops[b], later_turn))
                return 1;
        }
    return 0;
}

static int plan_fence_orders_sides(const list *in, const side *before, const side *after,
                                   int later_turn)
{
    for (unsigned i = 0; i < before->count; i++)
        for (unsigned k = 0; k < after->count; k++)
            if (plan_fence_orders_spans(in, before->at[i], after->at[k], later_turn))
                return 1;
    return before->is_long || after->is_long;
}

static int plan_fence_is_needed(const list *in, uint32_t at)
{
    uint32_t loop = in->ops[at].loop;
    side before = plan_fence_spans_beside(in, (int64_t)at - 1, -1, loop),
         after = plan_fence_spans_beside(in, at + 1, 1, loop);
    side turn_before = {.count = 0}, turn_after = {.count = 0};
    span body = plan_fence_body_of(in, at), self = {at, at + 1};
    if (before.leaves_body)
        turn_before = plan_fence_spans_in_body(in, body, self, -1);
    if (after.leaves_body)
        turn_after = plan_fence_spans_in_body(in, body, self, 1);
    return plan_fence_orders_sides(in, &before, &after, 0) ||
           plan_fence_orders_sides(in, &turn_before, &after, 1) ||
           plan_fence_orders_sides(in, &before, &turn_after, 1) ||
           plan_fence_orders_sides(in, &turn_before, &turn_after, 1);
}

static void plan_fence_remove_unneeded(list *from)
{
    for (uint32_t i = 0; i < from->nops;) {
        if (from->ops[i].kind != WEIRI_PLAN_NOP_OP || plan_fence_is_needed(from, i)) {
            i++;
            continue;
        }
        from->nops--;
        memmove(&from->ops[i], &from->ops[i + 1], (from->nops - i) * sizeof *from->ops);
    }
}

void weiri_build_fence(weir_plan_builder *builder, int rank, weiri_build_block *block)
{
    list asked = {builder, rank, NULL, 0}, all = {builder, rank, NULL, 0};
    plan_fence_add_requested(&asked, block);
    if (builder->spec.flags & WEIR_PLAN_NO_FENCES) {
        all = asked;
    } else {
        plan_fence_add_needed(&all, &asked);
        free(asked.ops);
    }
    if (builder->status == WEIR_OK && !(builder->spec.flags & WEIR_PLAN_KEEP_FENCES))
        plan_fence_remove_unneeded(&all);
    if (builder->status != WEIR_OK) {
        free(all.ops);
        return;
    }
    free(block->ops);
    block->ops = all.ops;
    block->nops = all.nops;
}
