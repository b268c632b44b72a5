/* Checks of a builder's calls, and how an operation comes into its thread blocks. */
#include "plan/build/build_call.h"

/* ---------------------------------------------------------------------- checks */

void weiri_call_check_rank(const weiri_call *the)
{
    if (weiri_call_goes_on(the) && (the->rank < 0 || the->rank >= the->builder->spec.nranks))
        weiri_build_refuse(the->builder, the->name, the->rank, "there are ranks 0 to %d",
                           the->builder->spec.nranks - 1);
}

void weiri_call_check_block(const weiri_call *the)
{
    weir_plan_builder *builder = the->builder;
    int known = weiri_call_is_group(the->block)
                    ? the->block - WEIRI_BUILD_GROUP < (int)builder->ngroups
                    : the->block >= 0 && the->block < WEIRI_PLAN_BLOCKS_MAX;
    if (weiri_call_goes_on(the) && !known)
        weiri_build_refuse(builder, the->name, the->rank,
                           "thread block %d; expected 0 to %d, or a weir_plan_group", the->block,
                           WEIRI_PLAN_BLOCKS_MAX - 1);
}

void weiri_call_check_single(const weiri_call *the)
{
    if (weiri_call_goes_on(the) && weiri_call_is_group(the->block))
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "a group of thread blocks; expected one, for it is not divided");
}

weiri_plan_ref weiri_call_ref(const weiri_call *the, weir_plan_chunks chunks, int rank,
                              const char *what)
{
    if (weiri_call_goes_on(the) && chunks.builder != the->builder)
        weiri_build_refuse(the->builder, the->name, the->rank, "the %s is another builder's",
                           what);
    if (weiri_call_goes_on(the) && chunks.rank != rank)
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "the %s is of rank %d; expected one of rank %d", what, chunks.rank,
                           rank);
    if (weiri_call_goes_on(the) && chunks.size == 0)
        weiri_build_refuse(the->builder, the->name, the->rank, "the %s has no chunks", what);
    return (weiri_plan_ref){
        .place = rank == the->rank ? WEIRI_PLAN_LOCAL : WEIRI_PLAN_REMOTE,
        .buffer = (uint8_t)chunks.buffer,
        .rank = chunks.rank,
        .id = -1,
        .index = chunks.index,
        .size = chunks.size,
    };
}

void weiri_call_check_sizes(const weiri_call *the, const weiri_plan_ref *a, const weiri_plan_ref *b)
{
    if (weiri_call_goes_on(the) && a->size != b->size)
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "%u chunks for %u; expected as many", a->size, b->size);
}

void weiri_call_check_places(const weiri_call *the, const weiri_plan_ref *dst,
                             const weiri_plan_ref *src)
{
    if (weiri_call_goes_on(the) && weiri_build_overlap(the->builder, the->rank, dst, src) &&
        !weiri_build_same_place(the->builder, the->rank, dst, src))
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "its destination is chunks of its source, but at another place");
}

void weiri_call_check_packets(const weiri_call *the, const weiri_plan_ref *ref, const char *what)
{
    if (weiri_call_goes_on(the) && ref->buffer != WEIR_PLAN_SCRATCH)
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "the %s are packets in buffer '%c'; packets live in scratch", what,
                           weiri_plan_buffer_letters[ref->buffer]);
}

void weiri_call_check_pipeline(const weiri_call *the, const weiri_plan_ref *ref)
{
    const weir_plan_builder *builder = the->builder;
    if (!weiri_call_goes_on(the) || !builder->loop)
        return;
    weiri_build_loop *loop = &builder->loops[builder->loop - 1];
    loop->is_mixed |= loop->size && loop->size != ref->size;
    loop->size = ref->size;
    if (ref->size > loop->num_chunks)
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "%u chunks in a pipeline of %u; expected at most as many", ref->size,
                           loop->num_chunks);
}

/* ----------------------------------------------------------------------- lists */

static void list_type(weiri_plan_channel *order, uint32_t *count, weiri_plan_channel type)
{
    for (uint32_t i = 0; i < *count; i++)
        if (order[i] == type)
            return;
    order[(*count)++] = type;
}

static void list_channel(const weiri_call *the, weiri_build_block *block, uint32_t index)
{
    weiri_build_list *list = &block->channels[the->channel];
    list_type(block->channel_order, &block->nchannel_order, the->channel);
    if (weiri_build_find(list, index) == list->count)
        weiri_build_add(the->builder, list, index);
}

