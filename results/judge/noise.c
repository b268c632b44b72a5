/*
 * Noise from run to run. Each row has too few runs to estimate its noise, so rows share degrees of
 * freedom: the variance of a row is moderated by a prior fitted to the variances of all rows (Smyth
 * 2004, Statistical Applications in Genetics and Molecular Biology 3, article 3). A few runs are
 * outliers and must not hide what the others show: centers are trimmed means, variances are
 * winsorized (Yuen 1974, Biometrika 61, 165-170). The residuals of all rows, in units of each row's
 * scale, are pooled, including those of outliers. The tables are a bootstrap that draws from the
 * pool (from a normal distribution if the pool is small) and divides by the root of chi-square /
 * freedom, because the scale is an estimate.
 */
#include "results/judge/compare.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sf_psi.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 4000, SEED = 20, POOL_LEAST = 60, PRIOR_ROWS = 8 };
enum { STARTS_MOST = RESULTS_STARTS_MOST };
/* Degrees of freedom. A prior on which all rows agree counts at most as the first. With few rows
 * the prior is the assumption, worth the second, or the user's value, worth the third; if no row
 * has two runs, the prior is all there is, worth the last. */
static const double prior_most = 50, prior_weak = 2, prior_told = 4, prior_alone = 1000;
/* Clocks are not more exact than this. */
static const double least_scale = 1e-4;

typedef struct table {
    results_design design;
    double freedom;
    results_spread spread;
} table;

struct results_noise {
    double *pool;
    size_t pooled;
    table *tables;
    size_t count;
    gsl_rng *generator;
    double expected[STARTS_MOST + 1]; /* expected_squares, once known */
};

/* The number of values at each end that the center leaves out; for the scale. */
static int cut_of_center(int count)
{
    return count < 3 ? 0 : count < 5 ? (count - 1) / 2 : count / 5 > 0 ? count / 5 : 1;
}

static int cut_of_scale(int count)
{
    return count < 6 ? 0 : cut_of_center(count);
}

double results_center(double *values, int count)
{
    int cut = cut_of_center(count);
    gsl_sort(values, 1, (size_t)count);
    return gsl_stats_mean(values + cut, 1, (size_t)(count - 2 * cut));
}

/* Sum of squares around the mean, after the values at the ends were moved to the first value that
 * counts, so that an outlier does not make all others look uncertain. Sorts. */
static double winsorized_squares(double *values, int count)
{
    int cut = cut_of_scale(count);
    gsl_sort(values, 1, (size_t)count);
    for (int i = 0; i < cut; i++) {
        values[i] = values[cut];
        values[count - 1 - i] = values[count - 1 - cut];
    }
    return gsl_stats_tss(values, 1, (size_t)count);
}

int results_paired(const results_pair *pair, double *differences)
{
    int count = 0;
    for (int i = 0, j = 0; i < pair->a.starts && j < pair->b.starts;) {
        int first = pair->a.rows[i]->round, second = pair->b.rows[j]->round;
        if (first > 0 && first == second)
            differences[count++] = pair->b.logs[j] - pair->a.logs[i];
        i += first <= second;
        j += second <= first;
    }
    return count;
}

/* Deviations of values from their center, inflated for what fitting the center takes away. */
static void make_residuals(const double *values, int count, double *residuals)
{
    double sorted[STARTS_MOST];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    double center = results_center(sorted, count);
    for (int i = 0; i < count; i++)
        residuals[i] = (values[i] - center) * sqrt(count / (count - 1.0));
}

/* The mean of winsorized_squares over so many normal numbers. */
static double expected_squares(results_noise *noise, int count)
{
    double values[STARTS_MOST], sum = 0;
    if (cut_of_scale(count) == 0)
        return count - 1;
    if (noise->expected[count] > 0)
        return noise->expected[count];
    for (int i = 0; i < RESAMPLES; i++) {
        for (int j = 0; j < count; j++)
            values[j] = gsl_ran_gaussian_ziggurat(noise->generator, 1);
        sum += winsorized_squares(values, count);
    }
    return noise->expected[count] = sum / RESAMPLES;
}

/* Variance within runs, from the rows' own intervals: runs cannot differ by less. */
static double within(const results_side *side)
{
    double sum = 0;
    int known = 0;
    for (int i = 0; i < side->starts; i++) {
        const results_row *row = side->rows[i];
        if (isnan(row->low_us))
            continue;
        double deviation = log(row->high_us / row->low_us) / (2 * 1.96);
        sum += deviation * deviation;
        known++;
    }
    return known ? sum / known : 0;
}

