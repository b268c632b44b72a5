/*
 * Finds the byte classes of a plan (check.h): for all chunk lengths, which operations handle the
 * same byte of every chunk.
 *
 * A group of thread blocks divides the bytes of an operation's chunks, which form one line, in
 * units of the alignment, so which part contains a byte depends on the length of chunks. All
 * lengths up to a bound are tried, and for each length every byte at which some part begins or
 * ends; bytes with equal rows form one class. Lengths beyond the bound add no class: as chunks grow
 * by a multiple of all numbers of parts, every boundary moves along its own line, and all lines
 * that cross have crossed by then.
 *
 * For pipelines, lengths around those at which some operation needs one more iteration are tried
 * too. Between two such lengths nothing changes but the number of iterations between the events of
 * a class. If the reach of the plan is known (check_pipeline.c), a row is shortened: successive
 * numbers of iterations in it that differ by more than the reach are moved together. Lengths beyond
 * the one at which all numbers that move apart have done so by more than the reach add no class. If
 * the reach is unknown, lengths end where a pipeline needs more than WEIRI_CHECK_ITERATIONS
 * iterations.
 */
#include "plan/check/check.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHAPES_MAX = 4096,
    COLUMNS_MAX = 1 << 16,
    LENGTHS_MAX = 4096,
    WORK_MAX = 100 * 1000 * 1000, /* columns of all rows computed */
};

typedef struct finder {
    const weir_plan *plan;
    weiri_check_classes *classes;
    weiri_plan_layout layout; /* for the current length */
    int32_t *row;
    int32_t *marks;       /* room for the numbers of a row */
    uint64_t *edges;
    uint32_t nedges;
    uint64_t work;
    weir_status status;
} finder;

static void no_memory(finder *in)
{
    in->status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to check the plan", in->plan->file);
}

/* ------------------------------------------------------------------- shapes */

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

static uint32_t add_shape(finder *in, uint32_t size, const weiri_plan_op *op, uint64_t unit_bytes)
{
    weiri_check_classes *classes = in->classes;
    if (op->nparts == 1 && unit_bytes == 0)
        return 0;
    uint32_t found = find_shape(classes, size, op->part, op->nparts, unit_bytes);
    if (found != WEIRI_CHECK_NONE || in->status != WEIR_OK)
        return found;
    weiri_check_shape *made = weiri_plan_append(&classes->shapes, &classes->nshapes, sizeof *made);
    if (!made) {
        no_memory(in);
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

static uint32_t add_pipe(finder *in, const weiri_plan_op *op)
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
        no_memory(in);
    return classes->npipes - 1;
}

static void add_op_shapes(finder *in, int rank, uint32_t op, uint64_t unit_bytes)
{
    const weiri_plan_gpu *gpu = &in->plan->gpus[rank];
    const weiri_plan_op *at = &gpu->ops[op];
    for (uint32_t i = 0; i < at->nsrcs; i++) {
        uint32_t shape = add_shape(in, gpu->refs[at->first_src + i].size, at, unit_bytes);
        if (i == 0)
            in->classes->shape_of_op[rank][op] = shape;
    }
}

/* first: collects the pipelines, whose columns precede those of the shapes. */
static void add_shapes_of_rank(finder *in, int rank, int first)
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

static void find_shapes(finder *in)
{
    weiri_check_classes *classes = in->classes;
    if (!weiri_plan_append(&classes->shapes, &classes->nshapes, sizeof *classes->shapes))
        no_memory(in);
    for (int rank = 0; rank < in->plan->nranks && in->status == WEIR_OK; rank++) {
        uint32_t nops = in->plan->gpus[rank].nops;
        classes->shape_of_op[rank] = calloc(nops + 1, sizeof(uint32_t));
        classes->pipe_of_op[rank] = calloc(nops + 1, sizeof(uint32_t));
        if (!classes->shape_of_op[rank] || !classes->pipe_of_op[rank])
            no_memory(in);
        else
            add_shapes_of_rank(in, rank, 1);
    }
    classes->columns = 1 + classes->npipes;
    for (int rank = 0; rank < in->plan->nranks && in->status == WEIR_OK; rank++)
        add_shapes_of_rank(in, rank, 0);
}

/* --------------------------------------------------------------- one length */

static weiri_plan_span span_of(const finder *in, const weiri_check_shape *shape)
{
    weiri_plan_op op = {.part = shape->part, .nparts = shape->nparts};
    return weiri_plan_part(&in->layout, &op, shape->size, 0, 0);
}

/* Adds a boundary at byte `at` of a line, which is a boundary at the same byte of a chunk. */
static void add_edge(finder *in, uint64_t at)
{
    uint64_t edge = in->layout.chunk_bytes ? at % in->layout.chunk_bytes : 0;
    uint32_t low = 0, high = in->nedges;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (in->edges[middle] < edge)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < in->nedges && in->edges[low] == edge)
        return;
    if (!weiri_plan_append(&in->edges, &in->nedges, sizeof *in->edges)) {
        no_memory(in);
        return;
    }
    memmove(&in->edges[low + 1], &in->edges[low], (in->nedges - 1 - low) * sizeof *in->edges);
    in->edges[low] = edge;
}

