/*
 * The calls of weir/moe.h on a group: what all backends have in common. Opening a call checks what
 * other ranks do not learn, and copies the arguments. The group's backend then runs the call, as a
 * whole or in two halves.
 */
#include "moe/group.h"

#include "base/error.h"

#include <string.h>

/* Checks that a call can be sent, and copies its arguments. */
static weir_status call_open(weir_moe *g, moe_kind kind, const void *args, moe_call *call)
{
    const int is_dispatch = kind == MOE_DISPATCH;
    if (!g)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_%s: group is required",
                          is_dispatch ? "dispatch" : "combine");
    weir_status status = weiri_moe_check_send(g, kind);
    if (status != WEIR_OK)
        return status;
    memset(call, 0, sizeof *call);
    if (is_dispatch) {
        call->dispatch = (weir_moe_dispatch_args)WEIR_MOE_DISPATCH_ARGS_INIT;
        weiri_moe_read_args(call, "weir_moe_dispatch_args", args, &call->dispatch,
                            sizeof call->dispatch);
    } else {
        call->combine = (weir_moe_combine_args)WEIR_MOE_COMBINE_ARGS_INIT;
        weiri_moe_read_args(call, "weir_moe_combine_args", args, &call->combine,
                            sizeof call->combine);
    }
    return WEIR_OK;
}

/* Runs phases of a call. What a rank read while another one aborted may be wrong. */
static weir_status call_run(weir_moe *g, moe_kind kind, const moe_call *call, int phases)
{
    const weir_status status = g->ops->run[kind](g, call, phases);
    return status == WEIR_OK && weiri_comm_was_aborted(g->comm)
               ? weiri_comm_fail_ended(g->comm, kind == MOE_DISPATCH ? "weir_moe_dispatch"
                                                                     : "weir_moe_combine")
               : status;
}

static weir_status call_send(weir_moe *g, moe_kind kind, const void *args)
{
    moe_call call;
    weir_status status = call_open(g, kind, args, &call);
    if (status == WEIR_OK)
        status = call_run(g, kind, &call, MOE_PHASE_SEND);
    if (status != WEIR_OK)
        return status;
    call.number = g->ops->numbers_calls ? g->calls : ++g->calls;
    g->under_way[kind] = call;
    return WEIR_OK;
}

static weir_status call_complete(weir_moe *g, moe_kind kind)
{
    if (!g)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_%s_complete: group is required",
                          kind == MOE_DISPATCH ? "dispatch" : "combine");
    weir_status status = weiri_moe_check_complete(g, kind);
    if (status != WEIR_OK)
        return status;
    status = call_run(g, kind, &g->under_way[kind], MOE_PHASE_COMPLETE);
    g->under_way[kind].number = 0;
    return status;
}

static weir_status call_whole(weir_moe *g, moe_kind kind, const void *args)
{
    moe_call call;
    weir_status status;
    if (!g || !g->ops->runs_whole) {
        status = call_send(g, kind, args);
        return status == WEIR_OK ? call_complete(g, kind) : status;
    }
    status = call_open(g, kind, args, &call);
    return status == WEIR_OK ? call_run(g, kind, &call, MOE_PHASE_SEND | MOE_PHASE_COMPLETE)
                             : status;
}

weir_status weir_moe_dispatch_send(weir_moe *g, const weir_moe_dispatch_args *args)
{
    return call_send(g, MOE_DISPATCH, args);
}

weir_status weir_moe_dispatch_complete(weir_moe *g)
{
    return call_complete(g, MOE_DISPATCH);
}

weir_status weir_moe_dispatch(weir_moe *g, const weir_moe_dispatch_args *args)
{
    return call_whole(g, MOE_DISPATCH, args);
}

weir_status weir_moe_combine_send(weir_moe *g, const weir_moe_combine_args *args)
{
    return call_send(g, MOE_COMBINE, args);
}

weir_status weir_moe_combine_complete(weir_moe *g)
{
    return call_complete(g, MOE_COMBINE);
}

weir_status weir_moe_combine(weir_moe *g, const weir_moe_combine_args *args)
{
    return call_whole(g, MOE_COMBINE, args);
}

weir_status weir_moe_locate(const weir_moe *g, int handle, int token, int choice, int *rank,
                            int *row)
{
    if (!g || !rank || !row)
        return weiri_fail(WEIR_ERR_INVALID, "weir_moe_locate: group, rank and row are required");
    return g->ops->locate(g, handle, token, choice, rank, row);
}
