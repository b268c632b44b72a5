/*
 * Fusion: neighbouring operations of a thread block become one where an operation for both
 * exists. Pairs are fused from the front, each result with the next, until a pass finds none.
 *
 * Never across a fence or a pipeline's ends, never of different parts of a group, and only
 * where no order between the two is lost: what they share in memory is the result that the
 * one makes and the other sends, chunk by chunk.
 */
#include "plan/build/build.h"

#include <stdlib.h>
#include <string.h>

/* The pair that is looked at; the first becomes both. */
typedef struct pair {
    weir_plan_builder *builder;
    int rank;
    weiri_build_op *a, *b;
} pair;

/* -------------------------------------------------------------------- appending */

static void append_refs(const pair *in, weiri_plan_ref **refs, uint32_t *count,
                        const weiri_plan_ref *more, uint32_t nmore)
{
    for (uint32_t i = 0; i < nmore; i++) {
        weiri_plan_ref *place = weiri_plan_append(refs, count, sizeof **refs);
        if (!place) {
            weiri_build_no_memory(in->builder);
            return;
        }
        *place = more[i];
    }
}

static void append_srcs(const pair *in, uint32_t from)
{
    append_refs(in, &in->a->srcs, &in->a->nsrcs, in->b->srcs + from, in->b->nsrcs - from);
}

static void append_dsts(const pair *in)
{
    append_refs(in, &in->a->dsts, &in->a->ndsts, in->b->dsts, in->b->ndsts);
}

static void append_ids(const pair *in)
{
    weiri_build_list list = {in->a->ids, in->a->nids};
    for (uint32_t i = 0; i < in->b->nids; i++)
        weiri_build_add(in->builder, &list, in->b->ids[i]);
    in->a->ids = list.items;
    in->a->nids = list.count;
}

/* ----------------------------------------------------------------- order of two */

static int shares_id(const weiri_build_op *a, const weiri_build_op *b)
{
    const weiri_build_list list = {a->ids, a->nids};
    for (uint32_t i = 0; i < b->nids; i++)
        if (weiri_build_find(&list, b->ids[i]) < list.count)
            return 1;
    return 0;
}

/* The fences that both together ask for. One between the two, which goes, orders what is
 * before them with a second that tells others, and a first that has waited with what follows:
 * it is then asked for before them, or behind. */
static unsigned common_sync(const weiri_build_op *a, const weiri_build_op *b, int tell, int wait)
{
    unsigned sync = a->sync | b->sync;
    if (!(a->sync & WEIR_PLAN_AFTER) && !(b->sync & WEIR_PLAN_BEFORE))
        return sync;
    return sync | (tell ? WEIR_PLAN_BEFORE : 0u) | (wait ? WEIR_PLAN_AFTER : 0u);
}

/* Signals, waits, semaphores, flushes of several channels at once. */
static int fuse_order(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    int fusible = a->kind == WEIRI_PLAN_SIGNAL_OP || a->kind == WEIRI_PLAN_WAIT_OP ||
                  a->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP ||
                  a->kind == WEIRI_PLAN_RELAXED_WAIT_OP || a->kind == WEIRI_PLAN_FLUSH_OP ||
                  a->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || a->kind == WEIRI_PLAN_SEM_RELEASE_OP;
    if (!fusible || a->kind != b->kind || a->channel != b->channel || shares_id(a, b))
        return 0;
    int waits = a->kind == WEIRI_PLAN_WAIT_OP || a->kind == WEIRI_PLAN_RELAXED_WAIT_OP ||
                a->kind == WEIRI_PLAN_SEM_ACQUIRE_OP;
    append_ids(in);
    a->sync = common_sync(a, b, !waits, waits || a->kind == WEIRI_PLAN_FLUSH_OP);
    return 1;
}

/* Each channel of the one is one of the other, and none is there twice. */
static int same_ids(const weiri_build_op *a, const weiri_build_op *b)
{
    if (a->nids != b->nids)
        return 0;
    for (uint32_t i = 0; i < a->nids; i++) {
        const weiri_build_list in_a = {a->ids, a->nids}, in_b = {b->ids, b->nids};
        if (weiri_build_find(&in_a, a->ids[i]) != i ||
            weiri_build_find(&in_b, a->ids[i]) == in_b.count)
            return 0;
    }
    return 1;
}

