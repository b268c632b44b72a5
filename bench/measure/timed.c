/* The engine's callbacks: see timed.h. */
#include "bench/measure/timed.h"

#include "bench/gpu/nvml.h"

#include <weir/device.h>

#include <sched.h>

/* Operations of an iteration. */
static int operations_of(const bench_trial *trial)
{
    return trial->options->batched ? trial->series->batch : trial->options->aggregate;
}

/* Before an iteration: the step that its first operation comes to. It follows from the
 * iteration's number among all of the size, so contenders go through the same steps. */
static void go_to_step(const bench_timed *timed)
{
    bench_trial *trial = timed->trial;
    uint64_t before = (uint64_t)trial->series->count + timed->iterations;
    if (trial->row->collective != WEIR_COLL_ALLTOALLV || trial->splits->dist->nsteps == 1)
        return;
    int first = trial->splits->dist->nsteps - 1; /* the one before step 0 */
    bench_trial_take_step(trial, bench_splits_after(trial->splits, first,
                                                    before * (uint64_t)operations_of(trial)));
}

/* The step of the last operation of the iteration that comes next. */
static int last_step(const bench_timed *timed)
{
    const bench_trial *trial = timed->trial;
    if (trial->row->collective != WEIR_COLL_ALLTOALLV)
        return 0;
    int before = timed->batches.recorded ? timed->batches.step : trial->splits->step;
    return bench_splits_after(trial->splits, before, (uint64_t)operations_of(trial));
}

static weir_status begin_block(void *context)
{
    bench_timed *timed = context;
    timed->operations = 0;
    go_to_step(timed);
    weir_status status = bench_trial_reset(timed->trial, timed->contender);
    if (status == WEIR_OK)
        status = bench_cold_fill(timed->trial);
    if (status == WEIR_OK)
        status = timed->contender->ops->prepare(timed->contender, &timed->trial->operation);
    if (status == WEIR_OK && timed->trial->options->batched)
        status = bench_batch_open(&timed->batches, timed->trial, timed->contender,
                                  timed->trial->series->batch, timed->trial->options->graph > 0);
    return status;
}

/* An iteration with the fault of --inject. A replay is a call that no rank makes,
 * so that what the iteration before left stays. */
static weir_status run_with_fault(bench_timed *timed)
{
    bench_trial *trial = timed->trial;
    bench_fault fault = (bench_fault)trial->options->inject;
    size_t at = 0;
    weirv_case c = bench_samples_case(&timed->samples, &at);
    weir_status status = WEIR_OK;
    if (fault != BENCH_FAULT_REPLAY && !bench_inject_stays_away(fault, &c))
        status = timed->contender->ops->run(timed->contender);
    if (status == WEIR_OK)
        status = bench_trial_wait(trial, timed->contender);
    if (fault == BENCH_FAULT_REPLAY)
        trial->planted++;
    else if (status == WEIR_OK)
        status = bench_trial_inject(trial, timed->contender, fault, &c, at);
    return status;
}

static int is_to_fail(const bench_timed *timed)
{
    return timed->trial->options->inject_timed && bench_samples_is_second(&timed->samples) &&
           !timed->result->peer;
}

static weir_status run_operation(void *context)
{
    bench_timed *timed = context;
    bench_trial_next(timed->trial);
    bench_job_phase(timed->trial->job, "timed loop", ++timed->operations);
    if (is_to_fail(timed))
        return run_with_fault(timed);
    weir_status status = timed->contender->ops->run(timed->contender);
    if (status == WEIR_OK)
        status = bench_trial_wait(timed->trial, timed->contender);
    return status;
}

/* operations is what the trial says, which the batches already know. */
static weir_status run_batch(void *context, int operations, double *us)
{
    bench_timed *timed = context;
    timed->operations += (uint64_t)operations;
    bench_job_phase(timed->trial->job, "timed loop", timed->operations);
    if (is_to_fail(timed)) { /* the batch's last operation alone */
        bench_trial_take_step(timed->trial, timed->samples.step);
        return run_with_fault(timed);
    }
    return bench_batch_run(&timed->batches, us);
}

static void next_iteration(void *context)
{
    bench_timed *timed = context;
    if (!timed->batches.recorded) /* a recording has its steps */
        go_to_step(timed);
    timed->iterations++;
    bench_samples_next(&timed->samples, last_step(timed));
}

static void end_block(void *context)
{
    bench_timed *timed = context;
    bench_samples_end(&timed->samples);
    bench_batch_close(&timed->batches);
}

/* The state that the block leaves the GPU in. */
static void read_clocks(void *context)
{
    bench_timed *timed = context;
    bench_reading reading;
    if (bench_nvml_read(timed->trial->job->nvml, &reading) == 0)
        bench_clocks_add(&timed->result->clocks, &reading);
}

static void meet(void *context)
{
    bench_job_barrier(context);
}

static weir_status agree(void *context, weir_status mine)
{
    return bench_job_agree(context, mine, "timed loop");
}

static double largest(void *context, double mine)
{
    double all = mine;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, ((bench_job *)context)->mpi);
    return all;
}

static double now_us(void)
{
    return (double)weir_clock_ns() * 1e-3;
}

int bench_has_common_clock(const bench_job *job)
{
    return job->local_nranks == job->nranks;
}

/* On one machine ranks wait for a moment soon after the last one came;
 * elsewhere the exit from the reduction must do, as from a barrier. */
static void start_together(void *context)
{
    enum { WINDOW_US = 20, SPIN_US = 2 };
    double moment_us = largest(context, now_us()) + WINDOW_US;
    if (!bench_has_common_clock(context))
        return;
    for (double left = moment_us - now_us(); left > 0; left = moment_us - now_us())
        if (left > SPIN_US)
            sched_yield();
}

bench_subject bench_timed_subject(bench_timed *timed)
{
    return (bench_subject){.context = timed,
                           .begin = begin_block,
                           .next = next_iteration,
                           .end = end_block,
                           .after = read_clocks,
                           .run = run_operation,
                           .run_batch = run_batch};
}

bench_barrier bench_timed_barrier(bench_job *job)
{
    return (bench_barrier){.context = job,
                           .barrier = meet,
                           .agree = agree,
                           .largest = largest,
                           .start = start_together};
}
