/* Checks a builder's calls, and appends their operations to thread blocks. */
#include "plan/build/build_call.h"

/* ---------------------------------------------------------------------- checks */

void weiri_build_call_check_rank(const weiri_build_call *call)
{
    if (weiri_build_call_is_ok(call) &&
        (call->rank < 0 || call->rank >= call->builder->spec.nranks))
        weiri_build_call_reject(call, "no such rank; expected 0 to %d",
                                call->builder->spec.nranks - 1);
}

void weiri_build_call_check_block(const weiri_build_call *call)
{
    weir_plan_builder *builder = call->builder;
    int known = weiri_build_call_is_group(call->block)
                    ? call->block - WEIRI_BUILD_GROUP < (int)builder->ngroups
                    : call->block >= 0 && call->block < WEIRI_PLAN_BLOCKS_MAX;
    if (weiri_build_call_is_ok(call) && !known)
        weiri_build_call_reject(call, "thread block %d; expected 0 to %d, or a weir_plan_group",
                                call->block, WEIRI_PLAN_BLOCKS_MAX - 1);
}

void weiri_build_call_check_single(const weiri_build_call *call)
{
    if (weiri_build_call_is_ok(call) && weiri_build_call_is_group(call->block))
        weiri_build_call_reject(
            call,
            "a group of thread blocks; expected a single one, because the operation cannot be "
            "divided");
}

weiri_plan_ref weiri_build_call_ref(const weiri_build_call *call, weir_plan_chunks chunks, int rank,
                                    const char *what)
{
    if (weiri_build_call_is_ok(call) && chunks.builder != call->builder)
        weiri_build_call_reject(call, "the %s belongs to another builder", what);
    if (weiri_build_call_is_ok(call) && chunks.rank != rank)
        weiri_build_call_reject(call, "the %s belongs to rank %d; expected one of rank %d", what,
                                chunks.rank, rank);
    if (weiri_build_call_is_ok(call) && chunks.size == 0)
        weiri_build_call_reject(call, "the %s has no chunks", what);
    return (weiri_plan_ref){
        .place = rank == call->rank ? WEIRI_PLAN_LOCAL : WEIRI_PLAN_REMOTE,
        .buffer = (uint8_t)chunks.buffer,
        .rank = chunks.rank,
        .id = -1,
        .index = chunks.index,
        .size = chunks.size,
    };
}

void weiri_build_call_check_sizes(const weiri_build_call *call, const weiri_plan_ref *a,
                                  const weiri_plan_ref *b)
{
    if (weiri_build_call_is_ok(call) && a->size != b->size)
        weiri_build_call_reject(call, "%u chunks for %u chunks; expected equal numbers", a->size,
                                b->size);
}

void weiri_build_call_check_places(const weiri_build_call *call, const weiri_plan_ref *dst,
                                   const weiri_plan_ref *src)
{
    if (weiri_build_call_is_ok(call) && weiri_build_overlap(call->builder, call->rank, dst, src) &&
        !weiri_build_same_place(call->builder, call->rank, dst, src))
        weiri_build_call_reject(call, "source and destination share chunks at different positions");
}

void weiri_build_call_check_packets(const weiri_build_call *call, const weiri_plan_ref *ref,
                                    const char *what)
{
    if (weiri_build_call_is_ok(call) && ref->buffer != WEIR_PLAN_SCRATCH)
        weiri_build_call_reject(call, "the %s holds packets in buffer '%c'; expected scratch", what,
                                weiri_plan_buffer_letters[ref->buffer]);
}

void weiri_build_call_check_pipeline(const weiri_build_call *call, const weiri_plan_ref *ref)
{
    const weir_plan_builder *builder = call->builder;
    if (!weiri_build_call_is_ok(call) || !builder->loop)
        return;
    weiri_build_loop *loop = &builder->loops[builder->loop - 1];
    loop->is_mixed |= loop->size && loop->size != ref->size;
    loop->size = ref->size;
    if (ref->size > loop->num_chunks)
        weiri_build_call_reject(
            call, "a reference to %u chunks in a pipeline over %u; expected at most as many",
            ref->size, loop->num_chunks);
}

/* ----------------------------------------------------------------------- lists */

static void plan_call_list_type(weiri_plan_channel *order, uint32_t *count, weiri_plan_channel type)
{
    for (uint32_t i = 0; i < *count; i++)
        if (order[i] == type)
            return;
    order[(*count)++] = type;
}

static void plan_call_list_channel(const weiri_build_call *call, weiri_build_block *block,
                                   uint32_t index)
{
    weiri_build_list *list = &block->channels[call->channel];
    plan_call_list_type(block->channel_order, &block->nchannel_order, call->channel);
    if (weiri_build_find(list, index) == list->count)
        weiri_build_add(call->builder, list, index);
}

