/*
 * The door of all collectives. weir_run checks a call, makes its task (task.h), selects the
 * algorithm and runs it; the named functions fill a weir_call for it. Everything here is on the
 * path of an 8-byte allreduce.
 */
#include "base/contract.h"
#include "base/error.h"
#include "coll/algos.h"
#include "coll/planned.h"
#include "comm/called.h"
#include "compute/copy.h"
#include "comm/gpu/gpu.h"
#include "comm/monitor/monitor.h"
#include "comm/monitor/recorder.h"

#include <stdio.h>
#include <string.h>

/* Counts and displacements have at most so many bits: more elements than any memory holds, and few
 * enough that sums of bytes over all ranks do not overflow. */
enum { COUNT_BITS = 46 };
_Static_assert((uint64_t)8 * WEIRI_RANKS_MAX << COUNT_BITS <= (uint64_t)1 << 62, "sums fit");

/* Functions on the way from a named call to its algorithm: inlined there, where the compiler knows
 * the collective and most members of weir_call. */
#define ON_CALL_PATH inline __attribute__((always_inline))

static weir_status call_refuse(const weir_call *call, const char *what)
{
    const char *name = weir_collective_name(call->collective);
    return weiri_fail(WEIR_ERR_INVALID, "weir_%s: %s", name ? name : "run", what);
}

static int call_survives_abort(const weir_comm *comm)
{
    return comm->aborts_locally && weir_load_acquire(comm->guard.abort_word) == WEIRI_ABORT_ASKED;
}

static __attribute__((noinline)) weir_status
call_fail_aborted(weir_comm *comm, const weir_call *call,
                  weir_status (*fail)(weir_comm *comm, const char *function))
{
    char function[32];
    snprintf(function, sizeof function, "weir_%s", weir_collective_name(call->collective));
    return fail(comm, function);
}

/* The checks that all collectives have in common. */
static ON_CALL_PATH weir_status call_check(weir_comm *comm, const weir_call *call,
                                           size_t element_bytes)
{
    if (WEIRI_UNLIKELY((unsigned)call->collective >= WEIR_COLL_COUNT))
        return call_refuse(call, "unknown collective");
    if (WEIRI_UNLIKELY(!comm))
        return call_refuse(call, "comm is required");
    if (weiri_comm_is_forked(comm))
        return weiri_fork_fail("communicator");
    if (WEIRI_UNLIKELY(weiri_comm_is_aborted(comm)) && !call_survives_abort(comm))
        return call_fail_aborted(comm, call, weiri_comm_fail_call);
    if (WEIRI_UNLIKELY(!element_bytes || (unsigned)call->op >= WEIR_OP_COUNT))
        return call_refuse(call, "unknown data type or operation");
    if (WEIRI_UNLIKELY(call->stream && !comm->gpu))
        return call_refuse(call, "host memory takes no stream");
    if (WEIRI_UNLIKELY((call->count | call->recv_count) >> COUNT_BITS))
        return call_refuse(call, "count is too large");
    if (WEIRI_UNLIKELY(call->root < 0 || call->root >= comm->nranks))
        return call_refuse(call, "root is outside the communicator");
    return WEIR_OK;
}

/* The sizes of a task that follow from the call. */
static ON_CALL_PATH void task_derive(weiri_task *task, const weiri_coll *coll,
                                     const weir_call *call, size_t element_bytes)
{
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    task->call = call;
    task->elements = weiri_call_elements(call);
    task->element_bytes = element_bytes;
    task->count_bytes = task->elements * task->element_bytes;
    task->size_bytes = task->count_bytes * (size_t)weiri_contract_blocks(contract, coll->nranks);
    task->choice = NULL;
    task->pairs = coll->pairs;
    task->memory = WEIRI_TASK_AS_GIVEN;
}

/* ------------------------------------------------- buffers that must not overlap */

static weir_status call_check_buffers(const weir_comm *comm, const weir_call *call,
                                      const weiri_buffers *of)
{
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    return weiri_contract_check_buffers(contract, "weir_", contract->name, WEIRI_IN_PLACE_CALLS,
                                        comm->rank, of);
}

