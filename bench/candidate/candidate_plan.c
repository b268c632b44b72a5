/* A plan as a candidate: each call goes through weir_executor_run_call. */
#include "bench/candidate/candidates.h"

#include "base/contract.h"
#include "base/text.h"
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
    return weir_executor_run_call(state->executor, state->plan, &self->operation->call);
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

weir_status bench_candidate_plan_open(bench_job *job, const char *file, weir_plan *plan,
                                      bench_candidate **candidate)
{
    bench_candidate *self = NULL;
    char shown[27]; /* self->forced has room for so much */
    weir_status status = bench_candidate_create(job, &plan_ops, sizeof(plan_state), &self);
    plan_state *state = status == WEIR_OK ? self->state : NULL;
    if (status == WEIR_OK) {
        state->plan = plan;
        self->plan_file = state->file = realpath(file, NULL);
    } else {
        weir_plan_free(plan);
    }
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
    snprintf(self->forced, sizeof self->forced, "plan:%s",
             weiri_text_shown(weir_plan_name(state->plan), shown, sizeof shown));
    bench_candidate_name_weir(self);
    *candidate = self;
    return WEIR_OK;
}

/* The bytes of a block for a trial run: short, but in the plan's range. */
static uint64_t plan_trial_bytes(const weir_plan *plan, uint64_t blocks)
{
    enum { UNIT = 4096 };
    uint64_t least, most;
    weir_plan_range(plan, &least, &most);
    const uint64_t fits = (least + blocks * UNIT - 1) / (blocks * UNIT) * UNIT;
    const uint64_t block = fits ? fits : UNIT;
    return block * blocks <= most ? block : 0;
}

void bench_candidate_plan_skip_proof(bench_candidate *candidate)
{
    plan_state *state = candidate->state;
    weir_executor_set_checks(state->executor, 0);
}

weir_status bench_candidate_plan_try(bench_candidate *candidate, const bench_options *options,
                                     weir_collective collective)
{
    const plan_state *state = candidate->state;
    const bench_job *job = candidate->job;
    const weiri_contract *contract = weiri_contract_of((int)collective);
    const uint64_t n = (uint64_t)job->group_nranks;
    const uint64_t in = contract->in_has_blocks ? n : 1, out = contract->out_has_blocks ? n : 1;
    const uint64_t block = plan_trial_bytes(state->plan, in > out ? in : out);
    weir_mem *mems[2] = {NULL, NULL};
    if (!block)
        return WEIR_OK;
    weir_status status = weir_mem_alloc(job->comm, block * in, &mems[0]);
    if (status == WEIR_OK)
        status = weir_mem_alloc(job->comm, block * out, &mems[1]);
    status = bench_job_agree(candidate->job, status, "buffers of a trial run");
    if (status == WEIR_OK)
        status = weir_executor_run(
            state->executor, state->plan, weir_mem_pointer(mems[0]), weir_mem_pointer(mems[1]),
            block * in, block * out, options->dtype < 0 ? WEIR_FLOAT : (weir_dtype)options->dtype,
            options->op < 0 ? WEIR_SUM : (weir_op)options->op, bench_gpu_stream(job->gpu));
    if (status == WEIR_OK && job->gpu)
        status = bench_gpu_sync(job->gpu);
    if (status == WEIR_OK)
        status = weir_comm_barrier(job->comm); /* peers may still read this rank's buffers */
    weir_mem_free(mems[0]);
    weir_mem_free(mems[1]);
    return status;
}
