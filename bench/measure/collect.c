/* The times of all ranks become results on rank 0: see point.h. */
#include "bench/measure/point.h"

#include "bench/candidate/rivals.h"
#include "bench/job/exchange.h"

#include <stdlib.h>
#include <string.h>

/* The times of a group's ranks in iteration i, combined; of group ALL those of all ranks. */
enum { ALL = -1 };

static double combine(const bench_job *job, int group, const bench_result *result, int i,
                      bench_rank_time how)
{
    const size_t n = (size_t)result->iterations;
    const int leader = group == ALL ? 0 : job->groups[group].leader;
    const double first = result->all_us[(size_t)leader * n + (size_t)i];
    double low = first, high = first, sum = 0;
    int count = 0;
    for (int rank = 0; rank < job->nranks; rank++) {
        if (group != ALL && job->group_of[rank] != group)
            continue;
        double us = result->all_us[(size_t)rank * n + (size_t)i];
        low = us < low ? us : low;
        high = us > high ? us : high;
        sum += us;
        count++;
    }
    switch (how) {
    case BENCH_RANK_ZERO:
        return first;
    case BENCH_RANK_MEAN:
        return sum / count;
    case BENCH_RANK_MIN:
        return low;
    case BENCH_RANK_MAX:
        break;
    }
    return high;
}

/* On rank 0: statistics of a group, or of all ranks, whose slowest times stay in the result. */
static void summarise_group(const bench_trial *trial, int group, bench_result *result,
                            double *scratch, bench_stats *stats, double *time_us)
{
    const bench_job *job = trial->job;
    const int n = result->iterations;
    for (int i = 0; i < n; i++)
        result->slowest_us[i] = combine(job, group, result, i, BENCH_RANK_MAX);
    bench_sequence series = bench_result_sequence(result);
    *stats = bench_stats_series(&series, bench_iterations_resolution_us(trial), scratch);
    for (int i = 0; i < n; i++)
        scratch[i] = combine(job, group, result, i, (bench_rank_time)trial->options->rank_time);
    *time_us = bench_stats_make(scratch, (size_t)n).median;
}

/* On rank 0: statistics of one candidate. scratch has room for its iterations. */
static void summarise(const bench_trial *trial, bench_result *result, double *scratch)
{
    int n = result->iterations, skip = trial->options->skip < n ? trial->options->skip : n;
    for (int i = 0; result->groups && i < trial->job->ngroups; i++)
        summarise_group(trial, i, result, scratch, &result->groups[i].stats,
                        &result->groups[i].time_us);
    summarise_group(trial, ALL, result, scratch, &result->stats, &result->time_us);
    memcpy(scratch, result->slowest_us + skip, (size_t)(n - skip) * sizeof *scratch);
    result->per_iter = bench_stats_make(scratch, (size_t)(n - skip));
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

weir_status bench_collect_lateness(bench_job *job, const double *mine_us, int count,
                                   double median_us, bench_lateness *late)
{
    enum { CUDA_US = 5 };
    const size_t n = (size_t)count, ranks = (size_t)job->nranks;
    double *ends_us = NULL, *scratch = NULL;
    weir_status status = WEIR_OK;
    if (job->rank == 0) {
        ends_us = malloc(n * ranks * sizeof *ends_us);
        scratch = malloc((n + ranks) * sizeof *scratch);
        if (!ends_us || !scratch)
            status = bench_series_no_memory(job, count);
    }
    status = bench_job_agree(job, status, "times");
    if (status == WEIR_OK)
        bench_exchange_gather(job, mine_us, n * sizeof *ends_us, ends_us);
    if (status == WEIR_OK && job->rank == 0)
        *late = bench_lateness_make(ends_us, job->nranks, count, median_us, scratch);
    if (job->gpu && late->lag_us < CUDA_US)
        late->stands_out = 0;
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

/* On rank 0: room for what each of several groups measured. Returns -1 without memory. */
static int make_groups(const bench_trial *trial, bench_result *result)
{
    const bench_job *job = trial->job;
    const bench_row *row = trial->row;
    if (job->ngroups == 1 || job->rank != 0)
        return 0;
    result->groups = calloc((size_t)job->ngroups, sizeof *result->groups);
    for (int i = 0; result->groups && i < job->ngroups; i++) {
        const int nranks = job->groups[i].nranks;
        result->groups[i].nranks = nranks;
        result->groups[i].shape =
            nranks == row->nranks ? row->shape
                                  : bench_shape_make(row->collective, row->asked_bytes,
                                                     weir_dtype_bytes(row->dtype), 0, nranks, NULL);
    }
    return result->groups ? 0 : -1;
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
        if (!result->slowest_us || !result->all_us || !clocks || make_groups(trial, result) != 0)
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
    return series->wants_ends ? bench_collect_lateness(job, series->ends_us[index], series->count,
                                                       result->stats.median, &result->late)
                              : WEIR_OK;
}

/* On rank 0: the errors of each group. Collective. */
static void collect_wrong(const bench_job *job, bench_result *result)
{
    uint64_t *all = bench_exchange_collect(job, &result->own_wrong, sizeof result->own_wrong);
    for (int rank = 0; all && result->groups && rank < job->nranks; rank++)
        result->groups[job->group_of[rank]].wrong += all[rank];
    free(all);
}

void bench_collect_wrong(bench_trial *trial)
{
    for (int i = 0; trial->job->ngroups > 1 && i < trial->row->ncandidates; i++) {
        bench_result *result = &trial->row->results[trial->in_place][i];
        if (!bench_result_failed(result))
            continue;
        if (!result->groups)
            (void)make_groups(trial, result); /* without memory only the sum is known */
        collect_wrong(trial->job, result);
    }
}

weir_status bench_collect(bench_trial *trial)
{
    bench_result *results = trial->row->results[trial->in_place];
    weir_status status = WEIR_OK;
    for (int i = 0; i < trial->series->nmembers && status == WEIR_OK; i++) {
        bench_result *result = &results[trial->series->members[i]];
        if (!bench_result_failed(result))
            status = collect_member(trial, trial->series, i, result);
        if (status == WEIR_OK && result->nrivals)
            status = bench_rivals_collect(trial->job, result);
    }
    return status;
}
