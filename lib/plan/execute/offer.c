/*
 * Ordinary calls that a plan is offered (coll/planned.h). weir_executor_run fails where it cannot
 * run a call; an ordinary call goes to another algorithm instead, on all ranks or on none. So every
 * decision here follows from what is the same on all ranks, or is agreed on:
 *
 *   - A call whose context exists runs in it, if its kernel is known to run on all ranks.
 *   - A call whose context does not exist creates it, unless the executor's contexts are as many or
 *     as large as they may be; then it passes. Contexts are not evicted: calls of ever new lengths
 *     would otherwise create contexts for ever, each of which costs more than many calls.
 *   - Before a context is created, ranks exchange whether their streams are being captured. If one
 *     is, the call passes, as CUDA forbids allocations there.
 *   - If a rank lacks memory, or its GPU cannot run the plan, the plan is not used any more.
 */
#include "plan/execute/executor.h"

#include "base/error.h"
#include "comm/gpu/gpu.h"

/* The bytes that a context holds, as far as they are the same on all ranks. */
static uint64_t offer_bytes(const weiri_plan_layout *layout, int any_buffers, int has_root)
{
    return layout->scratch_bytes +
           (any_buffers || has_root ? layout->in_bytes + layout->out_bytes : 0);
}

/* Whether one more context may be created. Every rank comes to the same result. */
static int offer_has_room(const weir_executor *executor, const weiri_plan_offer *offer)
{
    const weir_call *call = &offer->call;
    weiri_plan_layout layout;
    uint64_t bytes, ports = offer->ports;
    if (weiri_plan_lay_out(offer->plan, call->in_bytes, call->out_bytes,
                           weir_dtype_bytes(call->dtype), &layout) != WEIR_OK)
        return 0;
    bytes = offer_bytes(&layout, offer->any_buffers, weiri_plan_has_root(offer->plan));
    for (int i = 0; i < executor->ncontexts; i++) {
        const weiri_plan_context *held = executor->contexts[i];
        bytes += offer_bytes(&held->layout, held->any_buffers, held->has_root);
        ports += held->ports;
    }
    return !executor->ncontexts || (executor->ncontexts < WEIRI_PLAN_CONTEXTS_MAX &&
                                    bytes <= WEIRI_CONTEXTS_BYTES && ports <= WEIRI_CONTEXTS_PORTS);
}

static weiri_plan_context *offer_find(const weir_executor *executor, const weiri_plan_offer *offer)
{
    return weiri_plan_context_find(executor, offer->plan, &offer->call, offer->any_buffers);
}

int weiri_plan_has_context(const weir_executor *executor, const weiri_plan_offer *offer)
{
    return offer_find(executor, offer) != NULL;
}

/* The bit of a call's type in a context, and the word with it. */
static uint32_t offer_type(weiri_plan_context *context, const weir_call *call, uint32_t **types)
{
    *types = &context->types[call->op != WEIR_SUM];
    return (uint32_t)1 << call->dtype;
}

int weiri_plan_waits(const weir_executor *executor, const weiri_plan_offer *offer)
{
    weiri_plan_context *context = offer_find(executor, offer);
    uint32_t *types;
    if (!context)
        return offer_has_room(executor, offer);
    return executor->ops->fit && !(offer_type(context, &offer->call, &types) & *types);
}

/* Whether any rank's stream is being captured. Collective. */
static weir_status offer_ask_captures(const weir_executor *executor, weir_stream stream,
                                      int *captures)
{
    weir_comm *comm = executor->comm;
    unsigned char all[WEIRI_PLAN_RANKS_MAX] = {0};
    *captures = 0;
    if (!comm->gpu)
        return WEIR_OK;
    all[comm->rank] = (unsigned char)comm->gpu->ops->captures(comm, stream);
    weir_status status = weir_boot_allgather(comm->boot, all, sizeof *all);
    for (int rank = 0; rank < comm->nranks; rank++)
        *captures |= all[rank];
    return status;
}

static weir_status offer_create(weir_executor *executor, const weiri_plan_offer *offer,
                                weiri_plan_context **context)
{
    int captures = 0;
    uint32_t *types;
    weir_status status = offer_ask_captures(executor, offer->call.stream, &captures);
    if (status != WEIR_OK || captures)
        return status;
    status =
        weiri_plan_context_get(executor, offer->plan, &offer->call, offer->any_buffers, context);
    if (status == WEIR_OK && *context) {
        const uint32_t type = offer_type(*context, &offer->call, &types);
        *types |= type; /* its creation has checked the kernel */
    }
    return status;
}

/* Agrees on whether the kernel for a call's type runs on all ranks. Collective. */
static weir_status offer_check_type(weir_executor *executor, weiri_plan_context *context,
                                    const weir_call *call)
{
    uint32_t *types;
    const uint32_t type = offer_type(context, call, &types);
    if (!executor->ops->fit || *types & type)
        return WEIR_OK;
    weir_status status =
        weir_boot_agree(executor->comm->boot, executor->ops->fit(executor, context, call));
    if (status == WEIR_OK)
        *types |= type;
    return status;
}

weir_status weiri_plan_accept(weir_executor *executor, const weiri_plan_offer *offer,
                              weiri_plan_context **context, int *never)
{
    weir_status status = WEIR_OK;
    *never = 0;
    *context = offer_find(executor, offer);
    if (*context)
        status = offer_check_type(executor, *context, &offer->call);
    else if (offer_has_room(executor, offer))
        status = offer_create(executor, offer, context);
    if (status == WEIR_OK)
        return WEIR_OK;
    *context = NULL;
    *never = status == WEIR_ERR_UNSUPPORTED || status == WEIR_ERR_NO_MEMORY;
    return *never ? WEIR_OK : status;
}
