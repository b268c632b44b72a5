/* The engine's callbacks: see timed.h. */
#include "bench/measure/timed.h"

#include "bench/candidate/rivals.h"
#include "bench/check/checks.h"
#include "bench/gpu/clocks.h"
#include "bench/job/exchange.h"
#include "bench/trial/data.h"

#include <weir/device.h>

#include <sched.h>
#include <unistd.h>

/* The number of operations in an iteration. */
static int operations_of(const bench_trial *trial)
{
    return trial->options->batched ? trial->series->batch : trial->options->aggregate;
}

/* Selects the step before the iteration's first operation. It follows from the iteration's number
 * within the size, so that all candidates use the same steps. */
static void go_to_step(const bench_timed *timed)
{
    bench_trial *trial = timed->trial;
    uint64_t before = (uint64_t)trial->series->count + timed->iterations;
    if (trial->row->collective != WEIR_COLL_ALLTOALLV || trial->splits->dist->nsteps == 1)
        return;
    int first = trial->splits->dist->nsteps - 1; /* the one before step 0 */
    bench_trial_set_step(
        trial, bench_splits_after(trial->splits, first, before * (uint64_t)operations_of(trial)));
}

/* The operations that an iteration performs, timed or not. */
static int performed_by(const bench_timed *timed)
{
    return timed->trial->options->batched ? bench_batch_operations(&timed->batches)
                                          : operations_of(timed->trial);
}

/* The step of the next iteration's last operation. */
static int last_step(const bench_timed *timed)
{
    const bench_trial *trial = timed->trial;
    if (trial->row->collective != WEIR_COLL_ALLTOALLV)
        return 0;
    int before = timed->batches.recording ? timed->batches.step : trial->splits->step;
    return bench_splits_after(trial->splits, before, (uint64_t)operations_of(trial));
}

static weir_status timed_begin_block(void *context)
{
    bench_timed *timed = context;
    timed->operations = 0;
    timed->slowness = (bench_slowness){0, 0};
    go_to_step(timed);
    weir_status status = bench_trial_reset(timed->trial, timed->candidate);
    if (status == WEIR_OK)
        status = bench_cold_fill(timed->trial);
    if (status == WEIR_OK)
        status = timed->candidate->ops->prepare(timed->candidate, &timed->trial->operation);
    if (status == WEIR_OK && timed->trial->options->batched)
        status = bench_batch_open(&timed->batches, timed->trial, timed->candidate,
                                  timed->trial->series->batch, timed->trial->options->graph > 0);
    if (status == WEIR_OK && timed->candidate->rivals)
        status = bench_rivals_start(timed->candidate->rivals);
    return status;
}

/* Runs an iteration with the fault of --inject. For replay no rank makes the call, so that the
 * output of the previous iteration stays. */
static weir_status run_with_fault(bench_timed *timed)
{
    bench_trial *trial = timed->trial;
    bench_fault fault = (bench_fault)trial->options->inject;
    size_t at = 0;
    weirv_case c = bench_samples_case(&timed->samples, &at);
    weir_status status = WEIR_OK;
    if (fault != BENCH_FAULT_REPLAY && !bench_inject_skips_call(fault, &c))
        status = timed->candidate->ops->run(timed->candidate);
    if (status == WEIR_OK)
        status = bench_trial_wait(trial, timed->candidate);
    if (fault == BENCH_FAULT_REPLAY)
        trial->planted++;
    else if (status == WEIR_OK)
        status = bench_inject_trial(trial, timed->candidate, fault, &c, at);
    return status;
}

static int wants_fault(const bench_timed *timed)
{
    return timed->trial->options->inject_timed && bench_samples_is_second(&timed->samples) &&
           !timed->result->peer;
}

int bench_slowness_applies(const bench_options *options, int rank)
{
    return options->inject_slow &&
           (!options->inject_slow_rank || options->inject_slow_rank - 1 == rank);
}

/* Waits for a share of the fastest operation so far. A share of this operation would include waits
 * for other ranks, and grow from operation to operation. If only one rank is slow, waits do not add
 * up, and it waits for a share of the mean operation. */
void bench_slow_down(bench_slowness *slowness, const bench_options *options, uint64_t operations,
                     double began_us)
{
    enum { SPIN_US = 2 };
    const double after_us = weiri_clock_us(), took_us = after_us - began_us;
    if (slowness->fastest_us == 0 || took_us < slowness->fastest_us)
        slowness->fastest_us = took_us;
    slowness->spent_us += took_us;
    const double base_us =
        options->inject_slow_rank ? slowness->spent_us / (double)operations : slowness->fastest_us;
    const double until_us = after_us + base_us * options->inject_slow / 100;
    for (double left = until_us - weiri_clock_us(); left > 0; left = until_us - weiri_clock_us())
        if (left > SPIN_US)
            sched_yield();
}

