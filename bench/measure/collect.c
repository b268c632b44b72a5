/* The times of all ranks become results on rank 0: see point.h. */
#include "bench/measure/point.h"

#include "bench/job/exchange.h"

#include <stdlib.h>
#include <string.h>

/* The ranks' times of iteration i, combined. */
static double combine(const double *all_us, int nranks, int iterations, int i, bench_rank_time how)
{
    double low = all_us[i], high = all_us[i], sum = 0;
    for (int rank = 0; rank < nranks; rank++) {
        double us = all_us[(size_t)rank * (size_t)iterations + (size_t)i];
        low = us < low ? us : low;
        high = us > high ? us : high;
        sum += us;
    }
    switch (how) {
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

/* On rank 0: statistics of one candidate. scratch has room for its iterations. */
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
    result->stats = bench_stats_series(&series, bench_iterations_resolution_us(trial), scratch);
    for (int i = 0; i < n; i++)
        scratch[i] = combine(result->all_us, nranks, n, i, (bench_rank_time)options->rank_time);
    result->time_us = bench_stats_make(scratch, (size_t)n).median;
}

/* On rank 0: the time between the first and the last rank's start, per iteration. Overwrites the
 * series' starts and times. Collective. */
static void collect_skew(const bench_job *job, bench_series *series, int index,
                         bench_result *result)
{
    double *starts_us = series->starts_us[index], *scratch = series->times_us[index];
    bench_exchange_reduce(job, BENCH_FOLD_MIN, starts_us, series->count, scratch);
    bench_exchange_reduce(job, BENCH_FOLD_MAX, starts_us, series->count, starts_us);
    for (int i = 0; job->rank == 0 && i < series->count; i++)
        starts_us[i] -= scratch[i];
    if (job->rank == 0)
        result->skew = bench_stats_make(starts_us, (size_t)series->count);
}

/* On rank 0: which rank ends last. Collective; agreed. */
static weir_status collect_lateness(bench_job *job, const bench_series *series, int index,
                                    bench_result *result)
{
    const size_t n = (size_t)series->count, ranks = (size_t)job->nranks;
    double *ends_us = NULL, *scratch = NULL;
    weir_status status = WEIR_OK;
    if (job->rank == 0) {
        ends_us = malloc(n * ranks * sizeof *ends_us);
        scratch = malloc((n + ranks) * sizeof *scratch);
        if (!ends_us || !scratch)
            status = bench_series_no_memory(job, series->count);
    }
    status = bench_job_agree(job, status, "times");
    if (status == WEIR_OK)
        bench_exchange_gather(job, series->ends_us[index], n * sizeof *ends_us, ends_us);
    if (status == WEIR_OK && job->rank == 0)
        result->late =
            bench_lateness_make(ends_us, job->nranks, series->count, result->stats.median, scratch);
    free(ends_us);
    free(scratch);
    return status;
}

/* On rank 0: merges the readings of all ranks' GPUs; all has nranks entries and is freed.
 * Collective. */
static void collect_clocks(const bench_job *job, bench_clocks *clocks, bench_clocks *all)
{
    bench_exchange_gather(job, clocks, sizeof *clocks, all);
    for (int rank = 0; all && rank < job->nranks; rank++)
        if (rank != job->rank)
            bench_clocks_merge(clocks, &all[rank]);
    free(all);
}

/* Gathers all ranks' times of one member on rank 0 and computes its statistics. Collective;
 * agreed. */
static weir_status collect_member(bench_trial *trial, bench_series *series, int index,
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
    bench_exchange_gather(job, series->times_us[index], n * sizeof(double), result->all_us);
    result->cpu_us = bench_exchange_fold(job, BENCH_FOLD_MAX, cpu_us);
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
    return series->wants_ends ? collect_lateness(job, series, index, result) : WEIR_OK;
}

weir_status bench_collect(bench_trial *trial)
{
    bench_result *results = trial->row->results[trial->in_place];
    weir_status status = WEIR_OK;
    for (int i = 0; i < trial->series->nmembers && status == WEIR_OK; i++) {
        bench_result *result = &results[trial->series->members[i]];
        if (!bench_result_failed(result))
            status = collect_member(trial, trial->series, i, result);
    }
    return status;
}
