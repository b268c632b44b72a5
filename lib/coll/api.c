/*
 * The public collectives: each fills a weir_call, checks it once, copies if there is only one rank,
 * selects the algorithm and runs it. Everything here is on the path of an 8-byte allreduce.
 */
#include "base/config.h"
#include "base/contract.h"
#include "base/error.h"
#include "coll/algos.h"
#include "coll/planned.h"
#include "compute/copy.h"
#include "comm/gpu/gpu.h"
#include "comm/monitor/monitor.h"

#include <string.h>

/* Counts and displacements have at most so many bits: more elements than any memory holds, and few
 * enough that sums of bytes over all ranks do not overflow. */
enum { COUNT_BITS = 46 };
_Static_assert((uint64_t)8 * WEIRI_RANKS_MAX << COUNT_BITS <= (uint64_t)1 << 62, "sums fit");

static weir_status call_refuse(const weir_call *call, const char *what)
{
    const char *name = weir_collective_name(call->collective);
    return weiri_fail(WEIR_ERR_INVALID, "weir_%s: %s", name ? name : "run", what);
}

static inline size_t call_elements(const weir_call *call)
{
    if (call->collective == WEIR_COLL_ALLTOALLV)
        return 0;
    return call->collective == WEIR_COLL_SENDRECV && call->recv_count > call->count
               ? call->recv_count
               : call->count;
}

static inline void call_derive(weiri_coll *coll, const weir_call *call, size_t element_bytes)
{
    coll->elements = call_elements(call);
    coll->element_bytes = element_bytes;
    coll->is_one_way = weiri_contract_of((int)call->collective)->has_root;
    coll->count_bytes = coll->elements * element_bytes;
}

void weiri_coll_derive(weiri_coll *coll, const weir_call *call)
{
    call_derive(coll, call, weir_dtype_bytes(call->dtype));
}

/* The checks that all collectives have in common; derives the call's values. */
static inline weir_status call_prepare(weir_comm *comm, const weir_call *call, weiri_coll **coll)
{
    size_t element_bytes = weir_dtype_bytes(call->dtype);
    if (WEIRI_UNLIKELY(!comm))
        return call_refuse(call, "comm is required");
    if (weiri_comm_is_forked(comm))
        return weiri_fork_fail("communicator");
    if (WEIRI_UNLIKELY(!element_bytes || (unsigned)call->op >= WEIR_OP_COUNT))
        return call_refuse(call, "unknown data type or operation");
    if (WEIRI_UNLIKELY(call->stream && !comm->gpu))
        return call_refuse(call, "host memory takes no stream");
    if (WEIRI_UNLIKELY((call->count | call->recv_count) >> COUNT_BITS))
        return call_refuse(call, "count is too large");
    if (WEIRI_UNLIKELY(call->root < 0 || call->root >= comm->nranks))
        return call_refuse(call, "root is outside the communicator");
    weir_status status = weiri_coll_get(comm, coll);
    if (WEIRI_LIKELY(status == WEIR_OK))
        call_derive(*coll, call, element_bytes);
    return status;
}

static weir_status call_copy_single(weiri_coll *coll, const weir_call *call)
{
    coll->last_algo = "local";
    if (coll->comm->gpu)
        return coll->comm->gpu->ops->copy_on(coll->comm, call->out, call->in, coll->count_bytes,
                                             call->stream);
    if (call->in != call->out)
        weiri_copy(call->out, call->in, coll->count_bytes);
    return WEIR_OK;
}

/* The choice is a plan: runs the call, and *choice becomes NULL; or, if the plan cannot serve the
 * call, *choice becomes the next one that is not a plan. */
static weir_status call_planned(weiri_coll *coll, const weir_call *call, size_t size_bytes,
                                const weiri_choice **choice)
{
    const weiri_choice *at = *choice;
    while (at->planned) {
        int served = 0;
        weir_status status = weiri_planned_run(coll, at->planned, call, &served);
        if (status != WEIR_OK || served) {
            *choice = NULL;
            return status;
        }
        do
            at++;
        while (size_bytes > at->max_bytes);
    }
    *choice = at;
    return WEIR_OK;
}

