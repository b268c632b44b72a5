/*
 * Plans into programs (program.h): operations into steps, references into operands, channels
 * and barriers into numbers. Everything is resolved for one rank and one call's lengths, so
 * that executors look nothing up.
 */
#include "plan/compile.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A barrier of some operations: its number is its place in the list. */
typedef struct meeting {
    uint32_t barrier, nblocks;
} meeting;

typedef struct compiler {
    const weir_plan *plan;
    const weiri_plan_gpu *gpu;
    const weiri_plan_layout *layout;
    int rank;
    int failed; /* no memory; what follows does nothing */
    weiri_program head;
    weiri_program_block *blocks;
    weiri_step *steps;
    weiri_operand *operands;
    uint32_t *ids;
    weiri_channel *channels;
    meeting *meetings;
} compiler;

static void *append(compiler *to, void *list, uint32_t *count, size_t element_bytes)
{
    void *made = to->failed ? NULL : weiri_plan_append(list, count, element_bytes);
    to->failed |= !made;
    return made;
}

/* ----------------------------------------------------------------- channels */

static uint32_t count_links(const weir_plan *plan, weiri_plan_channel type, int from, int to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[from];
    uint32_t count = 0;
    for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
        count += gpu->links[type][i].peer == to;
    return count;
}

/* Channels between two ranks: as many as the end that lists more of them. */
static uint32_t count_channels(const weir_plan *plan, weiri_plan_channel type, int a, int b)
{
    const uint32_t of_a = count_links(plan, type, a, b), of_b = count_links(plan, type, b, a);
    return of_a > of_b ? of_a : of_b;
}

/* The first counter at a rank of the signals that another one sends it; with `from` behind
 * the last rank, the number of its counters. */
static uint32_t first_counter(const weir_plan *plan, int at, int from)
{
    uint32_t first = 0;
    for (int rank = 0; rank < from; rank++)
        if (rank != at)
            first += count_channels(plan, WEIRI_PLAN_MEMORY, at, rank);
    return first;
}

static void add_channel(compiler *to, weiri_plan_channel type, int peer, int ordinal)
{
    weiri_channel *made = append(to, &to->channels, &to->head.nchannels, sizeof *made);
    if (!made)
        return;
    *made = (weiri_channel){
        .peer = peer, .ordinal = ordinal, .is_port = type == WEIRI_PLAN_PORT};
    if (type == WEIRI_PLAN_PORT)
        return;
    made->inbound = first_counter(to->plan, to->rank, peer) + (uint32_t)ordinal;
    made->outbound = first_counter(to->plan, peer, to->rank) + (uint32_t)ordinal;
}

static void add_channels(compiler *to)
{
    const weir_plan *plan = to->plan;
    for (int type = WEIRI_PLAN_MEMORY; type <= WEIRI_PLAN_PORT; type++)
        for (uint32_t i = 0; i < to->gpu->nlinks[type]; i++)
            add_channel(to, (weiri_plan_channel)type, to->gpu->links[type][i].peer,
                        to->gpu->links[type][i].ordinal);
    for (int peer = 0; peer < plan->nranks; peer++) {
        const uint32_t counters = first_counter(plan, peer, plan->nranks);
        if (counters > to->head.ncounters)
            to->head.ncounters = counters;
        if (peer == to->rank)
            continue;
        uint32_t ordinal = count_links(plan, WEIRI_PLAN_PORT, to->rank, peer);
        for (; ordinal < count_channels(plan, WEIRI_PLAN_PORT, to->rank, peer); ordinal++)
            add_channel(to, WEIRI_PLAN_PORT, peer, (int)ordinal);
    }
}

/* ----------------------------------------------------------------- operands */

static void add_operand(compiler *to, int owner, const weiri_plan_ref *ref)
{
    weiri_operand *made = append(to, &to->operands, &to->head.noperands, sizeof *made);
    if (!made)
        return;
    made->offset = weiri_plan_offset(to->layout, (weir_plan_buffer)ref->buffer, ref->index);
    made->index = ref->index;
    made->base = (uint16_t)(owner * WEIR_PLAN_BUFFERS + ref->buffer);
    made->is_packets = ref->is_packets;
    made->is_scratch = ref->buffer == WEIR_PLAN_SCRATCH;
}

