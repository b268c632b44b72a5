/*
 * Computes verdicts. A row's ratio is that of the centers over runs (for pairs, the center of their
 * ratios); its interval comes from the tables of compare.h, its probability from Student's t with
 * the same standard deviation. A regression must be significant after the correction for many rows,
 * and at least as large as the practical threshold.
 */
#include "results/judge/compare.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STARTS_MOST = RESULTS_STARTS_MOST };

results_rules results_rules_default(void)
{
    return (results_rules){.min_effect = 0.03,
                           .resolve = 0.10,
                           .alpha = 0.05,
                           .start_noise = -1,
                           .correction = RESULTS_HOLM};
}

const char *results_verdict_name(results_verdict verdict)
{
    static const char *const names[RESULTS_VERDICTS] = {
        "no difference", "improved", "inconclusive", "regressed", "missing in A", "missing in B",
    };
    return names[verdict];
}

const char *results_verdict_word(results_verdict verdict, int cross)
{
    if (cross && verdict == RESULTS_IMPROVED)
        return "faster";
    if (cross && verdict == RESULTS_REGRESSED)
        return "slower";
    return results_verdict_name(verdict);
}

const char *results_pair_word(const results_pair *pair, int cross)
{
    return cross && pair->b.failed ? "wrong" : results_verdict_word(pair->verdict, cross);
}

size_t results_matched(const results_comparison *comparison)
{
    size_t matched = 0;
    for (size_t i = 0; i < comparison->count; i++) {
        const results_pair *pair = &comparison->pairs[i];
        matched += (pair->a.starts > 0 || pair->a.failed) && (pair->b.starts > 0 || pair->b.failed);
    }
    return matched;
}

int results_has_verdicts(const results_comparison *comparison)
{
    return comparison->wrong > 0 || results_matched(comparison) > 0;
}

const char *results_overall_word(const results_comparison *comparison)
{
    if (comparison->wrong > 0)
        return comparison->cross ? "wrong results in B" : results_verdict_name(RESULTS_REGRESSED);
    if (comparison->losses > 0 && comparison->overall != RESULTS_REGRESSED)
        return "incomplete: lines of B cannot be used, or report a failure";
    return results_matched(comparison) == 0
               ? "nothing to compare"
               : results_verdict_word(comparison->overall, comparison->cross);
}

static int by_size(const void *a, const void *b)
{
    double first = **(double *const *)a, second = **(double *const *)b;
    return (first > second) - (first < second);
}

