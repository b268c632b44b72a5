/*
 * The public calls that create what operations refer to: chunks of buffers, channels, semaphores,
 * groups of thread blocks, pipelines.
 */
#include "plan/build/build.h"

#include "base/contract.h"

/* -------------------------------------------------------------------- buffers */

uint32_t weiri_build_chunks(const weir_plan_builder *builder, int rank, weir_plan_buffer buffer)
{
    const weiri_contract *contract = weiri_contract_of((int)builder->spec.collective);
    uint32_t share = (uint32_t)builder->spec.chunk_factor;
    if (buffer == WEIR_PLAN_SCRATCH)
        return builder->ranks[rank].scratch;
    int has_blocks = buffer == WEIR_PLAN_INPUT ? contract->in_has_blocks : contract->out_has_blocks;
    /* An allreduce has one block, which the DSL divides among the ranks. */
    return has_blocks || builder->spec.collective == WEIR_COLL_ALLREDUCE
               ? share * (uint32_t)builder->spec.nranks
               : share;
}

/* Fails unless the rank exists; 1 if the builder has not failed. */
static int plan_build_check_rank(weir_plan_builder *builder, const char *call, int rank)
{
    if (builder->status == WEIR_OK && (rank < 0 || rank >= builder->spec.nranks))
        weiri_build_reject(builder, call, rank, "no such rank; expected 0 to %d",
                           builder->spec.nranks - 1);
    return builder->status == WEIR_OK;
}

static weir_plan_chunks plan_build_whole_buffer(weir_plan_builder *builder, const char *call,
                                                int rank, weir_plan_buffer buffer)
{
    weir_plan_chunks chunks = {builder, rank, buffer, 0, 0};
    if (plan_build_check_rank(builder, call, rank))
        chunks.size = weiri_build_chunks(builder, rank, buffer);
    return chunks;
}

weir_plan_chunks weir_plan_input(weir_plan_builder *builder, int rank)
{
    return plan_build_whole_buffer(builder, __func__, rank, WEIR_PLAN_INPUT);
}

weir_plan_chunks weir_plan_output(weir_plan_builder *builder, int rank)
{
    return plan_build_whole_buffer(builder, __func__, rank, WEIR_PLAN_OUTPUT);
}

weir_plan_chunks weir_plan_scratch(weir_plan_builder *builder, int rank, int size)
{
    weir_plan_chunks chunks = {builder, rank, WEIR_PLAN_SCRATCH, 0, 0};
    if (!plan_build_check_rank(builder, __func__, rank))
        return chunks;
    uint32_t *scratch = &builder->ranks[rank].scratch;
    if (size < 0 || (uint32_t)size > WEIRI_PLAN_CHUNKS_MAX - *scratch) {
        weiri_build_reject(builder, __func__, rank,
                           "%d chunks of scratch in addition to %u; expected at most %d in all",
                           size, *scratch, WEIRI_PLAN_CHUNKS_MAX);
        return chunks;
    }
    chunks.index = *scratch;
    chunks.size = (uint32_t)size;
    *scratch += (uint32_t)size;
    return chunks;
}

weir_plan_chunks weir_plan_slice(weir_plan_chunks chunks, int first, int size)
{
    weir_plan_chunks slice = chunks;
    slice.size = 0;
    if (chunks.builder->status != WEIR_OK)
        return slice;
    if (first < 0 || size < 1 || (uint32_t)first > chunks.size ||
        (uint32_t)size > chunks.size - (uint32_t)first) {
        weiri_build_reject(chunks.builder, __func__, chunks.rank,
                           "chunks %d to %d of a range of %u chunks in buffer '%c'", first,
                           first + size - 1, chunks.size, weiri_plan_buffer_letters[chunks.buffer]);
        return slice;
    }
    slice.index += (uint32_t)first;
    slice.size = (uint32_t)size;
    return slice;
}

/* ------------------------------------------------- channels, semaphores, groups */

static weir_plan_chan plan_build_new_channel(weir_plan_builder *builder, const char *call, int rank,
                                             int peer, int is_port)
{
    weir_plan_chan made = {builder, rank, peer, is_port, 0};
    if (!plan_build_check_rank(builder, call, rank) || !plan_build_check_rank(builder, call, peer))
        return made;
    if (rank == peer) {
        weiri_build_reject(builder, call, rank, "a channel to the rank itself; expected a peer");
        return made;
    }
    weiri_build_list *peers = &builder->ranks[rank].peers[is_port];
    made.index = peers->count;
    weiri_build_add(builder, peers, (uint32_t)peer);
    return made;
}