/* Finds the bytes of a chunk at which another operation or another iteration may begin. */
static void find_edges(finder *in)
{
    in->nedges = 0;
    free(in->edges);
    in->edges = NULL;
    add_edge(in, 0);
    for (uint32_t i = 1; i < in->classes->nshapes && in->status == WEIR_OK; i++) {
        const weiri_check_shape *shape = &in->classes->shapes[i];
        weiri_plan_span span = span_of(in, shape);
        add_edge(in, span.first);
        add_edge(in, span.end);
        for (uint64_t at = span.first; shape->unit_bytes && at < span.end; at += shape->unit_bytes)
            add_edge(in, at);
    }
}

static uint64_t iterations_of(const finder *in, const weiri_check_pipe *pipe)
{
    weiri_plan_op op = {.unit_bytes = pipe->unit_bytes, .num_chunks = pipe->num_chunks};
    return weiri_plan_turns(&in->layout, &op);
}

/* Computes the row of byte x of chunks of the current length. */
static void fill_row(finder *in, uint64_t x)
{
    const weiri_check_classes *classes = in->classes;
    in->row[0] = in->layout.chunk_bytes != 0;
    for (uint32_t i = 0; i < classes->npipes; i++)
        in->row[1 + i] = (int32_t)iterations_of(in, &classes->pipes[i]);
    for (uint32_t i = 1; i < classes->nshapes; i++) {
        const weiri_check_shape *shape = &classes->shapes[i];
        weiri_plan_span span = span_of(in, shape);
        for (uint32_t k = 0; k < shape->size; k++) {
            uint64_t at = k * in->layout.chunk_bytes + x;
            int32_t iteration = -1;
            if (at >= span.first && at < span.end)
                iteration =
                    shape->unit_bytes ? (int32_t)((at - span.first) / shape->unit_bytes) : 0;
            in->row[shape->column + k] = iteration;
        }
    }
    in->work += classes->columns;
}

static void add_class(finder *in)
{
    weiri_check_classes *classes = in->classes;
    size_t bytes = classes->columns * sizeof *in->row;
    for (uint32_t i = 0; i < classes->count; i++)
        if (memcmp(&classes->rows[i * (size_t)classes->columns], in->row, bytes) == 0)
            return;
    if (classes->count == WEIRI_CHECK_CLASSES_MAX) {
        classes->is_complete = 0;
        return;
    }
    int32_t *rows = realloc(classes->rows, (classes->count + 1) * bytes);
    if (!rows) {
        no_memory(in);
        return;
    }
    classes->rows = rows;
    memcpy(&rows[classes->count++ * (size_t)classes->columns], in->row, bytes);
}

