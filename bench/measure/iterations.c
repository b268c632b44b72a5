/* The number of iterations of a trial, and the timing engine's settings: see point.h. */
#include "bench/measure/point.h"

#include "bench/gpu/clocks.h"
#include "bench/job/exchange.h"

#include <limits.h>

/* Without -n: the time for each candidate, and the bounds of the number of iterations. */
enum { BUDGET_US = 150000, ITERATIONS_LOW = 20, ITERATIONS_HIGH = 2000, PROBE_ITERATIONS = 3 };
/* The length of a batch, and the bounds of the number of operations and of batches. */
enum { BATCH_US = 1000, PROBE_BATCH = 4, BATCH_HIGH = 20, BATCHES_HIGH = 100 };

bench_timing bench_iterations_timing(const bench_trial *trial, int iterations)
{
    const bench_options *options = trial->options;
    bench_timing timing = {
        .iterations = iterations, .warmups = options->warmups, .aggregate = options->aggregate};
    if (options->mode == BENCH_MODE_LATENCY)
        timing.isolation = BENCH_SYNCHRONISED;
    else if (options->blocking == BENCH_BLOCKING_OPERATION)
        timing.isolation = BENCH_BARRIER_OPERATION;
    else if (options->blocking == BENCH_BLOCKING_ITERATION)
        timing.isolation = BENCH_BARRIER_ITERATION;
    if (trial->options->batched) {
        timing.isolation = BENCH_BATCHES;
        timing.aggregate = trial->series->batch;
    }
    if (trial->pattern->kind == BENCH_PATTERN_PINGPONG) /* both ranks send equally often */
        timing.aggregate += timing.aggregate % 2;
    return timing;
}

static double lowest(const double *values, int count)
{
    double low = values[0];
    for (int i = 1; i < count; i++)
        low = values[i] < low ? values[i] : low;
    return low;
}

bench_cost_clock bench_cost_start(const bench_trial *trial)
{
    return (bench_cost_clock){weiri_clock_s(), bench_nvml_spent_s(trial->job->nvml)};
}

void bench_cost_stop(bench_trial *trial, const bench_cost_clock *clock,
                     const bench_subject *subjects, int nsubjects)
{
    bench_cost *cost = &trial->row->cost[trial->in_place];
    double aside_s = 0, reading_s = bench_nvml_spent_s(trial->job->nvml) - clock->reading_s;
    for (int i = 0; i < nsubjects && bench_options_verifies(trial->options); i++)
        aside_s += subjects[i].aside_us * 1e-6;
    cost->verification_s += aside_s;
    cost->timing_s += weiri_clock_s() - clock->began_s - aside_s - reading_s;
}

/* Times a few iterations of every candidate. *slowest_us: the slowest candidate's iteration on the
 * slowest rank. Collective; agreed. */
static weir_status probe_candidates(bench_trial *trial, const bench_barrier *barrier,
                                    bench_subject *subjects, int nsubjects, double *slowest_us)
{
    bench_timing timing = bench_iterations_timing(trial, PROBE_ITERATIONS);
    double mine_us = 0;
    weir_status status = bench_series_reserve(trial->job, trial->series, PROBE_ITERATIONS);
    if (status != WEIR_OK)
        return status;
    timing.warmups = 1;
    for (int i = 0; i < nsubjects; i++)
        subjects[i].wall_us = trial->series->times_us[i];
    bench_cost_clock clock = bench_cost_start(trial);
    status = bench_engine_run(&timing, barrier, subjects, nsubjects);
    bench_cost_stop(trial, &clock, subjects, nsubjects);
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < nsubjects; i++) {
        double low_us = lowest(subjects[i].wall_us, PROBE_ITERATIONS) * timing.aggregate;
        mine_us = low_us > mine_us ? low_us : mine_us;
    }
    *slowest_us = bench_exchange_fold(trial->job, BENCH_FOLD_MAX, mine_us);
    return WEIR_OK;
}

/* How often us fits the budget, within bounds. */
static int fit(double budget_us, double us, int low, int high)
{
    double fitting = us > 0 ? budget_us / us : high;
    return fitting < low ? low : fitting > high ? high : (int)fitting;
}

static int product(int a, int b)
{
    return a > INT_MAX / b ? INT_MAX : a * b;
}

/* The number of iterations of all planned rounds together: the slowest candidate fits the budget,
 * and all get the same number. Collective; agreed. */
static weir_status choose_iterations(bench_trial *trial, const bench_barrier *barrier,
                                     bench_subject *subjects, int nsubjects, int *iterations)
{
    const bench_options *options = trial->options;
    weir_status status = WEIR_OK;
    double us = 0;
    *iterations = options->iterations;
    if (!options->iterations) {
        status = probe_candidates(trial, barrier, subjects, nsubjects, &us);
        *iterations = fit(BUDGET_US, us, ITERATIONS_LOW, ITERATIONS_HIGH);
    }
    if (options->graph > 1)
        *iterations = product(*iterations, options->graph);
    return status;
}

/* The same for a GPU: -n is the number of operations per batch, -G the number of batches. */
static weir_status choose_batches(bench_trial *trial, const bench_barrier *barrier,
                                  bench_subject *subjects, int nsubjects, int *batches)
{
    const bench_options *options = trial->options;
    bench_series *series = trial->series;
    double us = 0;
    series->batch = PROBE_BATCH;
    series->batch_is_long = 0;
    weir_status status = probe_candidates(trial, barrier, subjects, nsubjects, &us);
    us /= PROBE_BATCH;
    series->batch =
        product(options->iterations ? options->iterations : fit(BATCH_US, us, 1, BATCH_HIGH),
                options->aggregate);
    if (trial->pattern->kind == BENCH_PATTERN_PINGPONG) /* both ranks send equally often */
        series->batch += series->batch % 2;
    us *= series->batch;
    series->batch_is_long = us > BATCH_US;
    /* the lead-in takes time as well */
    *batches =
        options->graph ? options->graph : fit(BUDGET_US, 2 * us, ITERATIONS_LOW, BATCHES_HIGH);
    return status;
}

/* CUDA events resolve half a microsecond, the host's clock a nanosecond. */
double bench_iterations_resolution_us(const bench_trial *trial)
{
    return trial->options->batched ? 0.5 / trial->series->batch : 1e-3 / trial->options->aggregate;
}

weir_status bench_iterations_plan(bench_trial *trial, const bench_barrier *barrier,
                                  bench_subject *subjects, int nsubjects)
{
    const bench_options *options = trial->options;
    int iterations = 0;
    weir_status status = options->batched
                             ? choose_batches(trial, barrier, subjects, nsubjects, &iterations)
                             : choose_iterations(trial, barrier, subjects, nsubjects, &iterations);
    bench_series_restart(trial->series, options, iterations, bench_iterations_resolution_us(trial));
    return status;
}
