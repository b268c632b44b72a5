/* An algorithm as a candidate, whatever its kind: a kernel of a file, a plan. Each call goes
 * through weir_algo_execute. */
#include "bench/options/algo_words.h"
#include "bench/candidate/candidate.h"

#include <stdio.h>
#include <string.h>

/* What a call needs beyond the candidate. */
typedef struct algo_state {
    weir_algo *algo;
    int blocks, threads;     /* the grid; 0: the algorithm's own */
    int destination, source; /* sendrecv: to the next rank, from the one before */
    size_t in_bytes, out_bytes;
    weir_algo_extra extras[7];
} algo_state;

static const char *refuses(bench_candidate *self, const bench_call *call)
{
    (void)self;
    return call->device_counts ? "counts on the device" : NULL;
}

/* The lengths that weir/weir.h gives for a collective. */
static void measure(algo_state *state, const bench_call *call, size_t nranks)
{
    const size_t bytes = call->count * weir_dtype_bytes(call->dtype);
    state->in_bytes = state->out_bytes = bytes;
    switch (call->collective) {
    case WEIR_COLL_REDUCE_SCATTER:
        state->in_bytes = nranks * bytes;
        break;
    case WEIR_COLL_ALLGATHER:
        state->out_bytes = nranks * bytes;
        break;
    case WEIR_COLL_ALLTOALL:
        state->in_bytes = state->out_bytes = nranks * bytes;
        break;
    case WEIR_COLL_ALLTOALLV:
        state->in_bytes = call->in_bytes;
        state->out_bytes = call->out_bytes;
        break;
    default:
        break;
    }
}

static weir_status prepare(bench_candidate *self, const bench_call *call)
{
    algo_state *state = self->state;
    const int rank = self->job->rank, nranks = self->job->nranks;
    self->call = call;
    measure(state, call, (size_t)nranks);
    state->destination = (rank + 1) % nranks;
    state->source = (rank + nranks - 1) % nranks;
    const weir_algo_extra rooted[] = {{"root", &call->root}, {NULL, NULL}};
    const weir_algo_extra sent[] = {
        {"destination", &state->destination}, {"source", &state->source}, {NULL, NULL}};
    const weir_algo_extra split[] = {{"send_counts", call->send_counts},
                                     {"send_displs", call->send_displs},
                                     {"recv_counts", call->recv_counts},
                                     {"recv_displs", call->recv_displs},
                                     {NULL, NULL}};
    memset(state->extras, 0, sizeof state->extras);
    if (call->collective == WEIR_COLL_BROADCAST || call->collective == WEIR_COLL_REDUCE)
        memcpy(state->extras, rooted, sizeof rooted);
    else if (call->collective == WEIR_COLL_SENDRECV)
        memcpy(state->extras, sent, sizeof sent);
    else if (call->collective == WEIR_COLL_ALLTOALLV)
        memcpy(state->extras, split, sizeof split);
    return WEIR_OK;
}

static weir_status run(bench_candidate *self)
{
    algo_state *state = self->state;
    const bench_call *c = self->call;
    return weir_algo_execute(state->algo, self->job->comm, c->in, c->out, state->in_bytes,
                             state->out_bytes, c->dtype, c->op, bench_gpu_stream(self->job->gpu),
                             NULL, state->blocks, state->threads, state->extras);
}

static void close_algo(bench_candidate *self)
{
    algo_state *state = self->state;
    weir_algo_destroy(state->algo);
    bench_candidate_free(self);
}

static const bench_candidate_ops ops = {refuses, prepare, run, bench_candidate_out,
                                        bench_candidate_forced, close_algo};

weir_status bench_candidate_algo_open(bench_job *job, weir_algo *made, const char *name,
                                      bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &ops, sizeof(algo_state), &self);
    if (status != WEIR_OK)
        return status;
    algo_state *state = self->state;
    state->algo = made;
    bench_algo_grid(name, &state->blocks, &state->threads);
    self->stores_partial = 1;
    snprintf(self->forced, sizeof self->forced, "%s", name);
    bench_candidate_name_weir(self);
    *candidate = self;
    return WEIR_OK;
}
