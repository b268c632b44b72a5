/*
 * The backend-independent part of the executor: creation, placement of a call's buffers, and checks
 * of its arguments. Contexts are in contexts.c.
 */
#include "plan/execute/executor.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/words.h"
#include "coll/coll.h"
#include "comm/monitor/monitor.h"

#include <stdio.h>
#include <stdlib.h>

/* --------------------------------------------------------------- creation */

weir_status weir_executor_create(weir_comm *comm, weir_executor **executor)
{
    if (!comm || !executor)
        return weiri_fail(WEIR_ERR_INVALID, "weir_executor_create: comm and executor are required");
    const int on_gpu = weir_comm_backend(comm) == WEIR_BACKEND_CUDA;
    const weiri_executor_ops *ops = on_gpu ? weiri_executor_cuda() : &weiri_executor_host;
    if (!ops)
        return weiri_fail(WEIR_ERR_UNSUPPORTED,
                          "this build has no CUDA and cannot run plans on GPUs");
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_executor_create");
    if (status != WEIR_OK)
        return status;
    weir_executor *made = calloc(1, sizeof *made);
    status = made ? WEIR_OK : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an executor");
    if (made) {
        made->comm = comm;
        made->checks = 1;
        made->ops = ops;
    }
    if (status == WEIR_OK && made->ops->open)
        status = made->ops->open(made);
    const weir_status mine = status;
    status = weiri_setup_end(&setup, weir_boot_agree(comm->boot, mine));
    if (status == WEIR_OK) {
        *executor = made;
        return WEIR_OK;
    }
    if (mine == WEIR_OK && made->ops->close)
        made->ops->close(made);
    free(made);
    return status;
}

void weir_executor_set_checks(weir_executor *executor, int checks)
{
    executor->checks = checks;
}

weir_comm *weir_executor_comm(const weir_executor *executor)
{
    return executor->comm;
}

void weir_executor_destroy(weir_executor *executor)
{
    if (!executor)
        return;
    if (executor->ncontexts) { /* if either fails, no rank uses the contexts any more */
        executor->ops->settle(executor);
        weiri_comm_barrier(executor->comm);
    }
    weiri_executor_free(executor);
}

void weiri_executor_free(weir_executor *executor)
{
    if (!executor)
        return;
    while (executor->ncontexts)
        weiri_plan_context_free(executor, executor->contexts[--executor->ncontexts]);
    if (executor->ops->close)
        executor->ops->close(executor);
    free(executor);
}

/* -------------------------------------------------------------------- runs */

static weir_status check_buffers(const weir_executor *executor, const weir_plan *plan,
                                 const weir_call *call)
{
    const weiri_contract *contract = weiri_contract_of(plan->collective);
    const size_t longer = call->in_bytes > call->out_bytes ? call->in_bytes : call->out_bytes;
    if (WEIRI_LIKELY(!weiri_buffers_may_overlap(call->in, call->out, longer)))
        return WEIR_OK;
    const weiri_buffers of = {call->in, call->out, call->in ? call->in_bytes : 0,
                              call->out ? call->out_bytes : 0,
                              longer / (size_t)weiri_contract_blocks(contract, plan->nranks)};
    return weiri_contract_check_buffers(contract, "", plan->file, WEIRI_IN_PLACE_PLANS,
                                        executor->comm->rank, &of);
}

static weir_status check_call(const weir_executor *executor, const weir_plan *plan,
                              const weir_call *call)
{
    const int nranks = executor->comm->nranks;
    if (plan->nranks != nranks)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: the plan is for %d rank%s, but the communicator has %d; use a plan "
                          "for as many ranks",
                          plan->file, plan->nranks, weiri_s(plan->nranks), nranks);
    if (!weir_dtype_bytes(call->dtype) || (unsigned)call->op >= WEIR_OP_COUNT)
        return weiri_fail(WEIR_ERR_INVALID, "%s: unknown data type or operation", plan->file);
    if (call->stream && !executor->comm->gpu)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: a stream is given, but the communicator uses host memory",
                          plan->file);
    const weiri_contract *contract = weiri_contract_of(plan->collective);
    const int without_in = call->in_bytes == 0 || contract->only_root_reads;
    const int without_out =
        call->out_bytes == 0 || contract->out[WEIRI_ROLE_OTHER] != WEIRI_AFTER_RESULT;
    if ((!call->in && !without_in) || (!call->out && !without_out))
        return weiri_fail(WEIR_ERR_INVALID, "%s: a buffer is NULL", plan->file);
    return check_buffers(executor, plan, call);
}

