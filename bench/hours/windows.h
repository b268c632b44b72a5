/*
 * Times of hours in constant memory: histograms of each window and of the whole run, the drift of
 * the windows' medians, and what explains outliers. Pure.
 */
#ifndef BENCH_HOURS_WINDOWS_H
#define BENCH_HOURS_WINDOWS_H

#include "bench/hours/signs.h"

#include <stdint.h>

/* A time of 10 ns to 9,000 s falls into one of these classes, each 0.1% wide. */
enum { BENCH_HISTOGRAM_CLASSES = 27500, BENCH_OUTLIER_FACTOR = 3 };

typedef struct bench_histogram {
    uint64_t count, classes[BENCH_HISTOGRAM_CLASSES];
    double max_us;
} bench_histogram;

void bench_histogram_add(bench_histogram *histogram, double us);
/* The time that a share of all times does not exceed, within 0.1%; NaN without times. */
double bench_histogram_quantile(const bench_histogram *histogram, double share);

/* A line through the medians of the windows over time; begins with zeros. */
typedef struct bench_drift {
    int count;
    double first_us, sum_x, sum_y, sum_xx, sum_xy, sum_yy;
} bench_drift;

void bench_drift_add(bench_drift *drift, double hours, double median_us);
/* The slope in percent of the first median per hour, and its 95% interval. Returns 0 if there are
 * fewer than three windows. */
int bench_drift_slope(const bench_drift *drift, double *percent, double *low, double *high);

/* What explains outliers: how many and how much time they lost, for each rank and sign. */
typedef struct bench_cause {
    uint64_t outliers;
    double lost_us;
} bench_cause;

typedef struct bench_cause_counts {
    uint64_t outliers, unexplained;
    bench_cause *explained; /* nranks x BENCH_SIGNS; owned */
} bench_cause_counts;

typedef struct bench_causes {
    int nranks;
    uint64_t quiet; /* parts without outliers */
    double *usual;  /* nranks x BENCH_SIGNS: means of these parts; owned */
    bench_cause_counts window, all;
} bench_causes;

/* Returns 0, or -1 without memory; bench_causes_close follows in both cases. */
int bench_causes_open(bench_causes *causes, int nranks);
void bench_causes_close(bench_causes *causes);
/* Takes over what all ranks' signs did, nranks x BENCH_SIGNS, in a part without outliers. */
void bench_causes_learn(bench_causes *causes, const double *changes);
/* Counts an outlier that took excess_us longer than the median, in a part with these changes. */
void bench_causes_explain(bench_causes *causes, const double *changes, double excess_us);
/* Begins a new window. */
void bench_causes_end_window(bench_causes *causes);
/* "29 while rank 1's GPU was power-capped; 2 unexplained", with the three causes that lost most
 * time; "" without outliers. */
void bench_causes_describe(const bench_causes *causes, const bench_cause_counts *counts, char *text,
                           size_t bytes);

#endif
