/* An algorithm as a candidate, whatever its kind: a kernel of a file, a plan. Each call goes
 * through weir_algo_execute. */
#include "bench/options/algo_words.h"
#include "bench/candidate/candidate.h"

#include <stdio.h>

typedef struct algo_state {
    weir_algo *algo;
    weir_call call; /* the operation's, with the grid */
    int blocks, threads; /* 0: the algorithm's own */
} algo_state;

static const char *refuses(bench_candidate *self, const bench_operation *operation)
{
    (void)self;
    return operation->call.device_splits ? "counts on the device" : NULL;
}

static weir_status prepare(bench_candidate *self, const bench_operation *operation)
{
    algo_state *state = self->state;
    self->operation = operation;
    state->call = operation->call;
    state->call.blocks = state->blocks;
    state->call.threads = state->threads;
    if (state->call.collective != WEIR_COLL_ALLTOALLV) /* from the counts: buffers may be longer */
        state->call.in_bytes = state->call.out_bytes = 0;
    return WEIR_OK;
}

static weir_status run(bench_candidate *self)
{
    const algo_state *state = self->state;
    return weir_algo_execute(state->algo, self->job->comm, &state->call);
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
    self->is_foreign = 1;
    snprintf(self->forced, sizeof self->forced, "%s", name);
    bench_candidate_name_weir(self);
    *candidate = self;
    return WEIR_OK;
}
