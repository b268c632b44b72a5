/* Compiles the operations of a thread block to steps, and their references to operands. */
#include "plan/compile/compile.h"

void *weiri_compile_append(weiri_compiler *to, void *list, uint32_t *count, size_t element_bytes)
{
    void *made = to->failed ? NULL : weiri_plan_append(list, count, element_bytes);
    to->failed |= !made;
    return made;
}

/* ----------------------------------------------------------------- operands */

static void plan_compile_add_operand(weiri_compiler *to, int owner, const weiri_plan_ref *ref)
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

/* Adds the operands of a reference, one for each rank of a group; returns their number. */
static uint32_t plan_compile_add_reference(weiri_compiler *to, weiri_step *step, uint32_t index)
{
    const weiri_plan_ref *ref = &to->gpu->refs[index];
    if (ref->place != WEIRI_PLAN_GROUP) {
        plan_compile_add_operand(to, ref->place == WEIRI_PLAN_LOCAL ? to->rank : ref->rank, ref);
        return 1;
    }
    const weiri_plan_switch *group = &to->gpu->switches[ref->rank];
    for (uint32_t i = 0; i < group->nranks; i++)
        plan_compile_add_operand(to, (int)to->gpu->ids[group->first_rank + i], ref);
    step->flags |= WEIRI_STEP_IS_GROUP;
    return group->nranks;
}

/* Sets WEIRI_STEP_STRAIGHT if no operand's line has a gap, and data_end to where the data of the
 * first operand to run out ends. */
static void plan_compile_find_gaps(weiri_compiler *to, weiri_step *step, uint64_t line_bytes)
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

/* Appends a step. The pointer is valid until the next step is added. */
static weiri_step *plan_compile_add_step(weiri_compiler *to, weiri_step_kind kind,
                                         const weiri_plan_block *block, const weiri_plan_op *op)
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

static void plan_compile_add_id(weiri_compiler *to, weiri_step *step, uint32_t id)
{
    uint32_t *made = weiri_compile_append(to, &to->ids, &to->head.nids, sizeof *made);
    if (!made)
        return;
    *made = id;
    step->nids++;
}

/* The number in the program of an operation's i-th channel. */
static uint32_t plan_compile_channel_of(const weiri_compiler *to, const weiri_plan_op *op,
                                        uint32_t i)
{
    uint32_t first = op->channel == WEIRI_PLAN_PORT ? to->gpu->nlinks[WEIRI_PLAN_MEMORY] : 0;
    return first + to->gpu->ids[op->first_id + i];
}

/* Adds a signal, wait or flush step for all channels of an operation. */
static void plan_compile_add_channel_step(weiri_compiler *to, weiri_step_kind kind,
                                          const weiri_plan_block *block, const weiri_plan_op *op,
                                          int relaxed)
{
    weiri_step *step = plan_compile_add_step(to, kind, block, op);
    if (!step)
        return;
    step->flags |= relaxed ? WEIRI_STEP_RELAXED : 0;
    step->flags |= op->channel == WEIRI_PLAN_PORT ? WEIRI_STEP_IS_PORT : 0;
    for (uint32_t i = 0; i < op->nids; i++)
        plan_compile_add_id(to, step, plan_compile_channel_of(to, op, i));
}

static void plan_compile_add_semaphore_step(weiri_compiler *to, weiri_step_kind kind,
                                            const weiri_plan_block *block, const weiri_plan_op *op)
{
    weiri_step *step = plan_compile_add_step(to, kind, block, op);
    for (uint32_t i = 0; step && i < op->nids; i++)
        plan_compile_add_id(to, step, to->gpu->ids[op->first_id + i]);
}

static void plan_compile_add_barrier(weiri_compiler *to, const weiri_plan_block *block,
                                     const weiri_plan_op *op)
{
    uint32_t slot = 0;
    while (slot < to->head.nbarriers &&
           (to->barriers[slot].barrier != op->barrier || to->barriers[slot].nblocks != op->nblocks))
        slot++;
    if (slot == to->head.nbarriers) {
        weiri_compile_barrier *made =
            weiri_compile_append(to, &to->barriers, &to->head.nbarriers, sizeof *made);
        if (!made)
            return;
        *made = (weiri_compile_barrier){op->barrier, op->nblocks};
    }
    weiri_step *step = plan_compile_add_step(to, WEIRI_STEP_BARRIER, block, op);
    if (!step)
        return;
    step->slot = slot;
    step->nblocks = op->nblocks;
}

/* Adds a step that moves data, with nsrcs references from src on and ndsts from dst on. turn_bytes:
 * bytes of a turn in the body of a loop; 0 outside. */
static weiri_step *plan_compile_add_move(weiri_compiler *to, weiri_step_kind kind,
                                         const weiri_plan_block *block, const weiri_plan_op *op,
                                         uint64_t turn_bytes, uint32_t src, uint32_t nsrcs,
                                         uint32_t dst, uint32_t ndsts)
{
    weiri_step *step = plan_compile_add_step(to, kind, block, op);
    if (!step)
        return NULL;
    const uint32_t size = to->gpu->refs[src].size;
    const weiri_plan_span span = weiri_plan_part(to->layout, op, size, 0, 0);
    for (uint32_t i = 0; i < nsrcs; i++)
        step->nsrcs += plan_compile_add_reference(to, step, src + i);
    for (uint32_t i = 0; i < ndsts; i++)
        step->ndsts += plan_compile_add_reference(to, step, dst + i);
    step->first = span.first;
    step->end = span.end;
    step->turn_bytes = turn_bytes;
    step->flags |= turn_bytes ? WEIRI_STEP_IN_LOOP : 0;
    plan_compile_find_gaps(to, step, size * to->layout->chunk_bytes);
    if (step->nsrcs > to->head.sources_most)
        to->head.sources_most = step->nsrcs;
    return step;
}

