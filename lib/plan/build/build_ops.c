/* The public calls that append operations to a builder's thread blocks. */
#include "plan/build/build_call.h"

/* ----------------------------------------------------------------------- order */

static weiri_build_call plan_build_channel_call(weir_plan_chan chan, const char *name,
                                                weiri_plan_kind kind, int block)
{
    weiri_build_call call = {.builder = chan.builder,
                             .name = name,
                             .rank = chan.rank,
                             .block = block,
                             .kind = kind,
                             .uses_channel = 1};
    call.channel = chan.is_port ? WEIRI_PLAN_PORT : WEIRI_PLAN_MEMORY;
    return call;
}

static void plan_build_sync_op(weir_plan_chan chan, const char *name, weiri_plan_kind kind,
                               int block, weir_plan_sync sync)
{
    weiri_build_call call = plan_build_channel_call(chan, name, kind, block);
    call.sync = sync;
    call.id = &chan.index;
    weiri_build_call_check_single(&call);
    weiri_build_call_append(&call);
}

void weir_plan_signal(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    plan_build_sync_op(chan, __func__, WEIRI_PLAN_SIGNAL_OP, block, sync);
}

void weir_plan_wait(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    plan_build_sync_op(chan, __func__, WEIRI_PLAN_WAIT_OP, block, sync);
}

void weir_plan_relaxed_signal(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    plan_build_sync_op(chan, __func__, WEIRI_PLAN_RELAXED_SIGNAL_OP, block, sync);
}

void weir_plan_relaxed_wait(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    plan_build_sync_op(chan, __func__, WEIRI_PLAN_RELAXED_WAIT_OP, block, sync);
}

void weir_plan_flush(weir_plan_chan chan, int block, weir_plan_sync sync)
{
    plan_build_sync_op(chan, __func__, WEIRI_PLAN_FLUSH_OP, block, sync);
}

static void plan_build_semaphore_op(weir_plan_semaphore semaphore, const char *name,
                                    weiri_plan_kind kind, int block, weir_plan_sync sync)
{
    weiri_build_call call = {.builder = semaphore.builder,
                             .name = name,
                             .rank = semaphore.rank,
                             .block = block,
                             .kind = kind,
                             .channel = WEIRI_PLAN_NO_CHANNEL,
                             .sync = sync,
                             .id = &semaphore.index};
    weiri_build_call_check_single(&call);
    weiri_build_call_append(&call);
}

void weir_plan_acquire(weir_plan_semaphore semaphore, int block, weir_plan_sync sync)
{
    plan_build_semaphore_op(semaphore, __func__, WEIRI_PLAN_SEM_ACQUIRE_OP, block, sync);
}

void weir_plan_release(weir_plan_semaphore semaphore, int block, weir_plan_sync sync)
{
    plan_build_semaphore_op(semaphore, __func__, WEIRI_PLAN_SEM_RELEASE_OP, block, sync);
}

/* The number of the rank's barrier for the blocks of a group; groups of the same blocks share it.
 */
static uint32_t plan_build_barrier_of(weir_plan_builder *builder, int rank, uint32_t group)
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
    weiri_build_call call = {.builder = builder,
                             .name = __func__,
                             .rank = rank,
                             .block = block,
                             .kind = WEIRI_PLAN_NOP_OP,
                             .channel = WEIRI_PLAN_NO_CHANNEL};
    weiri_build_call_check_rank(&call);
    weiri_build_call_check_block(&call);
    if (!weiri_build_call_is_ok(&call))
        return;
    uint32_t group = weiri_build_call_is_group(block) ? (uint32_t)(block - WEIRI_BUILD_GROUP) : 0;
    if (!weiri_build_call_is_group(block) || builder->groups[group].count == 1) {
        weiri_build_call_append(&call);
        return;
    }
    uint32_t barrier = plan_build_barrier_of(builder, rank, group);
    call.kind = WEIRI_PLAN_BARRIER_OP;
    for (uint32_t i = 0; i < builder->groups[group].count && weiri_build_call_is_ok(&call); i++) {
        uint32_t number = builder->groups[group].items[i];
        weiri_build_call_append_to(&call, number, 0, 1);
        if (!weiri_build_call_is_ok(&call))
            return;
        weiri_build_block *in = &builder->ranks[rank].blocks[number];
        in->ops[in->nops - 1].barrier = barrier;
        in->ops[in->nops - 1].nblocks = builder->groups[group].count;
    }
}