static weir_status call_start(weiri_coll *coll, const weir_call *call, size_t size_bytes,
                              const weiri_choice *choice)
{
    if (WEIRI_UNLIKELY(coll->comm->gpu_comm != NULL) && !coll->on_host)
        return weiri_internode_coll_gpu(coll, call, size_bytes);
    return choice->algo->run(coll, call);
}

/* The same for a call that monitoring times. */
static __attribute__((noinline)) weir_status call_timed(weiri_coll *coll, const weir_call *call,
                                                        size_t size_bytes,
                                                        const weiri_choice *choice)
{
    weiri_monitor *monitor = coll->comm->monitor;
    const uint64_t begin_ns = weiri_monitor_start_timed(monitor, call->stream);
    const size_t bytes = coll->count_bytes ? coll->count_bytes : size_bytes;
    const weir_status status = call_start(coll, call, size_bytes, choice);
    if (!begin_ns || status != WEIR_OK) {
        weiri_monitor_end(monitor, begin_ns, call->stream);
        return status;
    }
    weiri_monitor_call about = {.function = (int)call->collective,
                                .peer = -1,
                                .bytes = bytes,
                                .traffic_bytes = size_bytes,
                                .number = coll->comm->calls};
    memcpy(about.algo, choice->name, strnlen(choice->name, sizeof about.algo - 1));
    weiri_monitor_end_timed(monitor, begin_ns, &about, 1, call->stream);
    return status;
}

int weiri_coll_waits(weir_comm *comm, const weir_call *call)
{
    weiri_coll *coll = NULL;
    if (!call->count || call->algo || call->algo_name || weir_comm_nranks(comm) == 1 ||
        weiri_contract_of((int)call->collective)->is_uneven ||
        weiri_coll_get(comm, &coll) != WEIR_OK || !coll->planned)
        return 0;
    weiri_coll_derive(coll, call);
    const weiri_contract *contract = weiri_contract_of((int)call->collective);
    const size_t size_bytes =
        coll->count_bytes * (size_t)weiri_contract_blocks(contract, coll->nranks);
    weiri_planned_use use = WEIRI_PLANNED_PASSES;
    for (const weiri_choice *at = coll->choices[call->collective];
         use == WEIRI_PLANNED_PASSES && (size_bytes > at->max_bytes || at->planned); at++)
        if (size_bytes <= at->max_bytes)
            use = weiri_planned_look(coll, at->planned, call);
    return use == WEIRI_PLANNED_WAITS;
}

/* Selects the algorithm for size_bytes, the size by which the tuning table is ordered, and runs
 * it. */
static weir_status call_dispatch(weiri_coll *coll, const weir_call *call, size_t size_bytes,
                                 const weiri_choice *choice)
{
    weir_status status = WEIR_OK;
    if (!choice && WEIRI_UNLIKELY(call->algo_name != NULL))
        status = weiri_coll_force_name(coll, call->collective, call->algo_name, &choice);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (WEIRI_LIKELY(!choice))
        choice = coll->choices[call->collective];
    while (size_bytes > choice->max_bytes)
        choice++;
    if (WEIRI_UNLIKELY(choice->planned != NULL)) {
        status = call_planned(coll, call, size_bytes, &choice);
        if (!choice)
            return status;
    }
    coll->last_algo = choice->name;
    coll->choice = choice;
    coll->size_bytes = size_bytes;
    weiri_comm_enter(coll->comm, call->collective);
    if (weiri_monitor_counts(coll->comm, (int)call->collective) && !coll->on_host)
        return call_timed(coll, call, size_bytes, choice);
    return call_start(coll, call, size_bytes, choice);
}

weir_status weiri_coll_run(weiri_coll *coll, const weir_call *call, size_t size_bytes)
{
    weiri_coll_derive(coll, call);
    return call_dispatch(coll, call, size_bytes, NULL);
}

