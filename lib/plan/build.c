/*
 * Builders of plans: their making, what ranks have (buffers, channels, semaphores, groups of
 * thread blocks), and the order of the steps that make a plan of it.
 */
#include "plan/build.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- failures */

void weiri_build_refuse(weir_plan_builder *builder, const char *call, int rank,
                        const char *format, ...)
{
    char what[256];
    va_list arguments;
    if (builder->status != WEIR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (rank < 0)
        snprintf(builder->message, sizeof builder->message, "%s: %s", call, what);
    else
        snprintf(builder->message, sizeof builder->message, "%s: rank %d: %s", call, rank, what);
    builder->status = WEIR_ERR_INVALID;
}

void weiri_build_no_memory(weir_plan_builder *builder)
{
    if (builder->status == WEIR_OK)
        snprintf(builder->message, sizeof builder->message, "no memory for the plan");
    if (builder->status == WEIR_OK)
        builder->status = WEIR_ERR_NO_MEMORY;
}

/* ---------------------------------------------------------------------- lists */

void weiri_build_add(weir_plan_builder *builder, weiri_build_list *list, uint32_t item)
{
    if (builder->status != WEIR_OK)
        return;
    uint32_t *place = weiri_plan_append(&list->items, &list->count, sizeof item);
    if (place)
        *place = item;
    else
        weiri_build_no_memory(builder);
}

uint32_t weiri_build_find(const weiri_build_list *list, uint32_t item)
{
    uint32_t place = 0;
    while (place < list->count && list->items[place] != item)
        place++;
    return place;
}

weiri_build_block *weiri_build_block_of(weir_plan_builder *builder, int rank, uint32_t block)
{
    weiri_build_rank *in = &builder->ranks[rank];
    while (in->nblocks <= block)
        if (!weiri_plan_append(&in->blocks, &in->nblocks, sizeof *in->blocks)) {
            weiri_build_no_memory(builder);
            return NULL;
        }
    return &in->blocks[block];
}

/* -------------------------------------------------------------- made and freed */

static weir_status check_spec(const weir_plan_spec *spec)
{
    if (!spec->name || !*spec->name)
        return weiri_fail(WEIR_ERR_INVALID, "weir_plan_builder_create: a plan needs a name");
    for (const char *c = spec->name; *c; c++)
        if (*c < ' ' || *c > '~')
            return weiri_fail(WEIR_ERR_INVALID,
                              "weir_plan_builder_create: a plan's name is printable ASCII");
    if ((int)spec->collective < 0 || spec->collective >= WEIR_COLL_COUNT ||
        spec->collective == WEIR_COLL_ALLTOALLV)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: plans are for collectives of equal "
                          "shares, not for number %d",
                          spec->name, (int)spec->collective);
    if (spec->nranks < 1 || spec->nranks > WEIRI_PLAN_RANKS_MAX)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: %d ranks; expected 1 to %d", spec->name,
                          spec->nranks, WEIRI_PLAN_RANKS_MAX);
    if (spec->chunk_factor < 0 ||
        spec->chunk_factor > WEIRI_PLAN_CHUNKS_MAX / WEIRI_PLAN_RANKS_MAX)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: chunk_factor is %d; expected 1 to %d",
                          spec->name, spec->chunk_factor,
                          WEIRI_PLAN_CHUNKS_MAX / WEIRI_PLAN_RANKS_MAX);
    if (spec->instances < 0 || spec->instances > WEIRI_BUILD_INSTANCES_MAX)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: %d instances; expected 1 to %d",
                          spec->name, spec->instances, WEIRI_BUILD_INSTANCES_MAX);
    return WEIR_OK;
}

weir_status weir_plan_builder_create(const weir_plan_spec *spec, weir_plan_builder **builder)
{
    weir_status status = check_spec(spec);
    if (status != WEIR_OK)
        return status;
    weir_plan_builder *made = calloc(1, sizeof *made);
    if (made) {
        made->spec = *spec;
        made->name = strdup(spec->name);
        made->ranks = calloc((size_t)spec->nranks, sizeof *made->ranks);
    }
    if (!made || !made->name || !made->ranks) {
        weir_plan_builder_free(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for its builder", spec->name);
    }
    made->spec.name = made->name;
    made->spec.chunk_factor = spec->chunk_factor ? spec->chunk_factor : 1;
    made->spec.instances = spec->instances ? spec->instances : 1;
    made->spec.nthreads = spec->nthreads ? spec->nthreads : 1024;
    made->spec.alignment = spec->alignment ? spec->alignment : 16;
    made->spec.max_bytes = spec->max_bytes ? spec->max_bytes : UINT64_MAX;
    *builder = made;
    return WEIR_OK;
}

void weiri_build_op_free(weiri_build_op *op)
{
    free(op->srcs);
    free(op->dsts);
    free(op->ids);
}

static void free_block(weiri_build_block *block)
{
    for (uint32_t i = 0; i < block->nops; i++)
        weiri_build_op_free(&block->ops[i]);
    free(block->ops);
    for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++) {
        free(block->channels[type].items);
        free(block->remotes[type].items);
    }
}