/* Whether the current length is simulated: all are if the reach is known. */
static int is_simulated(const finder *in)
{
    const weiri_check_classes *classes = in->classes;
    uint64_t most = 0;
    for (uint32_t i = 0; i < classes->npipes; i++) {
        uint64_t iterations = iterations_of(in, &classes->pipes[i]);
        most = iterations > most ? iterations : most;
    }
    return classes->reach != WEIRI_CHECK_NONE || most <= WEIRI_CHECK_ITERATIONS;
}

static int compare_int32(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Whether the columns of a shape are iterations of a pipeline. */
static int counts_iterations(const weiri_check_classes *classes, uint32_t shape)
{
    return classes->shapes[shape].unit_bytes != 0;
}

/* The number that replaces iteration `at`, if numbers are moved together such that successive ones
 * differ by at most `most`. */
static int32_t shortened(const int32_t *marks, uint32_t count, int32_t most, int32_t at)
{
    int32_t made = 0;
    for (uint32_t i = 0; i < count && marks[i] <= at; i++) {
        const int32_t gap = marks[i] - (i ? marks[i - 1] : 0);
        made += gap < most ? gap : most;
    }
    return made;
}

/* Moves the iterations of the current row together (see above). */
static void shorten_row(finder *in)
{
    const weiri_check_classes *classes = in->classes;
    const int32_t most = (int32_t)classes->reach + 2;
    uint32_t count = 0;
    for (uint32_t i = 0; i < classes->npipes; i++)
        in->marks[count++] = in->row[1 + i];
    for (uint32_t i = 1; i < classes->nshapes; i++)
        for (uint32_t k = 0; k < classes->shapes[i].size && counts_iterations(classes, i); k++)
            if (in->row[classes->shapes[i].column + k] >= 0)
                in->marks[count++] = in->row[classes->shapes[i].column + k];
    qsort(in->marks, count, sizeof *in->marks, compare_int32);
    for (uint32_t i = 0; i < classes->npipes; i++)
        in->row[1 + i] = shortened(in->marks, count, most, in->row[1 + i]);
    for (uint32_t i = 1; i < classes->nshapes; i++)
        for (uint32_t k = 0; k < classes->shapes[i].size && counts_iterations(classes, i); k++) {
            int32_t *at = &in->row[classes->shapes[i].column + k];
            *at = *at < 0 ? *at : shortened(in->marks, count, most, *at);
        }
}

/* Adds all byte classes of chunks of `units` units of alignment. */
static void try_length(finder *in, uint64_t units)
{
    if (in->status != WEIR_OK)
        return;
    if (in->work > WORK_MAX) {
        in->classes->is_complete = 0;
        return;
    }
    in->layout.alignment = in->plan->alignment;
    in->layout.chunk_bytes = units * in->layout.alignment;
    if (!is_simulated(in))
        return;
    find_edges(in);
    for (uint32_t i = 0; i < in->nedges && in->status == WEIR_OK; i++) {
        fill_row(in, in->edges[i]);
        if (in->classes->npipes && in->classes->reach != WEIRI_CHECK_NONE)
            shorten_row(in);
        add_class(in);
    }
}

/* -------------------------------------------------------------- all lengths */

/* The two largest different numbers of parts that operations divide chunks into. */
static void most_parts(const finder *in, uint64_t *most, uint64_t *other)
{
    *most = *other = 1;
    for (uint32_t i = 1; i < in->classes->nshapes; i++) {
        uint64_t nparts = in->classes->shapes[i].nparts;
        if (nparts > *most) {
            *other = *most;
            *most = nparts;
        } else if (nparts > *other && nparts < *most) {
            *other = nparts;
        }
    }
}

/* The bound beyond which longer chunks add no class through groups of thread blocks: a boundary is
 * at most a quarter of the parts away from its exact position, and exact positions differ by at
 * least a chunk divided by the product of two numbers of parts. */
static uint64_t lengths_to_try(finder *in)
{
    uint64_t most, other;
    most_parts(in, &most, &other);
    uint64_t period = most * other;
    uint64_t enough = period * (most + other) / 2 + 2 * period;
    if (enough > LENGTHS_MAX)
        in->classes->is_complete = 0;
    return enough > LENGTHS_MAX ? LENGTHS_MAX : enough;
}

/* The bound beyond which longer chunks add no class through pipelines, in units of the alignment:
 * positions in different chunks or parts are then further apart than the reach. */
static uint64_t pipeline_lengths(const finder *in, uint64_t unit_bytes)
{
    uint64_t most, other, iterations = WEIRI_CHECK_ITERATIONS;
    most_parts(in, &most, &other);
    if (in->classes->reach != WEIRI_CHECK_NONE)
        iterations = in->classes->reach + 4;
    return iterations * most * other * (unit_bytes / in->plan->alignment + 1);
}

/* Tries the lengths at which two boundaries meet whose distance is `size` chunks, divided by
 * nparts, or whole units of a pipeline; and lengths between them. */
static void try_iterations(finder *in, uint64_t unit_bytes, uint64_t size, uint64_t nparts)
{
    const uint64_t unit = unit_bytes / in->plan->alignment;
    const uint64_t enough = pipeline_lengths(in, unit_bytes);
    uint64_t units = 0;
    for (uint64_t halves = 1; units <= enough && in->classes->is_complete; halves++) {
        units = halves * unit * nparts / (2 * size);
        try_length(in, units ? units - 1 : 1);
        try_length(in, units);
        try_length(in, units + 1);
        if (in->status != WEIR_OK || unit == 0)
            return;
    }
}

/* Whether an earlier shape has led to the same lengths. */
static int is_tried(const weiri_check_classes *classes, uint32_t shape)
{
    for (uint32_t i = 1; i < shape; i++)
        if (classes->shapes[i].size >= classes->shapes[shape].size &&
            classes->shapes[i].nparts == classes->shapes[shape].nparts &&
            classes->shapes[i].unit_bytes == classes->shapes[shape].unit_bytes)
            return 1;
    return 0;
}

/* Tries the lengths of shape i, with its number of parts and with its product with others. */
static void try_shape(finder *in, uint32_t i)
{
    const weiri_check_shape *shape = &in->classes->shapes[i];
    for (uint64_t k = 1; k <= shape->size; k++) {
        try_iterations(in, shape->unit_bytes, k, shape->nparts);
        for (uint32_t j = 1; j < in->classes->nshapes; j++)
            if (in->classes->shapes[j].nparts > 1 && !is_tried(in->classes, j))
                try_iterations(in, shape->unit_bytes, k,
                               (uint64_t)shape->nparts * in->classes->shapes[j].nparts);
    }
}

static void try_lengths(finder *in)
{
    weiri_check_classes *classes = in->classes;
    uint64_t enough = lengths_to_try(in);
    for (uint64_t units = classes->npipes ? 0 : 1; units <= enough; units++)
        try_length(in, units);
    for (uint32_t i = 0; i < classes->npipes; i++)
        for (uint64_t k = 1; k <= classes->pipes[i].num_chunks; k++)
            try_iterations(in, classes->pipes[i].unit_bytes, k, 1);
    for (uint32_t i = 1; i < classes->nshapes; i++)
        if (classes->shapes[i].unit_bytes && !is_tried(classes, i))
            try_shape(in, i);
}

weir_status weiri_check_find_classes(const weir_plan *plan, uint32_t reach,
                                     weiri_check_classes *classes)
{
    finder in = {.plan = plan, .classes = classes, .status = WEIR_OK};
    *classes = (weiri_check_classes){.is_complete = 1, .reach = reach};
    find_shapes(&in);
    if (in.status == WEIR_OK && classes->nshapes == 1 && classes->npipes == 0) {
        classes->columns = 0;
        classes->count = 1;
    } else if (in.status == WEIR_OK) {
        in.row = malloc(classes->columns * sizeof *in.row);
        in.marks = malloc(classes->columns * sizeof *in.marks);
        if (in.row && in.marks)
            try_lengths(&in);
        else
            no_memory(&in);
    }
    if (in.status != WEIR_OK)
        weiri_check_free_classes(plan, classes);
    free(in.row);
    free(in.marks);
    free(in.edges);
    return in.status;
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
