/*
 * How much times differ from start to start, over all rows of a comparison, and tables
 * of what the center of a few starts does then. Needs GSL. Local.
 */
#ifndef RESULTS_JUDGE_NOISE_H
#define RESULTS_JUDGE_NOISE_H

#include "results/judge/compare.h"

/* Of one side of a row; later ones are left out. */
enum { RESULTS_STARTS_MOST = 64 };

/* How many starts a side, or pairs, one row has. */
typedef struct results_design {
    int a, b; /* starts of each side; of pairs: a is their number and b is 0 */
} results_design;

/*
 * What |center of b starts - center of a starts| (of pairs: |center of their differences|)
 * is when nothing changed, in units of the scale: its standard deviation, and the 95%
 * quantile with a scale that is itself known from so many degrees of freedom only.
 */
typedef struct results_spread {
    double deviation, quantile;
} results_spread;

typedef struct results_noise results_noise;

/*
 * Reads the pairs' starts and sets their scale and freedom. NULL without memory. The noise
 * keeps a pool of residuals: how the starts of all rows lie around their rows, in units of
 * the scale, which the tables draw from.
 */
results_noise *results_noise_make(results_comparison *made, const results_rules *rules);
void results_noise_free(results_noise *noise);

/* Tables are made once for a design and its freedom. */
results_spread results_noise_spread(results_noise *noise, results_design design, double freedom);

/* Differences of paired starts, B's minus A's, in the order of rounds. Returns how many;
 * differences has room for the fewer starts of both. */
int results_paired(const results_pair *pair, double *differences);

/* The mean without the fifth of the values at each end, the median of up to 4: starts that
 * went wrong do not move it. Sorts. */
double results_center(double *values, int count);

#endif
