/*
 * Fusion: replaces two neighbouring operations of a thread block by one that does the work of both,
 * where the format has such an operation. Passes run from the front of the block, fusing each
 * result with the next operation, until a pass fuses nothing.
 *
 * Operations are not fused across a fence or the ends of a pipeline, nor if they handle different
 * parts of a group, nor if an order between them that matters would be lost: the only memory that
 * they may share is a result that the first computes and the second sends, chunk by chunk.
 */
#include "plan/build/build.h"

/* Two neighbouring operations. Fusion changes a to the fused operation; b is then freed. */
typedef struct pair {
    weir_plan_builder *builder;
    int rank;
    weiri_build_op *a, *b;
} pair;

/* -------------------------------------------------------------------- appending */

static void plan_fuse_append_refs(const pair *in, weiri_plan_ref **refs, uint32_t *count,
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

static void plan_fuse_append_srcs(const pair *in, uint32_t from)
{
    plan_fuse_append_refs(in, &in->a->srcs, &in->a->nsrcs, in->b->srcs + from, in->b->nsrcs - from);
}

static void plan_fuse_append_dsts(const pair *in)
{
    plan_fuse_append_refs(in, &in->a->dsts, &in->a->ndsts, in->b->dsts, in->b->ndsts);
}

static void plan_fuse_append_ids(const pair *in)
{
    weiri_build_list list = {in->a->ids, in->a->nids};
    for (uint32_t i = 0; i < in->b->nids; i++)
        weiri_build_add(in->builder, &list, in->b->ids[i]);
    in->a->ids = list.items;
    in->a->nids = list.count;
}

/* ------------------------------------------------- operations that move nothing */

static int plan_fuse_shares_id(const weiri_build_op *a, const weiri_build_op *b)
{
    const weiri_build_list list = {a->ids, a->nids};
    for (uint32_t i = 0; i < b->nids; i++)
        if (weiri_build_find(&list, b->ids[i]) < list.count)
            return 1;
    return 0;
}

/* The fences that the fused operation requests. A fence between a and b disappears. If the two
 * signal, it ordered earlier operations before b, so the fused operation requests a fence before
 * itself; if they wait, it ordered a before later operations, so it requests one after itself. */
static unsigned plan_fuse_common_sync(const weiri_build_op *a, const weiri_build_op *b, int signals,
                                      int waits)
{
    unsigned sync = a->sync | b->sync;
    if (!(a->sync & WEIR_PLAN_AFTER) && !(b->sync & WEIR_PLAN_BEFORE))
        return sync;
    return sync | (signals ? WEIR_PLAN_BEFORE : 0u) | (waits ? WEIR_PLAN_AFTER : 0u);
}

/* Signals, waits, semaphore operations and flushes become one on several channels. */
static int plan_fuse_order(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    int fusible = a->kind == WEIRI_PLAN_SIGNAL_OP || a->kind == WEIRI_PLAN_WAIT_OP ||
                  a->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP ||
                  a->kind == WEIRI_PLAN_RELAXED_WAIT_OP || a->kind == WEIRI_PLAN_FLUSH_OP ||
                  a->kind == WEIRI_PLAN_SEM_ACQUIRE_OP || a->kind == WEIRI_PLAN_SEM_RELEASE_OP;
    if (!fusible || a->kind != b->kind || a->channel != b->channel || plan_fuse_shares_id(a, b))
        return 0;
    int waits = weiri_plan_is_wait(a->kind) || a->kind == WEIRI_PLAN_SEM_ACQUIRE_OP;
    plan_fuse_append_ids(in);
    a->sync = plan_fuse_common_sync(a, b, !waits, waits || a->kind == WEIRI_PLAN_FLUSH_OP);
    return 1;
}

/* 1 if both use the same set of channels, each once. */
static int plan_fuse_same_ids(const weiri_build_op *a, const weiri_build_op *b)
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

/* put, signal and flush on the same port channels. The requests of a channel form one queue, which
 * keeps their order. */
static int plan_fuse_port_put(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    weiri_plan_kind made = WEIRI_PLAN_KINDS;
    if (a->kind == WEIRI_PLAN_PUT_OP && b->kind == WEIRI_PLAN_SIGNAL_OP)
        made = WEIRI_PLAN_PUT_SIGNAL_OP;
    if (a->kind == WEIRI_PLAN_PUT_SIGNAL_OP && b->kind == WEIRI_PLAN_FLUSH_OP)
        made = WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP;
    if (made == WEIRI_PLAN_KINDS || a->channel != WEIRI_PLAN_PORT ||
        b->channel != WEIRI_PLAN_PORT || !plan_fuse_same_ids(a, b))
        return 0;
    a->kind = made;
    a->sync |= b->sync; /* a fence between the two is not needed: the queue orders them */
    return 1;
}

/* ------------------------------------------------------------------------- moves */

/* 1 if a fence orders the flush of a before the signal of b. */
static int plan_fuse_signals_after_flush(const weiri_build_op *a, const weiri_build_op *b)
{
    return a->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP &&
           (a->sync & WEIR_PLAN_AFTER || b->sync & WEIR_PLAN_BEFORE);
}

/* Puts of the same kind, or gets, become pairs of one operation. Pairs have no order, so puts to
 * the same port channel are not fused. */
static int plan_fuse_moves(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    int fusible = a->kind == WEIRI_PLAN_PUT_OP || a->kind == WEIRI_PLAN_PUT_PACKETS_OP ||
                  weiri_plan_is_put_signal(a->kind) || a->kind == WEIRI_PLAN_GET_OP;
    if (!fusible || a->kind != b->kind || a->channel != b->channel ||
        a->srcs[0].size != b->srcs[0].size || a->nsrcs + b->nsrcs > WEIRI_PLAN_REFS_MAX ||
        (a->channel == WEIRI_PLAN_PORT && plan_fuse_shares_id(a, b)) ||
        plan_fuse_signals_after_flush(a, b) || weiri_build_conflict(in->builder, in->rank, a, b))
        return 0;
    plan_fuse_append_srcs(in, 0);
    plan_fuse_append_dsts(in);
    plan_fuse_append_ids(in);
    a->sync = plan_fuse_common_sync(a, b, 1, 0);
    return 1;
}

static int plan_fuse_same_ref(const weiri_plan_ref *a, const weiri_plan_ref *b)
{
    return a->place == b->place && a->buffer == b->buffer && a->rank == b->rank &&
           a->index == b->index && a->size == b->size;
}

static int plan_fuse_forwards(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    if (a->kind != WEIRI_PLAN_FORWARD_PACKETS_OP || b->kind != a->kind ||
        a->channel != b->channel || !plan_fuse_same_ref(&a->srcs[0], &b->srcs[0]) ||
        a->ndsts + b->ndsts > WEIRI_PLAN_REFS_MAX ||
        weiri_build_conflict(in->builder, in->rank, a, b))
        return 0;
    plan_fuse_append_dsts(in);
    plan_fuse_append_ids(in);
    return 1;
}

/* ------------------------------------------------------------------ reductions */

/* Reductions into the same accumulator become one with more sources. */
static int plan_fuse_reductions(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    int fusible = a->kind == WEIRI_PLAN_REDUCE_OP || a->kind == WEIRI_PLAN_REDUCE_PACKETS_OP ||
                  a->kind == WEIRI_PLAN_READ_REDUCE_OP;
    if (!fusible || a->kind != b->kind || !plan_fuse_same_ref(&a->dsts[0], &b->srcs[0]) ||
        !plan_fuse_same_ref(&a->dsts[0], &b->dsts[0]) ||
        a->nsrcs + b->nsrcs - 1 > WEIRI_PLAN_REFS_MAX)
        return 0;
    for (uint32_t i = 1; i < b->nsrcs; i++)
        if (weiri_build_overlap(in->builder, in->rank, &a->dsts[0], &b->srcs[i]))
            return 0;
    for (uint32_t i = 0; i < a->nsrcs; i++)
        if (weiri_build_overlap(in->builder, in->rank, &a->dsts[0], &a->srcs[i]) &&
            !weiri_build_same_place(in->builder, in->rank, &a->dsts[0], &a->srcs[i]))
            return 0;
    plan_fuse_append_srcs(in, 1);
    plan_fuse_append_ids(in);
    return 1;
}

/* The kind of a reduction that also does what send does with its result; WEIRI_PLAN_KINDS: none. */
static weiri_plan_kind plan_fuse_sending_kind(weiri_plan_kind reduction, const weiri_build_op *send)
{
    int put = send->kind == WEIRI_PLAN_PUT_OP && send->channel == WEIRI_PLAN_MEMORY;
    int packets =
        (send->kind == WEIRI_PLAN_PUT_PACKETS_OP || send->kind == WEIRI_PLAN_FORWARD_PACKETS_OP) &&
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

/* 1 if every source of b is the result of a: its data or, for a forward, its packets. */
static int plan_fuse_sends_result(const weiri_build_op *a, const weiri_build_op *b)
{
    int forwards = b->kind == WEIRI_PLAN_FORWARD_PACKETS_OP;
    int has_packets = a->kind == WEIRI_PLAN_REDUCE_COPY_PACKETS_OP ||
                      a->kind == WEIRI_PLAN_REDUCE_COPY_SEND_PACKETS_OP;
    if (forwards && !has_packets)
        return 0;
    for (uint32_t i = 0; i < b->nsrcs; i++)
        if (!plan_fuse_same_ref(&a->dsts[forwards ? 1 : 0], &b->srcs[i]))
            return 0;
    return 1;
}

static int plan_fuse_reduction_and_send(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    weiri_plan_kind made = plan_fuse_sending_kind(a->kind, b);
    if (made == WEIRI_PLAN_KINDS || !plan_fuse_sends_result(a, b) ||
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
    plan_fuse_append_dsts(in);
    return 1;
}

/* A reduction over a switch channel and the store of its result to a switch channel, if that also
 * stores it to the rank's own destination, and does not overwrite other chunks that are read. */
static int plan_fuse_switch(const pair *in)
{
    weiri_build_op *a = in->a, *b = in->b;
    if (a->kind != WEIRI_PLAN_GROUP_REDUCE_OP || b->kind != WEIRI_PLAN_GROUP_STORE_OP ||
        !plan_fuse_same_ref(&a->dsts[0], &b->srcs[0]) ||
        !weiri_build_same_place(in->builder, in->rank, &a->dsts[0], &b->dsts[0]) ||
        (weiri_build_overlap(in->builder, in->rank, &a->srcs[0], &b->dsts[0]) &&
         !weiri_build_same_place(in->builder, in->rank, &a->srcs[0], &b->dsts[0])))
        return 0;
    a->kind = WEIRI_PLAN_GROUP_REDUCE_STORE_OP;
    a->dsts[0] = b->dsts[0];
    return 1;
}

/* ------------------------------------------------------------------- the block */

static int plan_fuse_pair(const pair *in)
{
    static int (*const rules[])(const pair *) = {
        plan_fuse_order,      plan_fuse_port_put,           plan_fuse_moves,  plan_fuse_forwards,
        plan_fuse_reductions, plan_fuse_reduction_and_send, plan_fuse_switch,
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
            if (made && plan_fuse_pair(&in))
                weiri_build_op_free(&block->ops[i]);
            else
                block->ops[made++] = block->ops[i];
        }
        block->nops = made;
    } while (block->nops < before && builder->status == WEIR_OK);
}
