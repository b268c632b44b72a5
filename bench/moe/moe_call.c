/* Timed calls: see moe_call.h. */
#include "bench/moe/moe_call.h"

enum { NUMBERS = 2 << 20 /* of 4 bytes */ };

/* ------------------------------------------------------------------- enqueue */

/* The slot, or version, of a pair of a chain. With fp8, combine adds the outputs of one version, so
 * all pairs work on that. */
static int pair_of(const bench_moe_options *o, int first, int pair)
{
    return o->fp8 ? first : (first + pair) % WEIRV_MOE_VERSIONS;
}

int bench_moe_chain_end(const bench_moe_options *o, int first)
{
    return pair_of(o, first, o->chain - 1);
}

/* Pairs back to back. Combine adds the received rows, or with fp8 prepared outputs. */
static weir_status enqueue_chain(moe_candidate *c, int first)
{
    const bench_moe_options *o = c->trial->options;
    weir_status status = WEIR_OK;
    c->adds_rows = !o->fp8;
    for (int pair = 0; status == WEIR_OK && pair < o->chain; pair++) {
        status = c->ops->dispatch(c, pair_of(o, first, pair));
        if (status == WEIR_OK)
            status = c->ops->combine(c, pair_of(o, first, pair));
    }
    c->adds_rows = 0;
    return status;
}

static weir_status enqueue_call(void *context)
{
    const moe_call *call = context;
    moe_candidate *c = call->candidate;
    if (call->phase == MOE_PHASE_CHAIN)
        return enqueue_chain(c, call->slot);
    return call->phase == MOE_PHASE_DISPATCH ? c->ops->dispatch(c, call->slot)
                                             : c->ops->combine(c, call->slot);
}

/* Copies the inputs of versions, from `first` on, to the slots that a captured call reads. */
static weir_status place_inputs(const moe_call *call, int first)
{
    moe_candidate *c = call->candidate;
    const bench_moe_options *o = c->trial->options;
    const int is_chain = call->phase == MOE_PHASE_CHAIN;
    const int has_outputs = call->phase == MOE_PHASE_COMBINE || (is_chain && o->fp8);
    const int parts = MOE_PART_WEIGHTS | (call->phase == MOE_PHASE_COMBINE ? 0 : MOE_PART_TOKENS) |
                      (has_outputs ? MOE_PART_OUTPUTS : 0);
    const int slots = is_chain && !o->fp8 ? WEIRV_MOE_VERSIONS : 1;
    weir_status status = WEIR_OK;
    for (int slot = 0; status == WEIR_OK && slot < slots; slot++)
        status = c->ops->place(c, slot, (first + slot) % WEIRV_MOE_VERSIONS, parts);
    return status;
}

/* ------------------------------------------------------------------- capture */

/* Runs a call, as a capture requires it, and captures it. Collective; agreed. */
static weir_status capture_call(moe_call *call)
{
    moe_candidate *c = call->candidate;
    bench_job *job = c->trial->job;
    weir_status status = place_inputs(call, 0);
    if (status == WEIR_OK)
        status = enqueue_call(call);
    if (status == WEIR_OK)
        status = c->ops->fetch(c, 0);
    status = bench_job_agree(job, status, "call before a capture");
    if (status != WEIR_OK)
        return status;
    return bench_job_agree(job, bench_gpu_record(job->gpu, enqueue_call, call, &call->graph),
                           "capture");
}

weir_status bench_moe_calls_open(moe_calls *calls, moe_candidate *c)
{
    static const moe_phase captured[] = {MOE_PHASE_DISPATCH, MOE_PHASE_COMBINE, MOE_PHASE_CHAIN};
    const bench_moe_options *o = c->trial->options;
    bench_job *job = c->trial->job;
    weir_status status = WEIR_OK;
    *calls = (moe_calls){.candidate = c};
    for (int phase = 0; phase < MOE_PHASES; phase++)
        calls->phases[phase] = (moe_call){.candidate = c, .phase = (moe_phase)phase};
    if (job->gpu)
        status = bench_job_agree(
            job, bench_gpu_alloc(job->gpu, sizeof(int32_t) * NUMBERS, &calls->numbers),
            "GPU memory");
    for (size_t i = 0; o->common.graph && i < sizeof captured / sizeof *captured; i++)
        if (status == WEIR_OK && (captured[i] != MOE_PHASE_CHAIN || o->chain))
            status = capture_call(&calls->phases[captured[i]]);
    return status;
}

