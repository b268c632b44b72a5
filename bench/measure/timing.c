/* The timed part of a trial: how many iterations, whose, and what they say. */
#include "bench/measure/series.h"
#include "bench/measure/timed.h"

#include "bench/gpu/nvml.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* -n 0: each candidate gets this long, within these bounds. */
enum { BUDGET_US = 150000, ITERATIONS_LOW = 20, ITERATIONS_HIGH = 2000, PROBE_ITERATIONS = 3 };
/* Batches are about so long, within these bounds of operations, and so many. */
enum { BATCH_US = 1000, PROBE_BATCH = 4, BATCH_HIGH = 20, BATCHES_HIGH = 100 };

static bench_timing make_timing(const bench_trial *trial, int iterations)
{
    const bench_options *options = trial->options;
    bench_timing timing = {.iterations = iterations,
                           .warmups = options->warmups,
                           .aggregate = options->aggregate};
    if (strcmp(options->mode, "latency") == 0)
        timing.isolation = BENCH_SYNCHRONISED;
    else if (options->barrier_mode == 1)
        timing.isolation = BENCH_BARRIER_OPERATION;
    else if (options->barrier_mode == 3)
        timing.isolation = BENCH_BARRIER_ITERATION;
    if (trial->options->batched) {
        timing.isolation = BENCH_BATCHES;
        timing.aggregate = trial->series->batch;
    }
    return timing;
}

static double lowest(const double *values, int count)
{
    double low = values[0];
    for (int i = 1; i < count; i++)
        low = values[i] < low ? values[i] : low;
    return low;
}

/* Times, and adds what that cost to the row. */
static weir_status run_engine(bench_trial *trial, const bench_timing *timing,
                              const bench_barrier *barrier, bench_subject *subjects,
                              int nsubjects)
{
    bench_cost *cost = &trial->row->cost[trial->in_place];
    double began_s = MPI_Wtime(), aside_s = 0;
    double reading_s = -bench_nvml_spent_s(trial->job->nvml);
    weir_status status = bench_engine_run(timing, barrier, subjects, nsubjects);
    reading_s += bench_nvml_spent_s(trial->job->nvml);
    for (int i = 0; i < nsubjects && bench_options_verifies(trial->options); i++)
        aside_s += subjects[i].aside_us * 1e-6;
    cost->verification_s += aside_s;
    cost->timing_s += MPI_Wtime() - began_s - aside_s - reading_s;
    return status;
}

/* Times few iterations of every candidate: the slowest one's, on the slowest rank. */
static weir_status probe(bench_trial *trial, const bench_barrier *barrier,
                         bench_subject *subjects, int nsubjects, double *slowest_us)
{
    bench_timing timing = make_timing(trial, PROBE_ITERATIONS);
    double mine_us = 0;
    weir_status status = bench_series_extend(trial->job, trial->series, PROBE_ITERATIONS);
    if (status != WEIR_OK)
        return status;
    timing.warmups = 1;
    for (int i = 0; i < nsubjects; i++)
        subjects[i].wall_us = trial->series->times_us[i];
    status = run_engine(trial, &timing, barrier, subjects, nsubjects);
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < nsubjects; i++) {
        double low_us = lowest(subjects[i].wall_us, PROBE_ITERATIONS) * timing.aggregate;
        mine_us = low_us > mine_us ? low_us : mine_us;
    }
    MPI_Allreduce(&mine_us, slowest_us, 1, MPI_DOUBLE, MPI_MAX, trial->job->mpi);
    return WEIR_OK;
}

/* How often us fit into the budget. */
static int fit(double budget_us, double us, int low, int high)
{
    double fitting = us > 0 ? budget_us / us : high;
    return fitting < low ? low : fitting > high ? high : (int)fitting;
}

static int product(int a, int b)
{
    return a > INT_MAX / b ? INT_MAX : a * b;
}

/* How many iterations, all planned rounds together; the slowest candidate fits into
 * the budget, so that all get the same number. Probes if need be. */