static void plan_compile_add_pairs(weiri_compiler *to, const weiri_plan_block *block,
                                   const weiri_plan_op *op, uint64_t turn_bytes)
{
    int port = op->channel == WEIRI_PLAN_PORT;
    for (uint32_t i = 0; i < op->nsrcs; i++) {
        weiri_step *step =
            plan_compile_add_move(to, port ? WEIRI_STEP_PORT_PUT : WEIRI_STEP_COPY, block, op,
                                  turn_bytes, op->first_src + i, 1, op->first_dst + i, 1);
        if (step && port)
            plan_compile_add_id(to, step, plan_compile_channel_of(to, op, i));
    }
    if (weiri_plan_is_put_signal(op->kind))
        plan_compile_add_channel_step(to, WEIRI_STEP_SIGNAL, block, op, 0);
    if (op->kind == WEIRI_PLAN_PUT_SIGNAL_FLUSH_OP && port)
        plan_compile_add_channel_step(to, WEIRI_STEP_FLUSH, block, op, 0);
}

/* Adds the step of an operation that moves nothing. A flush of a memory channel needs no step,
 * because puts on it are stores. */
static void plan_compile_add_sync(weiri_compiler *to, const weiri_plan_block *block,
                                  const weiri_plan_op *op)
{
    switch (op->kind) {
    case WEIRI_PLAN_BARRIER_OP:
        plan_compile_add_barrier(to, block, op);
        break;
    case WEIRI_PLAN_SEM_ACQUIRE_OP:
        plan_compile_add_semaphore_step(to, WEIRI_STEP_SEM_ACQUIRE, block, op);
        break;
    case WEIRI_PLAN_SEM_RELEASE_OP:
        plan_compile_add_semaphore_step(to, WEIRI_STEP_SEM_RELEASE, block, op);
        break;
    case WEIRI_PLAN_SIGNAL_OP:
    case WEIRI_PLAN_RELAXED_SIGNAL_OP:
        plan_compile_add_channel_step(to, WEIRI_STEP_SIGNAL, block, op,
                                      op->kind == WEIRI_PLAN_RELAXED_SIGNAL_OP);
        break;
    case WEIRI_PLAN_WAIT_OP:
    case WEIRI_PLAN_RELAXED_WAIT_OP:
        plan_compile_add_channel_step(to, WEIRI_STEP_WAIT, block, op,
                                      op->kind == WEIRI_PLAN_RELAXED_WAIT_OP);
        break;
    case WEIRI_PLAN_FLUSH_OP:
        if (op->channel == WEIRI_PLAN_PORT)
            plan_compile_add_channel_step(to, WEIRI_STEP_FLUSH, block, op, 0);
        break;
    default:
        plan_compile_add_step(to, WEIRI_STEP_FENCE, block, op);
    }
}

static void plan_compile_add_op(weiri_compiler *to, const weiri_plan_block *block,
                                const weiri_plan_op *op, uint64_t turn_bytes)
{
    switch (weiri_plan_traits[op->kind].mode) {
    case WEIRI_PLAN_PAIRS:
        plan_compile_add_pairs(to, block, op, turn_bytes);
        break;
    case WEIRI_PLAN_SPREAD:
    case WEIRI_PLAN_REDUCE:
        plan_compile_add_move(
            to,
            weiri_plan_traits[op->kind].mode == WEIRI_PLAN_REDUCE ? WEIRI_STEP_REDUCE
                                                                  : WEIRI_STEP_COPY,
            block, op, turn_bytes, op->first_src, op->nsrcs, op->first_dst, op->ndsts);
        break;
    default:
        plan_compile_add_sync(to, block, op);
    }
}

static void plan_compile_add_loop(weiri_compiler *to, const weiri_plan_block *block,
                                  const weiri_plan_op *op)
{
    const uint32_t place = to->head.nsteps;
    weiri_step *step = plan_compile_add_step(to, WEIRI_STEP_LOOP, block, op);
    if (!step)
        return;
    step->turns = weiri_plan_turns(to->layout, op);
    for (uint32_t i = 1; i <= op->nops; i++)
        plan_compile_add_op(to, block, op + i, op->unit_bytes);
    if (!to->failed)
        to->steps[place].nsteps = to->head.nsteps - place - 1;
}

void weiri_compile_block(weiri_compiler *to, const weiri_plan_block *block)
{
    const uint32_t first = to->head.nsteps;
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_plan_op *op = &to->gpu->ops[block->first_op + i];
        if (op->kind != WEIRI_PLAN_PIPELINE_OP) {
            plan_compile_add_op(to, block, op, 0);
            continue;
        }
        plan_compile_add_loop(to, block, op);
        i += op->nops;
    }
    weiri_program_block *made =
        weiri_compile_append(to, &to->blocks, &to->head.nblocks, sizeof *made);
    if (made)
        *made = (weiri_program_block){block->id, first, to->head.nsteps - first};
}