void bench_moe_calls_close(moe_calls *calls)
{
    for (int phase = 0; phase < MOE_PHASES; phase++)
        bench_gpu_forget(calls->phases[phase].graph);
    if (calls->numbers)
        bench_gpu_free(calls->candidate->trial->job->gpu, calls->numbers);
    *calls = (moe_calls){0};
}

/* -------------------------------------------------------------------- timing */

/* Where ranks share cores, a rank that checks its results keeps others from seeing that their calls
 * have ended: so no rank goes on before all calls have ended. On GPUs the streams are held back
 * until everything has been enqueued. With GPUs of several nodes the host takes part in calls,
 * which end when it returns, so its clock counts. */
static int is_timed_on_gpu(const bench_job *job)
{
    return job->gpu && bench_job_most_nodes(job) == 1;
}

/* Two allreduces precede the first event: a long one, because the first long transfer after the
 * host has checked results takes 90 us more, until idle links are awake; and one of a
 * number, in which the ranks' streams wait for each other. */
static weir_status start_together(const moe_calls *calls)
{
    static const size_t counts[] = {NUMBERS, 1};
    bench_job *job = calls->candidate->trial->job;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && status == WEIR_OK; i++)
        status = weir_allreduce(job->comm, calls->numbers, calls->numbers, counts[i], WEIR_INT32,
                                WEIR_MAX, bench_gpu_stream(job->gpu));
    return status;
}

static weir_status begin_time(const moe_calls *calls, double *start_us)
{
    bench_job *job = calls->candidate->trial->job;
    bench_job_barrier_closely(job);
    *start_us = weiri_clock_us();
    if (!is_timed_on_gpu(job))
        return WEIR_OK;
    weir_status status = bench_gpu_hold(job->gpu);
    if (status == WEIR_OK)
        status = start_together(calls);
    return status == WEIR_OK ? bench_gpu_mark_start(job->gpu) : status;
}

static weir_status end_time(const moe_calls *calls, double start_us, weir_status status,
                            moe_time *time)
{
    bench_job *job = calls->candidate->trial->job;
    bench_gpu *gpu = job->gpu;
    if (!is_timed_on_gpu(job)) {
        time->end_us = weiri_clock_us();
        time->us = time->end_us - start_us;
        bench_job_barrier(job);
        return status;
    }
    if (status == WEIR_OK)
        status = bench_gpu_mark_end(gpu);
    bench_gpu_let_go(gpu);
    if (status == WEIR_OK)
        status = bench_gpu_sync(gpu);
    time->end_us = weiri_clock_us();
    return status == WEIR_OK ? bench_gpu_marked_us(gpu, &time->us) : status;
}

/* Makes a call of weir as slow as --inject says, on the host. */
static void slow_down(moe_calls *calls, moe_phase phase, double start_us)
{
    const moe_candidate *c = calls->candidate;
    const bench_options *options = &c->trial->options->common;
    calls->runs[phase]++;
    if (c->ops == &bench_moe_weir && bench_slowness_applies(options, c->trial->job->rank))
        bench_slow_down(&calls->slowness[phase], options, calls->runs[phase], start_us);
}

/* Without a graph slots and versions are the same. */
weir_status bench_moe_calls_run(moe_calls *calls, moe_phase phase, int version, moe_time *time)
{
    moe_call *call = &calls->phases[phase];
    double start_us;
    weir_status status = WEIR_OK;
    if (call->graph)
        status = place_inputs(call, version);
    else
        call->slot = version;
    if (status == WEIR_OK)
        status = begin_time(calls, &start_us);
    if (status != WEIR_OK)
        return status;
    status = call->graph ? bench_gpu_replay(calls->candidate->trial->job->gpu, call->graph)
                         : enqueue_call(call);
    if (status == WEIR_OK)
        slow_down(calls, phase, start_us);
    return end_time(calls, start_us, status, time);
}
