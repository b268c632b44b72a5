/*
 * The built-in algorithms in the form of all: a call's lengths turned into the arguments of
 * the collective in weir/weir.h, which runs with the row forced for that one call.
 */
#include "algo/algo.h"

#include "base/error.h"
#include "coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct builtin {
    const weiri_algo *row; /* NULL: what the tuning table says */
} builtin;

/* ------------------------------------------------------------------- shapes */

static weir_status refuse(const weir_algo_call *call, const char *expected)
{
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s of %d ranks with %zu bytes of input and %zu of output: expected %s, "
                      "whole elements of %zu bytes",
                      weir_collective_name(call->collective), weir_comm_nranks(call->comm),
                      call->in_bytes, call->out_bytes, expected, weir_dtype_bytes(call->dtype));
}

static int integer_extra(const weir_algo_call *call, const char *name, int fallback)
{
    const int *given = weir_algo_call_extra(call, name);
    return given ? *given : fallback;
}

/* Whether part is whole / times, in whole elements. */
static int divides(const weiri_algo_shape *shape, size_t part, size_t whole, size_t times)
{
    return part % shape->element_bytes == 0 && whole / times == part && whole % times == 0;
}

static int ends_within(size_t count, size_t displ, size_t elements)
{
    return !count || (displ <= elements && count <= elements - displ);
}

static weir_status take_splits(const weir_algo_call *call, weiri_algo_shape *shape)
{
    shape->send_counts = weir_algo_call_extra(call, "send_counts");
    shape->send_displs = weir_algo_call_extra(call, "send_displs");
    shape->recv_counts = weir_algo_call_extra(call, "recv_counts");
    shape->recv_displs = weir_algo_call_extra(call, "recv_displs");
    if (!shape->send_counts || !shape->send_displs || !shape->recv_counts || !shape->recv_displs)
        return weiri_fail(WEIR_ERR_INVALID,
                          "alltoallv: the extras send_counts, send_displs, recv_counts and "
                          "recv_displs are required");
    for (int peer = 0; peer < weir_comm_nranks(call->comm); peer++)
        if (!ends_within(shape->send_counts[peer], shape->send_displs[peer],
                         call->in_bytes / shape->element_bytes) ||
            !ends_within(shape->recv_counts[peer], shape->recv_displs[peer],
                         call->out_bytes / shape->element_bytes))
            return weiri_fail(WEIR_ERR_INVALID,
                              "alltoallv: what is exchanged with rank %d ends behind a buffer",
                              peer);
    return WEIR_OK;
}

static weir_status take_peers(const weir_algo_call *call, weiri_algo_shape *shape)
{
    shape->destination = integer_extra(call, "destination", -1);
    shape->source = integer_extra(call, "source", -1);
    shape->send_count = call->in_bytes / shape->element_bytes;
    shape->recv_count = call->out_bytes / shape->element_bytes;
    return call->in_bytes % shape->element_bytes || call->out_bytes % shape->element_bytes
               ? refuse(call, "any lengths")
               : WEIR_OK;
}

weir_status weiri_algo_shape_of(const weir_algo_call *call, weiri_algo_shape *shape)
{
    const size_t n = (size_t)weir_comm_nranks(call->comm), in = call->in_bytes,
                 out = call->out_bytes;
    const int rank = weir_comm_rank(call->comm);
    *shape = (weiri_algo_shape){.element_bytes = weir_dtype_bytes(call->dtype),
                                .root = integer_extra(call, "root", 0)};
    shape->count = in / shape->element_bytes;
    switch (call->collective) {
    case WEIR_COLL_ALLREDUCE:
        return divides(shape, in, out, 1) ? WEIR_OK : refuse(call, "the same length");
    case WEIR_COLL_REDUCE_SCATTER:
        shape->count = out / shape->element_bytes;
        return divides(shape, out, in, n) ? WEIR_OK : refuse(call, "input = ranks * output");
    case WEIR_COLL_ALLGATHER:
        return divides(shape, in, out, n) ? WEIR_OK : refuse(call, "output = ranks * input");
    case WEIR_COLL_BROADCAST:
        shape->count = out / shape->element_bytes;
        return divides(shape, out, rank == shape->root ? in : out, 1)
                   ? WEIR_OK
                   : refuse(call, "the same length on the root");
    case WEIR_COLL_REDUCE:
        return divides(shape, in, rank == shape->root ? out : in, 1)
                   ? WEIR_OK
                   : refuse(call, "the same length on the root");
    case WEIR_COLL_ALLTOALL:
        shape->count = in / n / shape->element_bytes;
        return in == out && in % (n * shape->element_bytes) == 0
                   ? WEIR_OK
                   : refuse(call, "the same length, a block for each rank");
    case WEIR_COLL_ALLTOALLV:
        return take_splits(call, shape);
    case WEIR_COLL_SENDRECV:
        return take_peers(call, shape);
    case WEIR_COLL_COUNT:
        break;
    }
    return weiri_fail(WEIR_ERR_INTERNAL, "unknown collective");
}

