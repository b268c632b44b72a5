/*
 * The calls of a builder that make operations: each says what its operation is, has it
 * checked, and appended to its thread block or to each of a group's.
 */
#include "plan/build/build_call.h"

/* ----------------------------------------------------------------------- order */

static void sync_op(weir_plan_chan chan, const char *name, weiri_plan_kind kind, int block,
                    weir_plan_sync sync)
{
    weiri_call the = {.builder = chan.builder, .name = name, .rank = chan.rank, .block = block,
                      .kind = kind, .sync = sync, .id = &chan.index, .uses_channel = 1};
    the.channel = chan.is_port ? WEIRI_PLAN_PORT : WEIRI_PLAN_MEMORY;
    weiri_call_check_single(&the);
    weiri_call_append(&the);
}

void weir_plan_signal(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    sync_op(chan, __func__, WEIRI_PLAN_SIGNAL_OP, block, sync);
}

void weir_plan_wait(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    sync_op(chan, __func__, WEIRI_PLAN_WAIT_OP, block, sync);
}

void weir_plan_relaxed_signal(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    sync_op(chan, __func__, WEIRI_PLAN_RELAXED_SIGNAL_OP, block, sync);
}

void weir_plan_relaxed_wait(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    sync_op(chan, __func__, WEIRI_PLAN_RELAXED_WAIT_OP, block, sync);
}

void weir_plan_flush(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    sync_op(chan, __func__, WEIRI_PLAN_FLUSH_OP, block, sync);
}

static void semaphore_op(weir_plan_semaphore semaphore, const char *name, weiri_plan_kind kind,
                         int block, weir_plan_sync sync)
{
    weiri_call the = {.builder = semaphore.builder, .name = name, .rank = semaphore.rank,
                      .block = block, .kind = kind, .channel = WEIRI_PLAN_NO_CHANNEL, .sync = sync,
                      .id = &semaphore.index};
    weiri_call_check_single(&the);
    weiri_call_append(&the);
}

void weir_plan_acquire(weir_plan_semaphore semaphore, int block, weir_plan_sync sync)
{
    semaphore_op(semaphore, __func__, WEIRI_PLAN_SEM_ACQUIRE_OP, block, sync);
}

void weir_plan_release(weir_plan_semaphore semaphore, int block, weir_plan_sync sync)
{
    semaphore_op(semaphore, __func__, WEIRI_PLAN_SEM_RELEASE_OP, block, sync);
}

/* The rank's barrier for these blocks; groups of the same blocks share one. */
static uint32_t barrier_of(weir_plan_builder *builder, int rank, uint32_t group)
{
    weiri_build_list *barriers = &builder->ranks[rank].barriers;
    const weiri_build_list *own = &builder->groups[group];
    for (uint32_t i = 0; i < barriers->count; i++) {
        const weiri_build_list *other = &builder->groups[barriers->items[i]];
        uint32_t same = 0;
        while (same < own->count && same < other->count &&
               weiri_build_find(other, own->items[same]) < other->count)
            same++;
        if (same == own->count && same == other->count)
            return i;
    }
    weiri_build_add(builder, barriers, group);
    return barriers->count - 1;
}

void weir_plan_barrier(weir_plan_builder *builder, int rank, int block)
{
    weiri_call the = {.builder = builder, .name = __func__, .rank = rank, .block = block,
                      .kind = WEIRI_PLAN_NOP_OP, .channel = WEIRI_PLAN_NO_CHANNEL};
    weiri_call_check_rank(&the);
    weiri_call_check_block(&the);
    if (!weiri_call_goes_on(&the))
        return;
    uint32_t group = weiri_call_is_group(block) ? (uint32_t)(block - WEIRI_BUILD_GROUP) : 0;
    if (!weiri_call_is_group(block) || builder->groups[group].count == 1) {
        weiri_call_append(&the);
        return;
    }
    uint32_t barrier = barrier_of(builder, rank, group);
    the.kind = WEIRI_PLAN_BARRIER_OP;
    for (uint32_t i = 0; i < builder->groups[group].count && weiri_call_goes_on(&the); i++) {
        uint32_t number = builder->groups[group].items[i];
        weiri_call_append_to(&the, number, 0, 1);
        if (!weiri_call_goes_on(&the))
            return;
        weiri_build_block *in = &builder->ranks[rank].blocks[number];
        in->ops[in->nops - 1].barrier = barrier;
        in->ops[in->nops - 1].nblocks = builder->groups[group].count;
    }
}

/* ----------------------------------------------------------------------- moves */

static weiri_call over(weir_plan_chan chan, const char *name, weiri_plan_kind kind, int block)
{
    weiri_call the = {.builder = chan.builder, .name = name, .rank = chan.rank, .block = block,
                      .kind = kind, .uses_channel = 1};
    the.channel = chan.is_port ? WEIRI_PLAN_PORT : WEIRI_PLAN_MEMORY;
    return the;
}

