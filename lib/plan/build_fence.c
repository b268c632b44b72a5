/*
 * Fences (nop) of a thread block: those that signals and waits ask for, those that operations
 * on the same chunks need between them, and none that orders nothing.
 *
 * A fence orders what is before it, back to the fences before, with what is behind it, up to
 * the next ones. It is needed if there is a pair of these of which
 *
 *   - the first moves data or has waited, and the second tells others: a signal, a release, a
 *     put with a signal, a flush, or packets, which tell their reader that they have come;
 *   - the first has waited: a wait, an acquire, a flush, or packets that were read; and the
 *     second moves data;
 *   - both move data, and one writes what the other has.
 *
 * Nothing else needs order within a block: a signal may be overtaken by what follows it, and
 * a wait may begin early. In a pipeline's body, what is before a fence is also what its last
 * turn left, and what is behind it what the next turn begins with.
 *
 * Turns of a pipeline handle different bytes of a chunk, so the same chunks at the same place
 * in two of them are no conflict.
 */
#include "plan/build.h"

#include <stdlib.h>
#include <string.h>

enum { TELLS = 1, HAS_WAITED = 2, MOVES = 4 };

static unsigned roles_of(const weiri_build_op *op)
{
    switch (op->kind) {
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
    case WEIRI_PLAN_SEM_RELEASE_OP:
        return TELLS;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        return HAS_WAITED;
    case WEIRI_PLAN_FLUSH_OP:
        return TELLS | HAS_WAITED;
    case WEIRI_PLAN_PUT_SIGNAL_OP:
        return TELLS | MOVES;
    case WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP:
        return TELLS | MOVES | HAS_WAITED;
    default:
        break;
    }
    const weiri_plan_trait *trait = &weiri_plan_traits[op->kind];
    if (trait->mode == WEIRI_PLAN_SYNC || trait->mode == WEIRI_PLAN_LOOP)
        return 0;
    return MOVES | (trait->packets & WEIRI_PLAN_PACKETS_TO ? TELLS : 0u) |
           (trait->packets & WEIRI_PLAN_PACKETS_FROM ? HAS_WAITED : 0u);
}

/* A block's operations while its fences change. The operations are the block's own. */
typedef struct list {
    weir_plan_builder *builder;
    int rank;
    weiri_build_op *ops;
    uint32_t nops;
} list;

static weiri_build_op new_fence(uint32_t loop)
{
    return (weiri_build_op){
        .kind = WEIRI_PLAN_NOP_OP, .channel = WEIRI_PLAN_NO_CHANNEL, .loop = loop, .nparts = 1};
}

static void insert(list *to, uint32_t at, const weiri_build_op *op)
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

/* ------------------------------------------------------------ those asked for */

enum { NONE_DOUBLE, FIRST_DOUBLE, SECOND_DOUBLE };

/* Which of two neighbours is a fence that the other makes unneeded: of two in one place the
 * plain one, else that outside of the other's pipeline. */
static int which_is_double(const weiri_build_op *a, const weiri_build_op *b)
{
    if (!weiri_build_is_fence(a) || !weiri_build_is_fence(b))
        return NONE_DOUBLE;
    if (a->kind == WEIRI_PLAN_NOP_OP && (a->loop == b->loop || a->loop == 0))
        return FIRST_DOUBLE;
    if (b->kind == WEIRI_PLAN_NOP_OP && (a->loop == b->loop || b->loop == 0))
        return SECOND_DOUBLE;
    return NONE_DOUBLE;
}

static void push_single(list *to, const weiri_build_op *op)
{
    int is_double = to->nops ? which_is_double(&to->ops[to->nops - 1], op) : NONE_DOUBLE;
    if (is_double == FIRST_DOUBLE)
        to->ops[to->nops - 1] = *op;
    else if (is_double == NONE_DOUBLE)
        insert(to, to->nops, op);
}

static void place_asked(list *to, const weiri_build_block *block)
{
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_build_op *op = &block->ops[i];
        const weiri_build_op fence = new_fence(op->loop);
        if (op->sync & WEIR_PLAN_BEFORE)
            push_single(to, &fence);
        push_single(to, op);
        if (op->sync & WEIR_PLAN_AFTER)
            push_single(to, &fence);
    }
}

/* ----------------------------------------------------------------- conflicts */

static const weiri_plan_ref *ref_of(const weiri_build_op *op, uint32_t i)
{
    return i < op->nsrcs ? &op->srcs[i] : &op->dsts[i - op->nsrcs];
}

/* Whether the chunks that two operations share are at the same place in both. */
static int at_same_places(const list *in, const weiri_build_op *a, const weiri_build_op *b)
{
    for (uint32_t i = 0; i < a->nsrcs + a->ndsts; i++)
        for (uint32_t j = 0; j < b->nsrcs + b->ndsts; j++)
            if (weiri_build_overlap(in->builder, in->rank, ref_of(a, i), ref_of(b, j)) &&
                !weiri_build_same_place(in->builder, in->rank, ref_of(a, i), ref_of(b, j)))
                return 0;
    return 1;
}

/* Whether b must wait for a. later_turn: b is of a later turn of their pipeline. */
static int conflicts(const list *in, const weiri_build_op *a, const weiri_build_op *b,
                     int later_turn)
{
    if (!(roles_of(a) & MOVES) || !(roles_of(b) & MOVES) ||
        !weiri_build_conflict(in->builder, in->rank, a, b))
        return 0;
    return !later_turn || a->part != b->part || a->nparts != b->nparts ||
           !at_same_places(in, a, b);
}