/* A collective with one count for all ranks; blocks of count elements are in the larger buffer. */
static inline weir_status call_one_count(weir_comm *comm, const weir_call *call, size_t blocks,
                                         int needs_in, int needs_out, const weiri_choice *choices)
{
    weiri_coll *coll = NULL;
    weir_status status = call_prepare(comm, call, &coll);
    if (WEIRI_UNLIKELY(status != WEIR_OK) || call->count == 0)
        return status;
    if (WEIRI_UNLIKELY((needs_in && !call->in) || (needs_out && !call->out)))
        return call_refuse(call, "a buffer is NULL");
    if (coll->nranks == 1)
        return call_copy_single(coll, call);
    return call_dispatch(coll, call, coll->count_bytes * blocks, choices);
}

/* ----------------------------------------------------- pairwise collectives */

/* Pairwise calls may send or receive nothing, and then need no buffer: any valid pointer replaces
 * it. */
static const char *pair_from(const weiri_coll *coll, const weir_call *call, size_t count,
                             size_t displ)
{
    return count ? weiri_in_at(call, displ * coll->element_bytes) : (const char *)coll->sources;
}

static char *pair_to(const weiri_coll *coll, const weir_call *call, size_t count, size_t displ)
{
    return count ? weiri_out_at(call, displ * coll->element_bytes) : (char *)coll->sources;
}

static inline void pair_fill(weiri_coll *coll, const weir_call *call, int peer, size_t send,
                             size_t send_at, size_t recv, size_t recv_at)
{
    coll->pairs[peer] = (weiri_pair){pair_from(coll, call, send, send_at),
                                     pair_to(coll, call, recv, recv_at),
                                     send * coll->element_bytes,
                                     recv * coll->element_bytes, 1, 1};
}

static weir_status call_refuse_in_place(const weir_call *call)
{
    if (WEIRI_UNLIKELY(call->in == call->out && call->in))
        return call_refuse(call, "in and out are the same buffer; use two");
    return WEIR_OK;
}

static inline weir_status call_alltoall(weir_comm *comm, const weir_call *call,
                                        const weiri_choice *choices)
{
    weiri_coll *coll = NULL;
    weir_status status = call_prepare(comm, call, &coll);
    if (WEIRI_UNLIKELY(status != WEIR_OK) || call->count == 0)
        return status;
    if (WEIRI_UNLIKELY(!call->in || !call->out))
        return call_refuse(call, "a buffer is NULL");
    status = call_refuse_in_place(call);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (coll->nranks == 1)
        return call_copy_single(coll, call);
    const size_t bytes = coll->count_bytes;
    for (int peer = 0; peer < coll->nranks; peer++)
        coll->pairs[peer] =
            (weiri_pair){weiri_in_at(call, (size_t)peer * bytes),
                         weiri_out_at(call, (size_t)peer * bytes), bytes, bytes, 1, 1};
    return call_dispatch(coll, call, bytes * (size_t)coll->nranks, choices);
}

/* Fills coll->pairs from splits. *size_bytes becomes the larger one of the bytes sent and
 * received. */
static weir_status call_fill_splits(weiri_coll *coll, const weir_call *call, size_t *size_bytes)
{
    const weir_splits *splits = call->splits;
    size_t sent = 0, received = 0, size = coll->element_bytes, all = 0;
    for (int peer = 0; peer < coll->nranks; peer++)
        all |= splits->send_counts[peer] | splits->send_displs[peer] | splits->recv_counts[peer] |
               splits->recv_displs[peer];
    if (WEIRI_UNLIKELY(all >> COUNT_BITS))
        return call_refuse(call, "a count or displacement is too large");
    for (int peer = 0; peer < coll->nranks; peer++) {
        size_t send = splits->send_counts[peer], recv = splits->recv_counts[peer];
        sent += send * size;
        received += recv * size;
        pair_fill(coll, call, peer, send, splits->send_displs[peer], recv,
                  splits->recv_displs[peer]);
    }
    *size_bytes = sent > received ? sent : received;
    if (WEIRI_UNLIKELY((sent && !call->in) || (received && !call->out)))
        return call_refuse(call, "a buffer is NULL");
    const weiri_pair *self = &coll->pairs[coll->rank];
    if (WEIRI_UNLIKELY(self->send_bytes != self->recv_bytes))
        return call_refuse(call, "this rank's counts for itself differ");
    return WEIR_OK;
}

static int split_fits(uint64_t count, uint64_t displ, size_t elements)
{
    return !count || (displ <= elements && count <= elements - displ);
}