/* As call_check_buffers, for a call whose buffers have one block, or one for each rank. */
static weir_status call_check_blocks(const weir_comm *comm, const weiri_task *task)
{
    const weir_call *call = task->call;
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    const size_t all = task->size_bytes, one = task->count_bytes;
    weiri_buffers of = {.in = call->in, .out = call->out, .block_bytes = one};
    if (WEIRI_LIKELY(contract->in_place == WEIRI_IN_PLACE_CALLS &&
                     weiri_contract_is_in_place(contract, comm->rank, &of)))
        return WEIR_OK;
    if (weiri_contract_reads(contract, comm->rank, call->root))
        of.in_bytes = contract->in_has_blocks ? all : one;
    if (weiri_contract_writes(contract, comm->rank, call->root))
        of.out_bytes = contract->out_has_blocks ? all : one;
    return call_check_buffers(comm, call, &of);
}

/* ----------------------------------------------------- pairwise collectives */

/* Pairwise calls may send or receive nothing, and then need no buffer: any valid pointer replaces
 * it. */
static const char *pair_from(const weiri_coll *coll, const weiri_task *task, size_t count,
                             size_t displ)
{
    return count ? weiri_in_at(task, displ * task->element_bytes) : (const char *)coll->sources;
}

static char *pair_to(const weiri_coll *coll, const weiri_task *task, size_t count, size_t displ)
{
    return count ? weiri_out_at(task, displ * task->element_bytes) : (char *)coll->sources;
}

static inline void pair_fill(weiri_coll *coll, const weiri_task *task, int peer, size_t send,
                             size_t send_at, size_t recv, size_t recv_at)
{
    const size_t size = task->element_bytes;
    coll->pairs[peer] = (weiri_pair){pair_from(coll, task, send, send_at),
                                     pair_to(coll, task, recv, recv_at),
                                     send * size,
                                     recv * size,
                                     1,
                                     1};
}

/* Fills the pairs from splits. The task's size becomes the larger one of the bytes sent and
 * received. */
static weir_status task_fill_splits(weiri_coll *coll, weiri_task *task)
{
    const weir_call *call = task->call;
    const weir_splits *splits = call->splits;
    size_t sent = 0, received = 0, size = task->element_bytes, all = 0, end = 0;
    for (int peer = 0; peer < coll->nranks; peer++)
        all |= splits->send_counts[peer] | splits->send_displs[peer] | splits->recv_counts[peer] |
               splits->recv_displs[peer];
    if (WEIRI_UNLIKELY(all >> COUNT_BITS))
        return call_refuse(call, "a count or displacement is too large");
    for (int peer = 0; peer < coll->nranks; peer++) {
        size_t send = splits->send_counts[peer], recv = splits->recv_counts[peer];
        const size_t send_end = send + splits->send_displs[peer];
        const size_t recv_end = recv + splits->recv_displs[peer];
        sent += send * size;
        received += recv * size;
        end = send_end > end ? send_end : end;
        end = recv_end > end ? recv_end : end;
        pair_fill(coll, task, peer, send, splits->send_displs[peer], recv,
                  splits->recv_displs[peer]);
    }
    task->size_bytes = sent > received ? sent : received;
    if (WEIRI_UNLIKELY((sent && !call->in) || (received && !call->out)))
        return call_refuse(call, "a buffer is NULL");
    const weiri_pair *self = &coll->pairs[coll->rank];
    if (WEIRI_UNLIKELY(self->send_bytes != self->recv_bytes))
        return call_refuse(call, "this rank's counts for itself differ");
    return WEIRI_UNLIKELY(weiri_buffers_may_overlap(call->in, call->out, end * size))
               ? weiri_contract_check_splits(splits, "weir_", "alltoallv", size, coll->nranks,
                                             &(weiri_buffers){.in = call->in, .out = call->out})
               : WEIR_OK;
}

static int split_fits(uint64_t count, uint64_t displ, size_t elements)
{
    return !count || (displ <= elements && count <= elements - displ);
}

/* Host: reads the arrays now. An error aborts the communicator, because peers with correct counts
 * would wait for this rank. */