void results_correct(double *p, size_t n, results_correction correction)
{
    double **order = malloc((n + 1) * sizeof *order);
    if (!order || correction == RESULTS_UNCORRECTED) {
        /* Without memory for sorting: Bonferroni's correction, which needs no order. */
        for (size_t i = 0; i < n && !order; i++)
            p[i] = fmin(1, p[i] * (double)n);
        free(order);
        return;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = &p[i];
    qsort(order, n, sizeof *order, by_size);
    double count = (double)n;
    if (correction == RESULTS_HOLM)
        for (size_t i = 0; i < n; i++)
            *order[i] = fmin(1, fmax(i ? *order[i - 1] : 0, *order[i] * (count - (double)i)));
    else
        for (size_t i = n; i-- > 0;)
            *order[i] = fmin(i + 1 < n ? *order[i + 1] : 1, *order[i] * count / ((double)i + 1));
    free(order);
}

static double center_of(const double *logs, int count)
{
    double copy[STARTS_MOST];
    memcpy(copy, logs, (size_t)count * sizeof *copy);
    return results_center(copy, count);
}

/* If there are more runs than the tables support, the first ones count. */
static void summarize(results_side *side)
{
    side->median_us = side->busbw_gbs = NAN;
    if (side->starts > STARTS_MOST)
        side->starts = STARTS_MOST;
    if (side->starts == 0)
        return;
    const results_row *row = side->rows[0];
    side->median_us = exp(center_of(side->logs, side->starts));
    side->busbw_gbs = row->busbw_gbs * row->median_us / side->median_us;
}

static void describe(results_pair *pair)
{
    double differences[STARTS_MOST];
    summarize(&pair->a);
    summarize(&pair->b);
    pair->ratio = pair->low = pair->high = NAN;
    pair->p = pair->p_corrected = NAN;
    pair->log_ratio = NAN;
    if (pair->a.starts == 0 || pair->b.starts == 0)
        return;
    pair->paired = results_paired(pair, differences);
    if (pair->paired < 2)
        pair->paired = 0;
    pair->log_ratio = pair->paired ? results_center(differences, pair->paired)
                                   : center_of(pair->b.logs, pair->b.starts) -
                                         center_of(pair->a.logs, pair->a.starts);
    pair->ratio = exp(pair->log_ratio);
}

/* Whether both sides are the same measurements. */
static int is_same(const results_pair *pair)
{
    if (pair->a.starts != pair->b.starts)
        return 0;
    for (int i = 0; i < pair->a.starts; i++)
        if (strcmp(pair->a.rows[i]->text[RESULTS_RUN_ID], pair->b.rows[i]->text[RESULTS_RUN_ID]) !=
                0 ||
            pair->a.rows[i]->median_us != pair->b.rows[i]->median_us)
            return 0;
    return 1;
}

static void estimate(results_pair *pair, results_noise *noise)
{
    results_design design = {pair->paired ? pair->paired : pair->a.starts,
                             pair->paired ? 0 : pair->b.starts};
    if (is_same(pair)) {
        pair->low = pair->high = pair->p = 1;
        pair->reason = "the same measurement";
        return;
    }
    results_spread spread = results_noise_spread(noise, design, pair->freedom);
    /* What printed digits leave open is no noise: it does not become less with more runs. */
    const double open = pair->a.resolution + pair->b.resolution;
    const double certain = fmax(fabs(pair->log_ratio) - open, 0);
    double half = pair->scale * spread.quantile + open;
    pair->low = exp(pair->log_ratio - half);
    pair->high = exp(pair->log_ratio + half);
    pair->p = 2 * gsl_cdf_tdist_Q(certain / (pair->scale * spread.deviation), pair->freedom);
}

/* Why a row whose results are wrong in B fails, whatever A has. */
static const char *wrong_reason(const results_pair *pair)
{
    return pair->is_beside       ? "wrong results in B, of a candidate that is not compared"
           : pair->a.failed      ? "wrong results in A and B"
           : pair->a.starts == 0 ? "wrong results in B; A has no such row"
                                 : "wrong results in B";
}

/* Judges rows without a ratio: absent, or wrong on one side. Returns 1 if it was one. */
static int judge_without_ratio(results_pair *pair)
{
    int has_a = pair->a.starts > 0, has_b = pair->b.starts > 0;
    if (pair->b.failed) {
        pair->verdict = RESULTS_REGRESSED;
        pair->reason = wrong_reason(pair);
        pair->ratio = pair->log_ratio = NAN; /* of the runs that were right, which says nothing */
    } else if (!has_a && pair->a.failed) {
        pair->verdict = has_b ? RESULTS_IMPROVED : RESULTS_MISSING_IN_B;
        pair->reason = "wrong results in A";
    } else if (!has_a) {
        pair->verdict = RESULTS_MISSING_IN_A;
    } else if (!has_b) {
        pair->verdict = RESULTS_MISSING_IN_B;
    } else {
        return 0;
    }
    return 1;
}

/* 1 if a run marked rows of the pair as not to be judged (column unjudged). */
static int is_unjudged(const results_pair *pair)
{
    const results_side *sides[] = {&pair->a, &pair->b};
    for (size_t side = 0; side < 2; side++)
        for (int i = 0; i < sides[side]->starts; i++)
            if (*sides[side]->rows[i]->text[RESULTS_UNJUDGED])
                return 1;
    return 0;
}

static void judge(results_pair *pair, const results_rules *rules)
{
    double least = log1p(rules->min_effect), excluded = log1p(rules->resolve);
    int significant = pair->p_corrected <= rules->alpha && (pair->low > 1 || pair->high < 1);
    if (is_unjudged(pair)) {
        pair->verdict = RESULTS_INCONCLUSIVE;
        pair->reason = "not judged: threads of a peer had no core of their own";
    } else if (significant && pair->log_ratio >= least)
        pair->verdict = RESULTS_REGRESSED;
    else if (significant && pair->log_ratio <= -least)
        pair->verdict = RESULTS_IMPROVED;
    else if (log(pair->high) < excluded && log(pair->low) > -excluded)
        pair->verdict = RESULTS_NO_DIFFERENCE;
    else {
        pair->verdict = RESULTS_INCONCLUSIVE;
        pair->reason = pair->a.starts < 2 || pair->b.starts < 2 ? "one run per side; measure more"
                                                                : "noise; measure more runs";
    }
}

static void count_verdicts(results_comparison *made)
{
    for (size_t i = 0; i < made->count; i++) {
        made->verdicts[made->pairs[i].verdict]++;
        made->wrong += made->pairs[i].b.failed != NULL;
    }
    made->overall = made->verdicts[RESULTS_REGRESSED]       ? RESULTS_REGRESSED
                    : made->verdicts[RESULTS_IMPROVED]      ? RESULTS_IMPROVED
                    : made->verdicts[RESULTS_INCONCLUSIVE]  ? RESULTS_INCONCLUSIVE
                    : made->verdicts[RESULTS_NO_DIFFERENCE] ? RESULTS_NO_DIFFERENCE
                                                            : RESULTS_INCONCLUSIVE;
}

void results_judge(results_comparison *made, const results_rules *rules)
{
    size_t tested = 0;
    double *p = calloc(made->count + 1, sizeof *p);
    for (size_t i = 0; i < made->count; i++)
        describe(&made->pairs[i]);
    results_noise *noise = results_noise_make(made, rules);
    if (!p || !noise) {
        fprintf(stderr, "weir-compare: out of memory\n");
        exit(3);
    }
    for (size_t i = 0; i < made->count; i++)
        if (!judge_without_ratio(&made->pairs[i])) {
            estimate(&made->pairs[i], noise);
            if (!is_unjudged(&made->pairs[i]))
                p[tested++] = made->pairs[i].p;
        }
    results_correct(p, tested, rules->correction);
    for (size_t i = 0, k = 0; i < made->count; i++)
        if (!judge_without_ratio(&made->pairs[i])) {
            made->pairs[i].p_corrected = is_unjudged(&made->pairs[i]) ? NAN : p[k++];
            judge(&made->pairs[i], rules);
        }
    count_verdicts(made);
    results_noise_free(noise);
    free(p);
}