/* A reference's operands: one, or of a group as many as it has ranks. */
static uint32_t add_reference(compiler *to, weiri_step *step, uint32_t index)
{
    const weiri_plan_ref *ref = &to->gpu->refs[index];
    if (ref->place != WEIRI_PLAN_GROUP) {
        add_operand(to, ref->place == WEIRI_PLAN_LOCAL ? to->rank : ref->rank, ref);
        return 1;
    }
    const weiri_plan_switch *group = &to->gpu->switches[ref->rank];
    for (uint32_t i = 0; i < group->nranks; i++)
        add_operand(to, (int)to->gpu->ids[group->first_rank + i], ref);
    step->flags |= WEIRI_STEP_IS_GROUP;
    return group->nranks;
}

/* Whether the lines of all operands are without gaps, and where their data ends. Without
 * any, both hold. */
static void measure(compiler *to, weiri_step *step, uint64_t line_bytes)
{
    if (to->failed || line_bytes == 0)
        return;
    weiri_run run = weiri_line_run(&to->head.geometry, to->operands + step->first_operand,
                                   step->nsrcs + step->ndsts, 0, line_bytes);
    step->data_end = run.data_bytes;
    if (run.line_bytes == line_bytes)
        step->flags |= WEIRI_STEP_STRAIGHT;
}

/* -------------------------------------------------------------------- steps */

/* It may move when the next one is added. */
static weiri_step *add_step(compiler *to, weiri_step_kind kind, const weiri_plan_block *block,
                            const weiri_plan_op *op)
{
    weiri_step *made = append(to, &to->steps, &to->head.nsteps, sizeof *made);
    if (!made)
        return NULL;
    made->kind = (uint8_t)kind;
    made->plan_kind = (uint8_t)op->kind;
    made->op = (uint32_t)(op - to->gpu->ops) - block->first_op;
    made->first_operand = to->head.noperands;
    made->first_id = to->head.nids;
    return made;
}

static void add_id(compiler *to, weiri_step *step, uint32_t id)
{
    uint32_t *made = append(to, &to->ids, &to->head.nids, sizeof *made);
    if (!made)
        return;
    *made = id;
    step->nids++;
}

/* The place in head.channels of an operation's channel. */
static uint32_t channel_of(const compiler *to, const weiri_plan_op *op, uint32_t i)
{
    uint32_t first = op->channel == WEIRI_PLAN_PORT ? to->gpu->nlinks[WEIRI_PLAN_MEMORY] : 0;
    return first + to->gpu->ids[op->first_id + i];
}

/* A step for all of an operation's channels: signal, wait or flush. */
static void add_channel_step(compiler *to, weiri_step_kind kind, const weiri_plan_block *block,
                             const weiri_plan_op *op, int relaxed)
{
    weiri_step *step = add_step(to, kind, block, op);
    if (!step)
        return;
    step->flags |= relaxed ? WEIRI_STEP_RELAXED : 0;
    step->flags |= op->channel == WEIRI_PLAN_PORT ? WEIRI_STEP_IS_PORT : 0;
    for (uint32_t i = 0; i < op->nids; i++)
        add_id(to, step, channel_of(to, op, i));
}

static void add_semaphore_step(compiler *to, weiri_step_kind kind, const weiri_plan_block *block,
                               const weiri_plan_op *op)
{
    weiri_step *step = add_step(to, kind, block, op);
    for (uint32_t i = 0; step && i < op->nids; i++)
        add_id(to, step, to->gpu->ids[op->first_id + i]);
}

static void add_barrier(compiler *to, const weiri_plan_block *block, const weiri_plan_op *op)
{
    uint32_t slot = 0;
    while (slot < to->head.nbarriers && (to->meetings[slot].barrier != op->barrier ||
                                         to->meetings[slot].nblocks != op->nblocks))
        slot++;
    if (slot == to->head.nbarriers) {
        meeting *made = append(to, &to->meetings, &to->head.nbarriers, sizeof *made);
        if (!made)
            return;
        *made = (meeting){op->barrier, op->nblocks};
    }
    weiri_step *step = add_step(to, WEIRI_STEP_BARRIER, block, op);
    if (!step)
        return;
    step->slot = slot;
    step->nblocks = op->nblocks;
}

/* A step that handles data: so many sources and destinations from the given references on.
 * turn_bytes: of a loop's body; 0 outside. */
