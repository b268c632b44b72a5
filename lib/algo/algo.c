/*
 * The algorithm object, and the functions that execute algorithms of any kind: they check the call,
 * obtain its context (context.c), and launch it.
 */
#include "algo/algo.h"

#include "base/contract.h"
#include "base/error.h"
#include "coll/coll.h"
#include "comm/gpu/gpu.h"
#include "comm/monitor/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof((weiri_coll *)0)->executed == WEIR_ALGO_NAME_BYTES, "a name fits");

weir_status weir_algo_create(const char *name, weir_collective collective, const weir_algo_ops *ops,
                             void *state, weir_algo **algo)
{
    if (!name || !*name || strlen(name) >= WEIR_ALGO_NAME_BYTES || !algo ||
        (unsigned)collective >= WEIR_COLL_COUNT)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_algo_create: a name of 1 to %d characters, a collective and algo "
                          "are required",
                          WEIR_ALGO_NAME_BYTES - 1);
    if (!ops || !ops->launch || !ops->context_key != !ops->context_create ||
        !ops->context_key != !ops->context_destroy)
        return weiri_fail(WEIR_ERR_INVALID,
                          "algorithm %s: launch is required, and of context_key, context_create "
                          "and context_destroy all or none",
                          name);
    if (ops->contexts_max < 0 || ops->contexts_max > WEIRI_CONTEXTS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "algorithm %s: contexts_max is %d; expected 0 to %d",
                          name, ops->contexts_max, WEIRI_CONTEXTS_MAX);
    weir_algo *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an algorithm");
    made->object.execute = weir_algo_execute;
    snprintf(made->name, sizeof made->name, "%s", name);
    snprintf(made->summary, sizeof made->summary, "custom algorithm");
    made->collective = collective;
    made->ops = ops;
    made->state = state;
    *algo = made;
    return WEIR_OK;
}

void weir_algo_destroy(weir_algo *algo)
{
    if (!algo)
        return;
    while (algo->instances) {
        weiri_algo_instance *instance = algo->instances;
        algo->instances = instance->next;
        weiri_contexts_destroy(algo, instance);
        free(instance);
    }
    if (algo->ops->destroy)
        algo->ops->destroy(algo->state);
    free(algo);
}

const char *weir_algo_name(const weir_algo *algo)
{
    return algo->name;
}

weir_collective weir_algo_collective(const weir_algo *algo)
{
    return algo->collective;
}

const char *weir_algo_summary(const weir_algo *algo)
{
    return algo->summary;
}

const void *weir_call_extra(const weir_call *call, const char *name)
{
    for (const weir_algo_extra *extra = call->extras; extra && extra->name; extra++)
        if (strcmp(extra->name, name) == 0)
            return extra->pointer;
    return NULL;
}

/* ---------------------------------------------------------------- execution */

static weiri_algo_instance *algo_find_instance(const weir_algo *algo, const weir_comm *comm)
{
    weiri_algo_instance *instance = algo->instances;
    while (instance && instance->comm != comm)
        instance = instance->next;
    return instance;
}

int weir_algo_contexts(const weir_algo *algo, const weir_comm *comm)
{
    const weiri_algo_instance *instance = algo_find_instance(algo, comm);
    int count = 0;
    for (int i = 0; instance && i < WEIRI_CONTEXTS_MAX; i++)
        count += instance->contexts[i].used;
    return count;
}

static weir_status algo_check_buffers(const weir_algo *algo, const weir_comm *comm,
                                      const weir_call *call)
{
    const weiri_contract *contract = weiri_contract_of((int)algo->collective);
    const size_t longer = call->in_bytes > call->out_bytes ? call->in_bytes : call->out_bytes;
    const weiri_buffers of = {call->in, call->out, call->in_bytes, call->out_bytes,
                              longer / (size_t)weiri_contract_blocks(contract, comm->nranks)};
    if (algo->is_builtin) /* weir_run checks it */
        return WEIR_OK;
    if (call->splits)
        return weiri_contract_check_splits(call->splits, "algorithm ", algo->name,
                                           weir_dtype_bytes(call->dtype), comm->nranks, &of);
    return weiri_contract_check_buffers(contract, "algorithm ", algo->name, WEIRI_IN_PLACE_PLANS,
                                        comm->rank, &of);
}

