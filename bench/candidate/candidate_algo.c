/* An algorithm object as a candidate: a kernel of a file, or a plan. Each call goes through
 * weir_algo_execute. */
#include "bench/candidate/candidate.h"
#include "bench/options/algo_words.h"

#include <stdio.h>

typedef struct algo_state {
    weir_algo *algo;
    weir_call call;      /* the operation's call, with the grid */
    int blocks, threads; /* the grid; 0: the algorithm's default */
} algo_state;

static const char *algo_refuses(bench_candidate *self, const bench_operation *operation)
{
    (void)self;
    return operation->call.device_splits ? "counts on the device"
                                         : bench_candidate_needs_two(operation);
}

static weir_status algo_prepare(bench_candidate *self, const bench_operation *operation)
{
    algo_state *state = self->state;
    self->operation = operation;
    state->call = operation->call;
    state->call.blocks = state->blocks;
    state->call.threads = state->threads;
    /* Lengths follow from the counts, except for alltoallv; buffers may be longer. */
    if (state->call.collective != WEIR_COLL_ALLTOALLV)
        state->call.in_bytes = state->call.out_bytes = 0;
    return WEIR_OK;
}

static weir_status algo_run(bench_candidate *self)
{
    const algo_state *state = self->state;
    return weir_algo_execute(state->algo, self->job->comm, &state->call);
}

static void algo_close(bench_candidate *self)
{
    algo_state *state = self->state;
    weir_algo_destroy(state->algo);
    bench_candidate_free(self);
}

static const bench_candidate_ops algo_ops = {
    algo_refuses, algo_prepare, algo_run, bench_candidate_out, bench_candidate_forced, algo_close};

weir_status bench_candidate_algo_open(bench_job *job, weir_algo *made, const char *name,
                                      bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &algo_ops, sizeof(algo_state), &self);
    if (status != WEIR_OK)
        return status;
    algo_state *state = self->state;
    state->algo = made;
    bench_algo_grid(name, &state->blocks, &state->threads);
    self->is_foreign = 1;
    snprintf(self->forced, sizeof self->forced, "%s", name);
    bench_candidate_name_weir(self);
    *candidate = self;
    return WEIR_OK;
}