static weiri_step *add_move(compiler *to, weiri_step_kind kind, const weiri_plan_block *block,
                            const weiri_plan_op *op, uint64_t turn_bytes, uint32_t src,
                            uint32_t nsrcs, uint32_t dst, uint32_t ndsts)
{
    weiri_step *step = add_step(to, kind, block, op);
    if (!step)
        return NULL;
    const uint32_t size = to->gpu->refs[src].size;
    const weiri_plan_span span = weiri_plan_part(to->layout, op, size, 0, 0);
    for (uint32_t i = 0; i < nsrcs; i++)
        step->nsrcs += add_reference(to, step, src + i);
    for (uint32_t i = 0; i < ndsts; i++)
        step->ndsts += add_reference(to, step, dst + i);
    step->first = span.first;
    step->end = span.end;
    step->turn_bytes = turn_bytes;
    step->flags |= turn_bytes ? WEIRI_STEP_IN_LOOP : 0;
    measure(to, step, size * to->layout->chunk_bytes);
    if (step->nsrcs > to->head.sources_most)
        to->head.sources_most = step->nsrcs;
    return step;
}

static void add_pairs(compiler *to, const weiri_plan_block *block, const weiri_plan_op *op,
                      uint64_t turn_bytes)
{
    int port = op->channel == WEIRI_PLAN_PORT;
    for (uint32_t i = 0; i < op->nsrcs; i++) {
        weiri_step *step = add_move(to, port ? WEIRI_STEP_PORT_PUT : WEIRI_STEP_COPY, block, op,
                                    turn_bytes, op->first_src + i, 1, op->first_dst + i, 1);
        if (step && port)
            add_id(to, step, channel_of(to, op, i));
    }
    if (op->kind == WEIRI_PLAN_PUT_SIGNAL_OP || op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP)
        add_channel_step(to, WEIRI_STEP_SIGNAL, block, op, 0);
    if (op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP && port)
        add_channel_step(to, WEIRI_STEP_FLUSH, block, op, 0);
}

/* What orders. A flush of a memory channel is nothing: its puts are stores. */
static void add_sync(compiler *to, const weiri_plan_block *block, const weiri_plan_op *op)
{
    switch (op->kind) {
    case WEIRI_PLAN_BARRIER_OP:
        add_barrier(to, block, op);
        break;
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        add_semaphore_step(to, WEIRI_STEP_SEM_ACQUIRE, block, op);
        break;
    case WEIRI_PLAN_SEM_RELEASE_OP:
        add_semaphore_step(to, WEIRI_STEP_SEM_RELEASE, block, op);
        break;
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
        add_channel_step(to, WEIRI_STEP_SIGNAL, block, op,
                         op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP);
        break;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
        add_channel_step(to, WEIRI_STEP_WAIT, block, op, op->kind == WEIRI_PLAN_RELAXED_WAIT_OP);
        break;
    case WEIRI_PLAN_FLUSH_OP:
        if (op->channel == WEIRI_PLAN_PORT)
            add_channel_step(to, WEIRI_STEP_FLUSH, block, op, 0);
        break;
    default:
        add_step(to, WEIRI_STEP_FENCE, block, op);
    }
}

static void add_op(compiler *to, const weiri_plan_block *block, const weiri_plan_op *op,
                   uint64_t turn_bytes)
{
    switch (weiri_plan_traits[op->kind].mode) {
    case WEIRI_PLAN_PAIRS:
        add_pairs(to, block, op, turn_bytes);
        break;
    case WEIRI_PLAN_SPREAD:
    case WEIRI_PLAN_REDUCE:
        add_move(to,
                 weiri_plan_traits[op->kind].mode == WEIRI_PLAN_REDUCE ? WEIRI_STEP_REDUCE
                                                                       : WEIRI_STEP_COPY,
                 block, op, turn_bytes, op->first_src, op->nsrcs, op->first_dst, op->ndsts);
        break;
    default:
        add_sync(to, block, op);
    }
}

static void add_loop(compiler *to, const weiri_plan_block *block, const weiri_plan_op *op)
{
    const uint32_t place = to->head.nsteps;
    weiri_step *step = add_step(to, WEIRI_STEP_LOOP, block, op);
    if (!step)
        return;
    step->turns = weiri_plan_turns(to->layout, op);
    for (uint32_t i = 1; i <= op->nops; i++)
        add_op(to, block, op + i, op->unit_bytes);
    if (!to->failed)
        to->steps[place].nsteps = to->head.nsteps - place - 1;
}

