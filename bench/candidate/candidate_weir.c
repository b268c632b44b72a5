/* weir as a candidate: the public call on the communicator, with an algorithm selected or forced.
 */
#include "bench/candidate/candidate.h"

#include <stdio.h>
#include <string.h>

static const char *weir_candidate_refuses(bench_candidate *self, const bench_operation *operation)
{
    (void)self;
    return bench_candidate_needs_two(operation);
}

static weir_status weir_candidate_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return weir_comm_set_algo(self->job->comm, operation->call.collective,
                              *self->forced ? self->forced : "auto");
}

static weir_status weir_candidate_run(bench_candidate *self)
{
    return weir_run(self->job->comm, &self->operation->call);
}

static const char *weir_candidate_algo(bench_candidate *self)
{
    const char *name = weir_comm_last_algo(self->job->comm);
    return name ? name : "";
}

static const bench_candidate_ops weir_candidate_ops = {
    weir_candidate_refuses, weir_candidate_prepare, weir_candidate_run,
    bench_candidate_out,    weir_candidate_algo,    bench_candidate_free};

weir_status bench_candidate_weir_open(bench_job *job, const char *algo_name,
                                      bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &weir_candidate_ops, 0, &self);
    if (status != WEIR_OK)
        return status;
    snprintf(self->forced, sizeof self->forced, "%s",
             strcmp(algo_name, "auto") == 0 ? "" : algo_name);
    bench_candidate_name_weir(self);
    *candidate = self;
    return WEIR_OK;
}