static weir_status choose_iterations(bench_trial *trial, const bench_barrier *barrier,
                                     bench_subject *subjects, int nsubjects, int *iterations)
{
    const bench_options *options = trial->options;
    weir_status status = WEIR_OK;
    double us = 0;
    *iterations = options->iterations;
    if (!options->iterations) {
        status = probe(trial, barrier, subjects, nsubjects, &us);
        *iterations = fit(BUDGET_US, us, ITERATIONS_LOW, ITERATIONS_HIGH);
    }
    if (options->graph > 1)
        *iterations = product(*iterations, options->graph);
    return status;
}

/* The same on a GPU: -n is the operations of a batch, and -G the number of batches. */
static weir_status choose_batches(bench_trial *trial, const bench_barrier *barrier,
                                  bench_subject *subjects, int nsubjects, int *batches)
{
    const bench_options *options = trial->options;
    bench_series *series = trial->series;
    double us = 0;
    series->batch = PROBE_BATCH;
    series->batch_is_long = 0;
    weir_status status = probe(trial, barrier, subjects, nsubjects, &us);
    us /= PROBE_BATCH;
    series->batch = product(options->iterations ? options->iterations
                                                : fit(BATCH_US, us, 1, BATCH_HIGH),
                            options->aggregate);
    us *= series->batch;
    series->batch_is_long = us > BATCH_US;
    /* The lead-in takes time, too. */
    *batches = options->graph ? options->graph
                              : fit(BUDGET_US, 2 * us, ITERATIONS_LOW, BATCHES_HIGH);
    return status;
}

/* The smallest difference that the clock shows: CUDA's events have half a
 * microsecond. */
static double step_us(const bench_trial *trial)
{
    if (trial->options->batched)
        return 0.5 / trial->series->batch;
    return bench_options_step_us(trial->options);
}

/* The ranks' times of iteration i, combined as -a says. */
static double combine(const double *all_us, int nranks, int iterations, int i, int how)
{
    double low = all_us[i], high = all_us[i], sum = 0;
    for (int rank = 0; rank < nranks; rank++) {
        double us = all_us[(size_t)rank * (size_t)iterations + (size_t)i];
        low = us < low ? us : low;
        high = us > high ? us : high;
        sum += us;
    }
    switch ((bench_rank_time)how) {
    case BENCH_RANK_ZERO:
        return all_us[i];
    case BENCH_RANK_MEAN:
        return sum / nranks;
    case BENCH_RANK_MIN:
        return low;
    case BENCH_RANK_MAX:
        break;
    }
    return high;
}

/* On rank 0: statistics of one candidate from all ranks' times. scratch holds
 * iterations numbers. */
static void summarise(const bench_trial *trial, bench_result *result, double *scratch)
{
    const bench_options *options = trial->options;
    int n = result->iterations, nranks = trial->job->nranks;
    int skip = options->skip < n ? options->skip : n;
    for (int i = 0; i < n; i++)
        result->slowest_us[i] = combine(result->all_us, nranks, n, i, BENCH_RANK_MAX);
    memcpy(scratch, result->slowest_us + skip, (size_t)(n - skip) * sizeof *scratch);
    result->per_iter = bench_stats_make(scratch, (size_t)(n - skip));
    bench_sequence series = bench_result_sequence(result);
    result->stats = bench_stats_series(&series, step_us(trial), scratch);
    for (int i = 0; i < n; i++)
        scratch[i] = combine(result->all_us, nranks, n, i, options->rank_time);
    result->time_us = bench_stats_make(scratch, (size_t)n).median;
}

/* On rank 0: how far apart the ranks started each iteration. Collective. The
 * series' own starts are lost. */
static void collect_skew(const bench_job *job, bench_series *series, int index,
                         bench_result *result)
{
    double *starts_us = series->starts_us[index], *scratch = series->times_us[index];
    MPI_Reduce(starts_us, scratch, series->count, MPI_DOUBLE, MPI_MIN, 0, job->mpi);
    MPI_Reduce(job->rank ? starts_us : MPI_IN_PLACE, starts_us, series->count, MPI_DOUBLE,
               MPI_MAX, 0, job->mpi);
    for (int i = 0; job->rank == 0 && i < series->count; i++)
        starts_us[i] -= scratch[i];
    if (job->rank == 0)
        result->skew = bench_stats_make(starts_us, (size_t)series->count);
}