/* ---------------------------------------------------------------- execution */

static weir_status run(const weir_algo_call *c, const weiri_algo_shape *s)
{
    switch (c->collective) {
    case WEIR_COLL_ALLREDUCE:
        return weir_allreduce(c->comm, c->in, c->out, s->count, c->dtype, c->op, c->stream);
    case WEIR_COLL_REDUCE_SCATTER:
        return weir_reduce_scatter(c->comm, c->in, c->out, s->count, c->dtype, c->op, c->stream);
    case WEIR_COLL_ALLGATHER:
        return weir_allgather(c->comm, c->in, c->out, s->count, c->dtype, c->stream);
    case WEIR_COLL_BROADCAST:
        return weir_broadcast(c->comm, c->in, c->out, s->count, c->dtype, s->root, c->stream);
    case WEIR_COLL_REDUCE:
        return weir_reduce(c->comm, c->in, c->out, s->count, c->dtype, c->op, s->root, c->stream);
    case WEIR_COLL_ALLTOALL:
        return weir_alltoall(c->comm, c->in, c->out, s->count, c->dtype, c->stream);
    case WEIR_COLL_ALLTOALLV:
        return weir_alltoallv(c->comm, c->in, s->send_counts, s->send_displs, c->out,
                              s->recv_counts, s->recv_displs, c->dtype, c->stream);
    case WEIR_COLL_SENDRECV:
        return weir_sendrecv(c->comm, c->in, s->send_count, s->destination, c->out, s->recv_count,
                             s->source, c->dtype, c->stream);
    case WEIR_COLL_COUNT:
        break;
    }
    return weiri_fail(WEIR_ERR_INTERNAL, "unknown collective");
}

static weir_backend backend_of(const weir_comm *comm)
{
    if (comm->internode)
        return WEIRI_BACKEND_INTERNODE;
    return comm->gpu ? WEIR_BACKEND_CUDA : WEIR_BACKEND_HOST;
}

/* The row in the place of what the table says, for one call. */
static weir_status run_forced(const builtin *state, weiri_coll *coll, const weir_algo_call *call,
                              const weiri_algo_shape *shape)
{
    weiri_choice *first = &coll->choices[call->collective][0];
    const weiri_choice saved = *first;
    const int has_grid = call->nblocks && call->nthreads;
    if (state->row->backend != backend_of(call->comm))
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "algorithm %s is of another backend",
                          state->row->name);
    if ((call->nblocks || call->nthreads) && !has_grid)
        return weiri_fail(WEIR_ERR_INVALID, "algorithm %s: give blocks and threads, or neither",
                          state->row->name);
    *first = (weiri_choice){.max_bytes = UINT64_MAX, .algo = state->row};
    if (has_grid && state->row->backend == WEIR_BACKEND_CUDA) {
        first->blocks = call->nblocks;
        first->threads = call->nthreads;
        snprintf(first->name, sizeof first->name, "%.15s:%dx%d", state->row->name, call->nblocks,
                 call->nthreads);
    } else {
        snprintf(first->name, sizeof first->name, "%s", state->row->name);
    }
    weir_status status = run(call, shape);
    if (coll->last_algo == first->name) { /* that name ends here */
        memcpy(coll->executed, first->name, sizeof coll->executed);
        coll->last_algo = coll->executed;
    }
    *first = saved;
    return status;
}

static weir_status builtin_launch(void *opaque, void *context, const weir_algo_call *call)
{
    const builtin *state = opaque;
    weiri_algo_shape shape;
    weiri_coll *coll = NULL;
    (void)context;
    weir_status status = weiri_algo_shape_of(call, &shape);
    if (status == WEIR_OK && state->row)
        status = weiri_coll_get(call->comm, &coll);
    if (status != WEIR_OK)
        return status;
    return state->row ? run_forced(state, coll, call, &shape) : run(call, &shape);
}

static const weir_algo_ops ops = {.launch = builtin_launch, .destroy = free};

weir_status weiri_algo_builtin(weir_collective collective, int row, weir_algo **algo)
{
    size_t count = 0;
    const weir_algo_info *infos = weir_algo_list(&count);
    builtin *state = calloc(1, sizeof *state);
    if (!state)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for an algorithm");
    state->row = row >= 0 ? &weiri_algo_table[row] : NULL;
    weir_algo *made = NULL;
    weir_status status = weir_algo_create(row >= 0 ? infos[row].name : "auto", collective, &ops,
                                          state, &made);
    if (status != WEIR_OK) {
        free(state);
        return status;
    }
    made->is_builtin = 1;
    snprintf(made->summary, sizeof made->summary, "%s",
             row >= 0 ? infos[row].summary : "what the tuning table says");
    *algo = made;
    return WEIR_OK;
}