static void free_rank(weiri_build_rank *rank)
{
    for (uint32_t i = 0; i < rank->nblocks; i++)
        free_block(&rank->blocks[i]);
    free(rank->blocks);
    free(rank->remotes);
    free(rank->peers[0].items);
    free(rank->peers[1].items);
    free(rank->switches.items);
    free(rank->semaphores.items);
    free(rank->barriers.items);
}

void weir_plan_builder_free(weir_plan_builder *builder)
{
    if (!builder)
        return;
    for (int rank = 0; builder->ranks && rank < builder->spec.nranks; rank++)
        free_rank(&builder->ranks[rank]);
    for (uint32_t i = 0; i < builder->nswitches; i++)
        free(builder->switches[i].ranks.items);
    for (uint32_t i = 0; i < builder->ngroups; i++)
        free(builder->groups[i].items);
    free(builder->ranks);
    free(builder->switches);
    free(builder->groups);
    free(builder->loops);
    free(builder->name);
    free(builder);
}

/* -------------------------------------------------------------------- buffers */

uint32_t weiri_build_chunks(const weir_plan_builder *builder, int rank, weir_plan_buffer buffer)
{
    weir_collective collective = builder->spec.collective;
    uint32_t share = (uint32_t)builder->spec.chunk_factor;
    uint32_t all = share * (uint32_t)builder->spec.nranks;
    if (buffer == WEIR_PLAN_SCRATCH)
        return builder->ranks[rank].scratch;
    if (collective == WEIR_COLL_ALLREDUCE || collective == WEIR_COLL_ALLTOALL)
        return all;
    if (collective == WEIR_COLL_ALLGATHER)
        return buffer == WEIR_PLAN_OUTPUT ? all : share;
    if (collective == WEIR_COLL_REDUCE_SCATTER)
        return buffer == WEIR_PLAN_INPUT ? all : share;
    return share;
}

/* Whether a call may go on with this rank. */
static int takes_rank(weir_plan_builder *builder, const char *call, int rank)
{
    if (builder->status == WEIR_OK && (rank < 0 || rank >= builder->spec.nranks))
        weiri_build_refuse(builder, call, rank, "there are ranks 0 to %d",
                           builder->spec.nranks - 1);
    return builder->status == WEIR_OK;
}

static weir_plan_chunks whole(weir_plan_builder *builder, const char *call, int rank,
                              weir_plan_buffer buffer)
{
    weir_plan_chunks chunks = {builder, rank, buffer, 0, 0};
    if (takes_rank(builder, call, rank))
        chunks.size = weiri_build_chunks(builder, rank, buffer);
    return chunks;
}

weir_plan_chunks weir_plan_input(weir_plan_builder *builder, int rank)
{
    return whole(builder, __func__, rank, WEIR_PLAN_INPUT);
}

weir_plan_chunks weir_plan_output(weir_plan_builder *builder, int rank)
{
    return whole(builder, __func__, rank, WEIR_PLAN_OUTPUT);
}

weir_plan_chunks weir_plan_scratch(weir_plan_builder *builder, int rank, int size)
{
    weir_plan_chunks chunks = {builder, rank, WEIR_PLAN_SCRATCH, 0, 0};
    if (!takes_rank(builder, __func__, rank))
        return chunks;
    uint32_t *scratch = &builder->ranks[rank].scratch;
    if (size < 0 || (uint32_t)size > WEIRI_PLAN_CHUNKS_MAX - *scratch) {
        weiri_build_refuse(builder, __func__, rank, "%d chunks more than %u; expected at most %d",
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
        weiri_build_refuse(chunks.builder, __func__, chunks.rank,
                           "chunks %d to %d of %u in buffer '%c'", first, first + size - 1,
                           chunks.size, weiri_plan_buffer_letters[chunks.buffer]);
        return slice;
    }
    slice.index += (uint32_t)first;
    slice.size = (uint32_t)size;
    return slice;
}

/* ------------------------------------------------- channels, semaphores, groups */

static weir_plan_chan channel(weir_plan_builder *builder, const char *call, int rank, int peer,
                              int is_port)
{
    weir_plan_chan made = {builder, rank, peer, is_port, 0};
    if (!takes_rank(builder, call, rank) || !takes_rank(builder, call, peer))
        return made;
    if (rank == peer) {
        weiri_build_refuse(builder, call, rank, "a channel to the rank itself");
        return made;
    }
    weiri_build_list *peers = &builder->ranks[rank].peers[is_port];
    made.index = peers->count;
    weiri_build_add(builder, peers, (uint32_t)peer);
    return made;
}

weir_plan_chan weir_plan_memory_channel(weir_plan_builder *builder, int rank, int peer)
{
    return channel(builder, __func__, rank, peer, 0);
}

weir_plan_chan weir_plan_port_channel(weir_plan_builder *builder, int rank, int peer)
{
    return channel(builder, __func__, rank, peer, 1);
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
        if (!takes_rank(builder, __func__, rank))
            return made;
        if (group->has >> rank & 1)
            weiri_build_refuse(builder, __func__, rank, "it is named twice");
        group->has |= UINT64_C(1) << rank;
        weiri_build_add(builder, &group->ranks, (uint32_t)rank);
        weiri_build_add(builder, &builder->ranks[rank].switches, made.index);
    }
    if (nranks < 1)
        weiri_build_refuse(builder, __func__, -1, "%d ranks; expected 1 at least", nranks);
    return made;
}

