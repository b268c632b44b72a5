/*
 * Statistics of the iterations of one measurement: order statistics, because times are skewed and
 * have outliers. All functions are pure.
 */
#ifndef BENCH_STATISTICS_STATS_H
#define BENCH_STATISTICS_STATS_H

#include "bench/statistics/bootstrap.h"

#include <stddef.h>

/* In the unit of the samples. */
typedef struct bench_stats {
    size_t samples;
    double median, min, max, mean, stdev;
    double p95, p99;        /* nearest rank */
    double ci_low, ci_high; /* 95% interval of the median */
    double low975, high975; /* 97.5% interval of the median, for ratios */
} bench_stats;

typedef struct bench_ratio {
    double ratio, low, high; /* of medians; an interval of at least 95% */
} bench_ratio;

/* Sorts samples in place. The intervals are from order statistics. Without samples everything is
 * NaN. */
bench_stats bench_stats_make(double *samples, size_t count);
/* The coefficient of variation in percent; 0 if the mean is 0. */
double bench_stats_cv_pct(const bench_stats *stats);
/* The same for a series in order of time, which is not changed. Its 95% interval is the bootstrap's
 * (bootstrap.h); without one, for several rounds, the mean of the rounds' medians with Student's t,
 * joined with order statistics. resolution: the smallest difference that the clock shows; the ends
 * of the interval are at least half of it away from the median. scratch: count numbers. */
bench_stats bench_stats_series(const bench_sequence *series, double step, double *scratch);
/* Half the 95% interval of the median as a fraction of the median; 0 if the median is 0. */
double bench_stats_half_width(const bench_stats *stats);

/* The ratio of two medians, with an interval of at least 95%: each median lies in its 97.5%
 * interval, so by Bonferroni's inequality both do with 95%, and then the ratio lies between the
 * quotients of the ends. */
bench_ratio bench_stats_ratio(const bench_stats *above, const bench_stats *below);

/* 1 if the whole interval is above 1, -1 if it is below 1, else 0. Pure. */
int bench_ratio_sign(const bench_ratio *ratio);
/* Says which of two candidates takes longer, and how much, for the ratio above / below of their
 * times: "oneshot takes 2.20x as long [2.10, 2.31]", where the slower one is the subject; or "no
 * difference shown [0.97, 1.05]". Terminates text. */
void bench_ratio_describe(const bench_ratio *ratio, const char *above, const char *below,
                          char *text, size_t bytes);

/* The number k such that the kth smallest and the kth largest of count samples enclose the median
 * with the given confidence; 1 (minimum and maximum) if count is too small. The number of samples
 * below the median is Binomial(count, 1/2), so the interval misses with 2 P(B <= k - 1); k is the
 * largest with a miss of at most 1 - confidence. See David and Nagaraja, Order Statistics, 3rd ed.,
 * section 7.1. */
size_t bench_stats_median_rank(size_t count, double confidence);

#endif