static weir_status task_read_device_splits(weiri_coll *coll, const weiri_task *task)
{
    const weir_call *call = task->call;
    const weir_device_splits *splits = call->device_splits;
    size_t size = task->element_bytes;
    for (int peer = 0; peer < coll->nranks; peer++) {
        uint64_t send = splits->send_counts[peer], send_at = splits->send_displs[peer];
        uint64_t recv = splits->recv_counts[peer], recv_at = splits->recv_displs[peer];
        int in_fits = split_fits(send, send_at, call->in_bytes / size);
        if (!in_fits || !split_fits(recv, recv_at, call->out_bytes / size)) {
            weiri_fail(WEIR_ERR_INVALID,
                       "rank %d: weir_alltoallv_device: %llu elements to be %s rank %d, from "
                       "element %llu on, exceed the buffer's %zu bytes",
                       coll->rank, (unsigned long long)(in_fits ? recv : send),
                       in_fits ? "received from" : "sent to", peer,
                       (unsigned long long)(in_fits ? recv_at : send_at),
                       in_fits ? call->out_bytes : call->in_bytes);
            return weiri_comm_give_up(coll->comm, WEIR_ERR_INVALID);
        }
        pair_fill(coll, task, peer, send, send_at, recv, recv_at);
    }
    const weiri_pair *self = &coll->pairs[coll->rank];
    if (self->send_bytes == self->recv_bytes)
        return WEIR_OK;
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d: weir_alltoallv_device: this rank's counts for itself differ: %zu bytes "
               "are sent, %zu expected",
               coll->rank, self->send_bytes, self->recv_bytes);
    return weiri_comm_give_up(coll->comm, WEIR_ERR_MISMATCH);
}

static weir_status task_take_device_splits(weiri_coll *coll, weiri_task *task)
{
    const weir_call *call = task->call;
    const weir_device_splits *s = call->device_splits;
    if (WEIRI_UNLIKELY(!s->send_counts || !s->send_displs || !s->recv_counts || !s->recv_displs))
        return call_refuse(call, "counts and displacements are required");
    if (WEIRI_UNLIKELY((call->in_bytes && !call->in) || (call->out_bytes && !call->out)))
        return call_refuse(call, "a buffer is NULL; its size must then be 0");
    if (WEIRI_UNLIKELY((call->in_bytes | call->out_bytes) >> WEIRI_SPLIT_BITS))
        return call_refuse(call, "a buffer is longer than any machine's memory");
    task->size_bytes = call->in_bytes > call->out_bytes ? call->in_bytes : call->out_bytes;
    const weiri_buffers of = {call->in, call->out, call->in_bytes, call->out_bytes, 0};
    weir_status status = call_check_buffers(coll->comm, call, &of);
    return status == WEIR_OK && !coll->comm->gpu ? task_read_device_splits(coll, task) : status;
}

static weir_status task_alltoallv(weiri_coll *coll, weiri_task *task)
{
    const weir_splits *s = task->call->splits;
    if (task->call->device_splits)
        return task_take_device_splits(coll, task);
    if (WEIRI_UNLIKELY(!s || !s->send_counts || !s->send_displs || !s->recv_counts ||
                       !s->recv_displs))
        return call_refuse(task->call, "counts and displacements are required");
    return task_fill_splits(coll, task);
}

static int is_peer_or_none(const weir_comm *comm, int peer)
{
    return peer >= -1 && peer < comm->nranks;
}

static weir_status call_check_sendrecv(const weir_comm *comm, const weir_call *call)
{
    const int to = call->destination, from = call->source;
    const size_t element_bytes = weir_dtype_bytes(call->dtype);
    if (WEIRI_UNLIKELY(!is_peer_or_none(comm, to) || !is_peer_or_none(comm, from)))
        return call_refuse(call, "destination or source is outside the communicator");
    if (WEIRI_UNLIKELY((to >= 0 && call->count && !call->in) ||
                       (from >= 0 && call->recv_count && !call->out)))
        return call_refuse(call, "a buffer is NULL");
    if (WEIRI_UNLIKELY((to == comm->rank) != (from == comm->rank) ||
                       (from == comm->rank && call->count != call->recv_count)))
        return call_refuse(call, "a rank that sends to itself receives the same from itself");
    const weiri_buffers of = {.in = call->in,
                              .out = call->out,
                              .in_bytes = to >= 0 ? call->count * element_bytes : 0,
                              .out_bytes = from >= 0 ? call->recv_count * element_bytes : 0};
    return call_check_buffers(comm, call, &of);
}

