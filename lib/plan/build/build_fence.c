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
 *   - both move data, and one writes what the other has;
 *   - the first puts to a port channel with one thread, and the second signals there, or
 *     flushes it, with another.
 *
 * Nothing else needs order within a block: a signal may be overtaken by what follows it, and
 * a wait may begin early. In a pipeline's body, what is before a fence is also what its last
 * turn left, and what is behind it what the next turn begins with. For what is outside of a
 * pipeline, the fences in it do not count: a call of no bytes has no turns.
 *
 * Turns of a pipeline handle different bytes of a chunk, so the same chunks at the same place
 * in two of them are no conflict.
 */
#include "plan/build/build.h"

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

/* Of two fences in one place one stays, a barrier if there is one. */
static void push_single(list *to, const weiri_build_op *op)
{
    weiri_build_op *last = to->nops ? &to->ops[to->nops - 1] : NULL;
    int is_double = last && weiri_build_is_fence(last) && weiri_build_is_fence(op) &&
                    last->loop == op->loop;
    if (is_double && last->kind == WEIRI_PLAN_NOP_OP)
        *last = *op;
    else if (!is_double || op->kind == WEIRI_PLAN_BARRIER_OP)
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

/* Whether b signals on a port channel, or flushes it, with another thread than a puts there:
 * each channel of an operation is served by the thread of its place in the list. */
static int overtakes_put(const weiri_build_op *a, const weiri_build_op *b)
{
    if (!(roles_of(a) & MOVES) || !(roles_of(b) & TELLS) || a->channel != WEIRI_PLAN_PORT ||
        b->channel != WEIRI_PLAN_PORT)
        return 0;
    for (uint32_t i = 0; i < a->nids; i++)
        for (uint32_t j = 0; j < b->nids; j++)
            if (a->ids[i] == b->ids[j] && i != j)
                return 1;
    return 0;
}

/* Whether b must wait for a. later_turn: b is of a later turn of their pipeline. */
static int conflicts(const list *in, const weiri_build_op *a, const weiri_build_op *b,
                     int later_turn)
{
    if (overtakes_put(a, b))
        return 1;
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

/* Those that no fence separates from a place, to one side of it. */
enum { SPANS_MAX = 16 };
typedef struct side {
    span at[SPANS_MAX];
    unsigned count;
    int leaves_body; /* of the place's own pipeline; its other end is near, too */
    int is_long;     /* there are more */
} side;

/* The pipeline's body, or what is outside of them, that a place is in. */
static span body_of(const list *in, uint32_t at)
{
    span body = {at, at + 1};
    while (body.first && in->ops[body.first - 1].loop == in->ops[at].loop)
        body.first--;
    while (body.end < in->nops && in->ops[body.end].loop == in->ops[at].loop)
        body.end++;
    return body;
}

/* From an operation on, forward (1) or back (-1), for a place in a pipeline or outside (0). */
static side look(const list *in, int64_t at, int step, uint32_t own)
{
    side found = {.leaves_body = own != 0};
    while (at >= 0 && at < in->nops) {
        uint32_t loop = in->ops[at].loop;
        span body = body_of(in, (uint32_t)at);
        int64_t from = at, end = step > 0 ? (int64_t)body.end : (int64_t)body.first - 1;
        while (at != end && !weiri_build_is_fence(&in->ops[at]))
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

/* Within a pipeline's body: back from its end, or on from its beginning. */
static side look_around(const list *in, span body, span except, int step)
{
    uint32_t at = step > 0 ? body.first : body.end;
    uint32_t end = step > 0 ? except.first : except.end;
    side found = {.count = 1};
    if (step > 0)
        while (at < end && !weiri_build_is_fence(&in->ops[at]))
            at++;
    else
        while (at > end && !weiri_build_is_fence(&in->ops[at - 1]))
            at--;
    found.at[0] = step > 0 ? (span){body.first, at} : (span){at, body.end};
    return found;
}

/* A pipeline's body, the list's end, begins with a fence if a turn needs one behind the turn
 * before. */
static void finish_body(list *to)
{
    span body = body_of(to, to->nops - 1), none_before = {body.first, body.first},
         none_behind = {body.end, body.end};
    side tail = look_around(to, body, none_before, -1);
    side head = look_around(to, body, none_behind, 1);
    const weiri_build_op fence = new_fence(to->ops[body.first].loop);
    for (uint32_t a = tail.at[0].first; a < tail.at[0].end; a++)
        for (uint32_t b = head.at[0].first; b < head.at[0].end; b++)
            if (conflicts(to, &to->ops[a], &to->ops[b], 1)) {
                insert(to, body.first, &fence);
                return;
            }
}

/* The last operation before the list's end that one behind it must wait for: 1, and which. */
static int find_conflict(const list *to, const weiri_build_op *op, const side *before,
                         uint32_t *found)
{
    for (unsigned i = 0; i < before->count; i++)
        for (uint32_t a = before->at[i].end; a > before->at[i].first; a--)
            if (conflicts(to, &to->ops[a - 1], op, 0)) {
                *found = a - 1;
                return 1;
            }
    *found = to->nops - 1;
    return before->is_long;
}

/* A fence before an operation where it needs one. One that a body needs behind what is before
 * its pipeline is placed there, not in every turn. */
static void push_behind_fence(list *to, const weiri_build_op *op)
{
    for (;;) {
        side before = look(to, (int64_t)to->nops - 1, -1, op->loop);
        uint32_t with;
        if (!find_conflict(to, op, &before, &with))
            break;
        int in_body = to->ops[to->nops - 1].loop == op->loop;
        int outside = op->loop && to->ops[with].loop != op->loop;
        const weiri_build_op fence = new_fence(outside ? 0 : op->loop);
        insert(to, outside && in_body ? body_of(to, to->nops - 1).first : to->nops, &fence);
        if (to->builder->status != WEIR_OK)
            return;
    }
    insert(to, to->nops, op);
}

static void place_needed(list *to, const list *from)
{
    for (uint32_t i = 0; i < from->nops && to->builder->status == WEIR_OK; i++) {
        uint32_t loop = from->ops[i].loop;
        push_behind_fence(to, &from->ops[i]);
        if (loop && to->builder->status == WEIR_OK &&
            (i + 1 == from->nops || from->ops[i + 1].loop != loop))
            finish_body(to);
    }
}

/* ----------------------------------------------------- those that order nothing */

static int orders_spans(const list *in, span before, span behind, int later_turn)
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

static int orders(const list *in, const side *before, const side *behind, int later_turn)
{
    for (unsigned i = 0; i < before->count; i++)
        for (unsigned k = 0; k < behind->count; k++)
            if (orders_spans(in, before->at[i], behind->at[k], later_turn))
                return 1;
    return before->is_long || behind->is_long;
}

static int is_needed(const list *in, uint32_t at)
{
    uint32_t loop = in->ops[at].loop;
    side before = look(in, (int64_t)at - 1, -1, loop), behind = look(in, at + 1, 1, loop);
    side turn_before = {.count = 0}, turn_behind = {.count = 0};
    span body = body_of(in, at), self = {at, at + 1};
    if (before.leaves_body)
        turn_before = look_around(in, body, self, -1);
    if (behind.leaves_body)
        turn_behind = look_around(in, body, self, 1);
    return orders(in, &before, &behind, 0) || orders(in, &turn_before, &behind, 1) ||
           orders(in, &before, &turn_behind, 1) || orders(in, &turn_before, &turn_behind, 1);
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