/* Counts a call that is about to run. */
static void executor_enter(weir_executor *executor, weiri_plan_context *context)
{
    context->used = ++executor->calls;
    if (context->collective >= 0)
        weiri_comm_enter(executor->comm, (weir_collective)context->collective);
}

/* Runs a plan of a collective on a communicator that is monitored. */
static __attribute__((noinline)) weir_status
executor_run_monitored(weir_executor *executor, weiri_plan_context *context, const weir_call *call)
{
    weiri_monitor *monitor = executor->comm->monitor;
    weiri_monitor_call about = {.function = context->collective};
    executor_enter(executor, context);
    const uint64_t begin_ns = weiri_monitor_begin(monitor, context->collective, call->stream);
    if (begin_ns)
        snprintf(about.algo, sizeof about.algo, "plan:%.18s", context->name);
    const weir_status status = executor->ops->run(executor, context, call);
    weiri_monitor_end_buffers(monitor, begin_ns, status, &about, context->layout.in_bytes,
                              context->layout.out_bytes, call->stream);
    return status;
}

weir_status weiri_plan_context_run(weir_executor *executor, weiri_plan_context *context,
                                   const weir_call *call)
{
    if (WEIRI_UNLIKELY(executor->comm->monitor != NULL) && context->collective >= 0)
        return executor_run_monitored(executor, context, call);
    executor_enter(executor, context);
    return executor->ops->run(executor, context, call);
}

/* The error of a call on an aborted communicator. If a kernel has aborted it, the run of the plan's
 * context finds that out too, and says which operation waited. */
static __attribute__((noinline)) weir_status
executor_fail_aborted(weir_executor *executor, const weir_plan *plan, const weir_call *call)
{
    weir_comm *comm = executor->comm;
    weiri_plan_context *context = NULL;
    if (comm->gpu && call && call->size == sizeof *call &&
        weir_load_acquire(comm->guard.abort_word) == WEIR_ABORTED_BY_KERNEL)
        context = weiri_plan_context_find(executor, plan, call, 0);
    return context ? executor->ops->run(executor, context, call)
                   : weiri_comm_fail_call(comm, "weir_executor_run");
}

weir_status weir_executor_run_call(weir_executor *executor, const weir_plan *plan,
                                   const weir_call *call)
{
    weiri_plan_context *context = NULL;
    weir_call own;
    if (WEIRI_UNLIKELY(!executor || !plan))
        return weiri_fail(WEIR_ERR_INVALID, "weir_executor_run: executor and plan are required");
    weir_comm *comm = executor->comm;
    if (WEIRI_UNLIKELY(weiri_comm_is_aborted(comm)))
        return executor_fail_aborted(executor, plan, call);
    weir_status status = weiri_comm_admit(comm, "weir_executor_run");
    if (WEIRI_UNLIKELY(status == WEIR_OK && (!call || call->size != sizeof *call))) {
        status = weiri_call_read("weir_executor_run_call", call, &own);
        call = &own;
    }
    if (WEIRI_LIKELY(status == WEIR_OK))
        status = check_call(executor, plan, call);
    if (WEIRI_LIKELY(status == WEIR_OK))
        status = weiri_plan_context_get(executor, plan, call, 0, &context);
    if (WEIRI_UNLIKELY(status != WEIR_OK || !context))
        return status;
    status = weiri_plan_context_run(executor, context, call);
    return WEIRI_UNLIKELY(status == WEIR_OK && weiri_comm_was_aborted(comm))
               ? weiri_comm_fail_ended(comm, "weir_executor_run")
               : status;
}

weir_status weir_executor_run(weir_executor *executor, const weir_plan *plan, const void *in,
                              void *out, uint64_t in_bytes, uint64_t out_bytes, weir_dtype dtype,
                              weir_op op, weir_stream stream)
{
    const weir_call call = {.size = sizeof call,
                            .dtype = dtype,
                            .op = op,
                            .in = in,
                            .out = out,
                            .stream = stream,
                            .in_bytes = in_bytes,
                            .out_bytes = out_bytes};
    return weir_executor_run_call(executor, plan, &call);
}