static weir_status task_sendrecv(weiri_coll *coll, const weiri_task *task)
{
    const weir_call *call = task->call;
    weir_status status = call_check_sendrecv(coll->comm, call);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    memset(coll->pairs, 0, sizeof *coll->pairs * (size_t)coll->nranks);
    if (call->destination >= 0) {
        weiri_pair *to = &coll->pairs[call->destination];
        to->sends = 1;
        to->from = pair_from(coll, task, call->count, 0);
        to->send_bytes = call->count * task->element_bytes;
    }
    if (call->source >= 0) {
        weiri_pair *from = &coll->pairs[call->source];
        from->receives = 1;
        from->to = pair_to(coll, task, call->recv_count, 0);
        from->recv_bytes = call->recv_count * task->element_bytes;
    }
    return WEIR_OK;
}

static weir_status task_alltoall(weiri_coll *coll, const weiri_task *task)
{
    const size_t bytes = task->count_bytes;
    for (int peer = 0; peer < coll->nranks; peer++)
        coll->pairs[peer] = (weiri_pair){weiri_in_at(task, (size_t)peer * bytes),
                                         weiri_out_at(task, (size_t)peer * bytes),
                                         bytes,
                                         bytes,
                                         1,
                                         1};
    return WEIR_OK;
}

/* Checks what the collective needs beyond call_check, and fills the task. */
static ON_CALL_PATH weir_status task_make(weir_comm *comm, const weir_call *call, weiri_coll **own,
                                          weiri_task *task)
{
    const size_t element_bytes = weir_dtype_bytes(call->dtype);
    weir_status status = call_check(comm, call, element_bytes);
    if (WEIRI_LIKELY(status == WEIR_OK))
        status = weiri_coll_get(comm, own);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    task_derive(task, *own, call, element_bytes);
    if (call->collective == WEIR_COLL_ALLTOALLV)
        return task_alltoallv(*own, task);
    if (call->collective == WEIR_COLL_SENDRECV)
        return task_sendrecv(*own, task);
    if (WEIRI_UNLIKELY(call->count &&
                       ((!call->in && weiri_contract_reads(contract, comm->rank, call->root)) ||
                        (!call->out && weiri_contract_writes(contract, comm->rank, call->root)))))
        return call_refuse(call, "a buffer is NULL");
    if (WEIRI_UNLIKELY(weiri_buffers_may_overlap(call->in, call->out, task->size_bytes)))
        status = call_check_blocks(comm, task);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    return call->collective == WEIR_COLL_ALLTOALL && call->count ? task_alltoall(*own, task)
                                                                 : WEIR_OK;
}

/* ------------------------------------------------------------------ running */

/* Calls that need no other rank: without elements, or of a single rank. */
static weir_status task_run_alone(weiri_coll *coll, const weiri_task *task)
{
    const weir_call *call = task->call;
    if (!task->size_bytes)
        return WEIR_OK;
    coll->last_algo = "local";
    if (coll->comm->gpu)
        return coll->comm->gpu->ops->copy_on(coll->comm, call->out, call->in, task->count_bytes,
                                             call->stream);
    if (call->in != call->out)
        weiri_copy(call->out, call->in, task->count_bytes);
    return WEIR_OK;
}

/* The choice is a plan: runs the call, and *choice becomes NULL; or, if the plan cannot serve the
 * call, *choice becomes the next one that is not a plan. */
static weir_status task_run_planned(weiri_coll *coll, const weiri_task *task,
                                    const weiri_choice **choice)
{
    const weiri_choice *at = *choice;
    while (at->planned) {
        int served = 0;
        weir_status status = weiri_planned_run(coll, at->planned, task, &served);
        if (status != WEIR_OK || served) {
            *choice = NULL;
            return status;
        }
        do
            at++;
        while (task->size_bytes > at->max_bytes);
    }
    *choice = at;
    return WEIR_OK;
}