/* Adds a remote buffer to the lists of the rank and of the block. */
static void plan_call_list_remote(const weiri_build_call *call, weiri_build_block *block,
                                  const weiri_plan_ref *ref)
{
    weiri_build_rank *rank = &call->builder->ranks[call->rank];
    uint32_t at = 0;
    if (ref->place != WEIRI_PLAN_REMOTE || !weiri_build_call_is_ok(call))
        return;
    while (at < rank->nremotes && (rank->remotes[at].rank != ref->rank ||
                                   rank->remotes[at].buffer != (weir_plan_buffer)ref->buffer))
        at++;
    if (at == rank->nremotes) {
        weiri_plan_remote *made = weiri_plan_append(&rank->remotes, &rank->nremotes, sizeof *made);
        if (!made) {
            weiri_build_no_memory(call->builder);
            return;
        }
        made->rank = ref->rank;
        made->buffer = (weir_plan_buffer)ref->buffer;
    }
    rank->remotes[at].access |= 1u << call->channel;
    plan_call_list_type(block->remote_order, &block->nremote_order, call->channel);
    if (weiri_build_find(&block->remotes[call->channel], at) == block->remotes[call->channel].count)
        weiri_build_add(call->builder, &block->remotes[call->channel], at);
}

static void plan_call_add_ref(const weiri_build_call *call, weiri_plan_ref **refs, uint32_t *count,
                              weiri_plan_ref ref, int is_dst)
{
    const weiri_plan_trait *trait = &weiri_plan_traits[call->kind];
    int bit = is_dst ? (*count ? WEIRI_PLAN_PACKETS_DSTS : WEIRI_PLAN_PACKETS_DST0)
                     : (*count ? WEIRI_PLAN_PACKETS_REST : WEIRI_PLAN_PACKETS_SRC0);
    if (!weiri_build_call_is_ok(call))
        return;
    weiri_plan_ref *place = weiri_plan_append(refs, count, sizeof ref);
    if (!place) {
        weiri_build_no_memory(call->builder);
        return;
    }
    *place = ref;
    place->is_packets = (trait->packets & bit) != 0 || (call->kind == WEIRI_PLAN_PUT_PACKETS_OP &&
                                                        call->channel == WEIRI_PLAN_PORT);
}

/* ------------------------------------------------------------------- appending */

static weiri_build_op *plan_call_new_op(const weiri_build_call *call, weiri_build_block *block)
{
    weiri_build_op *op = weiri_plan_append(&block->ops, &block->nops, sizeof *op);
    if (!op) {
        weiri_build_no_memory(call->builder);
        return NULL;
    }
    op->kind = call->kind;
    op->channel = call->channel;
    op->sync = call->sync;
    op->loop = call->builder->loop;
    op->nparts = 1;
    return op;
}

void weiri_build_call_append_to(const weiri_build_call *call, uint32_t number, uint32_t part,
                                uint32_t nparts)
{
    weiri_build_block *block = weiri_build_block_of(call->builder, call->rank, number);
    int moves = weiri_plan_traits[call->kind].mode != WEIRI_PLAN_SYNC;
    if (!block)
        return;
    weiri_build_op *op = plan_call_new_op(call, block);
    if (!op)
        return;
    op->part = part;
    op->nparts = nparts;
    if (call->id) {
        weiri_build_list ids = {0};
        weiri_build_add(call->builder, &ids, *call->id);
        op->ids = ids.items;
        op->nids = ids.count;
        if (call->uses_channel)
            plan_call_list_channel(call, block, *call->id);
    }
    if (!moves)
        return;
    plan_call_add_ref(call, &op->srcs, &op->nsrcs, call->src, 0);
    plan_call_list_remote(call, block, &call->src);
    for (int i = 0; i < call->nothers; i++) {
        weiri_plan_ref other =
            weiri_build_call_ref(call, call->others[i], call->others[i].rank, "source");
        plan_call_add_ref(call, &op->srcs, &op->nsrcs, other, 0);
        plan_call_list_remote(call, block, &other);
    }
    plan_call_add_ref(call, &op->dsts, &op->ndsts, call->dst, 1);
    plan_call_list_remote(call, block, &call->dst);
}

void weiri_build_call_append(const weiri_build_call *call)
{
    weiri_build_call_check_block(call);
    if (!weiri_build_call_is_ok(call))
        return;
    if (!weiri_build_call_is_group(call->block)) {
        weiri_build_call_append_to(call, (uint32_t)call->block, 0, 1);
        return;
    }
    const weiri_build_list *group = &call->builder->groups[call->block - WEIRI_BUILD_GROUP];
    for (uint32_t i = 0; i < group->count && weiri_build_call_is_ok(call); i++)
        weiri_build_call_append_to(call, group->items[i], i, group->count);
}
