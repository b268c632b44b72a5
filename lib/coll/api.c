/*
 * The public collectives: check the arguments, serve a single rank, choose the
 * algorithm, run it. Everything here is on the path of an 8-byte allreduce.
 */
#include "base/error.h"
#include "coll/coll.h"
#include "compute/copy.h"
#include "coll/internode/staged.h"
#include "comm/gpu/gpu.h"

#include <string.h>

static weir_status refuse(const weiri_call *call, const char *what)
{
    return weiri_fail(WEIR_ERR_INVALID, "weir_%s: %s", weir_collective_name(call->collective),
                      what);
}

/* Checks what all collectives share and completes the call. blocks: by how many
 * count is multiplied in the larger buffer. */
static weir_status prepare(weir_comm *comm, weiri_call *call, size_t blocks, weir_stream stream,
                           weiri_coll **coll)
{
    call->element_bytes = weir_dtype_bytes(call->dtype);
    if (WEIRI_UNLIKELY(!comm))
        return refuse(call, "comm is required");
    if (WEIRI_UNLIKELY(!call->element_bytes || (unsigned)call->op >= WEIR_OP_COUNT))
        return refuse(call, "unknown data type or operation");
    if (WEIRI_UNLIKELY(stream && !comm->gpu))
        return refuse(call, "host memory takes no stream");
    if (WEIRI_UNLIKELY(call->count > SIZE_MAX / 2 / call->element_bytes / blocks))
        return refuse(call, "count is too large");
    if (WEIRI_UNLIKELY(call->root < 0 || call->root >= comm->nranks))
        return refuse(call, "root is outside the communicator");
    call->bytes = call->count * call->element_bytes;
    call->stream = stream;
    return weiri_coll_get(comm, coll);
}

static weir_status need_buffers(const weiri_call *call, int needs_in, int needs_out)
{
    if (WEIRI_UNLIKELY(call->count && ((needs_in && !call->in) || (needs_out && !call->out))))
        return refuse(call, "a buffer is NULL");
    return WEIR_OK;
}

static weir_status serve_alone(weiri_coll *coll, const weiri_call *call)
{
    coll->last_algo = "local";
    if (coll->comm->gpu)
        return coll->comm->gpu->ops->copy_on(coll->comm, call->out, call->in, call->bytes,
                                             call->stream);
    if (call->in != call->out)
        weiri_copy(call->out, call->in, call->bytes);
    return WEIR_OK;
}

/* size_bytes: what the tuning table counts. */
static weir_status dispatch(weiri_coll *coll, weiri_call *call, size_t size_bytes)
{
    const weiri_choice *choice = coll->choices[call->collective];
    while (size_bytes > choice->max_bytes)
        choice++;
    coll->last_algo = choice->name;
    call->choice = choice;
    weiri_comm_enter(coll->comm, call->collective);
    if (WEIRI_UNLIKELY(coll->comm->gpu_comm != NULL))
        return weiri_internode_coll_gpu(coll, call, size_bytes);
    return choice->algo->run(coll, call);
}

weir_status weiri_coll_run(weiri_coll *coll, const weiri_call *call, size_t size_bytes)
{
    weiri_call own = *call;
    return dispatch(coll, &own, size_bytes);
}

/* A collective with one count for all ranks. */
static weir_status serve(weir_comm *comm, weiri_call *call, size_t blocks, int needs_in,
                         int needs_out, weir_stream stream)
{
    weiri_coll *coll = NULL;
    weir_status status = prepare(comm, call, blocks, stream, &coll);
    if (WEIRI_LIKELY(status == WEIR_OK))
        status = need_buffers(call, needs_in, needs_out);
    if (WEIRI_UNLIKELY(status != WEIR_OK) || call->count == 0)
        return status;
    if (coll->nranks == 1)
        return serve_alone(coll, call);
    return dispatch(coll, call, call->bytes * blocks);
}

