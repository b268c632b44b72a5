/* A candidate while competing calls or computations run: see rivals.h. */
#include "bench/candidate/candidate.h"
#include "bench/candidate/rivals.h"

#include <stdio.h>
#include <string.h>

typedef struct with_state {
    bench_candidate *inner;
    int borrows; /* 1: inner is a candidate of its own */
} with_state;

static bench_candidate *inner_of(const bench_candidate *self)
{
    return ((const with_state *)self->state)->inner;
}

static const void *with_result(bench_candidate *self)
{
    return inner_of(self)->ops->result(inner_of(self));
}

static const char *with_refuses(bench_candidate *self, const bench_operation *operation)
{
    return inner_of(self)->ops->refuses(inner_of(self), operation);
}

static weir_status with_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return inner_of(self)->ops->prepare(inner_of(self), operation);
}

static weir_status with_run(bench_candidate *self)
{
    return inner_of(self)->ops->run(inner_of(self));
}

static const char *with_algo(bench_candidate *self)
{
    return inner_of(self)->ops->algo(inner_of(self));
}

static void with_close(bench_candidate *self)
{
    const with_state *state = self->state;
    bench_rivals_close(self->rivals);
    if (state->inner && !state->borrows)
        state->inner->ops->close(state->inner);
    bench_candidate_free(self);
}

static const bench_candidate_ops with_ops = {with_refuses, with_prepare, with_run,
                                             with_result,  with_algo,    with_close};

/* "weir+alltoall 16M group=mod:2", "nccl:2.28.9:default+flops" */
static void name_with(bench_candidate *self, const bench_options *options)
{
    size_t used = (size_t)snprintf(self->name, sizeof self->name, "%.40s", inner_of(self)->name);
    for (int i = 0; i < options->nrivals && used < sizeof self->name; i++)
        used += (size_t)snprintf(self->name + used, sizeof self->name - used, "+%s",
                                 options->rivals[i].text);
}

weir_status bench_candidate_with_open(bench_job *job, const bench_options *options,
                                      bench_candidate *inner, bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &with_ops, sizeof(with_state), &self);
    if (status == WEIR_OK && inner)
        *(with_state *)self->state = (with_state){inner, 1};
    else if (status == WEIR_OK)
        status = bench_candidate_weir_open(job, "auto", &((with_state *)self->state)->inner);
    status = bench_job_agree(job, status, "candidates");
    if (status == WEIR_OK)
        status = bench_rivals_open(job, options, &self->rivals);
    if (status != WEIR_OK) {
        if (self)
            with_close(self);
        return status;
    }
    memcpy(self->transport, inner_of(self)->transport, sizeof self->transport);
    self->operands = inner_of(self)->operands;
    self->has_threads = inner_of(self)->has_threads;
    name_with(self, options);
    self->peer = 1; /* the ratios compare it with weir alone */
    self->runs_weir = !inner_of(self)->peer;
    *candidate = self;
    return WEIR_OK;
}