/* A task that monitoring times. */
static __attribute__((noinline)) weir_status
task_run_timed(weiri_coll *coll, const weiri_task *task, weiri_algo_run run)
{
    weiri_monitor *monitor = coll->comm->monitor;
    const weir_stream stream = task->call->stream;
    const uint64_t begin_ns = weiri_monitor_start_timed(monitor, stream);
    const weir_status status = run(coll, task);
    if (!begin_ns || status != WEIR_OK) {
        weiri_monitor_end(monitor, begin_ns, stream);
        return status;
    }
    const char *name = task->choice->name;
    weiri_monitor_call about = {.function = (int)task->call->collective,
                                .peer = -1,
                                .bytes = task->count_bytes ? task->count_bytes : task->size_bytes,
                                .traffic_bytes = task->size_bytes,
                                .number = coll->comm->calls};
    memcpy(about.algo, name, strnlen(name, sizeof about.algo - 1));
    weiri_monitor_end_timed(monitor, begin_ns, &about, 1, stream);
    return status;
}

/* GPUs receive nothing that carries a chain: there each call compares one rank's earlier calls. Nor
 * does the root of a broadcast: it compares what all ranks have called, but only in the first
 * calls, as that reads a cache line of each rank. Ranks that are all roots later wait for each
 * other, and compare then. */
static __attribute__((noinline)) weir_status task_compare(weir_comm *comm)
{
    enum { FIRST = 16 };
    weir_status status = WEIR_OK;
    if (comm->gpu)
        status = weiri_called_compare_next(comm);
    else if (comm->calls < FIRST)
        status = weiri_called_compare(comm);
    return status == WEIR_OK ? WEIR_OK : weiri_comm_give_up(comm, WEIR_ERR_MISMATCH);
}

static int task_receives_no_chain(const weir_comm *comm, const weir_call *call)
{
    return comm->gpu || (call->collective == WEIR_COLL_BROADCAST && call->root == comm->rank);
}

/* Selects the algorithm for the task's size, and runs it. */
static weir_status task_start(weiri_coll *coll, weiri_task *task)
{
    const weir_call *call = task->call;
    const weiri_choice *choice = coll->choices[call->collective];
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    weir_status status = WEIR_OK;
    if (WEIRI_UNLIKELY(!task->size_bytes || coll->nranks == 1) && !contract->is_uneven)
        return task_run_alone(coll, task);
    if (WEIRI_UNLIKELY(call->algo_name != NULL))
        status = weiri_coll_force_name(coll, call->collective, call->algo_name, &choice);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (coll->comm->checks) {
        weiri_called_enter(coll->comm, call,
                           coll->comm->whole_count ? coll->comm->whole_count : task->elements);
        status = task_receives_no_chain(coll->comm, call) ? task_compare(coll->comm) : WEIR_OK;
    }
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    while (task->size_bytes > choice->max_bytes)
        choice++;
    if (WEIRI_UNLIKELY(choice->planned != NULL)) {
        status = task_run_planned(coll, task, &choice);
        if (!choice)
            return status;
    }
    task->choice = choice;
    coll->last_algo = choice->name;
    coll->comm->last_blocks = 0;
    coll->is_one_way = contract->has_root;
    weiri_comm_enter(coll->comm, call->collective);
    weiri_algo_run run = choice->algo->run;
    if (WEIRI_UNLIKELY(coll->comm->gpu_comm != NULL) && task->memory == WEIRI_TASK_AS_GIVEN)
        run = weiri_internode_coll_gpu;
    if (weiri_monitor_counts(coll->comm, (int)call->collective) &&
        task->memory != WEIRI_TASK_ON_HOST)
        return task_run_timed(coll, task, run);
    return run(coll, task);
}

weir_status weiri_coll_run(weiri_coll *coll, const weir_call *call, size_t size_bytes)
{
    weiri_task task;
    task_derive(&task, coll, call, weir_dtype_bytes(call->dtype));
    task.size_bytes = size_bytes;
    return task_start(coll, &task);
}