/* Adds what values contribute to the variance, and its degrees of freedom. */
static void add_squares(results_noise *noise, const double *values, int count, double *sum,
                        double *d)
{
    double sorted[STARTS_MOST];
    if (count < 2)
        return;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    double freedom = count - 1 - 2 * cut_of_scale(count);
    *sum += freedom * winsorized_squares(sorted, count) / expected_squares(noise, count);
    *d += freedom;
}

static double own_variance(results_noise *noise, const results_pair *pair, double *d)
{
    double sum = 0, differences[STARTS_MOST];
    *d = 0;
    if (pair->paired > 0) {
        int count = results_paired(pair, differences);
        add_squares(noise, differences, count, &sum, d);
    } else {
        add_squares(noise, pair->a.logs, pair->a.starts, &sum, d);
        add_squares(noise, pair->b.logs, pair->b.starts, &sum, d);
    }
    return *d > 0 ? fmax(sum / *d, least_scale * least_scale) : 0;
}

/* The y with trigamma(y) = x; trigamma decreases. */
static double trigamma_inverse(double x)
{
    double low = 1e-3, high = 1e4;
    for (int i = 0; i < 100; i++) {
        double middle = sqrt(low * high);
        if (gsl_sf_psi_1(middle) > x)
            low = middle;
        else
            high = middle;
    }
    return sqrt(low * high);
}

int results_prior(const double *variances, const double *d, size_t n, double *prior,
                  double *prior_freedom)
{
    double sum = 0, sum_squares = 0, sum_trigamma = 0;
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (d[i] <= 0)
            continue;
        double e = log(variances[i]) - gsl_sf_psi(d[i] / 2) + log(d[i] / 2);
        sum += e;
        sum_squares += e * e;
        sum_trigamma += gsl_sf_psi_1(d[i] / 2);
        rows++;
    }
    if (rows < PRIOR_ROWS)
        return -1;
    double count = (double)rows, mean = sum / count;
    double excess = (sum_squares - count * mean * mean) / (count - 1) - sum_trigamma / count;
    double freedom = excess > 0 ? 2 * trigamma_inverse(excess) : prior_most;
    *prior_freedom = fmin(fmax(freedom, 1), prior_most);
    *prior = exp(mean + gsl_sf_psi(*prior_freedom / 2) - log(*prior_freedom / 2));
    return 0;
}

static int is_on_gpu(const results_pair *pair)
{
    return strcmp(pair->example->text[RESULTS_BACKEND], "cuda") == 0;
}

static double assumed_noise(const results_pair *pair, const results_rules *rules)
{
    if (rules->start_noise >= 0)
        return rules->start_noise;
    return is_on_gpu(pair) ? 0.02 : 0.08;
}

/* Sets the scale of one row. prior 0: the assumption. */
static void set_scale(results_pair *pair, const results_rules *rules, double variance, double d,
                      double prior, double prior_freedom)
{
    double assumed = assumed_noise(pair, rules), floor = within(&pair->a) + within(&pair->b);
    double factor = pair->paired > 0 ? 2 : 1;
    if (prior <= 0) {
        double inside = floor / 2;
        prior = factor * (assumed * assumed + inside);
        prior_freedom = d <= 0 ? prior_alone : rules->start_noise >= 0 ? prior_told : prior_weak;
    }
    pair->freedom = d + prior_freedom;
    pair->scale = sqrt((d * variance + prior_freedom * prior) / pair->freedom);
    pair->scale = fmax(fmax(pair->scale, sqrt(floor * factor / 2)), least_scale);
}

/* Adds the deviations of a row's runs, in units of its scale. */
static void pool_row(results_noise *noise, const results_pair *pair)
{
    double values[STARTS_MOST], residuals[STARTS_MOST];
    int counts[2] = {pair->a.starts, pair->b.starts};
    const double *from[2] = {pair->a.logs, pair->b.logs};
    if (pair->paired > 0) {
        counts[0] = results_paired(pair, values);
        counts[1] = 0;
        from[0] = values;
    }
    for (int side = 0; side < 2; side++) {
        if (counts[side] < 2)
            continue;
        make_residuals(from[side], counts[side], residuals);
        for (int i = 0; i < counts[side]; i++)
            noise->pool[noise->pooled++] = residuals[i] / pair->scale;
    }
}

/* If there are too few residuals, normal numbers replace them. */
static void check_pool(results_noise *noise)
{
    if (noise->pooled < POOL_LEAST)
        noise->pooled = 0;
}