/* Host: reads the arrays now. An error aborts the communicator, because peers with correct counts
 * would wait for this rank. */
static weir_status call_read_device_splits(weiri_coll *coll, const weir_call *call)
{
    const weir_device_splits *splits = call->device_splits;
    size_t size = coll->element_bytes;
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
        pair_fill(coll, call, peer, send, send_at, recv, recv_at);
    }
    const weiri_pair *self = &coll->pairs[coll->rank];
    if (self->send_bytes == self->recv_bytes)
        return WEIR_OK;
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d: weir_alltoallv_device: this rank's counts for itself differ: %zu bytes "
               "are sent, %zu expected", coll->rank, self->send_bytes, self->recv_bytes);
    return weiri_comm_give_up(coll->comm, WEIR_ERR_MISMATCH);
}

static weir_status call_take_device_splits(weiri_coll *coll, const weir_call *call,
                                           size_t *size_bytes)
{
    const weir_device_splits *s = call->device_splits;
    if (WEIRI_UNLIKELY(!s->send_counts || !s->send_displs || !s->recv_counts || !s->recv_displs))
        return call_refuse(call, "counts and displacements are required");
    if (WEIRI_UNLIKELY((call->in_bytes && !call->in) || (call->out_bytes && !call->out)))
        return call_refuse(call, "a buffer is NULL; its size must then be 0");
    if (WEIRI_UNLIKELY((call->in_bytes | call->out_bytes) >> WEIRI_SPLIT_BITS))
        return call_refuse(call, "a buffer is longer than any machine's memory");
    *size_bytes = call->in_bytes > call->out_bytes ? call->in_bytes : call->out_bytes;
    weir_status status = call_refuse_in_place(call);
    return status == WEIR_OK && !coll->comm->gpu ? call_read_device_splits(coll, call) : status;
}

static weir_status call_alltoallv(weir_comm *comm, const weir_call *call,
                                  const weiri_choice *choices)
{
    weiri_coll *coll = NULL;
    size_t size_bytes = 0;
    const weir_splits *s = call->splits;
    weir_status status = call_prepare(comm, call, &coll);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (call->device_splits) {
        status = call_take_device_splits(coll, call, &size_bytes);
    } else if (WEIRI_UNLIKELY(!s || !s->send_counts || !s->send_displs || !s->recv_counts ||
                              !s->recv_displs)) {
        return call_refuse(call, "counts and displacements are required");
    } else {
        status = call_refuse_in_place(call);
        if (WEIRI_LIKELY(status == WEIR_OK))
            status = call_fill_splits(coll, call, &size_bytes);
    }
    return status == WEIR_OK ? call_dispatch(coll, call, size_bytes, choices) : status;
}

static int is_peer_or_none(const weir_comm *comm, int peer)
{
    return peer >= -1 && peer < comm->nranks;
}

static weir_status call_check_sendrecv(const weir_comm *comm, const weir_call *call)
{
    const int to = call->destination, from = call->source;
    if (WEIRI_UNLIKELY(!is_peer_or_none(comm, to) || !is_peer_or_none(comm, from)))
        return call_refuse(call, "destination or source is outside the communicator");
    if (WEIRI_UNLIKELY((to >= 0 && call->count && !call->in) ||
                       (from >= 0 && call->recv_count && !call->out)))
        return call_refuse(call, "a buffer is NULL");
    if (WEIRI_UNLIKELY((to == comm->rank) != (from == comm->rank) ||
                       (from == comm->rank && call->count != call->recv_count)))
        return call_refuse(call, "a rank that sends to itself receives the same from itself");
    return call_refuse_in_place(call);
}