weir_status weir_allreduce(weir_comm *comm, const void *in, void *out, size_t count,
                           weir_dtype dtype, weir_op op, weir_stream stream)
{
    weiri_call call = {.collective = WEIR_COLL_ALLREDUCE,
                       .in = in,
                       .out = out,
                       .count = count,
                       .dtype = dtype,
                       .op = op};
    return serve(comm, &call, 1, 1, 1, stream);
}

static size_t ranks_of(const weir_comm *comm)
{
    return comm ? (size_t)comm->nranks : 1;
}

weir_status weir_reduce_scatter(weir_comm *comm, const void *in, void *out, size_t count,
                                weir_dtype dtype, weir_op op, weir_stream stream)
{
    weiri_call call = {.collective = WEIR_COLL_REDUCE_SCATTER,
                       .in = in,
                       .out = out,
                       .count = count,
                       .dtype = dtype,
                       .op = op};
    return serve(comm, &call, ranks_of(comm), 1, 1, stream);
}

weir_status weir_allgather(weir_comm *comm, const void *in, void *out, size_t count,
                           weir_dtype dtype, weir_stream stream)
{
    weiri_call call = {
        .collective = WEIR_COLL_ALLGATHER, .in = in, .out = out, .count = count, .dtype = dtype};
    return serve(comm, &call, ranks_of(comm), 1, 1, stream);
}

weir_status weir_broadcast(weir_comm *comm, const void *in, void *out, size_t count,
                           weir_dtype dtype, int root, weir_stream stream)
{
    weiri_call call = {.collective = WEIR_COLL_BROADCAST,
                       .in = in,
                       .out = out,
                       .count = count,
                       .dtype = dtype,
                       .root = root};
    return serve(comm, &call, 1, comm && comm->rank == root, 1, stream);
}

weir_status weir_reduce(weir_comm *comm, const void *in, void *out, size_t count, weir_dtype dtype,
                        weir_op op, int root, weir_stream stream)
{
    weiri_call call = {.collective = WEIR_COLL_REDUCE,
                       .in = in,
                       .out = out,
                       .count = count,
                       .dtype = dtype,
                       .op = op,
                       .root = root};
    return serve(comm, &call, 1, 1, comm && comm->rank == root, stream);
}

/* ----------------------------------------------------- pairwise collectives */

/* Pairwise calls may have nothing to send or receive and no buffer for it; a
 * pointer to compute with stands in for it. */
static void complete_buffers(const weiri_coll *coll, weiri_call *call)
{
    char *nothing = (char *)coll->sources;
    if (!call->in)
        call->in = nothing;
    if (!call->out)
        call->out = nothing;
}

static weir_status refuse_in_place(const weiri_call *call)
{
    if (WEIRI_UNLIKELY(call->in == call->out && call->in))
        return refuse(call, "in and out are the same buffer; use two");
    return WEIR_OK;
}

weir_status weir_alltoall(weir_comm *comm, const void *in, void *out, size_t count,
                          weir_dtype dtype, weir_stream stream)
{
    weiri_call call = {
        .collective = WEIR_COLL_ALLTOALL, .in = in, .out = out, .count = count, .dtype = dtype};
    weiri_coll *coll = NULL;
    weir_status status = prepare(comm, &call, ranks_of(comm), stream, &coll);
    if (WEIRI_LIKELY(status == WEIR_OK))
        status = need_buffers(&call, 1, 1);
    if (WEIRI_UNLIKELY(status != WEIR_OK) || count == 0)
        return status;
    status = refuse_in_place(&call);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (coll->nranks == 1)
        return serve_alone(coll, &call);
    for (int peer = 0; peer < coll->nranks; peer++)
        coll->pairs[peer] = (weiri_pair){call.in + (size_t)peer * call.bytes,
                                         call.out + (size_t)peer * call.bytes,
                                         call.bytes,
                                         call.bytes,
                                         1,
                                         1};
    return dispatch(coll, &call, call.bytes * (size_t)coll->nranks);
}

