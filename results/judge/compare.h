/*
 * Comparison of two sets of rows, A (before, baseline) and B (after, candidate): which rows belong
 * together, the ratio of their times with an interval, and a verdict. docs/user/comparing.md
 * explains the statistics. Local; the sets must outlive the comparison.
 */
#ifndef RESULTS_JUDGE_COMPARE_H
#define RESULTS_JUDGE_COMPARE_H

#include "results/read/rows.h"

typedef enum results_verdict {
    RESULTS_NO_DIFFERENCE,
    RESULTS_IMPROVED,
    RESULTS_INCONCLUSIVE,
    RESULTS_REGRESSED,
    RESULTS_MISSING_IN_A,
    RESULTS_MISSING_IN_B,
    RESULTS_VERDICTS
} results_verdict;

typedef enum results_correction {
    RESULTS_HOLM, /* bounds the chance of any false alarm by alpha */
    RESULTS_BH,   /* Benjamini-Hochberg: bounds the share of false alarms among all alarms by
                   * alpha */
    RESULTS_UNCORRECTED
} results_correction;

typedef struct results_rules {
    double min_effect;  /* smaller changes are not reported: 0.03 */
    double resolve;     /* "no difference" excludes changes of this size or more: 0.10 */
    double alpha;       /* for all rows together */
    double start_noise; /* relative standard deviation from run to run, used if too few rows have
                         * two runs; negative: 0.08 on the host, 0.02 on GPUs */
    results_correction correction;
    int is_strict; /* what could not be decided is measured again, and is then a failure */
    const char *contender_a, *contender_b; /* NULL: the candidates that both sides have */
} results_rules;

/* One side of a pair: the measurements of each run. */
typedef struct results_side {
    const results_row **rows; /* of runs that passed verification; owned by the set */
    double *logs;             /* natural logarithms of their times, in the same order */
    int starts;
    double resolution;         /* the largest of its rows */
    const results_row *failed; /* one that failed verification, or NULL */
    double median_us;          /* the center over runs (below); NaN if there is none */
    double busbw_gbs;          /* at median_us */
} results_side;

typedef struct results_pair {
    const char *key;            /* identifies the row; comparisons are in ascending order */
    const results_row *example; /* a row of either side, for its description */
    results_side a, b;
    int is_beside;           /* B's wrong row of a candidate that is not compared */
    int paired;              /* rounds in which both sides were measured, or 0 */
    double log_ratio;        /* logarithm of B's time divided by A's */
    double scale;            /* standard deviation of the logarithm of one run (or one
                              * paired difference), outliers excluded */
    double freedom;          /* degrees of freedom of scale */
    double ratio, low, high; /* with a 95% interval; above 1: B is slower */
    double p, p_corrected;   /* probability of this ratio if nothing changed */
    results_verdict verdict;
    const char *reason; /* static storage, or "" */
} results_pair;

typedef struct results_comparison {
    results_pair *pairs;
    size_t count, verdicts[RESULTS_VERDICTS];
    results_verdict overall;
    size_t wrong;          /* rows with wrong results in B, whatever A has: each is regressed */
    size_t losses;         /* of B (results_lose): what hides a result cannot pass */
    int cross;             /* different candidates or tools are compared */
    char differences[400]; /* why rows of one side have no counterpart: "A has 4 ranks, B has 2";
                            * "" if both sides have the same ranks, memory, ... */
    char contender_a[64], contender_b[64]; /* the only candidates compared; "": all */
    char hosts_a[64], hosts_b[64];
    size_t starts_a, starts_b;
    double noise;                     /* from run to run, for the typical row that both sides have,
                                       * including the rows' own intervals; NaN: no such row */
    double noise_freedom;             /* of the prior; 0: noise is assumed, not measured */
    size_t noise_rows;                /* rows that the measured noise is based on */
    double assumed_gpu, assumed_host; /* the assumed noise of such rows; 0: nothing assumed */
} results_comparison;

/* The default rules. */
results_rules results_rules_default(void);

/* Puts rows of the same measurement into pairs. Problems (duplicates, ambiguous candidates) are
 * reported in the set that has them. Returns 0; or -1, reported in b, if the sides have several
 * candidates and none in common. The comparison is memory of b. */
int results_match(results_set *a, results_set *b, const results_rules *rules,
                  results_comparison *made);
/* Computes ratios and verdicts. Deterministic. */
void results_judge(results_comparison *made, const results_rules *rules);

const char *results_verdict_name(results_verdict verdict);
/* The word for people: between different candidates or tools (cross) nothing improved or regressed,
 * B is "faster" or "slower". */
const char *results_verdict_word(results_verdict verdict, int cross);
/* The same for one row; results of B that are wrong are called so. */
const char *results_pair_word(const results_pair *pair, int cross);
/* Rows that both sides have. */
size_t results_matched(const results_comparison *comparison);
/* Whether there is a row to judge: one that both sides have, or one that is wrong in B. */
int results_has_verdicts(const results_comparison *comparison);
/* The overall verdict for people: results_verdict_word, with wrong results in B; "incomplete" if
 * what is left of B would pass; or "nothing to compare" if the sides have no row in common. */
const char *results_overall_word(const results_comparison *comparison);

/* Fills `differences` of a comparison of matched sets (comparable.c). */
void results_differences_find(const results_set *a, const results_set *b,
                              results_comparison *comparison);
/* Whether a row is one of the candidate that is compared ("": any). Versions do not matter. */
int results_is_contender(const char *wanted, const results_row *row);
/* The candidate's name without the algorithm, which is between the first and the second colon. */
void results_contender_key(const char *contender, char *key, size_t bytes);

/* Statistics, public for tests. */

/* Moderated variances (Smyth 2004): from n variances with d[i] > 0 degrees of freedom, computes the
 * prior variance and its degrees of freedom. Returns 0, or -1 if there are too few. */
int results_prior(const double *variances, const double *d, size_t n, double *prior,
                  double *prior_freedom);
/* Corrects p in place. */
void results_correct(double *p, size_t n, results_correction correction);

/*
 * How much times differ from run to run, over all rows of a comparison, and tables of how the
 * center of a few runs is then distributed. Needs GSL. Local.
 */

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

/*
 * Suspects: rows that may have become slower and are worth measuring again, in a file with lines
 * `collective,dtype,redop,nranks,bytes`, which ci/nightly reads. Local.
 */

/* Whether a row is slower by half the practical threshold or more and p is below 0.2, or is wrong
 * in B, or with strict rules is inconclusive. */
int results_is_suspect(const results_pair *pair, const results_rules *rules);
/* Writes a line for each suspect, without repetition. Write errors stay in the file's error flag.
 */
void results_suspects_print(FILE *file, const results_comparison *comparison,
                            const results_rules *rules);
/* Keeps only the rows of a set that the file names, and with keep_wrong those with wrong results.
 * Returns 0, or -1 after reporting that the file cannot be read. */
int results_suspects_keep(results_set *set, const char *path, int keep_wrong);

#endif