/* ----------------------------------------------------------------------- moves */

static weiri_build_call plan_build_local_call(weir_plan_chunks dst, const char *name,
                                              weiri_plan_kind kind, int block)
{
    return (weiri_build_call){.builder = dst.builder,
                              .name = name,
                              .rank = dst.rank,
                              .block = block,
                              .kind = kind,
                              .channel = WEIRI_PLAN_NO_CHANNEL};
}

static void plan_build_finish_move(weiri_build_call *call)
{
    int packets = weiri_plan_traits[call->kind].packets;
    int from_packets = call->kind == WEIRI_PLAN_PUT_PACKETS_OP && call->channel == WEIRI_PLAN_PORT;
    weiri_build_call_check_sizes(call, &call->dst, &call->src);
    weiri_build_call_check_places(call, &call->dst, &call->src);
    weiri_build_call_check_pipeline(call, &call->src);
    if (packets & WEIRI_PLAN_PACKETS_SRC0 || from_packets)
        weiri_build_call_check_packets(call, &call->src, "source");
    if (packets & WEIRI_PLAN_PACKETS_DST0)
        weiri_build_call_check_packets(call, &call->dst, "destination");
    weiri_build_call_append(call);
}

static void plan_build_put_op(weir_plan_chan chan, const char *name, weiri_plan_kind kind,
                              weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    weiri_build_call call = plan_build_channel_call(chan, name, kind, block);
    int signals = weiri_plan_is_put_signal(kind);
    if (weiri_build_call_is_ok(&call) && signals && !chan.is_port)
        weiri_build_call_reject(
            &call, "a memory channel; expected a port channel, or separate put and signal");
    call.id = &chan.index;
    if (chan.is_port)
        weiri_build_call_check_single(&call);
    call.src = weiri_build_call_ref(&call, src, chan.rank, "source");
    call.dst = weiri_build_call_ref(&call, dst, chan.peer, "destination");
    plan_build_finish_move(&call);
}

void weir_plan_put(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    plan_build_put_op(chan, __func__, WEIRI_PLAN_PUT_OP, dst, src, block);
}

void weir_plan_put_signal(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                          int block)
{
    plan_build_put_op(chan, __func__, WEIRI_PLAN_PUT_SIGNAL_OP, dst, src, block);
}

void weir_plan_put_signal_flush(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                                int block)
{
    plan_build_put_op(chan, __func__, WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP, dst, src, block);
}

void weir_plan_put_packets(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                           int block)
{
    plan_build_put_op(chan, __func__, WEIRI_PLAN_PUT_PACKETS_OP, dst, src, block);
}

void weir_plan_forward_packets(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                               int block)
{
    plan_build_put_op(chan, __func__, WEIRI_PLAN_FORWARD_PACKETS_OP, dst, src, block);
}

void weir_plan_get(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    weiri_build_call call = plan_build_channel_call(chan, __func__, WEIRI_PLAN_GET_OP, block);
    if (weiri_build_call_is_ok(&call) && chan.is_port)
        weiri_build_call_reject(&call,
                                "a port channel; expected a memory channel, or a put by the peer");
    call.id = &chan.index;
    call.src = weiri_build_call_ref(&call, src, chan.peer, "source");
    call.dst = weiri_build_call_ref(&call, dst, chan.rank, "destination");
    plan_build_finish_move(&call);
}