double bench_slow_batch(bench_slowness *slowness, double took_us, double delay_us, int percent)
{
    const double own_us = took_us - delay_us;
    if (own_us > 0 && (slowness->fastest_us == 0 || own_us < slowness->fastest_us))
        slowness->fastest_us = own_us;
    return slowness->fastest_us * percent / 100;
}

/* Whether --inject makes this candidate slower on this rank. */
static int is_slowed(const bench_timed *timed)
{
    return (!timed->result->peer || timed->candidate->runs_weir) &&
           bench_slowness_applies(timed->trial->options, timed->trial->job->rank);
}

static weir_status run_operation(void *context)
{
    bench_timed *timed = context;
    bench_trial_next(timed->trial);
    bench_job_phase(timed->trial->job, "timed loop", ++timed->operations);
    if (wants_fault(timed))
        return run_with_fault(timed);
    const bench_options *options = timed->trial->options;
    const int is_slow = is_slowed(timed);
    const double began_us = is_slow ? weiri_clock_us() : 0;
    weir_status status = timed->candidate->ops->run(timed->candidate);
    if (status == WEIR_OK)
        status = bench_trial_wait(timed->trial, timed->candidate);
    if (status == WEIR_OK && is_slow)
        bench_slow_down(&timed->slowness, options, timed->operations, began_us);
    return status;
}

/* operations is the same number that the batches were opened with. */
static weir_status run_batch(void *context, int operations, double *us)
{
    bench_timed *timed = context;
    timed->operations += (uint64_t)operations;
    bench_job_phase(timed->trial->job, "timed loop", timed->operations);
    if (wants_fault(timed)) { /* only the last operation of the batch */
        bench_trial_set_step(timed->trial, timed->samples.step);
        return run_with_fault(timed);
    }
    const bench_options *options = timed->trial->options;
    bench_batch *batch = &timed->batches;
    weir_status status = bench_batch_run(batch, us);
    if (is_slowed(timed))
        batch->delay_us =
            bench_slow_batch(&timed->slowness, *us, batch->delay_us, options->inject_slow);
    return status;
}

static void next_iteration(void *context)
{
    enum { PAUSE_US = 100000 }; /* NVLink's links sleep after 50 ms */
    bench_timed *timed = context;
    if (timed->trial->options->asleep)
        usleep(PAUSE_US);
    if (!timed->batches.recording) /* a captured graph contains its steps */
        go_to_step(timed);
    timed->iterations++;
    bench_samples_next(&timed->samples, last_step(timed), performed_by(timed));
}

static void timed_end_block(void *context)
{
    bench_timed *timed = context;
    bench_samples_end(&timed->samples);
    bench_batch_close(&timed->batches);
}

/* Reads the GPU's state after a block, and stops what competes. */
static void read_clocks(void *context)
{
    bench_timed *timed = context;
    if (timed->candidate->rivals)
        timed->rivals =
            bench_rivals_stop(timed->candidate->rivals, timed->candidate, timed->result);
    bench_reading reading;
    if (bench_nvml_read(timed->trial->job->nvml, &reading) == 0)
        bench_clocks_add(&timed->result->clocks, &reading);
}

static void enter_barrier(void *context)
{
    bench_job_barrier_closely(context);
}

static weir_status agree_on_status(void *context, weir_status mine)
{
    return bench_job_agree(context, mine, "timed loop");
}

static double largest_of_ranks(void *context, double mine)
{
    return bench_exchange_fold(context, BENCH_FOLD_MAX, mine);
}

/* On one node, ranks wait for a time shortly after the last one arrived; across nodes there is no
 * common clock, and returning from the reduction must do. */
static void start_together(void *context)
{
    enum { MPI_WINDOW_US = 20, SOCKETS_WINDOW_US = 200, SPIN_US = 2 };
    int window_us = ((bench_job *)context)->mpi ? MPI_WINDOW_US : SOCKETS_WINDOW_US;
    double moment_us = largest_of_ranks(context, weiri_clock_us()) + window_us;
    if (!bench_job_has_common_clock(context))
        return;
    for (double left = moment_us - weiri_clock_us(); left > 0; left = moment_us - weiri_clock_us())
        if (left > SPIN_US)
            sched_yield();
}

bench_subject bench_timed_subject(bench_timed *timed)
{
    return (bench_subject){.context = timed,
                           .begin = timed_begin_block,
                           .next = next_iteration,
                           .end = timed_end_block,
                           .after = read_clocks,
                           .run = run_operation,
                           .untimed_us = &timed->candidate->untimed_us,
                           .run_batch = run_batch};
}

bench_barrier bench_timed_barrier(bench_job *job)
{
    return (bench_barrier){.context = job,
                           .barrier = enter_barrier,
                           .agree = agree_on_status,
                           .largest = largest_of_ranks,
                           .start = start_together};
}
