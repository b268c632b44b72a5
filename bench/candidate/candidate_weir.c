/* weir as a candidate: the public collectives on a communicator. */
#include "bench/candidate/candidate.h"

#include <stdio.h>
#include <string.h>

static const char *refuses(bench_candidate *self, const bench_call *call)
{
    (void)self;
    (void)call;
    return NULL;
}

static weir_status prepare(bench_candidate *self, const bench_call *call)
{
    self->call = call;
    return weir_comm_set_algo(self->job->comm, call->collective,
                              *self->forced ? self->forced : "auto");
}

/* Rank r sends to r + 1 and receives from r - 1, cyclic. */
static weir_status run_sendrecv(weir_comm *comm, const bench_call *call, weir_stream stream)
{
    int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    return weir_sendrecv(comm, call->in, call->count, (rank + 1) % nranks, call->out, call->count,
                         (rank + nranks - 1) % nranks, call->dtype, stream);
}

static weir_status run_alltoallv(weir_comm *comm, const bench_call *c, weir_stream stream)
{
    size_t n = (size_t)weir_comm_nranks(comm);
    const uint64_t *counts = c->device_counts;
    if (!counts)
        return weir_alltoallv(comm, c->in, c->send_counts, c->send_displs, c->out, c->recv_counts,
                              c->recv_displs, c->dtype, stream);
    return weir_alltoallv_device(comm, c->in, c->in_bytes, counts, counts + n, c->out,
                                 c->out_bytes, counts + 2 * n, counts + 3 * n, c->dtype, stream);
}

static weir_status run(bench_candidate *self)
{
    const bench_call *c = self->call;
    weir_comm *comm = self->job->comm;
    weir_stream stream = bench_gpu_stream(self->job->gpu);
    switch (c->collective) {
    case WEIR_COLL_ALLREDUCE:
        return weir_allreduce(comm, c->in, c->out, c->count, c->dtype, c->op, stream);
    case WEIR_COLL_REDUCE_SCATTER:
        return weir_reduce_scatter(comm, c->in, c->out, c->count, c->dtype, c->op, stream);
    case WEIR_COLL_ALLGATHER:
        return weir_allgather(comm, c->in, c->out, c->count, c->dtype, stream);
    case WEIR_COLL_BROADCAST:
        return weir_broadcast(comm, c->in, c->out, c->count, c->dtype, c->root, stream);
    case WEIR_COLL_REDUCE:
        return weir_reduce(comm, c->in, c->out, c->count, c->dtype, c->op, c->root, stream);
    case WEIR_COLL_ALLTOALL:
        return weir_alltoall(comm, c->in, c->out, c->count, c->dtype, stream);
    case WEIR_COLL_ALLTOALLV:
        return run_alltoallv(comm, c, stream);
    case WEIR_COLL_SENDRECV:
        return run_sendrecv(comm, c, stream);
    case WEIR_COLL_COUNT:
        break;
    }
    return WEIR_ERR_INVALID;
}

static const char *algo(bench_candidate *self)
{
    const char *name = weir_comm_last_algo(self->job->comm);
    return name ? name : "";
}

static const bench_candidate_ops ops = {refuses, prepare, run, bench_candidate_out, algo,
                                        bench_candidate_free};

weir_status bench_candidate_weir_open(bench_job *job, const char *algo_name,
                                      bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &ops, 0, &self);
    if (status != WEIR_OK)
        return status;
    snprintf(self->forced, sizeof self->forced, "%s",
             strcmp(algo_name, "auto") == 0 ? "" : algo_name);
    bench_candidate_name_weir(self);
    *candidate = self;
    return WEIR_OK;
}
