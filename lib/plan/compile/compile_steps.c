/*
 * Operations of a plan into steps, and their references into operands, in the order of the
 * thread block.
 */
#include "plan/compile/compiler.h"

/* ----------------------------------------------------------------- operands */

static void add_operand(weiri_compiler *to, int owner, const weiri_plan_ref *ref)
{
    weiri_operand *made =
        weiri_compile_append(to, &to->operands, &to->head.noperands, sizeof *made);
    if (!made)
        return;
    made->offset = weiri_plan_offset(to->layout, (weir_plan_buffer)ref->buffer, ref->index);
    made->index = ref->index;
    made->base = (uint16_t)(owner * WEIR_PLAN_BUFFERS + ref->buffer);
    made->is_packets = ref->is_packets;
    made->is_scratch = ref->buffer == WEIR_PLAN_SCRATCH;
}

/* A reference's operands: one, or of a group as many as it has ranks. */
static uint32_t add_reference(weiri_compiler *to, weiri_step *step, uint32_t index)
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
static void measure(weiri_compiler *to, weiri_step *step, uint64_t line_bytes)
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
static weiri_step *add_step(weiri_compiler *to, weiri_step_kind kind, const weiri_plan_block *block,
                            const weiri_plan_op *op)
{
    weiri_step *made = weiri_compile_append(to, &to->steps, &to->head.nsteps, sizeof *made);
    if (!made)
        return NULL;
    made->kind = (uint8_t)kind;
    made->plan_kind = (uint8_t)op->kind;
    made->op = (uint32_t)(op - to->gpu->ops) - block->first_op;
    made->first_operand = to->head.noperands;
    made->first_id = to->head.nids;
    return made;
}

static void add_id(weiri_compiler *to, weiri_step *step, uint32_t id)
{
    uint32_t *made = weiri_compile_append(to, &to->ids, &to->head.nids, sizeof *made);
    if (!made)
        return;
    *made = id;
    step->nids++;
}

/* The place in head.channels of an operation's channel. */
static uint32_t channel_of(const weiri_compiler *to, const weiri_plan_op *op, uint32_t i)
{
    uint32_t first = op->channel == WEIRI_PLAN_PORT ? to->gpu->nlinks[WEIRI_PLAN_MEMORY] : 0;
    return first + to->gpu->ids[op->first_id + i];
}

/* A step for all of an operation's channels: signal, wait or flush. */
static void add_channel_step(weiri_compiler *to, weiri_step_kind kind,
                             const weiri_plan_block *block, const weiri_plan_op *op, int relaxed)
{
    weiri_step *step = add_step(to, kind, block, op);
    if (!step)
        return;
    step->flags |= relaxed ? WEIRI_STEP_RELAXED : 0;
    step->flags |= op->channel == WEIRI_PLAN_PORT ? WEIRI_STEP_IS_PORT : 0;
    for (uint32_t i = 0; i < op->nids; i++)
        add_id(to, step, channel_of(to, op, i));
}

static void add_semaphore_step(weiri_compiler *to, weiri_step_kind kind,
                               const weiri_plan_block *block, const weiri_plan_op *op)
{
    weiri_step *step = add_step(to, kind, block, op);
    for (uint32_t i = 0; step && i < op->nids; i++)
        add_id(to, step, to->gpu->ids[op->first_id + i]);
}

static void add_barrier(weiri_compiler *to, const weiri_plan_block *block, const weiri_plan_op *op)
{
    uint32_t slot = 0;
    while (slot < to->head.nbarriers && (to->meetings[slot].barrier != op->barrier ||
                                         to->meetings[slot].nblocks != op->nblocks))
        slot++;
    if (slot == to->head.nbarriers) {
        weiri_barrier_epoch *made =
            weiri_compile_append(to, &to->meetings, &to->head.nbarriers, sizeof *made);
        if (!made)
            return;
        *made = (weiri_barrier_epoch){op->barrier, op->nblocks};
    }
    weiri_step *step = add_step(to, WEIRI_STEP_BARRIER, block, op);
    if (!step)
        return;
    step->slot = slot;
    step->nblocks = op->nblocks;
}

/* A step that handles data: so many sources and destinations from the given references on.
 * turn_bytes: of a loop's body; 0 outside. */
static weiri_step *add_move(weiri_compiler *to, weiri_step_kind kind, const weiri_plan_block *block,
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

static void add_pairs(weiri_compiler *to, const weiri_plan_block *block, const weiri_plan_op *op,
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
static void add_sync(weiri_compiler *to, const weiri_plan_block *block, const weiri_plan_op *op)
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

static void add_op(weiri_compiler *to, const weiri_plan_block *block, const weiri_plan_op *op,
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

static void add_loop(weiri_compiler *to, const weiri_plan_block *block, const weiri_plan_op *op)
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

void weiri_compile_block(weiri_compiler *to, const weiri_plan_block *block)
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
    weiri_program_block *made =
        weiri_compile_append(to, &to->blocks, &to->head.nblocks, sizeof *made);
    if (made)
        *made = (weiri_program_block){block->id, first, to->head.nsteps - first};
}
