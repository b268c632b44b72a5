/* Order statistics of one measurement: see stats.h. */
#include "bench/statistics/stats.h"

#include "bench/statistics/bootstrap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

size_t bench_stats_median_rank(size_t count, double confidence)
{
    double n = (double)count, below = 0;
    size_t k = 0;
    while (k < (count + 1) / 2) {
        double b = (double)k;
        below += exp(lgamma(n + 1) - lgamma(b + 1) - lgamma(n - b + 1) - n * log(2.0));
        if (2 * below > 1 - confidence)
            break;
        k++;
    }
    return k ? k : 1;
}

/* The smallest sample that at least percent of all samples do not exceed. */
static double nearest_rank(const double *sorted, size_t count, size_t percent)
{
    size_t rank = (count * percent + 99) / 100;
    return sorted[rank ? rank - 1 : 0];
}

static void mean_and_deviation(bench_stats *stats, const double *samples, size_t count)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += samples[i];
    stats->mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (samples[i] - stats->mean) * (samples[i] - stats->mean);
    stats->stdev = sqrt(squares / (double)count);
}

bench_stats bench_stats_make(double *samples, size_t count)
{
    bench_stats stats = {.samples = count};
    if (count == 0)
        return (bench_stats){0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    mean_and_deviation(&stats, samples, count);
    qsort(samples, count, sizeof *samples, compare_doubles);
    stats.min = samples[0];
    stats.max = samples[count - 1];
    stats.median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    stats.p95 = nearest_rank(samples, count, 95);
    stats.p99 = nearest_rank(samples, count, 99);
    size_t k = bench_stats_median_rank(count, 0.95);
    stats.ci_low = samples[k - 1];
    stats.ci_high = samples[count - k];
    k = bench_stats_median_rank(count, 0.975);
    stats.low975 = samples[k - 1];
    stats.high975 = samples[count - k];
    return stats;
}

double bench_stats_cv_pct(const bench_stats *stats)
{
    return stats->mean == 0 ? 0 : stats->stdev / stats->mean * 100;
}

/* The interval without a bootstrap: from the rounds' medians, joined with the order statistics. The
 * 97.5% interval is at most 1.32 times as wide from 4 rounds on. */
static void join_rounds(bench_stats *stats, const bench_sequence *series, double *scratch)
{
    double sum = 0, squares = 0, v = series->rounds;
    for (int i = 0; i < series->rounds; i++) {
        int first = i ? series->ends[i - 1] : 0, count = series->ends[i] - first;
        memcpy(scratch, series->samples + first, (size_t)count * sizeof *scratch);
        double median = bench_stats_make(scratch, (size_t)count).median - stats->median;
        sum += median;
        squares += median * median;
    }
    double variance = fmax(0, (squares - sum * sum / v) / (v - 1));
    double half = bench_student_quantile(series->rounds - 1) * sqrt(variance / v);
    double mean = stats->median + sum / v;
    stats->ci_low = fmin(stats->ci_low, fmax(mean - half, stats->min));
    stats->ci_high = fmax(stats->ci_high, mean + half);
    stats->low975 = fmin(stats->low975, fmax(mean - 1.32 * half, stats->min));
    stats->high975 = fmax(stats->high975, mean + 1.32 * half);
}

bench_stats bench_stats_series(const bench_sequence *series, double step, double *scratch)
{
    bench_interval interval;
    memcpy(scratch, series->samples, series->count * sizeof *scratch);
    bench_stats stats = bench_stats_make(scratch, series->count);
    if (bench_bootstrap_median(series, &interval) == 0) {
        stats.ci_low = interval.low;
        stats.ci_high = interval.high;
    } else if (series->rounds > 1) {
        join_rounds(&stats, series, scratch);
    }
    stats.ci_low = fmin(stats.ci_low, stats.median - step / 2);
    stats.ci_high = fmax(stats.ci_high, stats.median + step / 2);
    return stats;
}

double bench_stats_half_width(const bench_stats *stats)
{
    return stats->median > 0 ? (stats->ci_high - stats->ci_low) / 2 / stats->median : 0;
}

bench_ratio bench_stats_ratio(const bench_stats *above, const bench_stats *below)
{
    bench_ratio ratio = {
        .ratio = above->median / below->median,
        .low = above->low975 / below->high975,
        .high = above->high975 / below->low975,
    };
    return ratio;
}

int bench_ratio_sign(const bench_ratio *ratio)
{
    return ratio->low > 1 ? 1 : ratio->high < 1 ? -1 : 0;
}

void bench_ratio_describe(const bench_ratio *ratio, const char *above, const char *below,
                          char *text, size_t bytes)
{
    const int sign = bench_ratio_sign(ratio);
    if (sign > 0)
        snprintf(text, bytes, "%s takes %.2fx as long [%.2f, %.2f]", above, ratio->ratio,
                 ratio->low, ratio->high);
    else if (sign < 0)
        snprintf(text, bytes, "%s takes %.2fx as long [%.2f, %.2f]", below, 1 / ratio->ratio,
                 1 / ratio->high, 1 / ratio->low);
    else
        snprintf(text, bytes, "no difference shown [%.2f, %.2f]", ratio->low, ratio->high);
}