/* The checks that apply to algorithms of every kind. */
static weir_status algo_check_call(const weir_algo *algo, weir_comm *comm, const weir_call *call)
{
    if (!weir_dtype_bytes(call->dtype) || (unsigned)call->op >= WEIR_OP_COUNT)
        return weiri_fail(WEIR_ERR_INVALID, "algorithm %s: unknown data type or operation",
                          algo->name);
    if ((call->in_bytes && !call->in) || (call->out_bytes && !call->out))
        return weiri_fail(WEIR_ERR_INVALID, "algorithm %s: a buffer is NULL", algo->name);
    if (call->blocks < 0 || call->threads < 0 || call->threads > 1024)
        return weiri_fail(WEIR_ERR_INVALID,
                          "algorithm %s: a grid of %d blocks of %d threads; expected 0 or more "
                          "blocks, 0 to 1024 threads",
                          algo->name, call->blocks, call->threads);
    if (call->stream && !comm->gpu && !comm->gpu_comm)
        return weiri_fail(WEIR_ERR_INVALID, "algorithm %s: host memory takes no stream",
                          algo->name);
    return algo_check_buffers(algo, comm, call);
}

static weir_status algo_check_gpu_call(weir_comm *comm, const weir_call *call)
{
    const weiri_gpu_ops *gpu = comm->gpu->ops;
    weir_status status = gpu->check_stream(comm, call->stream);
    if (status == WEIR_OK)
        status = gpu->check_buffer(comm, call->in, call->in_bytes);
    if (status == WEIR_OK)
        status = gpu->check_buffer(comm, call->out, call->out_bytes);
    return status;
}

/* Prepares an algorithm for its first call on a communicator. Collective; if the call's check
 * failed on any rank, the call fails on all. */
static weir_status algo_attach(weir_algo *algo, weir_comm *comm, weir_status mine,
                               weiri_algo_instance **instance)
{
    weiri_algo_instance *made = calloc(1, sizeof *made);
    if (!made && mine == WEIR_OK)
        mine = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for algorithm %s", algo->name);
    weir_status status = weir_boot_agree(comm->boot, mine);
    if (status == WEIR_OK && algo->ops->initialise)
        status = weir_boot_agree(comm->boot, algo->ops->initialise(algo->state, comm));
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    made->comm = comm;
    made->next = algo->instances;
    algo->instances = made;
    *instance = made;
    return WEIR_OK;
}

/* Records the call for weir_comm_last_algo and error reports. */
static void algo_note_call(const weir_algo *algo, weir_comm *comm)
{
    weiri_coll *coll = NULL;
    weiri_comm_enter(comm, algo->collective);
    if (weiri_coll_get(comm, &coll) != WEIR_OK)
        return;
    memcpy(coll->executed, algo->name, sizeof coll->executed);
    coll->last_algo = coll->executed;
    comm->last_blocks = 0; /* unknown: it launches its own kernels */
}

/* Launches an algorithm of a program. */
static weir_status algo_launch_own(const weir_algo *algo, void *context, weir_comm *comm,
                                   const weir_call *call)
{
    weiri_monitor *monitor = comm->monitor;
    algo_note_call(algo, comm);
    if (!monitor)
        return algo->ops->launch(algo->state, context, comm, call);
    weiri_monitor_call about = {.function = (int)algo->collective};
    const uint64_t begin_ns = weiri_monitor_begin(monitor, about.function, call->stream);
    if (begin_ns)
        snprintf(about.algo, sizeof about.algo, "%.23s", algo->name);
    const weir_status status = algo->ops->launch(algo->state, context, comm, call);
    weiri_monitor_end_buffers(monitor, begin_ns, status, &about, call->in_bytes, call->out_bytes,
                              call->stream);
    return status;
}