static weiri_call on_rank(weir_plan_chunks dst, const char *name, weiri_plan_kind kind, int block)
{
    weiri_call the = {.builder = dst.builder, .name = name, .rank = dst.rank, .block = block,
                      .kind = kind, .channel = WEIRI_PLAN_NO_CHANNEL};
    return the;
}

static void finish_move(weiri_call *the)
{
    int packets = weiri_plan_traits[the->kind].packets;
    int from_packets = the->kind == WEIRI_PLAN_PUT_PACKETS_OP && the->channel == WEIRI_PLAN_PORT;
    weiri_call_check_sizes(the, &the->dst, &the->src);
    weiri_call_check_places(the, &the->dst, &the->src);
    weiri_call_check_pipeline(the, &the->src);
    if (packets & WEIRI_PLAN_PACKETS_SRC0 || from_packets)
        weiri_call_check_packets(the, &the->src, "source");
    if (packets & WEIRI_PLAN_PACKETS_DST0)
        weiri_call_check_packets(the, &the->dst, "destination");
    weiri_call_append(the);
}

static void put_op(weiri_call *the, weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src)
{
    the->id = &chan.index;
    if (chan.is_port)
        weiri_call_check_single(the);
    the->src = weiri_call_ref(the, src, chan.rank, "source");
    the->dst = weiri_call_ref(the, dst, chan.peer, "destination");
    finish_move(the);
}

static void check_port(const weiri_call *the)
{
    if (weiri_call_goes_on(the) && the->channel != WEIRI_PLAN_PORT)
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "a memory channel; expected a port channel, or a put and a signal");
}

void weir_plan_put(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    weiri_call the = over(chan, __func__, WEIRI_PLAN_PUT_OP, block);
    put_op(&the, chan, dst, src);
}

void weir_plan_put_signal(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                          int block)
{
    weiri_call the = over(chan, __func__, WEIRI_PLAN_PUT_SIGNAL_OP, block);
    check_port(&the);
    put_op(&the, chan, dst, src);
}

void weir_plan_put_signal_flush(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                                int block)
{
    weiri_call the = over(chan, __func__, WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP, block);
    check_port(&the);
    put_op(&the, chan, dst, src);
}

void weir_plan_put_packets(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                           int block)
{
    weiri_call the = over(chan, __func__, WEIRI_PLAN_PUT_PACKETS_OP, block);
    put_op(&the, chan, dst, src);
}

void weir_plan_forward_packets(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                               int block)
{
    weiri_call the = over(chan, __func__, WEIRI_PLAN_FORWARD_PACKETS_OP, block);
    put_op(&the, chan, dst, src);
}

void weir_plan_get(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    weiri_call the = over(chan, __func__, WEIRI_PLAN_GET_OP, block);
    if (weiri_call_goes_on(&the) && chan.is_port)
        weiri_build_refuse(chan.builder, the.name, chan.rank,
                           "a port channel; expected a memory channel, or a put of the peer");
    the.id = &chan.index;
    the.src = weiri_call_ref(&the, src, chan.peer, "source");
    the.dst = weiri_call_ref(&the, dst, chan.rank, "destination");
    finish_move(&the);
}

static void local_move(weir_plan_chunks dst, weir_plan_chunks src, const char *name,
                       weiri_plan_kind kind, int block)
{
    weiri_call the = on_rank(dst, name, kind, block);
    weiri_call_check_rank(&the);
    the.src = weiri_call_ref(&the, src, dst.rank, "source");
    the.dst = weiri_call_ref(&the, dst, dst.rank, "destination");
    finish_move(&the);
}

void weir_plan_copy(weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    local_move(dst, src, __func__, WEIRI_PLAN_COPY_OP, block);
}

void weir_plan_copy_packets(weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    local_move(dst, src, __func__, WEIRI_PLAN_COPY_PACKETS_OP, block);
}

void weir_plan_unpack_packets(weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    local_move(dst, src, __func__, WEIRI_PLAN_UNPACK_OP, block);
}

/* ------------------------------------------------------------------ reductions */

static void reduce_op(weiri_call *the, weir_plan_chunks dst, weir_plan_chunks src, int others_rank)
{
    int packets = weiri_plan_traits[the->kind].packets;
    weiri_call_check_rank(the);
    the->src = weiri_call_ref(the, src, the->rank, "source");
    the->dst = weiri_call_ref(the, dst, the->rank, "destination");
    if (weiri_call_goes_on(the) && (the->nothers < 1 || the->nothers >= WEIRI_PLAN_REFS_MAX))
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "%d other sources; expected 1 to %d", the->nothers,
                           WEIRI_PLAN_REFS_MAX - 1);
    for (int i = 0; i < the->nothers && weiri_call_goes_on(the); i++) {
        weiri_plan_ref other = weiri_call_ref(the, the->others[i], others_rank, "other source");
        weiri_call_check_sizes(the, &other, &the->src);
        weiri_call_check_places(the, &the->dst, &other);
        if (packets & WEIRI_PLAN_PACKETS_REST)
            weiri_call_check_packets(the, &other, "other source");
    }
    weiri_call_check_sizes(the, &the->dst, &the->src);
    weiri_call_check_places(the, &the->dst, &the->src);
    weiri_call_check_pipeline(the, &the->src);
    weiri_call_append(the);
}