/* put, signal, flush on the same port channels. They go through one queue each, in order. */
static int fuse_port_put(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    weiri_plan_kind made = WEIRI_PLAN_KINDS;
    if (a->kind == WEIRI_PLAN_PUT_OP && b->kind == WEIRI_PLAN_SIGNAL_OP)
        made = WEIRI_PLAN_PUT_SIGNAL_OP;
    if (a->kind == WEIRI_PLAN_PUT_SIGNAL_OP && b->kind == WEIRI_PLAN_FLUSH_OP)
        made = WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP;
    if (made == WEIRI_PLAN_KINDS || a->channel != WEIRI_PLAN_PORT ||
        b->channel != WEIRI_PLAN_PORT || !same_ids(a, b))
        return 0;
    a->kind = made;
    a->sync |= b->sync; /* one between the two would order what one queue orders */
    return 1;
}

/* ----------------------------------------------------------------- moves of two */

/* Whether the signal of b comes behind the flush of a: a fence is between them. */
static int signals_behind_flush(const weiri_build_op *a, const weiri_build_op *b)
{
    return a->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP &&
           (a->sync & WEIR_PLAN_AFTER || b->sync & WEIR_PLAN_BEFORE);
}

/* Puts of the same kind, or gets, as pairs of one operation. What goes to one port channel
 * stays in order, which pairs have not. */
static int fuse_moves(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    int fusible = a->kind == WEIRI_PLAN_PUT_OP || a->kind == WEIRI_PLAN_PUT_PACKETS_OP ||
                  a->kind == WEIRI_PLAN_PUT_SIGNAL_OP ||
                  a->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP || a->kind == WEIRI_PLAN_GET_OP;
    if (!fusible || a->kind != b->kind || a->channel != b->channel ||
        a->srcs[0].size != b->srcs[0].size || a->nsrcs + b->nsrcs > WEIRI_PLAN_REFS_MAX ||
        (a->channel == WEIRI_PLAN_PORT && shares_id(a, b)) || signals_behind_flush(a, b) ||
        weiri_build_conflict(in->builder, in->rank, a, b))
        return 0;
    append_srcs(in, 0);
    append_dsts(in);
    append_ids(in);
    a->sync = common_sync(a, b, 1, 0);
    return 1;
}

static int same_ref(const weiri_plan_ref *a, const weiri_plan_ref *b)
{
    return a->place == b->place && a->buffer == b->buffer && a->rank == b->rank &&
           a->index == b->index && a->size == b->size;
}

static int fuse_forwards(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    if (a->kind != WEIRI_PLAN_FORWARD_PACKETS_OP || b->kind != a->kind ||
        a->channel != b->channel || !same_ref(&a->srcs[0], &b->srcs[0]) ||
        a->ndsts + b->ndsts > WEIRI_PLAN_REFS_MAX ||
        weiri_build_conflict(in->builder, in->rank, a, b))
        return 0;
    append_dsts(in);
    append_ids(in);
    return 1;
}

/* ------------------------------------------------------------------ reductions */

/* Reductions into one accumulator become one of more sources. */
static int fuse_reductions(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    int fusible = a->kind == WEIRI_PLAN_REDUCE_OP || a->kind == WEIRI_PLAN_REDUCE_PACKETS_OP ||
                  a->kind == WEIRI_PLAN_READ_REDUCE_OP;
    if (!fusible || a->kind != b->kind || !same_ref(&a->dsts[0], &b->srcs[0]) ||
        !same_ref(&a->dsts[0], &b->dsts[0]) ||
        a->nsrcs + b->nsrcs - 1 > WEIRI_PLAN_REFS_MAX)
        return 0;
    for (uint32_t i = 1; i < b->nsrcs; i++)
        if (weiri_build_overlap(in->builder, in->rank, &a->dsts[0], &b->srcs[i]))
            return 0;
    for (uint32_t i = 0; i < a->nsrcs; i++)
        if (weiri_build_overlap(in->builder, in->rank, &a->dsts[0], &a->srcs[i]) &&
            !weiri_build_same_place(in->builder, in->rank, &a->dsts[0], &a->srcs[i]))
            return 0;
    append_srcs(in, 1);
    append_ids(in);
    return 1;
}

