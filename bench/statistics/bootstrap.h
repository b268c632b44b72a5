/*
 * Confidence intervals of medians by the bootstrap: resamples of the series
 * stand for further measurements, and the spread of their medians is the
 * interval (percentile method, 95%). Neighbouring iterations are alike, so a
 * resample joins blocks of count^(1/3) neighbours, drawn anywhere on the series
 * closed to a circle (Politis and Romano 1992). The generator's seed is fixed: the same
 * series has the same interval.
 *
 * A series of several rounds is nested: iterations of one round share what that
 * round met, so rounds are resampled first, then blocks of iterations within each
 * (Davison and Hinkley 1997, section 3.8). A ratio takes the same rounds of both
 * series. Resampling few rounds shows too little spread, by sqrt((V - 1) / V), and
 * normal quantiles are too short for it: the interval's ends are moved away from
 * the value by bench_student_widening (Hesterberg 2015, The American Statistician 69,
 * 371-386, on narrowness bias), on the logarithmic scale.
 *
 * bootstrap_gsl.c needs the GNU Scientific Library; bootstrap_none.c is built
 * where that is absent, and the callers' order statistics remain. Local.
 */
#ifndef BENCH_STATISTICS_BOOTSTRAP_H
#define BENCH_STATISTICS_BOOTSTRAP_H

#include <stddef.h>

/* Series of one round that are shorter have no bootstrap: it would be too narrow. */
enum { BENCH_BOOTSTRAP_SAMPLES = 20 };

/* Measurements in the order of time, and where each round ends: round v has
 * [ends[v - 1], ends[v]). */
typedef struct bench_sequence {
    const double *samples;
    size_t count;
    const int *ends; /* rounds entries; not read with fewer than 2 rounds */
    int rounds;
} bench_sequence;

typedef struct bench_interval {
    double low, high;
} bench_interval;

/* What the intervals are made of, for the header of a run; static. */
const char *bench_bootstrap_method(void);

/* Returns 0, or -1 and leaves interval alone:
 * too short, no memory, or no GSL. */
int bench_bootstrap_median(const bench_sequence *series, bench_interval *interval);
/* Likewise of the median of above divided by that of below. */
int bench_bootstrap_ratio(const bench_sequence *above, const bench_sequence *below,
                          bench_interval *interval);

#endif