void weir_plan_reduce(weir_plan_chunks dst, weir_plan_chunks src, const weir_plan_chunks *others,
                      int nothers, int block)
{
    weiri_call the = on_rank(dst, __func__, WEIRI_PLAN_REDUCE_OP, block);
    the.others = others;
    the.nothers = nothers;
    reduce_op(&the, dst, src, dst.rank);
}

void weir_plan_reduce_packets(weir_plan_chunks dst, weir_plan_chunks src,
                              const weir_plan_chunks *others, int nothers, int block)
{
    weiri_call the = on_rank(dst, __func__, WEIRI_PLAN_REDUCE_PACKETS_OP, block);
    the.others = others;
    the.nothers = nothers;
    reduce_op(&the, dst, src, dst.rank);
}

void weir_plan_read_reduce(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                           const weir_plan_chunks *others, int nothers, int block)
{
    weiri_call the = over(chan, __func__, WEIRI_PLAN_READ_REDUCE_OP, block);
    if (weiri_call_goes_on(&the) && chan.is_port)
        weiri_build_refuse(chan.builder, the.name, chan.rank,
                           "a port channel; expected a memory channel");
    the.id = &chan.index;
    the.others = others;
    the.nothers = nothers;
    reduce_op(&the, dst, src, chan.peer);
}

/* --------------------------------------------------------------------- switches */

/* The group's chunks of as many as the rank's own, which a rank of the group has. */
static weiri_plan_ref group_ref(const weiri_call *the, weir_plan_switch group, int index,
                                weir_plan_chunks own)
{
    weiri_plan_ref ref = {.place = WEIRI_PLAN_GROUP, .id = -1};
    if (!weiri_call_goes_on(the))
        return ref;
    if (group.builder != the->builder) {
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "the switch channel is another builder's");
        return ref;
    }
    const weiri_build_switch *with = &the->builder->switches[group.index];
    if (!(with->has >> the->rank & 1))
        weiri_build_refuse(the->builder, the->name, the->rank,
                           "it is none of the switch channel's ranks");
    for (uint32_t i = 0; i < with->ranks.count && weiri_call_goes_on(the); i++) {
        int rank = (int)with->ranks.items[i];
        uint32_t there = weiri_build_chunks(the->builder, rank, with->buffer);
        if (index < 0 || (uint32_t)index > there || own.size > there - (uint32_t)index)
            weiri_build_refuse(the->builder, the->name, the->rank,
                               "chunks %d to %d of rank %d's buffer '%c'; it has %u", index,
                               index + (int)own.size - 1, rank,
                               weiri_plan_buffer_letters[with->buffer], there);
    }
    ref.buffer = (uint8_t)with->buffer;
    ref.rank = (int32_t)weiri_build_find(&the->builder->ranks[the->rank].switches, group.index);
    ref.index = (uint32_t)index;
    ref.size = own.size;
    return ref;
}

static void finish_switch(weiri_call *the, const weiri_plan_ref *group)
{
    uint32_t index = (uint32_t)group->rank;
    the->id = &index;
    the->uses_channel = 1;
    weiri_call_check_places(the, &the->dst, &the->src);
    weiri_call_check_pipeline(the, &the->src);
    weiri_call_append(the);
}

static weiri_call on_switch(weir_plan_chunks own, const char *name, weiri_plan_kind kind, int block)
{
    weiri_call the = on_rank(own, name, kind, block);
    the.channel = WEIRI_PLAN_SWITCH;
    weiri_call_check_rank(&the);
    return the;
}

void weir_plan_switch_reduce(weir_plan_switch group, int index, weir_plan_chunks dst, int block)
{
    weiri_call the = on_switch(dst, __func__, WEIRI_PLAN_GROUP_REDUCE_OP, block);
    the.dst = weiri_call_ref(&the, dst, dst.rank, "destination");
    the.src = group_ref(&the, group, index, dst);
    finish_switch(&the, &the.src);
}

void weir_plan_switch_broadcast(weir_plan_switch group, weir_plan_chunks src, int index,
                                int block)
{
    weiri_call the = on_switch(src, __func__, WEIRI_PLAN_GROUP_STORE_OP, block);
    the.src = weiri_call_ref(&the, src, src.rank, "source");
    the.dst = group_ref(&the, group, index, src);
    finish_switch(&the, &the.dst);
}

void weir_plan_switch_broadcast_packets(weir_plan_switch group, weir_plan_chunks src, int index,
                                        int block)
{
    weiri_call the = on_switch(src, __func__, WEIRI_PLAN_GROUP_STORE_PACKETS_OP, block);
    the.src = weiri_call_ref(&the, src, src.rank, "source");
    the.dst = group_ref(&the, group, index, src);
    weiri_call_check_packets(&the, &the.src, "source");
    weiri_call_check_packets(&the, &the.dst, "destination");
    finish_switch(&the, &the.dst);
}