static void set_scales(results_noise *noise, results_comparison *made, const results_rules *rules,
                       double *variances, double *d)
{
    double prior = 0, prior_freedom = 0;
    for (size_t i = 0; i < made->count; i++)
        variances[i] = own_variance(noise, &made->pairs[i], &d[i]);
    for (size_t i = 0; i < made->count; i++)
        made->noise_rows += d[i] > 0;
    results_prior(variances, d, made->count, &prior, &prior_freedom);
    double sum = 0;
    size_t rows = 0;
    for (size_t i = 0; i < made->count; i++) {
        results_pair *pair = &made->pairs[i];
        set_scale(pair, rules, variances[i], d[i], prior, prior_freedom);
        if (pair->a.starts > 0 && pair->b.starts > 0) {
            sum += log(pair->scale / (pair->paired > 0 ? sqrt(2) : 1));
            rows++;
            if (prior <= 0)
                *(is_on_gpu(pair) ? &made->assumed_gpu : &made->assumed_host) =
                    assumed_noise(pair, rules);
        }
    }
    made->noise = rows ? exp(sum / (double)rows) : NAN;
    made->noise_freedom = prior > 0                 ? prior_freedom
                          : !made->noise_rows       ? 0
                          : rules->start_noise >= 0 ? prior_told
                                                    : prior_weak;
}

void results_noise_free(results_noise *noise)
{
    if (!noise)
        return;
    if (noise->generator)
        gsl_rng_free(noise->generator);
    free(noise->pool);
    free(noise->tables);
    free(noise);
}

results_noise *results_noise_make(results_comparison *made, const results_rules *rules)
{
    size_t starts = 0, rows = made->count + 1;
    for (size_t i = 0; i < made->count; i++)
        starts += (size_t)(made->pairs[i].a.starts + made->pairs[i].b.starts);
    results_noise *noise = calloc(1, sizeof *noise);
    double *variances = malloc(rows * sizeof *variances), *d = malloc(rows * sizeof *d);
    if (noise) {
        noise->pool = malloc((starts + 1) * sizeof *noise->pool);
        noise->generator = gsl_rng_alloc(gsl_rng_mt19937);
    }
    if (!noise || !noise->pool || !noise->generator || !variances || !d) {
        results_noise_free(noise);
        noise = NULL;
    } else {
        gsl_rng_set(noise->generator, SEED);
        set_scales(noise, made, rules, variances, d);
        for (size_t i = 0; i < made->count; i++)
            pool_row(noise, &made->pairs[i]);
        check_pool(noise);
    }
    free(variances);
    free(d);
    return noise;
}

/* Draws the center of so many runs with true center 0. */
static double draw_center(results_noise *noise, int starts)
{
    double drawn[STARTS_MOST];
    for (int i = 0; i < starts; i++) {
        if (noise->pooled == 0) {
            drawn[i] = gsl_ran_gaussian_ziggurat(noise->generator, 1);
            continue;
        }
        unsigned long pick = gsl_rng_uniform_int(noise->generator, 2 * noise->pooled);
        drawn[i] = pick & 1 ? noise->pool[pick / 2] : -noise->pool[pick / 2];
    }
    return results_center(drawn, starts);
}

static results_spread make_spread(results_noise *noise, results_design design, double freedom)
{
    static double sizes[RESAMPLES];
    double sum = 0;
    for (int i = 0; i < RESAMPLES; i++) {
        double drawn = draw_center(noise, design.a);
        if (design.b > 0)
            drawn -= draw_center(noise, design.b);
        sum += drawn * drawn;
        sizes[i] = fabs(drawn) / sqrt(gsl_ran_chisq(noise->generator, freedom) / freedom);
    }
    gsl_sort(sizes, 1, RESAMPLES);
    return (results_spread){sqrt(sum / RESAMPLES),
                            gsl_stats_quantile_from_sorted_data(sizes, 1, RESAMPLES, 0.95)};
}

results_spread results_noise_spread(results_noise *noise, results_design design, double freedom)
{
    for (size_t i = 0; i < noise->count; i++)
        if (noise->tables[i].design.a == design.a && noise->tables[i].design.b == design.b &&
            noise->tables[i].freedom == freedom)
            return noise->tables[i].spread;
    results_spread spread = make_spread(noise, design, freedom);
    table *tables = realloc(noise->tables, (noise->count + 1) * sizeof *tables);
    if (!tables)
        results_no_memory();
    noise->tables = tables;
    tables[noise->count++] = (table){design, freedom, spread};
    return spread;
}