/* [first, end) of a list's operations. */
typedef struct span {
    uint32_t first, end;
} span;

/* What is before a place, or from it on, back to or up to the next fence or the limit. */
static span span_before(const list *in, uint32_t at, uint32_t limit)
{
    uint32_t first = at;
    while (first > limit && !weiri_build_is_fence(&in->ops[first - 1]))
        first--;
    return (span){first, at};
}

static span span_behind(const list *in, uint32_t at, uint32_t limit)
{
    uint32_t end = at;
    while (end < limit && !weiri_build_is_fence(&in->ops[end]))
        end++;
    return (span){at, end};
}

/* A pipeline's body begins with a fence if a turn needs one behind the turn before. since:
 * behind the list's last fence; the body is the list's end. */
static void finish_body(list *to, uint32_t body, uint32_t *since)
{
    span tail = span_before(to, to->nops, body), head = span_behind(to, body, to->nops);
    const weiri_build_op fence = new_fence(to->nops ? to->ops[to->nops - 1].loop : 0);
    for (uint32_t a = tail.first; a < tail.end; a++)
        for (uint32_t b = head.first; b < head.end; b++)
            if (conflicts(to, &to->ops[a], &to->ops[b], 1)) {
                insert(to, body, &fence);
                *since = *since > body ? *since + 1 : body + 1;
                return;
            }
}

/* Fences between an operation and those before it, since the last fence. One that a body
 * needs behind what is before its pipeline is placed there, not in every turn. */
static void push_behind_fence(list *to, const weiri_build_op *op, uint32_t *body,
                              uint32_t *since)
{
    for (uint32_t i = *since; i < to->nops; i++) {
        if (!conflicts(to, &to->ops[i], op, 0))
            continue;
        int outside = op->loop && to->ops[i].loop != op->loop;
        const weiri_build_op fence = new_fence(outside ? 0 : op->loop);
        uint32_t at = outside ? *body : to->nops;
        insert(to, at, &fence);
        *body += outside ? 1 : 0;
        *since = at + 1;
        i = at;
    }
    insert(to, to->nops, op);
    if (weiri_build_is_fence(op))
        *since = to->nops;
}

static void place_needed(list *to, const list *from)
{
    uint32_t body = 0, since = 0;
    for (uint32_t i = 0; i < from->nops && to->builder->status == WEIR_OK; i++) {
        const weiri_build_op *op = &from->ops[i];
        uint32_t before = i ? from->ops[i - 1].loop : 0;
        if (before && before != op->loop)
            finish_body(to, body, &since);
        if (op->loop && before != op->loop)
            body = to->nops;
        push_behind_fence(to, op, &body, &since);
    }
    if (from->nops && from->ops[from->nops - 1].loop)
        finish_body(to, body, &since);
}

/* ----------------------------------------------------- those that order nothing */

static int orders(const list *in, span before, span behind, int later_turn)
{
    for (uint32_t a = before.first; a < before.end; a++)
        for (uint32_t b = behind.first; b < behind.end; b++) {
            unsigned first = roles_of(&in->ops[a]), second = roles_of(&in->ops[b]);
            if ((first & (MOVES | HAS_WAITED) && second & TELLS) ||
                (first & HAS_WAITED && second & MOVES) ||
                conflicts(in, &in->ops[a], &in->ops[b], later_turn))
                return 1;
        }
    return 0;
}

/* The pipeline's body that a place is in. */
static span body_of(const list *in, uint32_t at)
{
    span body = {at, at + 1};
    while (body.first && in->ops[body.first - 1].loop == in->ops[at].loop)
        body.first--;
    while (body.end < in->nops && in->ops[body.end].loop == in->ops[at].loop)
        body.end++;
    return body;
}

static int is_needed(const list *in, uint32_t at)
{
    span before = span_before(in, at, 0), behind = span_behind(in, at + 1, in->nops);
    span turn_before = {0, 0}, turn_behind = {0, 0};
    if (in->ops[at].loop) {
        span body = body_of(in, at);
        if (before.first <= body.first)
            turn_before = span_before(in, body.end, at + 1);
        if (behind.end >= body.end)
            turn_behind = span_behind(in, body.first, at);
    }
    return orders(in, before, behind, 0) || orders(in, turn_before, behind, 1) ||
           orders(in, before, turn_behind, 1) || orders(in, turn_before, turn_behind, 1);
}

static void leave_out_unneeded(list *from)
{
    for (uint32_t i = 0; i < from->nops;) {
        if (from->ops[i].kind != WEIRI_PLAN_NOP_OP || is_needed(from, i)) {
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
    place_asked(&asked, block);
    if (builder->spec.flags & WEIR_PLAN_NO_FENCES) {
        all = asked;
    } else {
        place_needed(&all, &asked);
        free(asked.ops);
    }
    if (builder->status == WEIR_OK && !(builder->spec.flags & WEIR_PLAN_KEEP_FENCES))
        leave_out_unneeded(&all);
    if (builder->status != WEIR_OK) {
        free(all.ops);
        return;
    }
    free(block->ops);
    block->ops = all.ops;
    block->nops = all.nops;
}
