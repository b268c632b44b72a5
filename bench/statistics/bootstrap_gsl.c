/*
 * The bootstrap with GSL's generator and statistics. Resamples are not sorted: samples are ranked
 * once, a resample counts how often it contains each rank, and its median is where the counts
 * reach the middle.
 */
#include "bench/statistics/bootstrap.h"

#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As many resamples as this many draws allow, within bounds. */
enum { DRAWS = 20000000, RESAMPLES_LOW = 200, RESAMPLES_HIGH = 1000, SEED = 20 };

typedef struct numbered {
    const bench_sequence *series;
    size_t count;
    int rounds; /* 1 or more */
    double *sorted;
    size_t *order;    /* order[k]: the index of the kth smallest sample */
    size_t *number;   /* number[i]: the inverse, the ith sample's rank by size */
    unsigned *counts; /* scratch: how often a resample has each rank */
} numbered;

const char *bench_bootstrap_method(void)
{
    return "bootstrap of rounds and of blocks within (GSL)";
}

static void numbered_free(numbered *series)
{
    free(series->sorted);
    free(series->order);
    free(series->number);
    free(series->counts);
}

/* Returns 0, or -1 if out of memory; numbered_free is due in any case. */
static int numbered_make(numbered *series, const bench_sequence *from)
{
    size_t count = from->count;
    *series =
        (numbered){.series = from, .count = count, .rounds = from->rounds > 1 ? from->rounds : 1};
    series->sorted = malloc(count * sizeof *series->sorted);
    series->order = malloc(count * sizeof *series->order);
    series->number = malloc(count * sizeof *series->number);
    series->counts = malloc(count * sizeof *series->counts);
    if (!series->sorted || !series->order || !series->number || !series->counts)
        return -1;
    gsl_sort_index(series->order, from->samples, 1, count);
    for (size_t k = 0; k < count; k++) {
        series->number[series->order[k]] = k;
        series->sorted[k] = from->samples[series->order[k]];
    }
    return 0;
}

/* Draws blocks from the iterations [first, end), as many iterations as there are in it. */
static void draw_blocks(numbered *series, size_t first, size_t end, gsl_rng *generator)
{
    size_t left = end - first, block = (size_t)ceil(cbrt((double)left));
    while (left > 0) {
        size_t at = first + gsl_rng_uniform_int(generator, end - first);
        for (size_t j = 0; j < block && left > 0; j++, left--) {
            series->counts[series->number[at]]++;
            at = at + 1 < end ? at + 1 : first;
        }
    }
}

/* Draws from the rounds in picks. Returns the number of iterations drawn. */
static size_t draw(numbered *series, const int *picks, gsl_rng *generator)
{
    size_t drawn = 0;
    memset(series->counts, 0, series->count * sizeof *series->counts);
    for (int v = 0; v < series->rounds; v++) {
        const int *ends = series->series->ends;
        /* NOLINTNEXTLINE(*.uninitialized.Assign): picks has as many as there are rounds */
        int one = series->rounds == 1, pick = one ? 0 : picks[v];
        size_t first = pick > 0 ? (size_t)ends[pick - 1] : 0;
        size_t end = one ? series->count : (size_t)ends[pick];
        draw_blocks(series, first, end, generator);
        drawn += end - first;
    }
    return drawn;
}

/* The median of one resample. */
static double resampled_median(numbered *series, const int *picks, gsl_rng *generator)
{
    size_t seen = 0, k = 0, drawn = draw(series, picks, generator), middle = (drawn - 1) / 2;
    for (;; k++) {
        seen += series->counts[k];
        if (seen > middle)
            break;
    }
    double low = series->sorted[k];
    if (seen > drawn / 2)
        return low;
    for (k++; series->counts[k] == 0;)
        k++;
    return (low + series->sorted[k]) / 2;
}

/* Moves an end of the interval away from the value, on the logarithmic scale. */
static double widen(double value, double end, double widening)
{
    return value > 0 && end > 0 ? value * pow(end / value, widening) : end;
}

static size_t resamples_for(size_t count)
{
    size_t resamples = DRAWS / count;
    return resamples < RESAMPLES_LOW    ? RESAMPLES_LOW
           : resamples > RESAMPLES_HIGH ? RESAMPLES_HIGH
                                        : resamples;
}

/* With below NULL: the median of above. The interval always contains the value, which resamples of
 * few samples can miss. */
static int bootstrap(numbered *above, numbered *below, double value, bench_interval *interval)
{
    size_t resamples = resamples_for(above->count + (below ? below->count : 0));
    double widening = bench_student_widening(above->rounds);
    double *medians = malloc(resamples * sizeof *medians);
    int *picks = malloc((size_t)above->rounds * sizeof *picks);
    gsl_rng *generator = medians && picks ? gsl_rng_alloc(gsl_rng_mt19937) : NULL;
    if (!generator) {
        free(picks);
        free(medians);
        return -1;
    }
    gsl_rng_set(generator, SEED);
    for (size_t i = 0; i < resamples; i++) {
        for (int v = 0; v < above->rounds; v++)
            picks[v] = (int)gsl_rng_uniform_int(generator, (unsigned long)above->rounds);
        medians[i] = resampled_median(above, picks, generator);
        if (below)
            medians[i] /= resampled_median(below, picks, generator);
    }
    gsl_rng_free(generator);
    free(picks);
    gsl_sort(medians, 1, resamples);
    interval->low = fmin(value, gsl_stats_quantile_from_sorted_data(medians, 1, resamples, 0.025));
    interval->high = fmax(value, gsl_stats_quantile_from_sorted_data(medians, 1, resamples, 0.975));
    interval->low = widen(value, interval->low, widening);
    interval->high = widen(value, interval->high, widening);
    free(medians);
    return 0;
}

static double median(const numbered *series)
{
    return gsl_stats_median_from_sorted_data(series->sorted, 1, series->count);
}

static int is_short(const bench_sequence *series)
{
    return series->rounds < 2 && series->count < BENCH_BOOTSTRAP_SAMPLES;
}

int bench_bootstrap_median(const bench_sequence *series, bench_interval *interval)
{
    numbered mine;
    if (is_short(series))
        return -1;
    int error = numbered_make(&mine, series);
    if (!error)
        error = bootstrap(&mine, NULL, median(&mine), interval);
    numbered_free(&mine);
    return error;
}

int bench_bootstrap_ratio(const bench_sequence *above, const bench_sequence *below,
                          bench_interval *interval)
{
    numbered up, down;
    if (is_short(above) || is_short(below))
        return -1;
    int error = numbered_make(&up, above), other = numbered_make(&down, below);
    if (up.rounds != down.rounds) /* the rounds do not correspond: resample iterations only */
        up.rounds = down.rounds = 1;
    if (!error && !other)
        other = bootstrap(&up, &down, median(&up) / median(&down), interval);
    numbered_free(&up);
    numbered_free(&down);
    return error ? error : other;
}
