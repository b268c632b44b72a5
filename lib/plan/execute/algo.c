/* A plan as an algorithm object: weir_algo_from_plan, and the operations that it gives to
 * weir_algo_execute. */
#include "algo/algo.h"

#include "base/error.h"
#include "plan/format/plan.h"

#include <stdio.h>

static weir_status plan_algo_launch(void *state, void *context, weir_comm *comm,
                                    const weir_call *call)
{
    const weir_plan *plan = state;
    (void)context;
    if (!call->executor)
        return weiri_fail(WEIR_ERR_INVALID,
                          "plan %s: an executor is required; create one with weir_executor_create",
                          plan->name);
    if (weir_executor_comm(call->executor) != comm)
        return weiri_fail(WEIR_ERR_INVALID, "plan %s: the executor belongs to another communicator",
                          plan->name);
    return weir_executor_run_call(call->executor, plan, call);
}

weir_status weir_algo_from_plan(const weir_plan *plan, weir_algo **algo)
{
    WEIRI_REQUIRE(plan && algo);
    static const weir_algo_ops ops = {.launch = plan_algo_launch};
    char name[WEIR_ALGO_NAME_BYTES];
    weir_algo *made = NULL;
    if (plan->collective < 0)
        return weiri_fail(WEIR_ERR_INVALID,
                          "plan %s: '%.40s' is not a collective of weir; run it with "
                          "weir_executor_run",
                          plan->name, plan->collective_name);
    snprintf(name, sizeof name, "%s", plan->name);
    weir_status status = weir_algo_create(name, (weir_collective)plan->collective, &ops,
                                          (void *)(uintptr_t)plan, &made);
    if (status != WEIR_OK)
        return status;
    snprintf(made->summary, sizeof made->summary, "plan of %d ranks, %s (%.180s)", plan->nranks,
             plan->in_place ? "in place" : "out of place", plan->file);
    *algo = made;
    return WEIR_OK;
}