static void add_block(compiler *to, const weiri_plan_block *block)
{
    const uint32_t first = to->head.nsteps;
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_plan_op *op = &to->gpu->ops[block->first_op + i];
        if (op->kind != WEIRI_PLAN_PIPELINE_OP) {
            add_op(to, block, op, 0);
            continue;
        }
        add_loop(to, block, op);
        i += op->nops;
    }
    weiri_program_block *made = append(to, &to->blocks, &to->head.nblocks, sizeof *made);
    if (made)
        *made = (weiri_program_block){block->id, first, to->head.nsteps - first};
}

/* ---------------------------------------------------------------- the whole */

static void begin(compiler *to)
{
    const weiri_plan_layout *layout = to->layout;
    to->head.rank = to->rank;
    to->head.nranks = to->plan->nranks;
    to->head.nthreads = to->plan->nthreads;
    to->head.scratch_bytes = layout->scratch_bytes;
    to->head.nsemaphores = to->gpu->nsemaphores;
    to->head.geometry = (weiri_geometry){
        .block_bytes = layout->block_bytes,
        .block_chunks = layout->block_chunks,
        .chunk_bytes = layout->chunk_bytes,
        .slot_bytes = layout->slot_bytes,
        .half_bytes = to->plan->double_scratch ? layout->half_bytes : 0,
        .is_even = layout->block_bytes == layout->block_chunks * layout->chunk_bytes,
    };
}

/* Where a part of so many bytes begins, each on a line of its own. */
static uint64_t place(uint64_t *end, uint64_t bytes)
{
    const uint64_t at = *end;
    *end = (at + bytes + WEIR_LINE_BYTES - 1) / WEIR_LINE_BYTES * WEIR_LINE_BYTES;
    return at;
}

static void put(weiri_program *program, uint64_t at, const void *from, size_t bytes)
{
    if (bytes)
        memcpy((char *)program + at, from, bytes);
}

static weiri_program *assemble(compiler *from)
{
    weiri_program *head = &from->head;
    uint64_t end = 0;
    place(&end, sizeof *head);
    head->blocks_at = place(&end, head->nblocks * sizeof *from->blocks);
    head->steps_at = place(&end, head->nsteps * sizeof *from->steps);
    head->operands_at = place(&end, head->noperands * sizeof *from->operands);
    head->ids_at = place(&end, head->nids * sizeof *from->ids);
    head->channels_at = place(&end, head->nchannels * sizeof *from->channels);
    head->semaphores_at = place(&end, head->nsemaphores * sizeof *from->gpu->semaphores);
    head->bytes = end;
    weiri_program *made = from->failed ? NULL : calloc(1, end);
    if (!made)
        return NULL;
    *made = *head;
    put(made, head->blocks_at, from->blocks, head->nblocks * sizeof *from->blocks);
    put(made, head->steps_at, from->steps, head->nsteps * sizeof *from->steps);
    put(made, head->operands_at, from->operands, head->noperands * sizeof *from->operands);
    put(made, head->ids_at, from->ids, head->nids * sizeof *from->ids);
    put(made, head->channels_at, from->channels, head->nchannels * sizeof *from->channels);
    put(made, head->semaphores_at, from->gpu->semaphores,
        head->nsemaphores * sizeof *from->gpu->semaphores);
    return made;
}

weir_status weiri_program_compile(const weir_plan *plan, int rank,
                                  const weiri_plan_layout *layout, weiri_program **program)
{
    compiler to = {.plan = plan, .gpu = &plan->gpus[rank], .layout = layout, .rank = rank};
    begin(&to);
    add_channels(&to);
    for (uint32_t i = 0; i < to.gpu->nblocks; i++)
        add_block(&to, &to.gpu->blocks[i]);
    weiri_program *made = assemble(&to);
    free(to.blocks);
    free(to.steps);
    free(to.operands);
    free(to.ids);
    free(to.channels);
    free(to.meetings);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the program of rank %d",
                          plan->file, rank);
    *program = made;
    return WEIR_OK;
}
