/*
 * Finds how the operations of a plan divide chunks: the shapes and pipelines of its byte classes
 * (check.h), and the columns of their rows.
 */
#include "plan/check/check.h"

#include "base/error.h"

#include <stdlib.h>

enum { SHAPES_MAX = 4096, COLUMNS_MAX = 1 << 16 };

typedef struct shape_finder {
    const weir_plan *plan;
    weiri_check_classes *classes;
    weir_status status;
} shape_finder;

static void shape_no_memory(shape_finder *in)
{
    in->status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to check the plan", in->plan->file);
}

static uint32_t find_shape(const weiri_check_classes *classes, uint32_t size, uint32_t part,
                           uint32_t nparts, uint64_t unit_bytes)
{
    for (uint32_t i = 1; i < classes->nshapes; i++) {
        const weiri_check_shape *shape = &classes->shapes[i];
        if (shape->size == size && shape->part == part && shape->nparts == nparts &&
            shape->unit_bytes == unit_bytes)
            return i;
    }
    return WEIRI_CHECK_NONE;
}

static uint32_t add_shape(shape_finder *in, uint32_t size, const weiri_plan_op *op,
                          uint64_t unit_bytes)
{
    weiri_check_classes *classes = in->classes;
    if (op->nparts == 1 && unit_bytes == 0)
        return 0;
    uint32_t found = find_shape(classes, size, op->part, op->nparts, unit_bytes);
    if (found != WEIRI_CHECK_NONE || in->status != WEIR_OK)
        return found;
    weiri_check_shape *made = weiri_plan_append(&classes->shapes, &classes->nshapes, sizeof *made);
    if (!made) {
        shape_no_memory(in);
        return 0;
    }
    *made = (weiri_check_shape){size, op->part, op->nparts, unit_bytes, classes->columns};
    classes->columns += size;
    if (classes->nshapes > SHAPES_MAX || classes->columns > COLUMNS_MAX)
        in->status = weiri_fail(WEIR_ERR_UNSUPPORTED,
                                "%s: more divisions of chunks than the checker supports (tbg_info)",
                                in->plan->file);
    return classes->nshapes - 1;
}

static uint32_t add_pipe(shape_finder *in, const weiri_plan_op *op)
{
    weiri_check_classes *classes = in->classes;
    for (uint32_t i = 0; i < classes->npipes; i++)
        if (classes->pipes[i].unit_bytes == op->unit_bytes &&
            classes->pipes[i].num_chunks == op->num_chunks)
            return i;
    weiri_check_pipe *made = weiri_plan_append(&classes->pipes, &classes->npipes, sizeof *made);
    if (made)
        *made = (weiri_check_pipe){op->unit_bytes, op->num_chunks};
    else
        shape_no_memory(in);
    return classes->npipes - 1;
}

static void add_op_shapes(shape_finder *in, int rank, uint32_t op, uint64_t unit_bytes)
{
    const weiri_plan_gpu *gpu = &in->plan->gpus[rank];
    const weiri_plan_op *at = &gpu->ops[op];
    for (uint32_t i = 0; i < at->nsrcs; i++) {
        uint32_t shape = add_shape(in, gpu->refs[at->first_src + i].size, at, unit_bytes);
        if (i == 0)
            in->classes->shape_of_op[rank][op] = shape;
    }
}

/* Pipelines come first: their columns precede the columns of the shapes. */
static void add_shapes_of_rank(shape_finder *in, int rank, int first)
{
    const weiri_plan_gpu *gpu = &in->plan->gpus[rank];
    uint64_t unit_bytes = 0;
    uint32_t body_end = 0;
    for (uint32_t i = 0; i < gpu->nops && in->status == WEIR_OK; i++) {
        if (gpu->ops[i].kind == WEIRI_PLAN_PIPELINE_OP) {
            unit_bytes = gpu->ops[i].unit_bytes;
            body_end = i + gpu->ops[i].nops;
            if (first)
                in->classes->pipe_of_op[rank][i] = add_pipe(in, &gpu->ops[i]);
        } else if (!first) {
            add_op_shapes(in, rank, i, i <= body_end ? unit_bytes : 0);
        }
    }
}

weir_status weiri_check_find_shapes(const weir_plan *plan, weiri_check_classes *classes)
{
    shape_finder finder = {.plan = plan, .classes = classes, .status = WEIR_OK}, *in = &finder;
    *classes = (weiri_check_classes){.reach = WEIRI_CHECK_NONE};
    if (!weiri_plan_append(&classes->shapes, &classes->nshapes, sizeof *classes->shapes))
        shape_no_memory(in);
    for (int rank = 0; rank < in->plan->nranks && in->status == WEIR_OK; rank++) {
        uint32_t nops = in->plan->gpus[rank].nops;
        classes->shape_of_op[rank] = calloc(nops + 1, sizeof(uint32_t));
        classes->pipe_of_op[rank] = calloc(nops + 1, sizeof(uint32_t));
        if (!classes->shape_of_op[rank] || !classes->pipe_of_op[rank])
            shape_no_memory(in);
        else
            add_shapes_of_rank(in, rank, 1);
    }
    classes->columns = 1 + classes->npipes;
    for (int rank = 0; rank < in->plan->nranks && in->status == WEIR_OK; rank++)
        add_shapes_of_rank(in, rank, 0);
    for (uint32_t i = 1; i < classes->nshapes; i++)
        classes->has_groups |= classes->shapes[i].nparts > 1;
    if (in->status != WEIR_OK)
        weiri_check_free_classes(plan, classes);
    return in->status;
}

void weiri_check_free_classes(const weir_plan *plan, weiri_check_classes *classes)
{
    for (int rank = 0; rank < plan->nranks; rank++) {
        free(classes->shape_of_op[rank]);
        free(classes->pipe_of_op[rank]);
    }
    free(classes->shapes);
    free(classes->pipes);
    free(classes->rows);
    *classes = (weiri_check_classes){0};
}

int32_t weiri_check_iteration(const weiri_check_classes *classes, const int32_t *row, int rank,
                              uint32_t op, uint32_t size, uint32_t k)
{
    uint32_t index = classes->shape_of_op[rank][op];
    if (index == 0)
        return 0;
    const weiri_check_shape *shape = &classes->shapes[index];
    if (shape->size != size)
        shape =
            &classes
                 ->shapes[find_shape(classes, size, shape->part, shape->nparts, shape->unit_bytes)];
    return row[shape->column + k];
}