static weir_status call_sendrecv(weir_comm *comm, const weir_call *call,
                                 const weiri_choice *choices)
{
    weiri_coll *coll = NULL;
    weir_status status = call_prepare(comm, call, &coll);
    if (WEIRI_LIKELY(status == WEIR_OK))
        status = call_check_sendrecv(comm, call);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    memset(coll->pairs, 0, sizeof *coll->pairs * (size_t)coll->nranks);
    if (call->destination >= 0) {
        weiri_pair *to = &coll->pairs[call->destination];
        to->sends = 1;
        to->from = pair_from(coll, call, call->count, 0);
        to->send_bytes = call->count * coll->element_bytes;
    }
    if (call->source >= 0) {
        weiri_pair *from = &coll->pairs[call->source];
        from->receives = 1;
        from->to = pair_to(coll, call, call->recv_count, 0);
        from->recv_bytes = call->recv_count * coll->element_bytes;
    }
    return call_dispatch(coll, call, coll->count_bytes, choices);
}

/* ------------------------------------------------------------ the interface */

static inline size_t call_nranks(const weir_comm *comm)
{
    return comm ? (size_t)comm->nranks : 1;
}

static inline int is_root(const weir_comm *comm, const weir_call *call)
{
    return comm && comm->rank == call->root;
}

/* Inline, because in the named functions the collective is a constant. */
static inline weir_status call_serve(weir_comm *comm, const weir_call *call,
                                     const weiri_choice *choices)
{
    switch (call->collective) {
    case WEIR_COLL_ALLREDUCE:
        return call_one_count(comm, call, 1, 1, 1, choices);
    case WEIR_COLL_REDUCE_SCATTER:
    case WEIR_COLL_ALLGATHER:
        return call_one_count(comm, call, call_nranks(comm), 1, 1, choices);
    case WEIR_COLL_BROADCAST:
        return call_one_count(comm, call, 1, is_root(comm, call), 1, choices);
    case WEIR_COLL_REDUCE:
        return call_one_count(comm, call, 1, 1, is_root(comm, call), choices);
    case WEIR_COLL_ALLTOALL:
        return call_alltoall(comm, call, choices);
    case WEIR_COLL_ALLTOALLV:
        return call_alltoallv(comm, call, choices);
    case WEIR_COLL_SENDRECV:
        return call_sendrecv(comm, call, choices);
    case WEIR_COLL_COUNT:
        break;
    }
    return call_refuse(call, "unknown collective");
}

weir_status weiri_call_read(const char *function, const weir_call *given, weir_call *call)
{
    *call = (weir_call)WEIR_CALL_INIT;
    if (given && given->size == sizeof *call) {
        *call = *given;
        return WEIR_OK;
    }
    if (!given)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: a call that begins with WEIR_CALL_INIT is required", function);
    return weiri_config_read("weir_call", given, call, sizeof *call);
}

weir_status weiri_coll_call(weir_comm *comm, const weir_call *call, const weiri_choice *choices)
{
    return call_serve(comm, call, choices);
}

weir_status weiri_coll_call_on_host(weir_comm *comm, const weir_call *call)
{
    weiri_coll *coll = NULL;
    weir_status status = weiri_coll_get(comm, &coll);
    if (status != WEIR_OK)
        return status;
    coll->staged = coll->on_host = comm->gpu_comm != NULL;
    status = call_serve(comm, call, NULL);
    coll->on_host = 0;
    return status;
}

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
}

static inline weir_status call_named(weir_comm *comm, weir_collective collective, const void *in,
                                     void *out, size_t count, weir_dtype dtype, weir_op op,
                                     int root, weir_stream stream)
{
    weir_call call;
    call_init(&call, collective, dtype, in, out, count, stream);
    call.op = op;
    call.root = root;
    return call_serve(comm, &call, NULL);
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
    return call_serve(comm, &call, NULL);
}

weir_status weir_alltoallv_device(weir_comm *comm, const void *in, size_t in_bytes,
                                  const uint64_t *send_counts, const uint64_t *send_displs,
                                  void *out, size_t out_bytes, const uint64_t *recv_counts,
                                  const uint64_t *recv_displs, weir_dtype dtype,
                                  weir_stream stream)
{
    const weir_device_splits splits = {send_counts, send_displs, recv_counts, recv_displs};
    weir_call call;
    call_init(&call, WEIR_COLL_ALLTOALLV, dtype, in, out, 0, stream);
    call.device_splits = &splits;
    call.in_bytes = in_bytes;
    call.out_bytes = out_bytes;
    return call_serve(comm, &call, NULL);
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
    return call_serve(comm, &call, NULL);
}
