/*
 * Encodes steps that move data as items: one for each contiguous run of the line. Successive copies
 * of the same bytes become one item that reads them once.
 */
#include "plan/cuda/encoder.h"

enum { DSTS_MOST = 32 }; /* per copy; steps with more become several */

static int is_packets(const weiri_step *step, const weiri_operand *operands, uint32_t i)
{
    return i < step->nsrcs + step->ndsts && operands[i].is_packets;
}

/* Whether sources and destinations are packets: in reductions the second and later ones, in copies
 * all. */
static uint8_t packet_flags(const weiri_step *step, const weiri_operand *operands)
{
    const uint32_t nth = step->kind == WEIRI_STEP_REDUCE;
    const int from = nth < step->nsrcs && is_packets(step, operands, nth);
    const int to = nth < step->ndsts && is_packets(step, operands, step->nsrcs + nth);
    return (uint8_t)((from ? WEIRI_IMAGE_FROM_PACKETS : 0) | (to ? WEIRI_IMAGE_TO_PACKETS : 0));
}

/* An operand that, from byte v of the line on, is contiguous. */
static weiri_image_operand operand_of(const weiri_encoder *of, const weiri_step *step,
                                      const weiri_operand *from, uint64_t v)
{
    const uint64_t at = weiri_step_at(&of->program->geometry, step, from, v);
    return (weiri_image_operand){.offset = at - (v << from->is_packets), .base = from->base};
}

static void add_operand(weiri_encoder *to, const weiri_step *step, const weiri_operand *from,
                        uint64_t v)
{
    weiri_image_operand *made = weiri_encoder_append(to, &to->operands, sizeof *made);
    if (made)
        *made = operand_of(to, step, from, v);
}

/* Describes one run of a step's line, without its operands. */
static weiri_image_step describe_run(const weiri_encoder *of, weiri_image_kind kind,
                                     const weiri_step *step, uint64_t v, weiri_run run)
{
    const weiri_operand *operands = weiri_program_operands(of->program) + step->first_operand;
    const int loops = step->flags & WEIRI_STEP_IN_LOOP;
    weiri_image_step made = {.kind = (uint8_t)kind, .op = step->op};
    made.flags = (uint8_t)(packet_flags(step, operands) | (loops ? WEIRI_IMAGE_IN_LOOP : 0));
    made.nsrcs = (uint16_t)step->nsrcs;
    made.run_begin = v;
    made.run_end = v + run.line_bytes;
    made.begin = loops ? step->first : made.run_begin;
    made.end = loops ? step->end : made.run_end;
    made.data_end = v + run.data_bytes;
    return made;
}

/* The last item, if it is a copy of the same bytes as this one. */
static weiri_item *find_same_copy(const weiri_encoder *of, const weiri_image_step *step,
                                  weiri_image_operand from)
{
    const uint32_t *begin = (const uint32_t *)of->begins.at + of->begins.count - 1;
    if (of->items.count == *begin || of->fenced || step->kind != WEIRI_IMAGE_COPY)
        return NULL;
    weiri_item *last = weiri_item_at(of, of->items.count - 1);
    const weiri_image_step *copy = &last->step;
    const weiri_image_operand *source = (const weiri_image_operand *)of->operands.at + last->first;
    return copy->kind == WEIRI_IMAGE_COPY && (copy->flags & ~WEIRI_IMAGE_SYNC) == step->flags &&
                   copy->begin == step->begin && copy->end == step->end &&
                   copy->run_begin == step->run_begin && copy->run_end == step->run_end &&
                   copy->data_end == step->data_end && source->base == from.base &&
                   source->offset == from.offset
               ? last
               : NULL;
}

/* Adds destinations to the last item, a copy, if that needs no block barrier. */
static int join_copy(weiri_encoder *to, weiri_item *copy, const weiri_step *step, uint64_t v,
                     uint32_t dst, uint32_t ndsts)
{
    const weiri_operand *operands = weiri_program_operands(to->program) + step->first_operand;
    if (copy->step.ndsts + ndsts > DSTS_MOST)
        return 0;
    weiri_item more = *copy;
    more.step.nsrcs = 0;
    more.step.ndsts = (uint16_t)ndsts;
    more.first = to->operands.count;
    for (uint32_t i = 0; i < ndsts; i++)
        add_operand(to, step, &operands[step->nsrcs + dst + i], v);
    if (to->status != WEIR_OK || weiri_encoder_conflicts(to, &more, to->items.count)) {
        to->operands.count = more.first;
        return 0;
    }
    copy->step.ndsts = (uint16_t)(copy->step.ndsts + ndsts);
    copy->count += ndsts;
    return 1;
}

/* Adds some of the destinations of one run of a step's line. */
static void add_run(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step, uint64_t v,
                    weiri_run run, uint32_t dst, uint32_t ndsts)
{
    const weiri_operand *operands = weiri_program_operands(to->program) + step->first_operand;
    const weiri_image_step image = describe_run(to, kind, step, v, run);
    weiri_item *same = find_same_copy(to, &image, operand_of(to, step, operands, v));
    if (same && join_copy(to, same, step, v, dst, ndsts))
        return;
    weiri_item *made = weiri_encoder_add_item(to, kind, step);
    if (!made)
        return;
    made->step = image;
    made->step.ndsts = (uint16_t)ndsts;
    made->first = to->operands.count;
    for (uint32_t i = 0; i < step->nsrcs; i++)
        add_operand(to, step, &operands[i], v);
    for (uint32_t i = 0; i < ndsts; i++)
        add_operand(to, step, &operands[step->nsrcs + dst + i], v);
    made->count = to->operands.count - made->first;
    if (kind != WEIRI_IMAGE_PORT_PUT)
        weiri_encoder_sync_if_needed(to, WEIRI_MOVES);
}

void weiri_encoder_add_move(weiri_encoder *to, weiri_image_kind kind, const weiri_step *step)
{
    const weiri_operand *operands = weiri_program_operands(to->program);
    const weiri_operand *own = operands + step->first_operand;
    const uint32_t most = kind == WEIRI_IMAGE_COPY ? DSTS_MOST : step->ndsts;
    for (uint64_t v = step->first; v < step->end;) {
        const weiri_run run = weiri_step_run(&to->program->geometry, step, operands, v, step->end);
        const int empty = run.data_bytes == 0 && !packet_flags(step, own);
        for (uint32_t dst = 0; dst < step->ndsts && !empty; dst += most)
            add_run(to, kind, step, v, run, dst,
                    step->ndsts - dst < most ? step->ndsts - dst : most);
        v += run.line_bytes;
    }
}
