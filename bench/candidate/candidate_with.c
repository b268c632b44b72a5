/* weir while competing calls run: see rivals.h. Everything else is weir's candidate. */
#include "bench/candidate/candidate.h"
#include "bench/candidate/rivals.h"

#include <stdio.h>
#include <string.h>

static bench_candidate *inner_of(const bench_candidate *self)
{
    return *(bench_candidate **)self->state;
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
    bench_candidate *inner = inner_of(self);
    bench_rivals_close(self->rivals);
    if (inner)
        inner->ops->close(inner);
    bench_candidate_free(self);
}

static const bench_candidate_ops with_ops = {with_refuses,        with_prepare, with_run,
                                             bench_candidate_out, with_algo,    with_close};

/* "weir+alltoall 16M group=mod:2" */
static void name_with(bench_candidate *self, const bench_options *options)
{
    size_t used = (size_t)snprintf(self->name, sizeof self->name, "weir");
    for (int i = 0; i < options->nrivals && used < sizeof self->name; i++)
        used += (size_t)snprintf(self->name + used, sizeof self->name - used, "+%s",
                                 options->rivals[i].text);
}

weir_status bench_candidate_with_open(bench_job *job, const bench_options *options,
                                      bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &with_ops, sizeof(bench_candidate *), &self);
    if (status == WEIR_OK)
        status = bench_candidate_weir_open(job, "auto", (bench_candidate **)self->state);
    status = bench_job_agree(job, status, "candidates");
    if (status == WEIR_OK)
        status = bench_rivals_open(job, options, &self->rivals);
    if (status != WEIR_OK) {
        if (self)
            with_close(self);
        return status;
    }
    memcpy(self->transport, inner_of(self)->transport, sizeof self->transport);
    name_with(self, options);
    self->peer = 1; /* the ratios compare it with weir alone */
    *candidate = self;
    return WEIR_OK;
}