static void plan_build_local_move(weir_plan_chunks dst, weir_plan_chunks src, const char *name,
                                  weiri_plan_kind kind, int block)
{
    weiri_build_call call = plan_build_local_call(dst, name, kind, block);
    weiri_build_call_check_rank(&call);
    call.src = weiri_build_call_ref(&call, src, dst.rank, "source");
    call.dst = weiri_build_call_ref(&call, dst, dst.rank, "destination");
    plan_build_finish_move(&call);
}

void weir_plan_copy(weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    plan_build_local_move(dst, src, __func__, WEIRI_PLAN_COPY_OP, block);
}

void weir_plan_copy_packets(weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    plan_build_local_move(dst, src, __func__, WEIRI_PLAN_COPY_PACKETS_OP, block);
}

void weir_plan_unpack_packets(weir_plan_chunks dst, weir_plan_chunks src, int block)
{
    plan_build_local_move(dst, src, __func__, WEIRI_PLAN_UNPACK_OP, block);
}

/* ------------------------------------------------------------------ reductions */

static void plan_build_reduce_op(weiri_build_call *call, weir_plan_chunks dst, weir_plan_chunks src,
                                 const weir_plan_chunks *others, int nothers, int others_rank)
{
    call->others = others;
    call->nothers = nothers;
    int packets = weiri_plan_traits[call->kind].packets;
    weiri_build_call_check_rank(call);
    call->src = weiri_build_call_ref(call, src, call->rank, "source");
    call->dst = weiri_build_call_ref(call, dst, call->rank, "destination");
    if (weiri_build_call_is_ok(call) && (call->nothers < 1 || call->nothers >= WEIRI_PLAN_REFS_MAX))
        weiri_build_call_reject(call, "%d other sources; expected 1 to %d", call->nothers,
                                WEIRI_PLAN_REFS_MAX - 1);
    for (int i = 0; i < call->nothers && weiri_build_call_is_ok(call); i++) {
        weiri_plan_ref other =
            weiri_build_call_ref(call, call->others[i], others_rank, "other source");
        weiri_build_call_check_sizes(call, &other, &call->src);
        weiri_build_call_check_places(call, &call->dst, &other);
        if (packets & WEIRI_PLAN_PACKETS_REST)
            weiri_build_call_check_packets(call, &other, "other source");
    }
    weiri_build_call_check_sizes(call, &call->dst, &call->src);
    weiri_build_call_check_places(call, &call->dst, &call->src);
    weiri_build_call_check_pipeline(call, &call->src);
    weiri_build_call_append(call);
}

void weir_plan_reduce(weir_plan_chunks dst, weir_plan_chunks src, const weir_plan_chunks *others,
                      int nothers, int block)
{
    weiri_build_call call = plan_build_local_call(dst, __func__, WEIRI_PLAN_REDUCE_OP, block);
    plan_build_reduce_op(&call, dst, src, others, nothers, dst.rank);
}

void weir_plan_reduce_packets(weir_plan_chunks dst, weir_plan_chunks src,
                              const weir_plan_chunks *others, int nothers, int block)
{
    weiri_build_call call =
        plan_build_local_call(dst, __func__, WEIRI_PLAN_REDUCE_PACKETS_OP, block);
    plan_build_reduce_op(&call, dst, src, others, nothers, dst.rank);
}

void weir_plan_read_reduce(weir_plan_chan chan, weir_plan_chunks dst, weir_plan_chunks src,
                           const weir_plan_chunks *others, int nothers, int block)
{
    weiri_build_call call =
        plan_build_channel_call(chan, __func__, WEIRI_PLAN_READ_REDUCE_OP, block);
    if (weiri_build_call_is_ok(&call) && chan.is_port)
        weiri_build_call_reject(&call, "a port channel; expected a memory channel");
    call.id = &chan.index;
    plan_build_reduce_op(&call, dst, src, others, nothers, chan.peer);
}

