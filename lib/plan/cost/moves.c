/* Computes the bytes that operations move (moves.h), and walks through thread blocks. */
#include "plan/cost/moves.h"

#include "base/error.h"

/* ----------------------------------------------------------------- an operation */

typedef struct mover {
    const weir_plan *plan;
    const weiri_plan_layout *layout;
    const weiri_plan_gpu *gpu;
    const weiri_plan_op *op;
    int rank;
    uint64_t turn, turn_bytes;
    weiri_plan_take_leg *take;
    void *context;
} mover;

/* Bytes of data in chunk k of all these references: the minimum of `least` and their lengths. */
static uint64_t plan_moves_shared_chunk(const mover *m, const weiri_plan_ref *refs, uint32_t count,
                                        uint32_t k, uint64_t least)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes =
            weiri_plan_chunk_bytes(m->layout, (weir_plan_buffer)refs[i].buffer, refs[i].index + k);
        least = bytes < least ? bytes : least;
    }
    return least;
}

static int plan_moves_any_packets(const weiri_plan_ref *refs, uint32_t count)
{
    int any = 0;
    for (uint32_t i = 0; i < count; i++)
        any |= refs[i].is_packets;
    return any;
}

/* Bytes of data that the operation handles in these sources and destinations, which have equal
 * numbers of chunks. Packets are handled for whole chunks. */
static uint64_t plan_moves_data_bytes(const mover *m, const weiri_plan_ref *srcs, uint32_t nsrcs,
                                      const weiri_plan_ref *dsts, uint32_t ndsts)
{
    const weiri_plan_layout *l = m->layout;
    weiri_plan_span span = weiri_plan_part(l, m->op, srcs->size, m->turn, m->turn_bytes);
    uint64_t sum = 0, chunk = l->chunk_bytes;
    if (span.first >= span.end)
        return 0;
    if (plan_moves_any_packets(srcs, nsrcs) || plan_moves_any_packets(dsts, ndsts))
        return span.end - span.first;
    for (uint64_t k = span.first / chunk; k * chunk < span.end; k++) {
        uint64_t length = plan_moves_shared_chunk(m, srcs, nsrcs, (uint32_t)k, chunk);
        length = plan_moves_shared_chunk(m, dsts, ndsts, (uint32_t)k, length);
        uint64_t first = span.first > k * chunk ? span.first - k * chunk : 0;
        uint64_t end = span.end - k * chunk < length ? span.end - k * chunk : length;
        sum += end > first ? end - first : 0;
    }
    return sum;
}

static void plan_moves_emit_leg(const mover *m, int from, int to, uint64_t bytes, uint32_t accesses,
                                uint32_t index)
{
    weiri_plan_leg leg = {from, to, bytes, accesses, index, index == UINT32_MAX};
    if (bytes)
        m->take(m->context, &leg);
}

/* The i-th rank that a reference stands for; -1 if there are no more. */
static int plan_moves_rank_of(const mover *m, const weiri_plan_ref *ref, uint32_t i)
{
    if (ref->place != WEIRI_PLAN_GROUP)
        return i ? -1 : ref->place == WEIRI_PLAN_LOCAL ? m->rank : ref->rank;
    const weiri_plan_switch *group = &m->gpu->switches[ref->rank];
    return i < group->nranks ? (int)m->gpu->ids[group->first_rank + i] : -1;
}

/* The legs of a copy from one source to a destination, which may be a group. */
static void plan_moves_copy(const mover *m, const weiri_plan_ref *src, uint32_t index)
{
    const weiri_plan_ref *dst = &m->gpu->refs[m->op->first_dst + index];
    uint64_t bytes = plan_moves_data_bytes(m, src, 1, dst, 1) * (dst->is_packets ? 2 : 1);
    int from = plan_moves_rank_of(m, src, 0);
    for (uint32_t i = 0; plan_moves_rank_of(m, dst, i) >= 0; i++)
        plan_moves_emit_leg(m, from, plan_moves_rank_of(m, dst, i), bytes, 2, index);
}

static void plan_moves_reduce(const mover *m)
{
    const weiri_plan_op *op = m->op;
    const weiri_plan_ref *srcs = &m->gpu->refs[op->first_src];
    const weiri_plan_ref *dsts = &m->gpu->refs[op->first_dst];
    uint64_t bytes = plan_moves_data_bytes(m, srcs, op->nsrcs, dsts, op->ndsts);
    for (uint32_t s = 0; s < op->nsrcs; s++)
        for (uint32_t i = 0; plan_moves_rank_of(m, &srcs[s], i) >= 0; i++)
            plan_moves_emit_leg(m, plan_moves_rank_of(m, &srcs[s], i), m->rank,
                                bytes * (srcs[s].is_packets ? 2 : 1), 1, UINT32_MAX);
    for (uint32_t d = 0; d < op->ndsts; d++)
        for (uint32_t i = 0; plan_moves_rank_of(m, &dsts[d], i) >= 0; i++)
            plan_moves_emit_leg(m, m->rank, plan_moves_rank_of(m, &dsts[d], i),
                                bytes * (dsts[d].is_packets ? 2 : 1), 1, d);
}

void weiri_plan_each_leg(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                         const weiri_plan_op *op, uint64_t turn, uint64_t turn_bytes,
                         weiri_plan_take_leg *take, void *context)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    weiri_plan_mode mode = weiri_plan_traits[op->kind].mode;
    mover m = {plan, layout, gpu, op, rank, turn, turn_bytes, take, context};
    if (mode == WEIRI_PLAN_REDUCE)
        plan_moves_reduce(&m);
    for (uint32_t i = 0; i < op->ndsts && mode != WEIRI_PLAN_REDUCE; i++)
        plan_moves_copy(&m, &gpu->refs[op->first_src + (mode == WEIRI_PLAN_PAIRS ? i : 0)], i);
}