/* Longer counts than any machine holds; shorter ones cannot overflow when they are
 * multiplied by an element's bytes and added up over the ranks. */
enum { COUNT_BITS = 52 };

weir_status weir_alltoallv(weir_comm *comm, const void *in, const size_t *send_counts,
                           const size_t *send_displs, void *out, const size_t *recv_counts,
                           const size_t *recv_displs, weir_dtype dtype, weir_stream stream)
{
    weiri_call call = {.collective = WEIR_COLL_ALLTOALLV, .in = in, .out = out, .dtype = dtype};
    weiri_coll *coll = NULL;
    weir_status status = prepare(comm, &call, 1, stream, &coll);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (WEIRI_UNLIKELY(!send_counts || !send_displs || !recv_counts || !recv_displs))
        return refuse(&call, "counts and displacements are required");
    status = refuse_in_place(&call);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    complete_buffers(coll, &call);
    size_t sent = 0, received = 0, size = call.element_bytes, all = 0;
    for (int peer = 0; peer < coll->nranks; peer++)
        all |= send_counts[peer] | send_displs[peer] | recv_counts[peer] | recv_displs[peer];
    if (WEIRI_UNLIKELY(all >> COUNT_BITS))
        return refuse(&call, "a count or displacement is too large");
    for (int peer = 0; peer < coll->nranks; peer++) {
        size_t send_bytes = send_counts[peer] * size, recv_bytes = recv_counts[peer] * size;
        coll->pairs[peer] = (weiri_pair){call.in + send_displs[peer] * size,
                                         call.out + recv_displs[peer] * size,
                                         send_bytes,
                                         recv_bytes,
                                         1,
                                         1};
        sent += send_bytes;
        received += recv_bytes;
    }
    if (WEIRI_UNLIKELY((sent && !in) || (received && !out)))
        return refuse(&call, "a buffer is NULL");
    const weiri_pair *self = &coll->pairs[coll->rank];
    if (WEIRI_UNLIKELY(self->send_bytes != self->recv_bytes))
        return refuse(&call, "this rank's counts for itself differ");
    return dispatch(coll, &call, sent > received ? sent : received);
}

static int fits(uint64_t count, uint64_t displ, size_t elements)
{
    return !count || (displ <= elements && count <= elements - displ);
}

/* On the host the arrays are read now. They cannot be refused to the caller alone: peers may
 * have got theirs right, and wait. */
static weir_status read_splits(weiri_coll *coll, const weiri_call *call,
                               const weiri_splits *splits)
{
    size_t size = call->element_bytes;
    for (int peer = 0; peer < coll->nranks; peer++) {
        uint64_t send = splits->send_counts[peer], send_at = splits->send_displs[peer];
        uint64_t recv = splits->recv_counts[peer], recv_at = splits->recv_displs[peer];
        int in_fits = fits(send, send_at, splits->in_bytes / size);
        if (!in_fits || !fits(recv, recv_at, splits->out_bytes / size)) {
            weiri_fail(WEIR_ERR_INVALID,
                       "rank %d: weir_alltoallv_device: %llu elements to be %s rank %d, from "
                       "element %llu on, end behind the buffer's %zu bytes",
                       coll->rank, (unsigned long long)(in_fits ? recv : send),
                       in_fits ? "received from" : "sent to", peer,
                       (unsigned long long)(in_fits ? recv_at : send_at),
                       in_fits ? splits->out_bytes : splits->in_bytes);
            return weiri_comm_give_up(coll->comm, WEIR_ERR_INVALID);
        }
        coll->pairs[peer] = (weiri_pair){call->in + (send ? send_at * size : 0),
                                         call->out + (recv ? recv_at * size : 0),
                                         send * size,
                                         recv * size,
                                         1,
                                         1};
    }
    const weiri_pair *self = &coll->pairs[coll->rank];
    if (self->send_bytes == self->recv_bytes)
        return WEIR_OK;
    weiri_fail(WEIR_ERR_MISMATCH,
               "rank %d: weir_alltoallv_device: this rank's counts for itself differ: %zu bytes "
               "are sent, %zu expected", coll->rank, self->send_bytes, self->recv_bytes);
    return weiri_comm_give_up(coll->comm, WEIR_ERR_MISMATCH);
}

