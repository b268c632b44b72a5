/*
 * Statistics over the iterations of one measurement: order statistics, because
 * times of iterations are skewed and have outliers. All functions are pure.
 */
#ifndef BENCH_STATISTICS_STATS_H
#define BENCH_STATISTICS_STATS_H

#include "bench/statistics/bootstrap.h"

#include <stddef.h>

/* In the unit of the samples. */
typedef struct bench_stats {
    size_t samples;
    double median, min, max, mean, stdev;
    double p95, p99;         /* nearest rank */
    double ci_low, ci_high;  /* 95% interval of the median */
    double low975, high975;  /* 97.5% interval of the median, for ratios */
} bench_stats;

typedef struct bench_ratio {
    double ratio, low, high; /* of medians; an interval of at least 95% */
} bench_ratio;

/* Sorts samples in place. Intervals are those of order statistics. Without samples all
 * are NaN. */
bench_stats bench_stats_make(double *samples, size_t count);
/* The coefficient of variation in percent: the standard deviation as a part of the mean; 0
 * where that is 0. */
double bench_stats_cv_pct(const bench_stats *stats);
/* The same of a series in the order of time, which is left alone; its 95%
 * interval is the bootstrap's (bootstrap.h) where there is one, else, of several
 * rounds, that of the rounds' medians: their mean and Student's t, joined with order
 * statistics. step: the smallest difference that the clock shows; the interval's
 * ends are at least half of it from the median, however often the clock says the
 * same. scratch: count numbers. */
bench_stats bench_stats_series(const bench_sequence *series, double step, double *scratch);
/* Half the 95% interval of the median, as a fraction of the median; 0 where
 * that is 0. */
double bench_stats_half_width(const bench_stats *stats);

/*
 * The ratio of two medians and an interval that covers it with at least 95%:
 * each median lies in its 97.5% interval, so by Bonferroni's inequality both
 * do with 95%, and the ratio then lies between the quotients of the ends.
 */
bench_ratio bench_stats_ratio(const bench_stats *above, const bench_stats *below);

/* What the interval of a peer's time over ours lets us say: "faster" where all
 * of it is above 1, "slower" where all of it is below, else "no difference
 * shown". Static. */
const char *bench_ratio_word(const bench_ratio *ratio);

/*
 * The number k such that the kth smallest and the kth largest of count samples
 * enclose the median with the given confidence; 1 (minimum and maximum) where
 * count is too small for it. The number of samples below the median is
 * Binomial(count, 1/2), so the interval misses with 2 P(B <= k - 1); k is the
 * largest with a miss of at most 1 - confidence. See David and Nagaraja, Order
 * Statistics, 3rd ed., section 7.1.
 */
size_t bench_stats_median_rank(size_t count, double confidence);

#endif