/* What a reduction becomes that also sends its result with an operation; KINDS: nothing. */
static weiri_plan_kind sending(weiri_plan_kind reduction, const weiri_build_op *send)
{
    int put = send->kind == WEIRI_PLAN_PUT_OP && send->channel == WEIRI_PLAN_MEMORY;
    int packets = (send->kind == WEIRI_PLAN_PUT_PACKETS_OP ||
                   send->kind == WEIRI_PLAN_FORWARD_PACKETS_OP) &&
                  send->channel == WEIRI_PLAN_MEMORY;
    switch (reduction) {
    case WEIRI_PLAN_REDUCE_OP:
    case WEIRI_PLAN_REDUCE_SEND_OP:
        return put ? WEIRI_PLAN_REDUCE_SEND_OP : WEIRI_PLAN_KINDS;
    case WEIRI_PLAN_READ_REDUCE_OP:
    case WEIRI_PLAN_READ_REDUCE_SEND_OP:
        return put ? WEIRI_PLAN_READ_REDUCE_SEND_OP : WEIRI_PLAN_KINDS;
    case WEIRI_PLAN_REDUCE_PACKETS_OP:
        if (send->kind == WEIRI_PLAN_COPY_PACKETS_OP)
            return WEIRI_PLAN_REDUCE_COPY_PACKETS_OP;
        return packets ? WEIRI_PLAN_REDUCE_SEND_PACKETS_OP : WEIRI_PLAN_KINDS;
    case WEIRI_PLAN_REDUCE_SEND_PACKETS_OP:
        return packets ? reduction : WEIRI_PLAN_KINDS;
    case WEIRI_PLAN_REDUCE_COPY_PACKETS_OP:
    case WEIRI_PLAN_REDUCE_COPY_SEND_PACKETS_OP:
        return packets ? WEIRI_PLAN_REDUCE_COPY_SEND_PACKETS_OP : WEIRI_PLAN_KINDS;
    default:
        return WEIRI_PLAN_KINDS;
    }
}

/* Whether all that b sends is a's result: its data, or its packets where it has them. */
static int sends_result(const weiri_build_op *a, const weiri_build_op *b)
{
    int forwards = b->kind == WEIRI_PLAN_FORWARD_PACKETS_OP;
    int has_packets = a->kind == WEIRI_PLAN_REDUCE_COPY_PACKETS_OP ||
                      a->kind == WEIRI_PLAN_REDUCE_COPY_SEND_PACKETS_OP;
    if (forwards && !has_packets)
        return 0;
    for (uint32_t i = 0; i < b->nsrcs; i++)
        if (!same_ref(&a->dsts[forwards ? 1 : 0], &b->srcs[i]))
            return 0;
    return 1;
}

static int fuse_sending(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    weiri_plan_kind made = sending(a->kind, b);
    if (made == WEIRI_PLAN_KINDS || !sends_result(a, b) ||
        a->ndsts + b->ndsts > WEIRI_PLAN_REFS_MAX)
        return 0;
    for (uint32_t i = 0; i < b->ndsts; i++) {
        for (uint32_t j = 0; j < a->nsrcs; j++)
            if (weiri_build_overlap(in->builder, in->rank, &b->dsts[i], &a->srcs[j]) &&
                !weiri_build_same_place(in->builder, in->rank, &b->dsts[i], &a->srcs[j]))
                return 0;
        for (uint32_t j = 0; j < a->ndsts; j++)
            if (weiri_build_overlap(in->builder, in->rank, &b->dsts[i], &a->dsts[j]))
                return 0;
    }
    a->kind = made;
    if (b->channel != WEIRI_PLAN_NO_CHANNEL)
        a->channel = b->channel;
    append_dsts(in);
    return 1;
}

/* A reduction over a group and the store of its result to a group, where that stores it to
 * the rank too, and to no place of the group that another chunk was read from. */
static int fuse_switch(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    if (a->kind != WEIRI_PLAN_GROUP_REDUCE_OP || b->kind != WEIRI_PLAN_GROUP_STORE_OP ||
        !same_ref(&a->dsts[0], &b->srcs[0]) ||
        !weiri_build_same_place(in->builder, in->rank, &a->dsts[0], &b->dsts[0]) ||
        (weiri_build_overlap(in->builder, in->rank, &a->srcs[0], &b->dsts[0]) &&
         !weiri_build_same_place(in->builder, in->rank, &a->srcs[0], &b->dsts[0])))
        return 0;
    a->kind = WEIRI_PLAN_GROUP_REDUCE_STORE_OP;
    a->dsts[0] = b->dsts[0];
    return 1;
}

/* ------------------------------------------------------------------- the block */

static int fuse(const pair *in)
{
    static int (*const rules[])(const pair *) = {
        fuse_order, fuse_port_put, fuse_moves,  fuse_forwards,
        fuse_reductions, fuse_sending, fuse_switch,
    };
    const weiri_build_op *a = in->a, *b = in->b;
    if (a->loop != b->loop || a->part != b->part || a->nparts != b->nparts)
        return 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i](in))
            return 1;
    return 0;
}

void weiri_build_fuse(weir_plan_builder *builder, int rank, weiri_build_block *block)
{
    uint32_t before;
    do {
        uint32_t made = 0;
        before = block->nops;
        for (uint32_t i = 0; i < before; i++) {
            pair in = {builder, rank, &block->ops[made ? made - 1 : 0], &block->ops[i]};
            if (made && fuse(&in))
                weiri_build_op_free(&block->ops[i]);
            else
                block->ops[made++] = block->ops[i];
        }
        block->nops = made;
    } while (block->nops < before && builder->status == WEIR_OK);
}