/* A task of a communicator that WEIR_RECORD records. */
static __attribute__((noinline)) weir_status task_start_recorded(weiri_coll *coll, weiri_task *task)
{
    const uint64_t begin_ns = weir_clock_ns();
    const weir_status status = task_start(coll, task);
    if (status == WEIR_OK)
        weiri_recorder_call(coll->comm, task->call, begin_ns,
                            coll->comm->gpu ? 0 : weir_clock_ns());
    return status;
}

/* A call of a caller with another version's header, or of an algorithm object. */
static __attribute__((noinline)) weir_status call_run_special(weir_comm *comm,
                                                              const weir_call *given)
{
    weir_call call;
    const weir_status status = weiri_call_read("weir_run", given, &call);
    if (status != WEIR_OK)
        return status;
    return call.algo ? ((weiri_algo_object *)call.algo)->execute(call.algo, comm, &call)
                     : weir_run(comm, &call);
}

static ON_CALL_PATH weir_status call_run(weir_comm *comm, const weir_call *call)
{
    weiri_coll *coll = NULL;
    weiri_task task;
    weir_status status = task_make(comm, call, &coll, &task);
    if (WEIRI_LIKELY(status == WEIR_OK))
        status = WEIRI_UNLIKELY(comm->recorder != NULL) ? task_start_recorded(coll, &task)
                                                        : task_start(coll, &task);
    return WEIRI_UNLIKELY(status == WEIR_OK && weiri_comm_was_aborted(comm) &&
                          !call_survives_abort(comm))
               ? call_fail_aborted(comm, call, weiri_comm_fail_ended)
               : status;
}

weir_status weir_run(weir_comm *comm, const weir_call *call)
{
    if (WEIRI_UNLIKELY(!call || call->size != sizeof *call || call->algo))
        return call_run_special(comm, call);
    return call_run(comm, call);
}

weir_status weiri_run_on_host(weir_comm *comm, const weir_call *call)
{
    weiri_coll *coll = NULL;
    weiri_task task;
    const weir_status status = task_make(comm, call, &coll, &task);
    if (status != WEIR_OK)
        return status;
    if (comm->gpu_comm)
        task.memory = WEIRI_TASK_ON_HOST;
    return task_start(coll, &task);
}

int weiri_coll_waits(weir_comm *comm, const weir_call *call)
{
    weiri_coll *coll = NULL;
    weiri_task task;
    if (comm->gpu_comm && !comm->nlanes)
        return 1;
    if (!call->count || call->algo || call->algo_name || weir_comm_nranks(comm) == 1 ||
        weiri_contract_of((int)call->collective)->is_uneven ||
        weiri_coll_get(comm, &coll) != WEIR_OK || !coll->planned)
        return 0;
    task_derive(&task, coll, call, weir_dtype_bytes(call->dtype));
    weiri_planned_use use = WEIRI_PLANNED_PASSES;
    for (const weiri_choice *at = coll->choices[call->collective];
         use == WEIRI_PLANNED_PASSES && (task.size_bytes > at->max_bytes || at->planned); at++)
        if (task.size_bytes <= at->max_bytes)
            use = weiri_planned_look(coll, at->planned, &task);
    return use == WEIRI_PLANNED_WAITS;
}

/* ------------------------------------------------------------ the interface */

/* Assigns member by member: to clear a struct of this length, the compiler uses an instruction that
 * takes as long as the rest of a small call. */
static inline void call_init(weir_call *call, weir_collective collective, weir_dtype dtype,
                             const void *in, void *out, size_t count, weir_stream stream)
{
    call->size = sizeof *call;
    call->collective = collective;
    call->dtype = dtype;
    call->op = WEIR_SUM;
    call->root = 0;
    call->destination = -1;
    call->source = -1;
    call->in = in;
    call->out = out;
    call->count = count;
    call->recv_count = 0;
    call->stream = stream;
    call->splits = NULL;
    call->device_splits = NULL;
    call->in_bytes = 0;
    call->out_bytes = 0;
    call->algo_name = NULL;
    call->algo = NULL;
    call->blocks = 0;
    call->threads = 0;
    call->extras = NULL;
    call->executor = NULL;
    call->scratch = NULL;
    call->max_blocks = 0;
    call->min_blocks = 0;
    call->block_policy = WEIR_BLOCKS_AUTO;
}

