/* Rounds of iterations, and when they are enough. */
#include "bench/series.h"

#include <stdlib.h>
#include <string.h>

/* More are not collected: they would fill the memory of rank 0. */
enum { ITERATIONS_MOST = 200000 };

weir_status bench_series_no_memory(bench_job *job, int iterations)
{
    return bench_job_note(job, WEIR_ERR_NO_MEMORY,
                          "no memory for the times of %d iterations; give a smaller -n",
                          iterations);
}

/* 0, or -1 without memory; the old array then stays. */
static int resize(double **values, size_t bytes)
{
    double *moved = realloc(*values, bytes);
    if (!moved)
        return -1;
    *values = moved;
    return 0;
}

weir_status bench_series_extend(bench_job *job, bench_series *series, int nsubjects, int more)
{
    size_t bytes = ((size_t)series->count + (size_t)more) * sizeof(double);
    weir_status status = WEIR_OK;
    for (int i = 0; i < nsubjects; i++) {
        int error = resize(&series->times_us[i], bytes);
        if (!error && series->wants_starts)
            error = resize(&series->starts_us[i], bytes);
        if (error)
            status = bench_series_no_memory(job, more);
    }
    return bench_job_agree(job, status, "times");
}

void bench_series_restart(bench_series *series, const bench_options *options)
{
    series->count = 0;
    memset(series->cpu_us, 0, sizeof series->cpu_us);
    series->until = options->until;
    series->step_us = bench_options_step_us(options);
    series->began_s = MPI_Wtime();
    series->limit_s = bench_options_until_s(options);
}

/* On rank 0, half the interval of one subject so far, as a share of its median.
 * both: two arrays of as many numbers as there are iterations. Collective. */
static double half_width(bench_job *job, const bench_series *series, int index, double *both)
{
    double *scratch = both + series->count;
    MPI_Reduce(series->times_us[index], both, series->count, MPI_DOUBLE, MPI_MAX, 0, job->mpi);
    if (job->rank != 0)
        return 0;
    bench_stats stats = bench_stats_series(both, (size_t)series->count, series->step_us, scratch);
    return bench_stats_half_width(&stats);
}

/* On rank 0: what the time and memory left allow. */
static int fitting(const bench_series *series)
{
    double spent_s = MPI_Wtime() - series->began_s;
    double most = (series->limit_s - spent_s) / spent_s * series->count;
    int next = series->count;
    if (most < next)
        next = most > 0 ? (int)most : 0;
    if (next > ITERATIONS_MOST - series->count)
        next = ITERATIONS_MOST - series->count;
    return next > 0 ? next : 0;
}

weir_status bench_series_more(bench_job *job, const bench_series *series, int nsubjects,
                              int *next)
{
    double widest = 0;
    *next = 0;
    if (!(series->until > 0))
        return WEIR_OK;
    double *both = malloc(2 * (size_t)series->count * sizeof *both);
    weir_status status = both ? WEIR_OK : bench_series_no_memory(job, series->count);
    status = bench_job_agree(job, status, "times");
    if (status == WEIR_OK) {
        for (int i = 0; i < nsubjects; i++) {
            double width = half_width(job, series, i, both);
            widest = width > widest ? width : widest;
        }
        *next = job->rank == 0 && widest > series->until ? fitting(series) : 0;
        MPI_Bcast(next, 1, MPI_INT, 0, job->mpi);
    }
    free(both);
    return status;
}

void bench_series_free(bench_series *series)
{
    for (int i = 0; i < BENCH_CONTENDERS_MAX; i++) {
        free(series->times_us[i]);
        free(series->starts_us[i]);
    }
    memset(series, 0, sizeof *series);
}
