/* Helpers of tests of the plan builder: programs of two ranks, and the operations of a plan by
 * name. */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_BUILDERS_H
#define VERIFY_TESTS_SUPPORT_PLAN_BUILDERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/format/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs the next statement for every other rank. */
#define FOR_PEERS(peer, rank, nranks)                                                              \
    for (int peer = 0; peer < (nranks); peer++)                                                    \
        if (peer != (rank))

static inline weir_plan_builder *create(weir_plan_spec spec)
{
    weir_plan_builder *builder = NULL;
    spec.name = spec.name ? spec.name : "test";
    spec.nranks = spec.nranks ? spec.nranks : 2;
    if (weir_plan_builder_create(&spec, &builder) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    return builder;
}

static inline weir_plan *build(weir_plan_builder *builder)
{
    weir_plan *plan = NULL;
    if (weir_plan_build(builder, &plan) != WEIR_OK)
        fail_msg("%s", weir_last_error());
    return plan;
}

/* The names of a thread block's operations; a pipeline's body is in brackets. */
static inline const char *names_of(const weir_plan *plan, int rank, uint32_t block, char *text)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    uint32_t left = 0, n = block < gpu->nblocks ? gpu->blocks[block].nops : 0;
    *text = 0;
    for (uint32_t i = 0; i < n; i++) {
        const weiri_plan_op *op = &gpu->ops[gpu->blocks[block].first_op + i];
        sprintf(text + strlen(text), "%s%s", i ? " " : "",
                op->kind == WEIRI_PLAN_PIPELINE_OP ? "[" : weiri_plan_kind_name(op->kind));
        if (op->kind == WEIRI_PLAN_PIPELINE_OP)
            left = op->nops;
        else if (left && --left == 0)
            strcat(text, " ]");
    }
    return text;
}

/* Builds, compares rank 0's first block, and frees. */
static inline void expect(weir_plan_builder *builder, const char *names)
{
    char text[512];
    weir_plan *plan = build(builder);
    assert_string_equal(names_of(plan, 0, 0, text), names);
    weir_plan_free(plan);
}

/* A builder with two ranks, its channels and buffers by rank. */
typedef struct two {
    weir_plan_builder *b;
    weir_plan_chan memory[2], port[2];
    weir_plan_chunks in[2], out[2], scratch[2];
} two;

static inline two create_two(weir_plan_spec spec)
{
    spec.chunk_factor = 2;
    two made = {.b = create(spec)};
    for (int rank = 0; rank < 2; rank++) {
        made.in[rank] = weir_plan_input(made.b, rank);
        made.out[rank] = weir_plan_output(made.b, rank);
        made.scratch[rank] = weir_plan_scratch(made.b, rank, 4);
        made.memory[rank] = weir_plan_memory_channel(made.b, rank, 1 - rank);
        made.port[rank] = weir_plan_port_channel(made.b, rank, 1 - rank);
    }
    return made;
}

static inline weir_plan_chunks at(weir_plan_chunks buffer, int index)
{
    return weir_plan_slice(buffer, index, 1);
}

#endif
