/* Computes the layout of a call; layout.h states the rules. */
#include "plan/format/layout.h"

#include "base/error.h"

uint32_t weiri_plan_blocks(const weir_plan *plan, weir_plan_buffer buffer)
{
    const weiri_contract *contract = weiri_contract_of(plan->collective);
    if (buffer == WEIR_PLAN_INPUT ? contract->in_has_blocks
                                  : buffer == WEIR_PLAN_OUTPUT && contract->out_has_blocks)
        return (uint32_t)plan->nranks;
    if (plan->collective >= 0 || buffer == WEIR_PLAN_SCRATCH)
        return 1;
    /* For an unknown collective, the longer buffer is assumed to consist of shorter ones. */
    for (int rank = 0; rank < plan->nranks; rank++) {
        const uint32_t *chunks = plan->gpus[rank].chunks;
        uint32_t own = chunks[buffer], other = chunks[1 - buffer];
        if (own && other)
            return own > other ? own / other : 1;
    }
    return 1;
}

uint32_t weiri_plan_block_chunks(const weir_plan *plan)
{
    for (int rank = 0; rank < plan->nranks; rank++)
        for (int buffer = WEIR_PLAN_INPUT; buffer <= WEIR_PLAN_OUTPUT; buffer++) {
            uint32_t chunks = plan->gpus[rank].chunks[buffer];
            if (chunks)
                return chunks / weiri_plan_blocks(plan, (weir_plan_buffer)buffer);
        }
    return plan->collective < 0; /* such a plan may have neither input nor output */
}

static weir_status plan_layout_reject(const weir_plan *plan, const char *why, uint64_t in_bytes,
                                      uint64_t out_bytes)
{
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: %s; the call has %llu bytes of input and %llu of output", plan->file,
                      why, (unsigned long long)in_bytes, (unsigned long long)out_bytes);
}

static weir_status plan_layout_find_block(const weir_plan *plan, size_t element_bytes,
                                          weiri_plan_layout *layout)
{
    uint64_t in = layout->in_bytes / weiri_plan_blocks(plan, WEIR_PLAN_INPUT);
    uint64_t out = layout->out_bytes / weiri_plan_blocks(plan, WEIR_PLAN_OUTPUT);
    layout->block_bytes = in;
    layout->block_chunks = weiri_plan_block_chunks(plan);
    if (in != out || in * weiri_plan_blocks(plan, WEIR_PLAN_INPUT) != layout->in_bytes ||
        out * weiri_plan_blocks(plan, WEIR_PLAN_OUTPUT) != layout->out_bytes)
        return plan_layout_reject(plan, "the lengths do not fit its collective", layout->in_bytes,
                                  layout->out_bytes);
    if (in % element_bytes)
        return plan_layout_reject(plan, "each rank's block must consist of whole elements",
                                  layout->in_bytes, layout->out_bytes);
    uint64_t message =
        plan->collective == WEIR_COLL_ALLGATHER ? layout->out_bytes : layout->in_bytes;
    if (message >= plan->min_bytes && message <= plan->max_bytes)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: a message of %llu bytes is outside the plan's range, %llu to %llu "
                      "bytes (min_message_size, max_message_size)",
                      plan->file, (unsigned long long)message, (unsigned long long)plan->min_bytes,
                      (unsigned long long)plan->max_bytes);
}

static void plan_layout_find_chunk(const weir_plan *plan, size_t element_bytes,
                                   weiri_plan_layout *layout)
{
    uint64_t unit = plan->alignment > element_bytes ? plan->alignment : element_bytes;
    uint64_t units = (layout->block_bytes + unit - 1) / unit;
    uint64_t slots = 0;
    layout->alignment = unit;
    /* NOLINTNEXTLINE(*-core.DivideZero): blocks of a valid plan have chunks */
    layout->chunk_bytes = (units + layout->block_chunks - 1) / layout->block_chunks * unit;
    layout->slot_bytes = layout->chunk_bytes * (plan->has_packets ? 2 : 1);
    for (int rank = 0; rank < plan->nranks; rank++)
        if (plan->gpus[rank].chunks[WEIR_PLAN_SCRATCH] > slots)
            slots = plan->gpus[rank].chunks[WEIR_PLAN_SCRATCH];
    layout->half_bytes = slots * layout->slot_bytes;
    layout->scratch_bytes = layout->half_bytes * (plan->double_scratch ? 2 : 1);
}

weir_status weiri_plan_lay_out(const weir_plan *plan, uint64_t in_bytes, uint64_t out_bytes,
                               size_t element_bytes, weiri_plan_layout *layout)
{
    weiri_plan_layout made = {.in_bytes = in_bytes, .out_bytes = out_bytes};
    if (in_bytes % element_bytes || out_bytes % element_bytes)
        return plan_layout_reject(plan, "lengths must be whole elements", in_bytes, out_bytes);
    if ((in_bytes | out_bytes) >> 47)
        return plan_layout_reject(plan, "a length must be less than 2^47 bytes", in_bytes,
                                  out_bytes);
    weir_status status = plan_layout_find_block(plan, element_bytes, &made);
    if (status != WEIR_OK)
        return status;
    plan_layout_find_chunk(plan, element_bytes, &made);
    *layout = made;
    return WEIR_OK;
}

uint64_t weiri_plan_offset(const weiri_plan_layout *layout, weir_plan_buffer buffer, uint32_t index)
{
    if (buffer == WEIR_PLAN_SCRATCH)
        return index * layout->slot_bytes;
    uint64_t within = index % layout->block_chunks * layout->chunk_bytes;
    if (within > layout->block_bytes)
        within = layout->block_bytes;
    return index / layout->block_chunks * layout->block_bytes + within;
}

uint64_t weiri_plan_chunk_bytes(const weiri_plan_layout *layout, weir_plan_buffer buffer,
                                uint32_t index)
{
    if (buffer == WEIR_PLAN_SCRATCH)
        return layout->chunk_bytes;
    uint64_t begin = index % layout->block_chunks * layout->chunk_bytes;
    if (begin >= layout->block_bytes)
        return 0;
    uint64_t left = layout->block_bytes - begin;
    return left < layout->chunk_bytes ? left : layout->chunk_bytes;
}

uint64_t weiri_plan_turns(const weiri_plan_layout *layout, const weiri_plan_op *op)
{
    return (op->num_chunks * layout->chunk_bytes + op->unit_bytes - 1) / op->unit_bytes;
}

/* Offset of a part of the line. The line consists of whole units of the alignment; parts differ by
 * one unit at most. */
static uint64_t plan_layout_part_begin(const weiri_plan_layout *layout, const weiri_plan_op *op,
                                       uint64_t line, uint32_t part)
{
    uint64_t unit = layout->alignment, units = line / unit;
    uint64_t each = units / op->nparts, longer = units % op->nparts;
    return (each * part + (part < longer ? part : longer)) * unit;
}

weiri_plan_span weiri_plan_part(const weiri_plan_layout *layout, const weiri_plan_op *op,
                                uint32_t size, uint64_t turn, uint64_t turn_bytes)
{
    uint64_t line = size * layout->chunk_bytes;
    weiri_plan_span span = {plan_layout_part_begin(layout, op, line, op->part),
                            plan_layout_part_begin(layout, op, line, op->part + 1)};
    if (turn_bytes) {
        uint64_t left = span.end - span.first, at = turn * turn_bytes;
        span.first += at < left ? at : left;
        span.end = span.end - span.first < turn_bytes ? span.end : span.first + turn_bytes;
    }
    return span;
}
