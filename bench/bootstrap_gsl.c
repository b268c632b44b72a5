/*
 * The bootstrap with GSL's generator and statistics. A resample is never
 * sorted: samples are numbered by size once, a resample counts how often it has
 * each number, and its median is where the counts reach the middle.
 */
#include "bench/bootstrap.h"

#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As many resamples as this many draws allow, within the bounds. */
enum { DRAWS = 20000000, RESAMPLES_LOW = 200, RESAMPLES_HIGH = 1000, SEED = 20 };

typedef struct numbered {
    size_t count, block;
    double *sorted;
    size_t *order;    /* order[k]: where the series has its kth smallest */
    size_t *number;   /* number[i]: the inverse, which the series' ith is by size */
    unsigned *counts; /* scratch: how often a resample has each */
} numbered;

const char *bench_bootstrap_method(void)
{
    return "block bootstrap (GSL)";
}

static void numbered_free(numbered *series)
{
    free(series->sorted);
    free(series->order);
    free(series->number);
    free(series->counts);
}

/* 0, or -1 without memory; numbered_free is due in any case. */
static int numbered_make(numbered *series, const double *samples, size_t count)
{
    *series = (numbered){.count = count, .block = (size_t)ceil(cbrt((double)count))};
    series->sorted = malloc(count * sizeof *series->sorted);
    series->order = malloc(count * sizeof *series->order);
    series->number = malloc(count * sizeof *series->number);
    series->counts = malloc(count * sizeof *series->counts);
    if (!series->sorted || !series->order || !series->number || !series->counts)
        return -1;
    gsl_sort_index(series->order, samples, 1, count);
    for (size_t k = 0; k < count; k++) {
        series->number[series->order[k]] = k;
        series->sorted[k] = samples[series->order[k]];
    }
    return 0;
}

static void draw(numbered *series, gsl_rng *generator)
{
    size_t left = series->count;
    memset(series->counts, 0, series->count * sizeof *series->counts);
    while (left > 0) {
        size_t at = gsl_rng_uniform_int(generator, series->count);
        for (size_t j = 0; j < series->block && left > 0; j++, left--) {
            series->counts[series->number[at]]++;
            at = at + 1 < series->count ? at + 1 : 0;
        }
    }
}

/* The median of a resample of the series. */
static double resampled_median(numbered *series, gsl_rng *generator)
{
    size_t seen = 0, k = 0, middle = (series->count - 1) / 2;
    draw(series, generator);
    for (;; k++) {
        seen += series->counts[k];
        if (seen > middle)
            break;
    }
    double low = series->sorted[k];
    if (seen > series->count / 2)
        return low;
    for (k++; series->counts[k] == 0;)
        k++;
    return (low + series->sorted[k]) / 2;
}

/* below NULL: of the median of above. The interval always holds the value
 * itself, which resamples of few values can miss. */
static int bootstrap(numbered *above, numbered *below, double value, bench_interval *interval)
{
    size_t count = above->count + (below ? below->count : 0);
    size_t resamples = DRAWS / count;
    resamples = resamples < RESAMPLES_LOW    ? RESAMPLES_LOW
                : resamples > RESAMPLES_HIGH ? RESAMPLES_HIGH
                                             : resamples;
    double *medians = malloc(resamples * sizeof *medians);
    gsl_rng *generator = medians ? gsl_rng_alloc(gsl_rng_mt19937) : NULL;
    if (!generator) {
        free(medians);
        return -1;
    }
    gsl_rng_set(generator, SEED);
    for (size_t i = 0; i < resamples; i++) {
        medians[i] = resampled_median(above, generator);
        if (below)
            medians[i] /= resampled_median(below, generator);
    }
    gsl_rng_free(generator);
    gsl_sort(medians, 1, resamples);
    interval->low = fmin(value, gsl_stats_quantile_from_sorted_data(medians, 1, resamples, 0.025));
    interval->high = fmax(value, gsl_stats_quantile_from_sorted_data(medians, 1, resamples, 0.975));
    free(medians);
    return 0;
}

static double median(const numbered *series)
{
    return gsl_stats_median_from_sorted_data(series->sorted, 1, series->count);
}

int bench_bootstrap_median(const double *series, size_t count, bench_interval *interval)
{
    numbered mine;
    if (count < BENCH_BOOTSTRAP_SAMPLES)
        return -1;
    int error = numbered_make(&mine, series, count);
    if (!error)
        error = bootstrap(&mine, NULL, median(&mine), interval);
    numbered_free(&mine);
    return error;
}

int bench_bootstrap_ratio(const double *above, size_t above_count, const double *below,
                          size_t below_count, bench_interval *interval)
{
    numbered up, down;
    if (above_count < BENCH_BOOTSTRAP_SAMPLES || below_count < BENCH_BOOTSTRAP_SAMPLES)
        return -1;
    int error = numbered_make(&up, above, above_count);
    int other = numbered_make(&down, below, below_count);
    if (!error && !other)
        other = bootstrap(&up, &down, median(&up) / median(&down), interval);
    numbered_free(&up);
    numbered_free(&down);
    return error ? error : other;
}