/* On rank 0: the readings of all ranks' GPUs together, in place of its own; each has
 * one entry in all. Collective. */
static void collect_clocks(const bench_job *job, bench_clocks *clocks, bench_clocks *all)
{
    const int bytes = (int)sizeof *clocks;
    MPI_Gather(clocks, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, job->mpi);
    for (int rank = 0; all && rank < job->nranks; rank++)
        if (rank != job->rank)
            bench_clocks_merge(clocks, &all[rank]);
    free(all);
}

/* Brings all ranks' times of one member to rank 0, which keeps the statistics. */
static weir_status collect(bench_trial *trial, bench_series *series, int index,
                           bench_result *result)
{
    bench_job *job = trial->job;
    int iterations = series->count;
    size_t n = (size_t)iterations;
    double cpu_us = series->cpu_us[index] / iterations;
    bench_clocks *clocks = NULL;
    weir_status status = WEIR_OK;
    if (job->rank == 0) {
        clocks = calloc((size_t)job->nranks, sizeof *clocks);
        result->slowest_us = malloc(n * sizeof(double));
        result->all_us = malloc(n * (size_t)job->nranks * sizeof(double));
        if (!result->slowest_us || !result->all_us || !clocks)
            status = bench_series_no_memory(job, iterations);
    }
    status = bench_job_agree(job, status, "times");
    if (status != WEIR_OK) {
        free(clocks);
        return status;
    }
    collect_clocks(job, &result->clocks, clocks);
    MPI_Gather(series->times_us[index], iterations, MPI_DOUBLE, result->all_us, iterations,
               MPI_DOUBLE, 0, job->mpi);
    MPI_Reduce(&cpu_us, &result->cpu_us, 1, MPI_DOUBLE, MPI_MAX, 0, job->mpi);
    result->iterations = iterations;
    result->rounds = series->rounds;
    memcpy(result->round_ends, series->ends, sizeof result->round_ends);
    result->warmups = series->warmups[index];
    result->unsteady = series->unsteady[index];
    result->timed = 1;
    if (job->rank == 0)
        summarise(trial, result, series->times_us[index]);
    if (series->wants_starts)
        collect_skew(job, series, index, result);
    return WEIR_OK;
}

/* Turns alternate, and the first subject runs last in the last round of all. */
static bench_order order_of(const bench_series *series)
{
    int left = series->extension_rounds ? series->extension_rounds : series->planned - series->rounds;
    if (series->planned == 1)
        return BENCH_BOTH_WAYS;
    return left % 2 ? BENCH_BACKWARD : BENCH_FORWARD;
}

/* Appends a round's iterations to the series of every subject. */
static weir_status run_round(bench_trial *trial, const bench_barrier *barrier,
                             const bench_timed *timed, bench_subject *subjects, int nsubjects)
{
    bench_series *series = trial->series;
    int iterations = bench_series_share(series);
    bench_timing timing = make_timing(trial, iterations);
    timing.order = order_of(series);
    weir_status status = bench_series_extend(trial->job, series, iterations);
    if (status != WEIR_OK || iterations == 0)
        return status;
    for (int i = 0; i < nsubjects; i++) {
        subjects[i].wall_us = series->times_us[timed[i].member] + series->count;
        subjects[i].warm_us = series->warm_us[timed[i].member];
    }
    for (int i = 0; i < nsubjects && series->wants_starts; i++)
        subjects[i].start_us = series->starts_us[timed[i].member] + series->count;
    status = run_engine(trial, &timing, barrier, subjects, nsubjects);
    for (int i = 0; i < nsubjects; i++) {
        int member = timed[i].member;
        series->cpu_us[member] += subjects[i].cpu_us * iterations;
        series->unsteady[member] |= subjects[i].unsteady;
        series->warm_us[member] = subjects[i].warm_us;
        if (subjects[i].warmups > series->warmups[member])
            series->warmups[member] = subjects[i].warmups;
    }
    bench_series_end_round(series, iterations);
    return status;
}

