/* Where the buffers and steps of a plan are. */
#include "plan/execute/executor.h"
#include "base/contract.h"

#include <stdio.h>

uint64_t weiri_region_in_offset(const weiri_plan_context *context, int rank)
{
    return context->out_blocks > context->in_blocks ? (uint64_t)rank * context->layout.block_bytes
                                                    : 0;
}

uint64_t weiri_region_out_offset(const weiri_plan_context *context, int rank)
{
    return context->in_blocks > context->out_blocks ? (uint64_t)rank * context->layout.block_bytes
                                                    : 0;
}

/* Whether a call with two buffers may use the output as the region of a plan in place: it is as
 * long as the region, and the result fills it on every rank. */
static int output_can_be_region(const weiri_plan_context *context)
{
    const weiri_contract *contract = weiri_contract_of(context->collective);
    return context->layout.out_bytes >= context->layout.in_bytes &&
           contract->out[WEIRI_ROLE_OTHER] == WEIRI_AFTER_RESULT;
}

/* Placement for a plan for use in place. In a call with two buffers, the region is a staging buffer
 * if the caller's output cannot be it; the input must not change. */
static weiri_placement place_region(const weiri_plan_context *context, int rank,
                                    const weir_call *call)
{
    const weiri_plan_layout *layout = &context->layout;
    weiri_placement made = {.one_region = 1};
    made.in_offset = weiri_region_in_offset(context, rank);
    made.out_offset = weiri_region_out_offset(context, rank);
    made.region_bytes = layout->in_bytes > layout->out_bytes ? layout->in_bytes : layout->out_bytes;
    const int in_place =
        call->in && call->out &&
        (const char *)call->in + made.out_offset == (char *)call->out + made.in_offset;
    if (in_place)
        made.region = (char *)call->in - made.in_offset;
    else
        made.region = output_can_be_region(context) ? call->out : NULL;
    made.copies_in = call->in && (!in_place || !made.region);
    made.copies_out = call->out && !made.region;
    made.in = made.region ? made.region + made.in_offset : NULL;
    made.out = made.region ? made.region + made.out_offset : NULL;
    return made;
}

weiri_placement weiri_executor_place(const weiri_plan_context *context, int rank,
                                     const weir_call *call)
{
    if (context->in_place)
        return place_region(context, rank, call);
    weiri_placement made = {.in = (char *)call->in, .out = call->out};
    if (weiri_plan_overlap(call)) {
        made.in = NULL;
        made.copies_in = 1;
    }
    return made;
}

int weiri_plan_has_result(const weiri_plan_context *context)
{
    const weiri_contract *contract = weiri_contract_of(context->collective);
    const int rank = context->program->rank;
    const int root = context->proof.root;
    return root < 0 ||
           contract->out[weiri_contract_role(contract, rank, root)] == WEIRI_AFTER_RESULT;
}

const char *weiri_step_where(const weiri_plan_context *context, const weiri_program_block *block,
                             const weiri_step *step, char *text)
{
    snprintf(text, WEIRI_PLAN_WHERE_BYTES, "%.160s: rank %d, thread block %u, op %u (%s)",
             context->name, context->program->rank, block->id, step->op,
             weiri_plan_kind_name((weiri_plan_kind)step->plan_kind));
    return text;
}

int weiri_plan_overlap(const weir_call *call)
{
    const char *in = call->in, *out = call->out;
    return in && out && in < out + call->out_bytes && out < in + call->in_bytes;
}

int weiri_plan_may_stage(const weiri_plan_context *context, int which)
{
    const weiri_contract *contract = weiri_contract_of(context->collective);
    if (context->in_place)
        return !which && !output_can_be_region(context);
    return context->has_root || (!which && contract->in_place == WEIRI_IN_PLACE_CALLS);
}
