/*
 * Worlds: which operations handle the same byte of every chunk (check.h), for all lengths.
 *
 * A group of thread blocks divides the line of an operation's chunks by counting units of
 * alignment, so which part has a byte depends on how long chunks are. Every length of chunks
 * up to a bound is tried, and with it every byte where anything begins or ends; those that
 * come out alike are one world. Beyond the bound nothing new comes: as chunks grow by a
 * multiple of all numbers of parts, every boundary moves on along its own line, and by then
 * all lines that cross have crossed. For pipelines, lengths around those at which one of
 * them needs another turn are tried too.
 */
#include "plan/check/check.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHAPES_MAX = 4096,
    COLUMNS_MAX = 1 << 16,
    LENGTHS_MAX = 4096,
    WORK_MAX = 100 * 1000 * 1000, /* numbers of rows computed */
};

typedef struct finder {
    const weir_plan *plan;
    weiri_check_worlds *worlds;
    weiri_plan_layout layout; /* of the length at hand */
    int32_t *row;
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

static uint32_t find_shape(const weiri_check_worlds *worlds, uint32_t size, uint32_t part,
                           uint32_t nparts, uint64_t unit_bytes)
{
    for (uint32_t i = 1; i < worlds->nshapes; i++) {
        const weiri_check_shape *shape = &worlds->shapes[i];
        if (shape->size == size && shape->part == part && shape->nparts == nparts &&
            shape->unit_bytes == unit_bytes)
            return i;
    }
    return WEIRI_CHECK_NONE;
}

static uint32_t add_shape(finder *in, uint32_t size, const weiri_plan_op *op, uint64_t unit_bytes)
{
    weiri_check_worlds *worlds = in->worlds;
    if (op->nparts == 1 && unit_bytes == 0)
        return 0;
    uint32_t found = find_shape(worlds, size, op->part, op->nparts, unit_bytes);
    if (found != WEIRI_CHECK_NONE || in->status != WEIR_OK)
        return found;
    weiri_check_shape *made = weiri_plan_append(&worlds->shapes, &worlds->nshapes, sizeof *made);
    if (!made) {
        no_memory(in);
        return 0;
    }
    *made = (weiri_check_shape){size, op->part, op->nparts, unit_bytes, worlds->columns};
    worlds->columns += size;
    if (worlds->nshapes > SHAPES_MAX || worlds->columns > COLUMNS_MAX)
        in->status = weiri_fail(WEIR_ERR_UNSUPPORTED,
                                "%s: too many ways to divide chunks for the checker (tbg_info)",
                                in->plan->file);
    return worlds->nshapes - 1;
}

static uint32_t add_pipe(finder *in, const weiri_plan_op *op)
{
    weiri_check_worlds *worlds = in->worlds;
    for (uint32_t i = 0; i < worlds->npipes; i++)
        if (worlds->pipes[i].unit_bytes == op->unit_bytes &&
            worlds->pipes[i].num_chunks == op->num_chunks)
            return i;
    weiri_check_pipe *made = weiri_plan_append(&worlds->pipes, &worlds->npipes, sizeof *made);
    if (made)
        *made = (weiri_check_pipe){op->unit_bytes, op->num_chunks};
    else
        no_memory(in);
    return worlds->npipes - 1;
}

static void add_op_shapes(finder *in, int rank, uint32_t op, uint64_t unit_bytes)
{
    const weiri_plan_gpu *gpu = &in->plan->gpus[rank];
    const weiri_plan_op *at = &gpu->ops[op];
    for (uint32_t i = 0; i < at->nsrcs; i++) {
        uint32_t shape = add_shape(in, gpu->refs[at->first_src + i].size, at, unit_bytes);
        if (i == 0)
            in->worlds->shape_of_op[rank][op] = shape;
    }
}

/* first: pipes, whose columns come before those of shapes. */
static void look_at_ops(finder *in, int rank, int first)
{
    const weiri_plan_gpu *gpu = &in->plan->gpus[rank];
    uint64_t unit_bytes = 0;
    uint32_t body_end = 0;
    for (uint32_t i = 0; i < gpu->nops && in->status == WEIR_OK; i++) {
        if (gpu->ops[i].kind == WEIRI_PLAN_PIPELINE_OP) {
            unit_bytes = gpu->ops[i].unit_bytes;
            body_end = i + gpu->ops[i].nops;
            if (first)
                in->worlds->pipe_of_op[rank][i] = add_pipe(in, &gpu->ops[i]);
        } else if (!first) {
            add_op_shapes(in, rank, i, i <= body_end ? unit_bytes : 0);
        }
    }
}

static void find_shapes(finder *in)
{
    weiri_check_worlds *worlds = in->worlds;
    if (!weiri_plan_append(&worlds->shapes, &worlds->nshapes, sizeof *worlds->shapes))
        no_memory(in);
    for (int rank = 0; rank < in->plan->nranks && in->status == WEIR_OK; rank++) {
        uint32_t nops = in->plan->gpus[rank].nops;
        worlds->shape_of_op[rank] = calloc(nops + 1, sizeof(uint32_t));
        worlds->pipe_of_op[rank] = calloc(nops + 1, sizeof(uint32_t));
        if (!worlds->shape_of_op[rank] || !worlds->pipe_of_op[rank])
            no_memory(in);
        else
            look_at_ops(in, rank, 1);
    }
    worlds->columns = 1 + worlds->npipes;
    for (int rank = 0; rank < in->plan->nranks && in->status == WEIR_OK; rank++)
        look_at_ops(in, rank, 0);
}

/* --------------------------------------------------------------- one length */

static weiri_plan_span span_of(const finder *in, const weiri_check_shape *shape)
{
    weiri_plan_op op = {.part = shape->part, .nparts = shape->nparts};
    return weiri_plan_part(&in->layout, &op, shape->size, 0, 0);
}

/* A boundary at that byte of a line is one at the same byte of a chunk. */
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

/* The bytes of chunks from which on another operation, or another turn, may be handling. */
static void find_edges(finder *in)
{
    in->nedges = 0;
    free(in->edges);
    in->edges = NULL;
    add_edge(in, 0);
    for (uint32_t i = 1; i < in->worlds->nshapes && in->status == WEIR_OK; i++) {
        const weiri_check_shape *shape = &in->worlds->shapes[i];
        weiri_plan_span span = span_of(in, shape);
        add_edge(in, span.first);
        add_edge(in, span.end);
        for (uint64_t at = span.first; shape->unit_bytes && at < span.end; at += shape->unit_bytes)
            add_edge(in, at);
    }
}

static uint64_t turns_of(const finder *in, const weiri_check_pipe *pipe)
{
    weiri_plan_op op = {.unit_bytes = pipe->unit_bytes, .num_chunks = pipe->num_chunks};
    return weiri_plan_turns(&in->layout, &op);
}

/* The row of byte x of the chunks of the length at hand. */
static void fill_row(finder *in, uint64_t x)
{
    const weiri_check_worlds *worlds = in->worlds;
    in->row[0] = in->layout.chunk_bytes != 0;
    for (uint32_t i = 0; i < worlds->npipes; i++)
        in->row[1 + i] = (int32_t)turns_of(in, &worlds->pipes[i]);
    for (uint32_t i = 1; i < worlds->nshapes; i++) {
        const weiri_check_shape *shape = &worlds->shapes[i];
        weiri_plan_span span = span_of(in, shape);
        for (uint32_t k = 0; k < shape->size; k++) {
            uint64_t at = k * in->layout.chunk_bytes + x;
            int32_t turn = -1;
            if (at >= span.first && at < span.end)
                turn = shape->unit_bytes ? (int32_t)((at - span.first) / shape->unit_bytes) : 0;
            in->row[shape->column + k] = turn;
        }
    }
    in->work += worlds->columns;
}

static void add_world(finder *in)
{
    weiri_check_worlds *worlds = in->worlds;
    size_t bytes = worlds->columns * sizeof *in->row;
    for (uint32_t i = 0; i < worlds->count; i++)
        if (memcmp(&worlds->rows[i * (size_t)worlds->columns], in->row, bytes) == 0)
            return;
    if (worlds->count == WEIRI_CHECK_WORLDS_MAX) {
        worlds->is_complete = 0;
        return;
    }
    int32_t *rows = realloc(worlds->rows, (worlds->count + 1) * bytes);
    if (!rows) {
        no_memory(in);
        return;
    }
    worlds->rows = rows;
    memcpy(&rows[worlds->count++ * (size_t)worlds->columns], in->row, bytes);
}

/* Pipelines whose data need more turns than this are as those that need as many. */
static int has_few_turns(const finder *in)
{
    const weiri_check_worlds *worlds = in->worlds;
    uint64_t most = 0, least = worlds->npipes ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < worlds->npipes; i++) {
        uint64_t turns = turns_of(in, &worlds->pipes[i]);
        most = turns > most ? turns : most;
    }
    for (uint32_t i = 1; i < worlds->nshapes; i++) {
        const weiri_check_shape *shape = &worlds->shapes[i];
        weiri_plan_span span = span_of(in, shape);
        uint64_t unit = shape->unit_bytes;
        uint64_t turns = unit ? (span.end - span.first + unit - 1) / unit : UINT64_MAX;
        least = turns < least ? turns : least;
    }
    if (least == UINT64_MAX) /* no data in their bodies */
        least = most;
    return least <= WEIRI_CHECK_TURNS && most <= WEIRI_CHECK_TURNS_MAX;
}

