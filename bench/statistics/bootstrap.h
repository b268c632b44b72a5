/*
 * Confidence intervals of medians by the bootstrap (percentile method, 95%): the spread of the
 * medians of resamples of the series is the interval. Neighbouring iterations are correlated, so a
 * resample consists of blocks of count^(1/3) neighbours, drawn anywhere on the series closed to a
 * circle (Politis and Romano 1992). The generator's seed is fixed: the same series gives the same
 * interval.
 *
 * A series of several rounds is nested: iterations of a round share the conditions of that round,
 * so rounds are resampled first, then blocks of iterations within each (Davison and Hinkley 1997,
 * section 3.8). A ratio resamples the same rounds of both series. Resampling few rounds
 * underestimates the spread by sqrt((R - 1) / R), and normal quantiles are too small for it: the
 * ends of the interval are moved away from the median by bench_student_widening, on the
 * logarithmic scale (Hesterberg 2015, The American Statistician 69, 371-386, on narrowness bias).
 *
 * bootstrap_gsl.c needs the GNU Scientific Library; without it bootstrap_missing.c is built, and
 * callers fall back to order statistics. All functions are local.
 */
#ifndef BENCH_STATISTICS_BOOTSTRAP_H
#define BENCH_STATISTICS_BOOTSTRAP_H

#include <stddef.h>

/* Shorter series of one round have no bootstrap interval: it would be too narrow. */
enum { BENCH_BOOTSTRAP_SAMPLES = 20 };

/* Measurements in order of time, and where each round ends: round r is [ends[r - 1], ends[r]),
 * which is not empty. */
typedef struct bench_sequence {
    const double *samples;
    size_t count;
    const int *ends; /* rounds entries; not read if rounds is below 2 */
    int rounds;
} bench_sequence;

typedef struct bench_interval {
    double low, high;
} bench_interval;

/* Describes the method, for the header of a run. Static. */
const char *bench_bootstrap_method(void);

/* Returns 0; or -1 with interval unchanged if the series is too short, memory is out, or there is
 * no GSL. */
int bench_bootstrap_median(const bench_sequence *series, bench_interval *interval);
/* The same for the median of above divided by the median of below. */
int bench_bootstrap_ratio(const bench_sequence *above, const bench_sequence *below,
                          bench_interval *interval);

/* Student's t, for intervals that rest on few rounds. All functions are pure. */

/* The 97.5% quantile for a number of degrees of freedom, 1 or more. */
double bench_student_quantile(int degrees);
/* The probability that t is exceeded, to an absolute accuracy of 1e-15. degrees: 1 or more. */
double bench_student_tail(int degrees, double t);
/* The factor by which the 95% interval of a bootstrap of so many rounds must be widened: t / z *
 * sqrt(R / (R - 1)), with the 97.5% quantiles of Student's t for R - 1 degrees of freedom and of
 * the normal distribution; 1 for one round. */
double bench_student_widening(int rounds);

#endif
