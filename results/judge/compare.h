/*
 * Comparison of two sets of rows, A (before, baseline) and B (after, candidate): which
 * rows belong together, the ratio of their times with an interval, and a verdict.
 * README.md says what the statistics rest on. Local; sets must outlive comparisons.
 */
#ifndef RESULTS_JUDGE_COMPARE_H
#define RESULTS_JUDGE_COMPARE_H

#include "results/read/rows.h"

typedef enum results_verdict {
    RESULTS_NO_DIFFERENCE, RESULTS_IMPROVED, RESULTS_INCONCLUSIVE, RESULTS_REGRESSED,
    RESULTS_MISSING_IN_A, RESULTS_MISSING_IN_B, RESULTS_VERDICTS
} results_verdict;

typedef enum results_correction {
    RESULTS_HOLM, /* the chance of any false alarm is at most alpha */
    RESULTS_BH,   /* Benjamini-Hochberg: of all alarms at most alpha are false */
    RESULTS_UNCORRECTED
} results_correction;

typedef struct results_rules {
    double min_effect;  /* changes below are no alarm: 0.03 */
    double resolve;     /* "no difference" excludes changes of this and more: 0.10 */
    double alpha;       /* for all rows together */
    double start_noise; /* relative standard deviation from start to start where too few rows
                           have two starts; negative: 0.08 on the host, 0.02 on GPUs */
    results_correction correction;
    const char *contender_a, *contender_b; /* NULL: those that both have */
} results_rules;

/* One side of a row: what was measured in each start. */
typedef struct results_side {
    const results_row **rows; /* of starts that passed; the set's */
    double *logs;             /* natural logarithms of their times, in their order */
    int starts;
    const results_row *failed; /* one that failed verification, or NULL */
    double median_us;          /* the center over starts (noise.h); NaN without */
    double busbw_gbs;          /* at median_us */
} results_side;

typedef struct results_pair {
    const char *key;            /* tells rows apart; ascending in a comparison */
    const results_row *example; /* of either side: what the row is */
    results_side a, b;
    int paired;                   /* rounds in which both sides were measured, or 0 */
    double log_ratio;             /* of B's time to A's */
    double scale;                 /* of logs: standard deviation of a start, or a pair, but for
                                     those that go wrong */
    double freedom;               /* degrees of freedom behind scale */
    double ratio, low, high;      /* with a 95% interval; above 1: B is slower */
    double p, p_corrected;        /* of no difference at all */
    results_verdict verdict;
    const char *reason;           /* static, or "" */
} results_pair;

typedef struct results_comparison {
    results_pair *pairs;
    size_t count;
    size_t verdicts[RESULTS_VERDICTS];
    results_verdict overall;
    int cross;              /* different contenders, or tools, are held against each other */
    char contender_a[64], contender_b[64]; /* the only ones compared; "": all */
    char hosts_a[64], hosts_b[64];
    size_t starts_a, starts_b;
    double noise;           /* from start to start, of the typical row that both sides have, with
                               what the rows' own intervals say; NaN: there is no such row */
    double noise_freedom;   /* of the prior; 0: noise is assumed, not measured */
    size_t noise_rows;      /* behind the measured noise */
    double assumed_gpu, assumed_host; /* what was assumed of such rows; 0: nothing */
} results_comparison;

/* What the rules are where nobody says otherwise. */
results_rules results_rules_default(void);

/* Puts rows of one kind together. Problems (duplicates, ambiguous contenders) are noted in
 * the set that has them. 0, or -1 noted in b: the sides hold several contenders and none that
 * both have. results_comparison_free in any case. The comparison's text lives in b. */
int results_match(results_set *a, results_set *b, const results_rules *rules,
                  results_comparison *made);
/* Fills in ratios and verdicts. The same input has the same result. */
void results_judge(results_comparison *made, const results_rules *rules);
void results_comparison_free(results_comparison *made);

const char *results_verdict_name(results_verdict verdict);

/* Statistics by themselves, for tests. */

/* Moderated variances (Smyth 2004): of n variances with d[i] > 0 degrees of freedom, the
 * prior variance and its degrees of freedom. 0, or -1: too few. */
int results_prior(const double *variances, const double *d, size_t n, double *prior,
                  double *prior_freedom);
/* p corrected in place. */
void results_correct(double *p, size_t n, results_correction correction);

#endif