weir_plan_chan weir_plan_memory_channel(weir_plan_builder *builder, int rank, int peer)
{
    return plan_build_new_channel(builder, __func__, rank, peer, 0);
}

weir_plan_chan weir_plan_port_channel(weir_plan_builder *builder, int rank, int peer)
{
    return plan_build_new_channel(builder, __func__, rank, peer, 1);
}

weir_plan_switch weir_plan_switch_channel(weir_plan_builder *builder, weir_plan_buffer buffer,
                                          const int *ranks, int nranks)
{
    weir_plan_switch made = {builder, builder->nswitches};
    if (builder->status != WEIR_OK)
        return made;
    weiri_build_switch *group =
        weiri_plan_append(&builder->switches, &builder->nswitches, sizeof *group);
    if (!group) {
        weiri_build_no_memory(builder);
        return made;
    }
    group->buffer = buffer;
    for (int i = 0; i < nranks; i++) {
        int rank = ranks ? ranks[i] : i;
        if (!plan_build_check_rank(builder, __func__, rank))
            return made;
        if (weiri_rank_set_has(group->has, (uint32_t)rank))
            weiri_build_reject(builder, __func__, rank, "the rank is named twice");
        group->has |= weiri_rank_set_of((uint32_t)rank);
        weiri_build_add(builder, &group->ranks, (uint32_t)rank);
        weiri_build_add(builder, &builder->ranks[rank].switches, made.index);
    }
    if (nranks < 1)
        weiri_build_reject(builder, __func__, -1, "%d ranks; expected at least 1", nranks);
    return made;
}

weir_plan_semaphore weir_plan_semaphore_create(weir_plan_builder *builder, int rank, int value)
{
    weir_plan_semaphore made = {builder, rank, 0};
    if (!plan_build_check_rank(builder, __func__, rank))
        return made;
    if (value < 0)
        weiri_build_reject(builder, __func__, rank, "initial value %d; expected at least 0", value);
    made.index = builder->ranks[rank].semaphores.count;
    weiri_build_add(builder, &builder->ranks[rank].semaphores, (uint32_t)value);
    return made;
}

int weir_plan_group(weir_plan_builder *builder, const int *blocks, int count)
{
    if (builder->status != WEIR_OK)
        return 0;
    if (count < 1 || count > WEIRI_PLAN_BLOCKS_MAX) {
        weiri_build_reject(builder, __func__, -1, "%d thread blocks; expected 1 to %d", count,
                           WEIRI_PLAN_BLOCKS_MAX);
        return 0;
    }
    weiri_build_list *group = weiri_plan_append(&builder->groups, &builder->ngroups, sizeof *group);
    if (!group) {
        weiri_build_no_memory(builder);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (blocks[i] < 0 || blocks[i] >= WEIRI_PLAN_BLOCKS_MAX)
            weiri_build_reject(builder, __func__, -1, "thread block %d; expected 0 to %d",
                               blocks[i], WEIRI_PLAN_BLOCKS_MAX - 1);
        else if (weiri_build_find(group, (uint32_t)blocks[i]) < group->count)
            weiri_build_reject(builder, __func__, -1, "thread block %d is named twice", blocks[i]);
        weiri_build_add(builder, group, (uint32_t)blocks[i]);
    }
    return WEIRI_BUILD_GROUP + (int)builder->ngroups - 1;
}

/* ------------------------------------------------------------------ pipelines */

void weir_plan_pipeline_begin(weir_plan_builder *builder, uint64_t unit_bytes, int num_chunks)
{
    if (builder->status != WEIR_OK)
        return;
    if (builder->loop) {
        weiri_build_reject(builder, __func__, -1, "pipelines cannot be nested");
        return;
    }
    if (num_chunks < 1 || unit_bytes == 0 || unit_bytes % builder->spec.alignment) {
        weiri_build_reject(builder, __func__, -1,
                           "unit_bytes %llu, num_chunks %d; expected a positive multiple of the "
                           "alignment, %u, and at least 1 chunk",
                           (unsigned long long)unit_bytes, num_chunks, builder->spec.alignment);
        return;
    }
    weiri_build_loop *loop = weiri_plan_append(&builder->loops, &builder->nloops, sizeof *loop);
    if (!loop) {
        weiri_build_no_memory(builder);
        return;
    }
    loop->unit_bytes = unit_bytes;
    loop->num_chunks = (uint32_t)num_chunks;
    builder->loop = builder->nloops;
}

void weir_plan_pipeline_end(weir_plan_builder *builder)
{
    if (!builder->loop)
        weiri_build_reject(builder, __func__, -1,
                           "no pipeline is open; call weir_plan_pipeline_begin first");
    builder->loop = 0;
}