static inline weir_status call_named(weir_comm *comm, weir_collective collective, const void *in,
                                     void *out, size_t count, weir_dtype dtype, weir_op op,
                                     int root, weir_stream stream)
{
    weir_call call;
    call_init(&call, collective, dtype, in, out, count, stream);
    call.op = op;
    call.root = root;
    return call_run(comm, &call);
}

weir_status weir_allreduce(weir_comm *comm, const void *in, void *out, size_t count,
                           weir_dtype dtype, weir_op op, weir_stream stream)
{
    return call_named(comm, WEIR_COLL_ALLREDUCE, in, out, count, dtype, op, 0, stream);
}

weir_status weir_reduce_scatter(weir_comm *comm, const void *in, void *out, size_t count,
                                weir_dtype dtype, weir_op op, weir_stream stream)
{
    return call_named(comm, WEIR_COLL_REDUCE_SCATTER, in, out, count, dtype, op, 0, stream);
}

weir_status weir_allgather(weir_comm *comm, const void *in, void *out, size_t count,
                           weir_dtype dtype, weir_stream stream)
{
    return call_named(comm, WEIR_COLL_ALLGATHER, in, out, count, dtype, WEIR_SUM, 0, stream);
}

weir_status weir_broadcast(weir_comm *comm, const void *in, void *out, size_t count,
                           weir_dtype dtype, int root, weir_stream stream)
{
    return call_named(comm, WEIR_COLL_BROADCAST, in, out, count, dtype, WEIR_SUM, root, stream);
}

weir_status weir_reduce(weir_comm *comm, const void *in, void *out, size_t count, weir_dtype dtype,
                        weir_op op, int root, weir_stream stream)
{
    return call_named(comm, WEIR_COLL_REDUCE, in, out, count, dtype, op, root, stream);
}

weir_status weir_alltoall(weir_comm *comm, const void *in, void *out, size_t count,
                          weir_dtype dtype, weir_stream stream)
{
    return call_named(comm, WEIR_COLL_ALLTOALL, in, out, count, dtype, WEIR_SUM, 0, stream);
}

weir_status weir_alltoallv(weir_comm *comm, const void *in, const size_t *send_counts,
                           const size_t *send_displs, void *out, const size_t *recv_counts,
                           const size_t *recv_displs, weir_dtype dtype, weir_stream stream)
{
    const weir_splits splits = {send_counts, send_displs, recv_counts, recv_displs};
    weir_call call;
    call_init(&call, WEIR_COLL_ALLTOALLV, dtype, in, out, 0, stream);
    call.splits = &splits;
    return weir_run(comm, &call);
}

weir_status weir_alltoallv_device(weir_comm *comm, const void *in, size_t in_bytes,
                                  const uint64_t *send_counts, const uint64_t *send_displs,
                                  void *out, size_t out_bytes, const uint64_t *recv_counts,
                                  const uint64_t *recv_displs, weir_dtype dtype, weir_stream stream)
{
    const weir_device_splits splits = {send_counts, send_displs, recv_counts, recv_displs};
    weir_call call;
    call_init(&call, WEIR_COLL_ALLTOALLV, dtype, in, out, 0, stream);
    call.device_splits = &splits;
    call.in_bytes = in_bytes;
    call.out_bytes = out_bytes;
    return weir_run(comm, &call);
}

weir_status weir_sendrecv(weir_comm *comm, const void *in, size_t send_count, int destination,
                          void *out, size_t recv_count, int source, weir_dtype dtype,
                          weir_stream stream)
{
    weir_call call;
    call_init(&call, WEIR_COLL_SENDRECV, dtype, in, out, send_count, stream);
    call.destination = destination;
    call.source = source;
    call.recv_count = recv_count;
    return weir_run(comm, &call);
}