/* Who takes part in all rounds. */
static void choose_members(bench_trial *trial)
{
    const bench_result *results = trial->row->results[trial->in_place];
    bench_series *series = trial->series;
    series->nmembers = 0;
    for (int i = 0; i < trial->row->ncandidates; i++)
        if (results[i].ran && !bench_result_failed(&results[i]))
            series->members[series->nmembers++] = i;
}

/* The members that no check has found wrong since. Returns their number. */
static int select_subjects(bench_trial *trial, bench_timed *timed, bench_subject *subjects,
                           unsigned char *notes)
{
    bench_result *results = trial->row->results[trial->in_place];
    int count = 0;
    for (int member = 0; member < trial->series->nmembers; member++) {
        int i = trial->series->members[member];
        if (bench_result_failed(&results[i]))
            continue;
        timed[count] = (bench_timed){.trial = trial, .candidate = trial->candidates[i],
                                     .result = &results[i], .member = member};
        subjects[count] = bench_timed_subject(&timed[count]);
        bench_samples_open(&timed[count].samples, trial, trial->candidates[i], notes);
        count++;
    }
    return count;
}

/* The number of iterations of all planned rounds; probes if need be. */
static weir_status plan(bench_trial *trial, const bench_barrier *barrier, bench_subject *subjects,
                        int nsubjects)
{
    const bench_options *options = trial->options;
    bench_series *series = trial->series;
    int iterations = 0;
    weir_status status =
        options->batched ? choose_batches(trial, barrier, subjects, nsubjects, &iterations)
                         : choose_iterations(trial, barrier, subjects, nsubjects, &iterations);
    bench_series_restart(series, options, iterations, step_us(trial));
    return status;
}

static weir_status time_subjects(bench_trial *trial, bench_timed *timed,
                                 bench_subject *subjects, int nsubjects)
{
    const bench_barrier barrier = bench_timed_barrier(trial->job);
    double began_s = MPI_Wtime();
    weir_status status = WEIR_OK;
    if (trial->round == 0)
        status = plan(trial, &barrier, subjects, nsubjects);
    for (int i = 0; i < nsubjects && trial->round == 0; i++)
        bench_clocks_clear(&timed[i].result->clocks); /* of probes */
    if (status == WEIR_OK)
        status = run_round(trial, &barrier, timed, subjects, nsubjects);
    for (int i = 0; i < nsubjects && status == WEIR_OK; i++)
        status = bench_samples_collect(&timed[i].samples, timed[i].result);
    trial->series->spent_s += MPI_Wtime() - began_s;
    return status;
}

weir_status bench_trial_time(bench_trial *trial)
{
    bench_timed timed[BENCH_CANDIDATES_MAX];
    bench_subject subjects[BENCH_CANDIDATES_MAX];
    unsigned char *notes = malloc(bench_samples_bytes());
    weir_status status = WEIR_OK;
    trial->series->wants_starts =
        strcmp(trial->options->mode, "latency") == 0 && bench_job_has_common_clock(trial->job);
    if (!notes)
        status = bench_job_note(trial->job, WEIR_ERR_NO_MEMORY, "no memory for notes");
    status = bench_job_agree(trial->job, status, "checks of timed iterations");
    if (trial->round == 0)
        choose_members(trial);
    int nsubjects = select_subjects(trial, timed, subjects, notes);
    if (nsubjects && status == WEIR_OK)
        status = time_subjects(trial, timed, subjects, nsubjects);
    else
        trial->series->until = trial->series->extension_rounds = 0;
    free(notes);
    return status;
}

weir_status bench_trial_collect(bench_trial *trial)
{
    bench_result *results = trial->row->results[trial->in_place];
    weir_status status = WEIR_OK;
    for (int i = 0; i < trial->series->nmembers && status == WEIR_OK; i++) {
        bench_result *result = &results[trial->series->members[i]];
        if (!bench_result_failed(result))
            status = collect(trial, trial->series, i, result);
    }
    return status;
}