weir_status weir_alltoallv_device(weir_comm *comm, const void *in, size_t in_bytes,
                                  const uint64_t *send_counts, const uint64_t *send_displs,
                                  void *out, size_t out_bytes, const uint64_t *recv_counts,
                                  const uint64_t *recv_displs, weir_dtype dtype,
                                  weir_stream stream)
{
    const weiri_splits splits = {send_counts, send_displs, recv_counts,
                                 recv_displs, in_bytes,    out_bytes};
    weiri_call call = {.collective = WEIR_COLL_ALLTOALLV, .in = in, .out = out, .dtype = dtype};
    weiri_coll *coll = NULL;
    weir_status status = prepare(comm, &call, 1, stream, &coll);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (WEIRI_UNLIKELY(!send_counts || !send_displs || !recv_counts || !recv_displs))
        return refuse(&call, "counts and displacements are required");
    if (WEIRI_UNLIKELY((in_bytes && !in) || (out_bytes && !out)))
        return refuse(&call, "a buffer is NULL; say 0 bytes where there is none");
    if (WEIRI_UNLIKELY((in_bytes | out_bytes) >> WEIRI_SPLIT_BITS))
        return refuse(&call, "a buffer is longer than any machine's memory");
    status = refuse_in_place(&call);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    complete_buffers(coll, &call);
    if (comm->gpu)
        call.splits = &splits;
    else
        status = read_splits(coll, &call, &splits);
    return status == WEIR_OK ? dispatch(coll, &call, in_bytes > out_bytes ? in_bytes : out_bytes)
                             : status;
}

static int is_peer_or_none(const weir_comm *comm, int peer)
{
    return peer >= -1 && peer < comm->nranks;
}

weir_status weir_sendrecv(weir_comm *comm, const void *in, size_t send_count, int destination,
                          void *out, size_t recv_count, int source, weir_dtype dtype,
                          weir_stream stream)
{
    size_t larger = send_count > recv_count ? send_count : recv_count;
    weiri_call call = {
        .collective = WEIR_COLL_SENDRECV, .in = in, .out = out, .count = larger, .dtype = dtype};
    weiri_coll *coll = NULL;
    weir_status status = prepare(comm, &call, 1, stream, &coll);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    if (WEIRI_UNLIKELY(!is_peer_or_none(comm, destination) || !is_peer_or_none(comm, source)))
        return refuse(&call, "destination or source is outside the communicator");
    if (WEIRI_UNLIKELY((destination >= 0 && send_count && !in) ||
                       (source >= 0 && recv_count && !out)))
        return refuse(&call, "a buffer is NULL");
    if (WEIRI_UNLIKELY((destination == comm->rank) != (source == comm->rank) ||
                       (source == comm->rank && send_count != recv_count)))
        return refuse(&call, "a rank that sends to itself receives the same from itself");
    status = refuse_in_place(&call);
    if (WEIRI_UNLIKELY(status != WEIR_OK))
        return status;
    complete_buffers(coll, &call);
    memset(coll->pairs, 0, sizeof *coll->pairs * (size_t)coll->nranks);
    if (destination >= 0) {
        weiri_pair *to = &coll->pairs[destination];
        to->sends = 1;
        to->from = call.in;
        to->send_bytes = send_count * call.element_bytes;
    }
    if (source >= 0) {
        weiri_pair *from = &coll->pairs[source];
        from->receives = 1;
        from->to = call.out;
        from->recv_bytes = recv_count * call.element_bytes;
    }
    return dispatch(coll, &call, call.bytes);
}