/* All worlds of chunks of so many units of alignment. */
static void try_length(finder *in, uint64_t units)
{
    if (in->status != WEIR_OK)
        return;
    if (in->work > WORK_MAX) {
        in->worlds->is_complete = 0;
        return;
    }
    in->layout.alignment = in->plan->alignment;
    in->layout.chunk_bytes = units * in->layout.alignment;
    if (!has_few_turns(in))
        return;
    find_edges(in);
    for (uint32_t i = 0; i < in->nedges && in->status == WEIR_OK; i++) {
        fill_row(in, in->edges[i]);
        add_world(in);
    }
}

/* -------------------------------------------------------------- all lengths */

/* Behind it nothing new comes of groups of thread blocks: boundaries are at most a quarter of
 * the parts off what is exact, and exact ones lie a chunk over the product of two numbers of
 * parts apart. */
static uint64_t lengths_to_try(finder *in)
{
    uint64_t most = 1, other = 1;
    for (uint32_t i = 1; i < in->worlds->nshapes; i++) {
        uint64_t nparts = in->worlds->shapes[i].nparts;
        if (nparts > most) {
            other = most;
            most = nparts;
        } else if (nparts > other && nparts < most) {
            other = nparts;
        }
    }
    uint64_t period = most * other;
    uint64_t enough = period * (most + other) / 2 + 2 * period;
    if (enough > LENGTHS_MAX)
        in->worlds->is_complete = 0;
    return enough > LENGTHS_MAX ? LENGTHS_MAX : enough;
}