uint64_t weiri_plan_reduced_bytes(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                                  const weiri_plan_op *op, uint64_t turn, uint64_t turn_bytes)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    const weiri_plan_ref *srcs = &gpu->refs[op->first_src];
    mover m = {plan, layout, gpu, op, rank, turn, turn_bytes, NULL, NULL};
    uint64_t operands = 0;
    if (weiri_plan_traits[op->kind].mode != WEIRI_PLAN_REDUCE)
        return 0;
    for (uint32_t s = 0; s < op->nsrcs; s++)
        for (uint32_t i = 0; plan_moves_rank_of(&m, &srcs[s], i) >= 0; i++)
            operands++;
    return (operands - 1) *
           plan_moves_data_bytes(&m, srcs, op->nsrcs, &gpu->refs[op->first_dst], op->ndsts);
}

/* --------------------------------------------------------------------- messages */

weir_status weiri_plan_lay_out_message(const weir_plan *plan, uint64_t message_bytes,
                                       weiri_plan_layout *layout)
{
    weir_plan_buffer whose =
        plan->collective == WEIR_COLL_ALLGATHER ? WEIR_PLAN_OUTPUT : WEIR_PLAN_INPUT;
    uint64_t blocks = weiri_plan_blocks(plan, whose), each = message_bytes / blocks;
    if (each * blocks != message_bytes)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: a message of %llu bytes does not divide into %llu blocks; choose "
                          "a multiple of that number",
                          plan->file, (unsigned long long)message_bytes,
                          (unsigned long long)blocks);
    return weiri_plan_lay_out(plan, each * weiri_plan_blocks(plan, WEIR_PLAN_INPUT),
                              each * weiri_plan_blocks(plan, WEIR_PLAN_OUTPUT), 1, layout);
}

uint64_t weiri_plan_default_bytes(const weir_plan *plan)
{
    weir_plan_buffer whose =
        plan->collective == WEIR_COLL_ALLGATHER ? WEIR_PLAN_OUTPUT : WEIR_PLAN_INPUT;
    uint64_t blocks = weiri_plan_blocks(plan, whose), bytes = UINT64_C(1) << 20;
    bytes = bytes < plan->min_bytes ? plan->min_bytes : bytes;
    bytes = bytes > plan->max_bytes ? plan->max_bytes : bytes;
    uint64_t up = (bytes + blocks - 1) / blocks * blocks;
    return up <= plan->max_bytes ? up : bytes / blocks * blocks;
}

/* ------------------------------------------------------------------------ walks */

/* If the position is a pipeline, moves it to the first operation of its body, or past a pipeline
 * without turns. */
static void plan_moves_enter_pipeline(weiri_plan_walk *walk)
{
    while (walk->at < walk->block->nops) {
        const weiri_plan_op *op = &walk->gpu->ops[walk->block->first_op + walk->at];
        if (op->kind != WEIRI_PLAN_PIPELINE_OP)
            return;
        walk->turns = weiri_plan_turns(walk->layout, op);
        walk->turn = 0;
        walk->turn_bytes = walk->turns ? op->unit_bytes : 0;
        walk->body = walk->at + 1;
        walk->after = walk->body + op->nops;
        walk->at = walk->turns ? walk->body : walk->after;
    }
}

void weiri_plan_walk_begin(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                           uint32_t block, weiri_plan_walk *walk)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    *walk = (weiri_plan_walk){.gpu = gpu, .block = &gpu->blocks[block], .layout = layout};
    plan_moves_enter_pipeline(walk);
}

void weiri_plan_walk_next(weiri_plan_walk *walk)
{
    walk->at++;
    if (walk->turn_bytes && walk->at == walk->after) {
        walk->turn++;
        if (walk->turn < walk->turns) {
            walk->at = walk->body;
            return;
        }
        walk->turn = walk->turn_bytes = 0;
    }
    plan_moves_enter_pipeline(walk);
}

const weiri_plan_op *weiri_plan_walk_op(const weiri_plan_walk *walk)
{
    return walk->at < walk->block->nops ? &walk->gpu->ops[walk->block->first_op + walk->at] : NULL;
}

/* ---------------------------------------------------------------------- traffic */

typedef struct tally {
    uint64_t *bytes;
    int nranks;
} tally;

static void plan_moves_count_leg(void *context, const weiri_plan_leg *leg)
{
    tally *sums = context;
    sums->bytes[leg->from * sums->nranks + leg->to] += leg->bytes;
}

/* Counts a pipeline as one turn that is as long as all its turns together. */
static void plan_moves_count_block(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                                   const weiri_plan_block *block, tally *sums)
{
    uint64_t turn_bytes = 0;
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_plan_op *op = &plan->gpus[rank].ops[block->first_op + i];
        uint64_t turns = 1;
        if (op->kind == WEIRI_PLAN_PIPELINE_OP) {
            turns = weiri_plan_turns(layout, op);
            turn_bytes = turns * op->unit_bytes;
        }
        if (turns == 0)
            i += op->nops;
        else
            weiri_plan_each_leg(plan, layout, rank, op, 0, op->in_body ? turn_bytes : 0,
                                plan_moves_count_leg, sums);
    }
}

void weiri_plan_add_traffic(const weir_plan *plan, const weiri_plan_layout *layout, uint64_t *bytes)
{
    tally sums = {bytes, plan->nranks};
    for (int rank = 0; rank < plan->nranks; rank++)
        for (uint32_t block = 0; block < plan->gpus[rank].nblocks; block++)
            plan_moves_count_block(plan, layout, rank, &plan->gpus[rank].blocks[block], &sums);
}