/* --------------------------------------------------------------------- switches */

/* A reference to chunks of all ranks of a switch channel, as many as in own; the calling rank must
 * be one of them. */
static weiri_plan_ref plan_build_group_ref(const weiri_build_call *call, weir_plan_switch group,
                                           int index, weir_plan_chunks own)
{
    weiri_plan_ref ref = {.place = WEIRI_PLAN_GROUP, .id = -1};
    if (!weiri_build_call_is_ok(call))
        return ref;
    if (group.builder != call->builder) {
        weiri_build_call_reject(call, "the switch channel belongs to another builder");
        return ref;
    }
    const weiri_build_switch *with = &call->builder->switches[group.index];
    if (!(with->has >> call->rank & 1))
        weiri_build_call_reject(call, "the rank is not one of the switch channel's ranks");
    for (uint32_t i = 0; i < with->ranks.count && weiri_build_call_is_ok(call); i++) {
        int rank = (int)with->ranks.items[i];
        uint32_t there = weiri_build_chunks(call->builder, rank, with->buffer);
        if (index < 0 || (uint32_t)index > there || own.size > there - (uint32_t)index)
            weiri_build_call_reject(call, "chunks %d to %d of rank %d's buffer '%c'; it has %u",
                                    index, index + (int)own.size - 1, rank,
                                    weiri_plan_buffer_letters[with->buffer], there);
    }
    ref.buffer = (uint8_t)with->buffer;
    ref.rank = (int32_t)weiri_build_find(&call->builder->ranks[call->rank].switches, group.index);
    ref.index = (uint32_t)index;
    ref.size = own.size;
    return ref;
}

static void plan_build_finish_switch(weiri_build_call *call, const weiri_plan_ref *group)
{
    uint32_t index = (uint32_t)group->rank;
    call->id = &index;
    call->uses_channel = 1;
    weiri_build_call_check_places(call, &call->dst, &call->src);
    weiri_build_call_check_pipeline(call, &call->src);
    weiri_build_call_append(call);
    call->id = NULL;
}

static weiri_build_call plan_build_switch_call(weir_plan_chunks own, const char *name,
                                               weiri_plan_kind kind, int block)
{
    weiri_build_call call = plan_build_local_call(own, name, kind, block);
    call.channel = WEIRI_PLAN_SWITCH;
    weiri_build_call_check_rank(&call);
    return call;
}

void weir_plan_switch_reduce(weir_plan_switch group, int index, weir_plan_chunks dst, int block)
{
    weiri_build_call call =
        plan_build_switch_call(dst, __func__, WEIRI_PLAN_GROUP_REDUCE_OP, block);
    call.dst = weiri_build_call_ref(&call, dst, dst.rank, "destination");
    call.src = plan_build_group_ref(&call, group, index, dst);
    plan_build_finish_switch(&call, &call.src);
}

void weir_plan_switch_broadcast(weir_plan_switch group, weir_plan_chunks src, int index, int block)
{
    weiri_build_call call = plan_build_switch_call(src, __func__, WEIRI_PLAN_GROUP_STORE_OP, block);
    call.src = weiri_build_call_ref(&call, src, src.rank, "source");
    call.dst = plan_build_group_ref(&call, group, index, src);
    plan_build_finish_switch(&call, &call.dst);
}

void weir_plan_switch_broadcast_packets(weir_plan_switch group, weir_plan_chunks src, int index,
                                        int block)
{
    weiri_build_call call =
        plan_build_switch_call(src, __func__, WEIRI_PLAN_GROUP_STORE_PACKETS_OP, block);
    call.src = weiri_build_call_ref(&call, src, src.rank, "source");
    call.dst = plan_build_group_ref(&call, group, index, src);
    weiri_build_call_check_packets(&call, &call.src, "source");
    weiri_build_call_check_packets(&call, &call.dst, "destination");
    plan_build_finish_switch(&call, &call.dst);
}