/* What the first call of an algorithm, or of a context, needs of all ranks. mine: whether this rank
 * can make the call. */
static weir_status algo_prepare(weir_algo *algo, weir_comm *comm, const weir_call *call,
                                weir_status mine, void **context)
{
    weiri_algo_instance *instance = algo_find_instance(algo, comm);
    weiri_setup setup;
    weir_status status = weiri_setup_begin(&setup, comm, "weir_algo_execute");
    if (status != WEIR_OK)
        return status;
    status = instance ? mine : algo_attach(algo, comm, mine, &instance);
    if (instance && algo->ops->context_key)
        status = weiri_context_take(algo, instance, call, status, context);
    return weiri_setup_end(&setup, status);
}

static weir_status algo_execute_call(weir_algo *algo, weir_comm *comm, const weir_call *call)
{
    void *context = NULL;
    weir_status status = WEIRI_UNLIKELY(weiri_comm_is_aborted(comm))
                             ? weiri_comm_fail_call(comm, "weir_algo_execute")
                             : weiri_comm_admit(comm, "weir_algo_execute");
    if (status != WEIR_OK)
        return status;
    status = algo_check_call(algo, comm, call);
    if (status == WEIR_OK && comm->gpu && !algo->is_builtin)
        status = algo_check_gpu_call(comm, call);
    if (algo->ops->context_key || algo->ops->initialise)
        status = algo_prepare(algo, comm, call, status, &context);
    if (status != WEIR_OK)
        return status;
    status = algo->is_builtin ? algo->ops->launch(algo->state, context, comm, call)
                              : algo_launch_own(algo, context, comm, call);
    return status == WEIR_OK && weiri_comm_was_aborted(comm)
               ? weiri_comm_fail_ended(comm, "weir_algo_execute")
               : status;
}

weir_status weir_algo_execute(weir_algo *algo, weir_comm *comm, const weir_call *call)
{
    weir_call full;
    if (!algo || !comm)
        return weiri_fail(WEIR_ERR_INVALID, "weir_algo_execute: algo and comm are required");
    weir_status status = weiri_call_read("weir_algo_execute", call, &full);
    if (status != WEIR_OK)
        return status;
    full.collective = algo->collective;
    full.scratch = algo->scratch;
    if (!full.in_bytes && !full.out_bytes)
        weiri_call_set_lengths(comm, &full);
    return algo_execute_call(algo, comm, &full);
}

static int call_integer_extra(const weir_call *call, const char *name, int fallback)
{
    const int *given = weir_call_extra(call, name);
    return given ? *given : fallback;
}

weir_status weir_algo_execute_args(weir_algo *algo, weir_comm *comm, const void *in, void *out,
                                   size_t in_bytes, size_t out_bytes, weir_dtype dtype, weir_op op,
                                   weir_stream stream, weir_executor *executor, int nblocks,
                                   int nthreads, const weir_algo_extra *extras)
{
    if (!algo || !comm)
        return weiri_fail(WEIR_ERR_INVALID, "weir_algo_execute_args: algo and comm are required");
    weir_call call = {.size = sizeof call,
                      .collective = algo->collective,
                      .dtype = dtype,
                      .op = op,
                      .in = in,
                      .out = out,
                      .stream = stream,
                      .in_bytes = in_bytes,
                      .out_bytes = out_bytes,
                      .blocks = nblocks,
                      .threads = nthreads,
                      .extras = extras,
                      .executor = executor,
                      .scratch = algo->scratch};
    call.root = call_integer_extra(&call, "root", 0);
    call.destination = call_integer_extra(&call, "destination", -1);
    call.source = call_integer_extra(&call, "source", -1);
    const weir_splits splits = {
        weir_call_extra(&call, "send_counts"), weir_call_extra(&call, "send_displs"),
        weir_call_extra(&call, "recv_counts"), weir_call_extra(&call, "recv_displs")};
    if (algo->collective == WEIR_COLL_ALLTOALLV)
        call.splits = &splits;
    return algo_execute_call(algo, comm, &call);
}