/* Lengths at which a line of so many chunks, in so many parts, needs another turn. */
static void try_turns(finder *in, uint64_t unit_bytes, uint64_t size, uint64_t nparts)
{
    uint64_t unit = unit_bytes / in->plan->alignment;
    for (uint64_t halves = 1; halves <= 2 * WEIRI_CHECK_TURNS + 1; halves++) {
        uint64_t units = halves * unit * nparts / (2 * size);
        try_length(in, units ? units - 1 : 1);
        try_length(in, units);
        try_length(in, units + 1);
    }
}

static void try_lengths(finder *in)
{
    weiri_check_worlds *worlds = in->worlds;
    uint64_t enough = lengths_to_try(in);
    for (uint64_t units = worlds->npipes ? 0 : 1; units <= enough; units++)
        try_length(in, units);
    for (uint32_t i = 0; i < worlds->npipes; i++) {
        try_turns(in, worlds->pipes[i].unit_bytes, worlds->pipes[i].num_chunks, 1);
        for (uint32_t j = 1; j < worlds->nshapes; j++) {
            const weiri_check_shape *shape = &worlds->shapes[j];
            if (shape->unit_bytes == worlds->pipes[i].unit_bytes)
                for (uint64_t k = 1; k <= shape->size; k++)
                    try_turns(in, shape->unit_bytes, k, shape->nparts);
        }
    }
}

weir_status weiri_check_find_worlds(const weir_plan *plan, weiri_check_worlds *worlds)
{
    finder in = {.plan = plan, .worlds = worlds, .status = WEIR_OK};
    *worlds = (weiri_check_worlds){.is_complete = 1};
    find_shapes(&in);
    if (in.status == WEIR_OK && worlds->nshapes == 1 && worlds->npipes == 0) {
        worlds->columns = 0;
        worlds->count = 1;
    } else if (in.status == WEIR_OK) {
        in.row = malloc(worlds->columns * sizeof *in.row);
        if (in.row)
            try_lengths(&in);
        else
            no_memory(&in);
    }
    if (in.status != WEIR_OK)
        weiri_check_free_worlds(plan, worlds);
    free(in.row);
    free(in.edges);
    return in.status;
}

void weiri_check_free_worlds(const weir_plan *plan, weiri_check_worlds *worlds)
{
    for (int rank = 0; rank < plan->nranks; rank++) {
        free(worlds->shape_of_op[rank]);
        free(worlds->pipe_of_op[rank]);
    }
    free(worlds->shapes);
    free(worlds->pipes);
    free(worlds->rows);
    *worlds = (weiri_check_worlds){0};
}

int32_t weiri_check_turn(const weiri_check_worlds *worlds, const int32_t *row, int rank,
                         uint32_t op, uint32_t size, uint32_t k)
{
    uint32_t index = worlds->shape_of_op[rank][op];
    if (index == 0)
        return 0;
    const weiri_check_shape *shape = &worlds->shapes[index];
    if (shape->size != size)
        shape = &worlds->shapes[find_shape(worlds, size, shape->part, shape->nparts,
                                           shape->unit_bytes)];
    return row[shape->column + k];
}
