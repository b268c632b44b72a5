/* Batches on a stream: see timed.h. */
#include "bench/measure/timed.h"

#include "bench/trial/data.h"

static weir_status enqueue_batch(void *context)
{
    bench_batch *batch = context;
    weir_status status = WEIR_OK;
    if (batch->graph)
        bench_trial_set_step(batch->trial, batch->step);
    for (int i = 0; i < batch->operations && status == WEIR_OK; i++) {
        bench_trial_next(batch->trial);
        status = batch->candidate->ops->run(batch->candidate);
        if (status == WEIR_OK && batch->delay_us > 0)
            status = bench_gpu_compute(batch->trial->job->gpu, 0, batch->delay_us, 1);
    }
    return status;
}

weir_status bench_batch_open(bench_batch *batch, bench_trial *trial, bench_candidate *candidate,
                             int operations, int graph)
{
    *batch = (bench_batch){.trial = trial,
                           .candidate = candidate,
                           .operations = operations,
                           .graph = graph,
                           .step = trial->splits->step};
    return graph && !candidate->batch
               ? bench_gpu_record(trial->job->gpu, enqueue_batch, batch, &batch->recording)
               : WEIR_OK;
}

/* Whether the lead-in is a replay of the whole batch. */
static int replays_lead_in(const bench_batch *batch)
{
    return batch->recording && !batch->trial->series->batch_is_long;
}

static int leading_operations(const bench_batch *batch)
{
    enum { LEADING_OPERATIONS = 3 };
    if (replays_lead_in(batch))
        return batch->operations;
    return batch->trial->series->batch_is_long ? 1 : LEADING_OPERATIONS;
}

int bench_batch_operations(const bench_batch *batch)
{
    return leading_operations(batch) + batch->operations;
}

/* Operations before the start event, on the buffers of the last operation; the same number on every
 * rank. A long batch keeps the stream busy with one operation. */
static weir_status lead_in(bench_batch *batch)
{
    weir_status status = WEIR_OK;
    if (replays_lead_in(batch))
        return bench_gpu_replay(batch->trial->job->gpu, batch->recording);
    for (int i = leading_operations(batch); i > 0 && status == WEIR_OK; i--)
        status = batch->candidate->ops->run(batch->candidate);
    return status;
}

weir_status bench_batch_run(bench_batch *batch, double *us)
{
    bench_gpu *gpu = batch->trial->job->gpu;
    double batch_us = 0;
    if (batch->candidate->batch)
        return batch->candidate->batch(batch->candidate, batch->operations, batch->graph, us);
    weir_status status = lead_in(batch);
    if (status == WEIR_OK)
        status = bench_gpu_mark_start(gpu);
    if (status == WEIR_OK)
        status = batch->recording ? bench_gpu_replay(gpu, batch->recording) : enqueue_batch(batch);
    if (status == WEIR_OK)
        status = bench_gpu_mark_end(gpu);
    weir_status waited = bench_trial_wait(batch->trial, batch->candidate);
    if (status == WEIR_OK)
        status = waited;
    if (status == WEIR_OK)
        status = bench_gpu_marked_us(gpu, &batch_us);
    *us = batch_us / batch->operations;
    return status;
}

void bench_batch_close(bench_batch *batch)
{
    bench_gpu_forget(batch->recording);
    batch->recording = NULL;
}
