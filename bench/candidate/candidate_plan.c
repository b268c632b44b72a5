/* A plan as a candidate: each call goes through weir_executor_run. */
#include "bench/candidate/candidates.h"

#include <weir/plan.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct plan_state {
    char *file;
    weir_plan *plan;
    weir_executor *executor;
    char refusal[64]; /* the length of bench_result.refusal */
} plan_state;

/* Sizes are rounded down to whole blocks, so one may leave the range that was checked. */
static const char *plan_refuses(bench_candidate *self, const bench_operation *operation)
{
    plan_state *state = self->state;
    const weir_call *call = &operation->call;
    uint64_t least, most;
    size_t bytes = call->in_bytes > call->out_bytes ? call->in_bytes : call->out_bytes;
    weir_plan_range(state->plan, &least, &most);
    if (bytes >= least && bytes <= most)
        return NULL;
    snprintf(state->refusal, sizeof state->refusal,
             "the plan is for %" PRIu64 " to %" PRIu64 " bytes", least, most);
    return state->refusal;
}

static weir_status plan_prepare(bench_candidate *self, const bench_operation *operation)
{
    self->operation = operation;
    return WEIR_OK;
}

static weir_status plan_run(bench_candidate *self)
{
    const plan_state *state = self->state;
    const weir_call *c = &self->operation->call;
    return weir_executor_run(state->executor, state->plan, c->in, c->out, c->in_bytes, c->out_bytes,
                             c->dtype, c->op, bench_gpu_stream(self->job->gpu));
}

static void plan_close(bench_candidate *self)
{
    plan_state *state = self->state;
    weir_executor_destroy(state->executor);
    weir_plan_free(state->plan);
    free(state->file);
    bench_candidate_free(self);
}

static const bench_candidate_ops plan_ops = {
    plan_refuses, plan_prepare, plan_run, bench_candidate_out, bench_candidate_forced, plan_close};

weir_status bench_candidate_plan_open(bench_job *job, const char *file, bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    weir_status status = bench_candidate_create(job, &plan_ops, sizeof(plan_state), &self);
    plan_state *state = status == WEIR_OK ? self->state : NULL;
    if (status == WEIR_OK)
        status = weir_plan_read(file, &state->plan);
    if (status == WEIR_OK)
        self->plan_file = state->file = realpath(file, NULL);
    status = bench_job_agree(job, status, "plan");
    if (status == WEIR_OK)
        status = weir_executor_create(job->comm, &state->executor);
    if (status != WEIR_OK) {
        if (self)
            plan_close(self);
        return status;
    }
    self->is_foreign = 1;
    self->divides_last = 1;
    snprintf(self->forced, sizeof self->forced, "plan:%.26s", weir_plan_name(state->plan));
    bench_candidate_name_weir(self);
    *candidate = self;
    return WEIR_OK;
}
