/*
 * The nightly gate raises few false alarms and finds slowdowns. Nights with realistic noise are
 * simulated and judged like in ci/nightly: interleaved runs of baseline and candidate, suspects
 * measured again, a verdict from the new rounds only. Without a change, alarms must be rare; rows
 * that are 1.10x slower must be found in the same night. The underlying statistics are compared
 * with known values.
 */

#include "results/judge/compare.h"
#include "verify/tests/support/unit_test.h"

#include <math.h>

/* The defaults of ci/nightly. */
enum { ROWS = 200, SCREEN_ROUNDS = 6, CONFIRM_ROUNDS = 16, NIGHTS = 30 };
static const double nightly_alpha = 0.01;

typedef struct night {
    uint64_t x;             /* state of the random generator */
    double row_noise[ROWS]; /* of each row between runs */
    double slower[ROWS];    /* slowdown of the candidate */
    int suspect[ROWS];
} night;

static double uniform(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return ((double)(*x >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *x)
{
    return sqrt(-2 * log(uniform(x))) * cos(6.283185307179586 * uniform(x));
}

/*
 * The part of the noise of a run's median that concerns one row, as a logarithm: the row's own 0.7%
 * to 4% and, in 3 of 100 runs, a disturbance that makes it 8% to 40% slower.
 */
static double run_noise(night *n, int row)
{
    double off = n->row_noise[row] * normal(&n->x);
    if (uniform(&n->x) < 0.03)
        off += log(1.08 + 0.32 * uniform(&n->x));
    return off;
}

static void add_row(results_set *set, int round, int row, double us)
{
    char text[32];
    const char *path = results_keep_printed(set, "r%d-", round);
    results_row made = results_row_make(path, row + 2, RESULTS_OWN_CSV);
    const struct {
        int column;
        const char *value;
    } same[] = {{RESULTS_COLLECTIVE, "allreduce"},
                {RESULTS_BACKEND, "cuda"},
                {RESULTS_NRANKS, "8"},
                {RESULTS_NNODES, "1"},
                {RESULTS_CONTENDER, "weir"},
                {RESULTS_DTYPE, "float"},
                {RESULTS_REDOP, "sum"},
                {RESULTS_PLACEMENT, "out"},
                {RESULTS_VERIFY, "pass"},
                {RESULTS_RUN_ID, path}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        made.text[same[i].column] = same[i].value;
    snprintf(text, sizeof text, "%d", 8 * (row + 1));
    made.text[RESULTS_BYTES] = results_keep_text(set, text, strlen(text));
    snprintf(text, sizeof text, "%.4f", us);
    made.text[RESULTS_MEDIAN_US] = results_keep_text(set, text, strlen(text));
    assert_int_equal(results_add(set, &made), 0);
}

/* One run of a side in a round, with 0.5% noise on all rows. Both sides share the round's drift. */
static void run_side(night *n, results_set *set, int round, double drift, int is_b, int all)
{
    double common = drift + 0.005 * normal(&n->x);
    for (int row = 0; row < ROWS; row++)
        if (all || n->suspect[row])
            add_row(set, round, row,
                    20 * (1 + row % 7) * exp(common + run_noise(n, row)) *
                        (is_b ? n->slower[row] : 1));
}

/* Judges rounds of all rows (screening) or of the suspects. Screening marks the suspects; otherwise
 * returns the number of alarms on rows that are not slower, and adds the slower rows found to
 * *found. */
static int judge_rounds(night *n, int rounds, int screening, int *found)
{
    results_set a, b;
    results_comparison made;
    results_rules rules = results_rules_default();
    int false_alarms = 0;
    rules.alpha = nightly_alpha;
    results_set_init(&a, 0, NULL);
    results_set_init(&b, 0, NULL);
    for (int round = 1; round <= rounds; round++) {
        double drift = 0.03 * normal(&n->x);
        run_side(n, &a, round, drift, 0, screening);
        run_side(n, &b, round, drift, 1, screening);
    }
    assert_int_equal(results_match(&a, &b, &rules, &made), 0);
    results_judge(&made, &rules);
    for (size_t i = 0; i < made.count; i++) {
        const results_pair *pair = &made.pairs[i];
        int row = (int)(pair->example->bytes / 8) - 1;
        if (screening)
            n->suspect[row] = results_is_suspect(pair, &rules);
        else if (pair->verdict == RESULTS_REGRESSED && n->slower[row] == 1)
            false_alarms++;
        else if (pair->verdict == RESULTS_REGRESSED)
            ++*found;
    }
    results_set_free(&a);
    results_set_free(&b);
    return false_alarms;
}

/* One night in which `slow` rows are slower by the factor. */
static int pass_night(night *n, uint64_t seed, int slow, double factor, int *found)
{
    *n = (night){.x = seed * 0x9e3779b97f4a7c15u + 1};
    for (int i = 0; i < 20; i++)
        uniform(&n->x);
    for (int row = 0; row < ROWS; row++) {
        n->row_noise[row] = 0.007 * pow(0.04 / 0.007, uniform(&n->x));
        n->slower[row] = 1;
    }
    for (int i = 0; i < slow; i++)
        n->slower[(int)(uniform(&n->x) * ROWS)] = factor;
    judge_rounds(n, SCREEN_ROUNDS, 1, found);
    return judge_rounds(n, CONFIRM_ROUNDS, 0, found);
}

/* The environment variable NIGHTS overrides the number. */
static int nights(void)
{
    const char *wanted = getenv("NIGHTS");
    return wanted ? atoi(wanted) : NIGHTS;
}

TEST(unchanged_code_raises_few_alarms)
{
    static night n;
    int alarms = 0, nights_with = 0, found = 0;
    for (int i = 0; i < nights(); i++) {
        int now = pass_night(&n, (uint64_t)i + 1, 0, 1, &found);
        alarms += now;
        nights_with += now > 0;
    }
    printf("# %d nights of %d rows, nothing changed: %d false alarms, in %d nights\n", nights(),
           ROWS, alarms, nights_with);
    assert_true(nights_with * 100 < nights());
}

TEST(slower_rows_are_found)
{
    static night n;
    int slower = 0, found = 0, alarms = 0;
    for (int i = 0; i < nights(); i++) {
        alarms += pass_night(&n, (uint64_t)i + 1001, 8, 1.10, &found);
        for (int row = 0; row < ROWS; row++)
            slower += n.slower[row] != 1;
    }
    printf("# %d nights: %d of %d rows that are 1.10x slower found, %d false alarms\n", nights(),
           found, slower, alarms);
    assert_true(found >= 0.95 * slower);
    assert_true(alarms * 100 < nights());
}

TEST(corrections_match_known_values)
{
    double holm[] = {0.01, 0.04, 0.03, 0.005}, bh[] = {0.01, 0.04, 0.03, 0.005};
    results_correct(holm, 4, RESULTS_HOLM);
    results_correct(bh, 4, RESULTS_BH);
    const double holm_known[] = {0.03, 0.06, 0.06, 0.02}, bh_known[] = {0.02, 0.04, 0.04, 0.02};
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(holm[i] - holm_known[i]) < 1e-12);
        assert_true(fabs(bh[i] - bh_known[i]) < 1e-12);
    }
}

/* Variances are drawn from a known prior, which is estimated from them. */
TEST(the_prior_of_variances_is_recovered)
{
    enum { N = 4000 };
    static double variances[N], d[N];
    double prior = 0, freedom = 0;
    uint64_t x = 99;
    for (int i = 0; i < N; i++) {
        double of_prior = 0, own = 0;
        for (int j = 0; j < 6; j++)
            of_prior += pow(normal(&x), 2) / 6;
        for (int j = 0; j < 3; j++)
            own += pow(normal(&x), 2) / 3;
        d[i] = 3;
        variances[i] = 0.04 / of_prior * own;
    }
    assert_int_equal(results_prior(variances, d, N, &prior, &freedom), 0);
    assert_true(fabs(prior / 0.04 - 1) < 0.1);
    assert_true(freedom > 4.5 && freedom < 8);
    assert_int_equal(results_prior(variances, d, 3, &prior, &freedom), -1);
}

/* The noise of a comparison of equal times, whose rows have intervals of these widths (high by low;
 * 0: none). */
static double noise_of(int runs, double width_a, double width_b)
{
    results_set sets[2];
    results_comparison made;
    results_rules rules = results_rules_default();
    for (int side = 0; side < 2; side++) {
        const double width = side ? width_b : width_a;
        results_set_init(&sets[side], 0, NULL);
        for (int run = 0; run < runs; run++) {
            add_row(&sets[side], run + 1, 0, 100);
            if (width > 0) {
                sets[side].rows[run].low_us = 100 / sqrt(width);
                sets[side].rows[run].high_us = 100 * sqrt(width);
            }
        }
    }
    assert_int_equal(results_match(&sets[0], &sets[1], &rules, &made), 0);
    results_judge(&made, &rules);
    const double noise = made.noise;
    results_set_free(&sets[0]);
    results_set_free(&sets[1]);
    return noise;
}

/* With one run per side, the noise between runs is assumed to be 2% on GPUs; the intervals of the
 * rows add to it. With more runs it is at least what the intervals show. */
TEST(known_intervals_add_to_the_noise)
{
    const double width = 1.2, own = log(width) / (2 * 1.96);
    assert_true(fabs(noise_of(1, 0, 0) - 0.02) < 1e-9);
    assert_true(fabs(noise_of(1, width, width) - hypot(0.02, own)) < 1e-9);
    assert_true(fabs(noise_of(1, width, 0) - hypot(0.02, own / sqrt(2))) < 1e-9);
    assert_true(fabs(noise_of(1, 0, width) - hypot(0.02, own / sqrt(2))) < 1e-9);
    assert_true(fabs(noise_of(5, width, width) - own) < 1e-9);
    assert_true(noise_of(5, 0, 0) < 0.02);
}

/* Intervals contain the true ratio about as often as stated, with few runs. */
TEST(intervals_cover_the_true_ratio)
{
    static night n;
    int held = 0, all = 0;
    for (int i = 0; i < 10; i++) {
        results_set a, b;
        results_comparison made;
        results_rules rules = results_rules_default();
        int found;
        pass_night(&n, (uint64_t)i + 501, 0, 1, &found);
        results_set_init(&a, 0, NULL);
        results_set_init(&b, 0, NULL);
        for (int round = 1; round <= SCREEN_ROUNDS; round++) {
            run_side(&n, &a, round, 0, 0, 1);
            run_side(&n, &b, round, 0, 1, 1);
        }
        assert_int_equal(results_match(&a, &b, &rules, &made), 0);
        results_judge(&made, &rules);
        for (size_t k = 0; k < made.count; k++, all++)
            held += made.pairs[k].low <= 1 && made.pairs[k].high >= 1;
        results_set_free(&a);
        results_set_free(&b);
    }
    printf("# %.1f%% of %d intervals contain the true ratio\n", 100.0 * held / all, all);
    assert_true(held > 0.93 * all && held < 0.985 * all);
}

int main(void)
{
    return run_all_tests("results_gate");
}
