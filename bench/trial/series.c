/* Times of a trial as rounds add to them: see series.h. */
#include "bench/trial/series.h"

#include "bench/job/exchange.h"

#include <stdlib.h>
#include <string.h>

/* The limit for --until, because rank 0 holds all times; and the largest number of rounds in an
 * extension. */
enum { ITERATIONS_MOST = 200000, EXTENSION_ROUNDS = 32 };

weir_status bench_series_no_memory(bench_job *job, int iterations)
{
    return bench_job_note(job, WEIR_ERR_NO_MEMORY,
                          "no memory for the times of %d iterations; give a smaller -n",
                          iterations);
}

/* Returns 0, or -1 if out of memory; the old array then stays. */
static int resize(double **values, size_t bytes)
{
    double *moved = realloc(*values, bytes);
    if (!moved)
        return -1;
    *values = moved;
    return 0;
}

weir_status bench_series_reserve(bench_job *job, bench_series *series, int more)
{
    size_t bytes = ((size_t)series->count + (size_t)more) * sizeof(double);
    weir_status status = WEIR_OK;
    for (int i = 0; i < series->nmembers; i++) {
        int error = resize(&series->times_us[i], bytes);
        if (!error && series->wants_starts)
            error = resize(&series->starts_us[i], bytes);
        if (!error && series->wants_ends)
            error = resize(&series->ends_us[i], bytes);
        if (error)
            status = bench_series_no_memory(job, more);
    }
    return bench_job_agree(job, status, "times");
}

void bench_series_restart(bench_series *series, const bench_options *options, int iterations,
                          double resolution_us)
{
    series->count = series->rounds = 0;
    series->planned = bench_options_rounds(options);
    series->iterations = iterations;
    memset(series->cpu_us, 0, sizeof series->cpu_us);
    series->until = options->until;
    series->resolution_us = resolution_us;
    series->limit_s = bench_options_until_s(options);
}

int bench_series_next_iterations(const bench_series *series)
{
    long long all = series->iterations, v = series->rounds;
    if (series->extension_rounds)
        return series->extension_iterations;
    return (int)(all * (v + 1) / series->planned - all * v / series->planned);
}

void bench_series_end_round(bench_series *series, int iterations)
{
    series->count += iterations;
    if (series->rounds == 0 || series->planned > 1)
        series->rounds++;
    series->ends[series->rounds - 1] = series->count;
    series->extension_rounds -= series->extension_rounds > 0;
}

/* On rank 0: half the width of a member's interval so far, as a fraction of its median. both has
 * room for twice the iterations. Collective. */
static double half_width(bench_job *job, const bench_series *series, int index, double *both)
{
    bench_sequence all = {.samples = both,
                          .count = (size_t)series->count,
                          .ends = series->ends,
                          .rounds = series->rounds};
    bench_exchange_reduce(job, BENCH_FOLD_MAX, series->times_us[index], series->count, both);
    if (job->rank != 0)
        return 0;
    bench_stats stats = bench_stats_series(&all, series->resolution_us, both + series->count);
    return bench_stats_half_width(&stats);
}

/* On rank 0: the number of iterations that the remaining time and memory allow. */
static int fitting(const bench_series *series)
{
    double most = (series->limit_s - series->spent_s) / series->spent_s * series->count;
    int next = series->count;
    if (most < next)
        next = most > 0 ? (int)most : 0;
    if (next > ITERATIONS_MOST - series->count)
        next = ITERATIONS_MOST - series->count;
    return next > 0 ? next : 0;
}

/* Divides an extension into at most as many rounds as there were, but not into very short ones. */
static void plan_extension(bench_series *series, int iterations)
{
    int rounds = series->rounds < EXTENSION_ROUNDS ? series->rounds : EXTENSION_ROUNDS;
    int crumbs = iterations / BENCH_ROUND_ITERATIONS;
    rounds = rounds < crumbs ? rounds : crumbs > 0 ? crumbs : 1;
    series->extension_rounds = series->planned > 1 ? rounds : 1;
    series->extension_iterations = iterations / series->extension_rounds;
    if (iterations == 0 || series->rounds + rounds > BENCH_ROUNDS_MAX)
        series->extension_rounds = 0;
}

weir_status bench_series_extend_until(bench_job *job, bench_series *series)
{
    double widest = 0, began_s = weiri_clock_s();
    int next = 0;
    if (!(series->until > 0) || series->count == 0)
        return WEIR_OK;
    double *both = malloc(2 * (size_t)series->count * sizeof *both);
    weir_status status = both ? WEIR_OK : bench_series_no_memory(job, series->count);
    status = bench_job_agree(job, status, "times");
    if (status == WEIR_OK) {
        for (int i = 0; i < series->nmembers; i++) {
            double width = half_width(job, series, i, both);
            widest = width > widest ? width : widest;
        }
        next = job->rank == 0 && widest > series->until ? fitting(series) : 0;
        bench_exchange_broadcast(job, &next, sizeof next, 0);
        plan_extension(series, next);
    }
    series->spent_s += weiri_clock_s() - began_s;
    free(both);
    return status;
}

void bench_series_free(bench_series *series)
{
    for (int i = 0; i < BENCH_CANDIDATES_MAX; i++) {
        free(series->times_us[i]);
        free(series->starts_us[i]);
        free(series->ends_us[i]);
    }
    memset(series, 0, sizeof *series);
}
