/*
 * How much times differ from run to run, over all rows of a comparison, and tables of how the
 * center of a few runs is then distributed. Needs GSL. Local.
 */
#ifndef RESULTS_JUDGE_NOISE_H
#define RESULTS_JUDGE_NOISE_H

#include "results/judge/compare.h"

/* Runs of one side of a row; later ones are left out. */
enum { RESULTS_STARTS_MOST = 64 };

/* The number of runs per side, or of pairs, of a row. */
typedef struct results_design {
    int a, b; /* runs of each side; for pairs, a is their number and b is 0 */
} results_design;

/*
 * The distribution of |center of b runs - center of a runs| (for pairs: |center of their
 * differences|) if nothing changed, in units of the scale: its standard deviation, and its 95%
 * quantile with a scale that has only so many degrees of freedom.
 */
typedef struct results_spread {
    double deviation, quantile;
} results_spread;

typedef struct results_noise results_noise;

/*
 * Reads the pairs' runs and sets their scale and freedom. Returns NULL without memory. Keeps a pool
 * of residuals, the deviations of all runs from their rows in units of the scale, from which the
 * tables draw.
 */
results_noise *results_noise_make(results_comparison *made, const results_rules *rules);
void results_noise_free(results_noise *noise);

/* The table of a design and its freedom, computed once. */
results_spread results_noise_spread(results_noise *noise, results_design design, double freedom);

/* Differences of paired runs, B's minus A's, in the order of rounds. Returns their number;
 * `differences` has room for the smaller number of runs. */
int results_paired(const results_pair *pair, double *differences);

/* The mean without the fifth of the values at each end, or the median of up to 4 values, so that
 * outliers do not move it. Sorts. */
double results_center(double *values, int count);

#endif
