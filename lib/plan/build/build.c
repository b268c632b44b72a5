/* Creates and frees builders, and runs the stages that turn a builder's program into a plan. */
#include "plan/build/build.h"

#include "base/contract.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------- made and freed */

static weir_status plan_build_check_spec(const weir_plan_spec *spec)
{
    if (!spec->name || !*spec->name)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "weir_plan_builder_create: the plan has no name; expected printable ASCII");
    for (const char *c = spec->name; *c; c++)
        if (*c < ' ' || *c > '~')
            return weiri_fail(WEIR_ERR_INVALID,
                              "weir_plan_builder_create: the plan's name contains characters "
                              "other than printable ASCII");
    if ((int)spec->collective < 0 || spec->collective >= WEIR_COLL_COUNT ||
        spec->collective == WEIR_COLL_ALLTOALLV)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: collective %d is not supported; expected "
                          "one in which all ranks have equal lengths",
                          spec->name, (int)spec->collective);
    if (spec->in_place && weiri_contract_of((int)spec->collective)->in_place == WEIRI_IN_PLACE_NONE)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: %s has no form in place; set in_place to "
                          "0",
                          spec->name, weir_collective_name(spec->collective));
    if (spec->nranks < 1 || spec->nranks > WEIRI_PLAN_RANKS_MAX)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: %d ranks; expected 1 to %d", spec->name,
                          spec->nranks, WEIRI_PLAN_RANKS_MAX);
    if (spec->chunk_factor < 0 || spec->chunk_factor > WEIRI_PLAN_CHUNKS_MAX / WEIRI_PLAN_RANKS_MAX)
        return weiri_fail(
            WEIR_ERR_INVALID, "weir_plan_builder_create: %s: chunk_factor is %d; expected 1 to %d",
            spec->name, spec->chunk_factor, WEIRI_PLAN_CHUNKS_MAX / WEIRI_PLAN_RANKS_MAX);
    if (spec->instances < 0 || spec->instances > WEIRI_BUILD_INSTANCES_MAX)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_plan_builder_create: %s: %d instances; expected 1 to %d",
                          spec->name, spec->instances, WEIRI_BUILD_INSTANCES_MAX);
    return WEIR_OK;
}

weir_status weir_plan_builder_create(const weir_plan_spec *spec, weir_plan_builder **builder)
{
    WEIRI_REQUIRE(spec && builder);
    weir_status status = plan_build_check_spec(spec);
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

static void plan_build_free_block(weiri_build_block *block)
{
    for (uint32_t i = 0; i < block->nops; i++)
        weiri_build_op_free(&block->ops[i]);
    free(block->ops);
    for (int type = 0; type < WEIRI_PLAN_CHANNELS; type++) {
        free(block->channels[type].items);
        free(block->remotes[type].items);
    }
}

static void plan_build_free_rank(weiri_build_rank *rank)
{
    for (uint32_t i = 0; i < rank->nblocks; i++)
        plan_build_free_block(&rank->blocks[i]);
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
        plan_build_free_rank(&builder->ranks[rank]);
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

/* ------------------------------------------------------------------- the plan */

static void plan_build_finish_blocks(weir_plan_builder *builder)
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
    WEIRI_REQUIRE(builder && plan);
    weir_plan *made = NULL;
    if (builder->loop)
        weiri_build_reject(builder, __func__, -1,
                           "a pipeline was begun but not ended; call weir_plan_pipeline_end");
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
        weiri_build_check_signals(builder, (weiri_plan_channel)type);
    if (builder->status == WEIR_OK)
        plan_build_finish_blocks(builder);
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