/* Lists a remote buffer with the rank and with the block. */
static void list_remote(const weiri_call *the, weiri_build_block *block, const weiri_plan_ref *ref)
{
    weiri_build_rank *rank = &the->builder->ranks[the->rank];
    uint32_t at = 0;
    if (ref->place != WEIRI_PLAN_REMOTE || !weiri_call_goes_on(the))
        return;
    while (at < rank->nremotes && (rank->remotes[at].rank != ref->rank ||
                                   rank->remotes[at].buffer != (weir_plan_buffer)ref->buffer))
        at++;
    if (at == rank->nremotes) {
        weiri_plan_remote *made =
            weiri_plan_append(&rank->remotes, &rank->nremotes, sizeof *made);
        if (!made) {
            weiri_build_no_memory(the->builder);
            return;
        }
        made->rank = ref->rank;
        made->buffer = (weir_plan_buffer)ref->buffer;
    }
    rank->remotes[at].access |= 1u << the->channel;
    list_type(block->remote_order, &block->nremote_order, the->channel);
    if (weiri_build_find(&block->remotes[the->channel], at) == block->remotes[the->channel].count)
        weiri_build_add(the->builder, &block->remotes[the->channel], at);
}

static void add_ref(const weiri_call *the, weiri_plan_ref **refs, uint32_t *count,
                    weiri_plan_ref ref, int is_dst)
{
    const weiri_plan_trait *trait = &weiri_plan_traits[the->kind];
    int bit = is_dst ? (*count ? WEIRI_PLAN_PACKETS_DSTS : WEIRI_PLAN_PACKETS_DST0)
                     : (*count ? WEIRI_PLAN_PACKETS_REST : WEIRI_PLAN_PACKETS_SRC0);
    if (!weiri_call_goes_on(the))
        return;
    weiri_plan_ref *place = weiri_plan_append(refs, count, sizeof ref);
    if (!place) {
        weiri_build_no_memory(the->builder);
        return;
    }
    *place = ref;
    place->is_packets = (trait->packets & bit) != 0 ||
                        (the->kind == WEIRI_PLAN_PUT_PACKETS_OP && the->channel == WEIRI_PLAN_PORT);
}

/* ------------------------------------------------------------------- appending */

static weiri_build_op *new_op(const weiri_call *the, weiri_build_block *block)
{
    weiri_build_op *op = weiri_plan_append(&block->ops, &block->nops, sizeof *op);
    if (!op) {
        weiri_build_no_memory(the->builder);
        return NULL;
    }
    op->kind = the->kind;
    op->channel = the->channel;
    op->sync = the->sync;
    op->loop = the->builder->loop;
    op->nparts = 1;
    return op;
}

void weiri_call_append_to(const weiri_call *the, uint32_t number, uint32_t part, uint32_t nparts)
{
    weiri_build_block *block = weiri_build_block_of(the->builder, the->rank, number);
    int moves = weiri_plan_traits[the->kind].mode != WEIRI_PLAN_SYNC;
    if (!block)
        return;
    weiri_build_op *op = new_op(the, block);
    if (!op)
        return;
    op->part = part;
    op->nparts = nparts;
    if (the->id) {
        weiri_build_list ids = {0};
        weiri_build_add(the->builder, &ids, *the->id);
        op->ids = ids.items;
        op->nids = ids.count;
        if (the->uses_channel)
            list_channel(the, block, *the->id);
    }
    if (!moves)
        return;
    add_ref(the, &op->srcs, &op->nsrcs, the->src, 0);
    list_remote(the, block, &the->src);
    for (int i = 0; i < the->nothers; i++) {
        weiri_plan_ref other = weiri_call_ref(the, the->others[i], the->others[i].rank, "source");
        add_ref(the, &op->srcs, &op->nsrcs, other, 0);
        list_remote(the, block, &other);
    }
    add_ref(the, &op->dsts, &op->ndsts, the->dst, 1);
    list_remote(the, block, &the->dst);
}

void weiri_call_append(const weiri_call *the)
{
    weiri_call_check_block(the);
    if (!weiri_call_goes_on(the))
        return;
    if (!weiri_call_is_group(the->block)) {
        weiri_call_append_to(the, (uint32_t)the->block, 0, 1);
        return;
    }
    const weiri_build_list *group = &the->builder->groups[the->block - WEIRI_BUILD_GROUP];
    for (uint32_t i = 0; i < group->count && weiri_call_goes_on(the); i++)
        weiri_call_append_to(the, group->items[i], i, group->count);
}
