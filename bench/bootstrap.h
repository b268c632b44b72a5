/*
 * Confidence intervals of medians by the bootstrap: resamples of the series
 * stand for further measurements, and the spread of their medians is the
 * interval (percentile method, 95%). Neighbouring iterations are alike, so a
 * resample joins blocks of count^(1/3) neighbours, drawn anywhere on the series
 * closed to a circle (Politis and Romano 1992). The generator's seed is fixed: the same
 * series has the same interval.
 *
 * bootstrap_gsl.c needs the GNU Scientific Library; bootstrap_none.c is built
 * where that is absent, and the callers' order statistics remain. Local.
 */
#ifndef BENCH_BOOTSTRAP_H
#define BENCH_BOOTSTRAP_H

#include <stddef.h>

/* Series shorter than this have no bootstrap: it would be too narrow. */
enum { BENCH_BOOTSTRAP_SAMPLES = 20 };

typedef struct bench_interval {
    double low, high;
} bench_interval;

/* What the intervals are made of, for the header of a run; static. */
const char *bench_bootstrap_method(void);

/* series is in the order of time. Returns 0, or -1 and leaves interval alone:
 * too short, no memory, or no GSL. */
int bench_bootstrap_median(const double *series, size_t count, bench_interval *interval);
/* Likewise of the median of above divided by that of below. */
int bench_bootstrap_ratio(const double *above, size_t above_count, const double *below,
                          size_t below_count, bench_interval *interval);

#endif