weir_plan_semaphore weir_plan_semaphore_create(weir_plan_builder *builder, int rank, int value)
{
    weir_plan_semaphore made = {builder, rank, 0};
    if (!takes_rank(builder, __func__, rank))
        return made;
    if (value < 0)
        weiri_build_refuse(builder, __func__, rank, "its value is %d; expected 0 or more", value);
    made.index = builder->ranks[rank].semaphores.count;
    weiri_build_add(builder, &builder->ranks[rank].semaphores, (uint32_t)value);
    return made;
}

int weir_plan_group(weir_plan_builder *builder, const int *blocks, int count)
{
    if (builder->status != WEIR_OK)
        return 0;
    if (count < 1 || count > WEIRI_PLAN_BLOCKS_MAX) {
        weiri_build_refuse(builder, __func__, -1, "%d thread blocks; expected 1 to %d", count,
                           WEIRI_PLAN_BLOCKS_MAX);
        return 0;
    }
    weiri_build_list *group =
        weiri_plan_append(&builder->groups, &builder->ngroups, sizeof *group);
    if (!group) {
        weiri_build_no_memory(builder);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (blocks[i] < 0 || blocks[i] >= WEIRI_PLAN_BLOCKS_MAX)
            weiri_build_refuse(builder, __func__, -1, "thread block %d; expected 0 to %d",
                               blocks[i], WEIRI_PLAN_BLOCKS_MAX - 1);
        else if (weiri_build_find(group, (uint32_t)blocks[i]) < group->count)
            weiri_build_refuse(builder, __func__, -1, "thread block %d is named twice",
                               blocks[i]);
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
        weiri_build_refuse(builder, __func__, -1, "a pipeline within a pipeline");
        return;
    }
    if (num_chunks < 1 || unit_bytes == 0 || unit_bytes % builder->spec.alignment) {
        weiri_build_refuse(builder, __func__, -1,
                           "%llu bytes of %d chunks; expected a multiple of the alignment, %u, "
                           "and 1 chunk at least",
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
        weiri_build_refuse(builder, __func__, -1, "no pipeline has begun");
    builder->loop = 0;
}

/* ------------------------------------------------------------------- the plan */

static void finish_blocks(weir_plan_builder *builder)
{
    for (int rank = 0; rank < builder->spec.nranks; rank++)
        for (uint32_t i = 0; i < builder->ranks[rank].nblocks; i++) {
            if (builder->status == WEIR_OK && !(builder->spec.flags & WEIR_PLAN_NO_FUSION))
                weiri_build_fuse(builder, rank, &builder->ranks[rank].blocks[i]);
            if (builder->status == WEIR_OK)
                weiri_build_fence(builder, rank, &builder->ranks[rank].blocks[i]);
        }
}

weir_status weir_plan_build(weir_plan_builder *builder, weir_plan **plan)
{
    weir_plan *made = NULL;
    if (builder->loop)
        weiri_build_refuse(builder, __func__, -1, "a pipeline has begun and not ended");
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
        weiri_build_check_signals(builder, (weiri_plan_channel)type);
    if (builder->status == WEIR_OK)
        finish_blocks(builder);
    weir_status status = builder->status;
    if (status == WEIR_OK)
        status = weiri_build_emit(builder, &made);
    if (builder->status != WEIR_OK)
        status = weiri_fail(builder->status, "%s: %s", builder->name, builder->message);
    if (status == WEIR_OK)
        status = weiri_plan_validate(made);
    if (status == WEIR_OK)
        *plan = made;
    else
        weir_plan_free(made);
    weir_plan_builder_free(builder);
    return status;
}
