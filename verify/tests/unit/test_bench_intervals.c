/*
 * Confidence intervals of medians have their stated coverage, for one round and for several, and
 * rounds divide the iterations of a size as documented.
 */

#include "bench/statistics/bootstrap.h"
#include "bench/job/buffers.h"
#include "bench/options/options.h"
#include "bench/statistics/lateness.h"
#include "bench/trial/series.h"
#include "bench/statistics/stats.h"
#include "verify/tests/support/unit_test.h"

#include <math.h>

enum { ROUNDS = 6, EACH = 30, ALL = ROUNDS * EACH };

static const int ends[ROUNDS] = {30, 60, 90, 120, 150, 180};

/* The fraction of 400 series whose interval misses the true median; -1 if built without the
 * bootstrap. memory is the autocorrelation of neighbouring samples. */
static double bootstrap_misses(double memory)
{
    uint64_t x = 88172645463325252u;
    int missed = 0;
    for (int trial = 0; trial < 400; trial++) {
        double series[150], last = 0;
        bench_interval interval;
        for (int i = 0; i < 150; i++)
            series[i] = 10 + (last = memory * last + test_random_fraction(&x) - 0.5);
        if (bench_bootstrap_median(&(bench_sequence){series, 150, NULL, 1}, &interval) != 0)
            return -1;
        missed += interval.low > 10 || interval.high < 10;
    }
    return missed / 400.0;
}

TEST(bootstrap_intervals_cover_the_median)
{
    double independent = bootstrap_misses(0), correlated = bootstrap_misses(0.5);
    if (strstr(bench_bootstrap_method(), "without GSL")) {
        assert_true(independent == -1);
        return;
    }
    assert_true(independent > 0.02 && independent < 0.09);
    /* An interval that assumed independent neighbours would miss 25%. */
    assert_true(correlated > 0.02 && correlated < 0.13);
}

TEST(bootstrap_intervals_are_repeatable)
{
    double series[60], longer[61];
    bench_sequence shorter = {series, 60, NULL, 1}, all = {longer, 61, NULL, 1};
    uint64_t x = 99;
    bench_interval one, two, ratio;
    for (int i = 0; i < 61; i++)
        longer[i] = 5 + test_random_fraction(&x);
    memcpy(series, longer, sizeof series);
    if (strstr(bench_bootstrap_method(), "without GSL")) {
        assert_int_equal(bench_bootstrap_ratio(&shorter, &all, &ratio), -1);
        return;
    }
    assert_int_equal(bench_bootstrap_median(&shorter, &one), 0);
    assert_int_equal(bench_bootstrap_median(&shorter, &two), 0);
    assert_true(one.low == two.low && one.high == two.high && one.low < one.high);
    assert_int_equal(bench_bootstrap_ratio(&shorter, &all, &ratio), 0);
    assert_true(ratio.low < 1 && ratio.high > 1 && ratio.high / ratio.low < 1.2);
    shorter.count = BENCH_BOOTSTRAP_SAMPLES - 1;
    assert_int_equal(bench_bootstrap_median(&shorter, &one), -1);
    for (int i = 0; i < 61; i++)
        longer[i] = 7; /* ties only */
    assert_int_equal(bench_bootstrap_median(&all, &one), 0);
    assert_true(one.low == 7 && one.high == 7);
}

TEST(statistics_leave_the_order_of_a_series)
{
    double series[] = {3, 1, 2}, scratch[3];
    bench_stats stats = bench_stats_series(&(bench_sequence){series, 3, NULL, 1}, 0.1, scratch);
    assert_true(series[0] == 3 && series[1] == 1 && series[2] == 2);
    assert_true(stats.median == 2 && stats.ci_low == 1 && stats.ci_high == 3);
    assert_true(bench_stats_half_width(&stats) == 0.5);
}

/* A thousand equal readings of a coarse clock are no more exact than the clock's resolution. */
TEST(interval_is_no_narrower_than_the_clock)
{
    double series[1000], scratch[1000];
    for (int i = 0; i < 1000; i++)
        series[i] = 8;
    bench_sequence all = {series, 1000, NULL, 1};
    bench_stats stats = bench_stats_series(&all, 0.5, scratch);
    assert_true(stats.ci_low == 7.75 && stats.ci_high == 8.25);
}

/* ------------------------------------------------------------------ rounds */

/* Iterations of a round are close to each other; rounds differ by up to half a unit. */
static void make_rounds(double *series, double factor, const double *levels, uint64_t *x)
{
    for (int i = 0; i < ALL; i++)
        series[i] = factor * (10 + levels[i / EACH] + 0.1 * (test_random_fraction(x) - 0.5));
}

static void make_levels(double *levels, uint64_t *x)
{
    for (int v = 0; v < ROUNDS; v++)
        levels[v] = test_random_fraction(x) - 0.5;
}

/* The fraction of 300 series whose interval misses the median of all possible rounds. */
static double rounds_miss(int rounds)
{
    uint64_t x = 4711;
    int missed = 0;
    for (int trial = 0; trial < 300; trial++) {
        double series[ALL], scratch[ALL], levels[ROUNDS];
        bench_sequence all = {series, ALL, ends, rounds};
        make_levels(levels, &x);
        make_rounds(series, 1, levels, &x);
        bench_stats stats = bench_stats_series(&all, 0.001, scratch);
        missed += stats.ci_low > 10 || stats.ci_high < 10;
    }
    return missed / 300.0;
}

TEST(intervals_over_rounds_cover_the_median_of_all_rounds)
{
    assert_true(rounds_miss(ROUNDS) < 0.08);
    assert_true(rounds_miss(1) > 0.4); /* treats all iterations as independent */
}

/* An effect of a round on both sides cancels in their ratio. */
TEST(ratios_pair_the_rounds)
{
    double above[ALL], below[ALL], levels[ROUNDS], others[ROUNDS];
    uint64_t x = 31;
    bench_sequence up = {above, ALL, ends, ROUNDS}, down = {below, ALL, ends, ROUNDS};
    bench_interval same, apart;
    make_levels(levels, &x);
    make_levels(others, &x);
    make_rounds(above, 2, levels, &x);
    make_rounds(below, 1, levels, &x);
    if (bench_bootstrap_ratio(&up, &down, &same) != 0)
        return; /* built without GSL */
    make_rounds(below, 1, others, &x);
    assert_int_equal(bench_bootstrap_ratio(&up, &down, &apart), 0);
    assert_true(same.low < 2 && same.high > 2);
    assert_true(same.high / same.low < 1.03 && apart.high / apart.low > 1.06);
    down.rounds = ROUNDS - 1; /* no pairs of rounds: iterations only */
    assert_int_equal(bench_bootstrap_ratio(&up, &down, &apart), 0);
}

TEST(few_rounds_widen_the_interval)
{
    assert_true(bench_student_widening(0) == 1 && bench_student_widening(1) == 1);
    assert_true(fabs(bench_student_widening(2) - 9.168) < 0.01);
    assert_true(fabs(bench_student_widening(6) - 1.4367) < 0.002);
    assert_true(fabs(bench_student_widening(10) - 1.2166) < 0.002);
    assert_true(bench_student_widening(200) < 1.01);
}

TEST(number_of_rounds_follows_the_options)
{
    bench_options options = {.rounds = 6};
    assert_int_equal(bench_options_rounds(&options), 6);
    options.iterations = 4;
    assert_int_equal(bench_options_rounds(&options), 1);
    options.graph = 3;
    assert_int_equal(bench_options_rounds(&options), 4);
    options.iterations = 1000;
    assert_int_equal(bench_options_rounds(&options), 6);
    options.inject_timed = 1;
    assert_int_equal(bench_options_rounds(&options), 1);
    options = (bench_options){.rounds = 2, .iterations = 7};
    assert_int_equal(bench_options_rounds(&options), 2);
}

TEST(rounds_divide_the_iterations_evenly)
{
    bench_options options = {.rounds = 6, .aggregate = 1};
    bench_series series = {.nmembers = 1};
    int shortest = 100, longest = 0;
    bench_series_restart(&series, &options, 20, 1e-3);
    for (int v = 0; v < 6; v++) {
        int share = bench_series_next_iterations(&series);
        shortest = share < shortest ? share : shortest;
        longest = share > longest ? share : longest;
        bench_series_end_round(&series, share);
        assert_int_equal(series.ends[v], series.count);
    }
    assert_int_equal(series.count, 20);
    assert_true(shortest == 3 && longest == 4 && series.rounds == 6);
}

/* The buffers of every round are on other pages, inside the pool and aligned. */
TEST(rounds_use_different_pages_of_the_buffers)
{
    enum { BYTES = 1 << 20 };
    char *base = malloc(2 * BYTES);
    bench_buffers buffers = {.in = {.base = base}, .out = {.base = base + BYTES}};
    bench_shape shape = {.bytes = 64, .send_elements = 16, .recv_elements = 16};
    uintptr_t in[ROUNDS], out[ROUNDS];
    assert_non_null(base);
    for (int v = 0; v < ROUNDS; v++) {
        bench_layout layout;
        bench_buffers_place(&buffers, &shape, 4, 0, 0, 0, v, &layout);
        in[v] = (uintptr_t)layout.in;
        out[v] = (uintptr_t)layout.out;
        assert_true(in[v] % 4096 == 0 && out[v] % 4096 == 0);
        assert_true(in[v] + 64 < (uintptr_t)base + BYTES && out[v] + 64 < in[v] + 2 * BYTES);
        for (int w = 0; w < v; w++)
            assert_true(in[v] != in[w] && out[v] != out[w]);
    }
    free(base);
}

/* Ends of the iterations of some ranks: each iteration takes 100 us, and a rank's end differs from
 * it by up to 40 us at random. One rank ends later by so much. */
enum { LATE_RANKS = 8, LATE_MOST = 400 };

static bench_lateness lateness_of(int nranks, int iterations, int rank, double late_us, uint64_t *x)
{
    static double ends_us[LATE_RANKS * LATE_MOST], scratch[LATE_RANKS + LATE_MOST];
    for (int r = 0; r < nranks; r++)
        for (int i = 0; i < iterations; i++)
            ends_us[r * iterations + i] =
                100.0 * i + 40 * test_random_fraction(x) + (r == rank ? late_us : 0);
    return bench_lateness_make(ends_us, nranks, iterations, 100, scratch);
}

TEST(the_last_rank_is_counted_and_its_lag_is_the_median)
{
    /* Ranks 0, 1, 2 end as follows; the last is rank 2, 2, 1, 2. */
    static const double ends_us[] = {10, 20, 30, 40, 11, 22, 37, 41, 15, 29, 33, 50};
    double scratch[3 + 4];
    const bench_lateness late = bench_lateness_make(ends_us, 3, 4, 10, scratch);
    assert_true(late.is_known);
    assert_int_equal(late.rank, 2);
    assert_true(late.share == 0.75);
    assert_true(late.lag_us == 5.5); /* of 4, 7, 0 and 9 */
    assert_false(late.stands_out);   /* too few iterations */
    assert_false(bench_lateness_make(ends_us, 1, 4, 10, scratch).is_known);
    assert_false(bench_lateness_make(ends_us, 3, 0, 10, scratch).is_known);
}

TEST(a_late_rank_stands_out_and_chance_does_not)
{
    uint64_t x = 88172645463325252u;
    for (int trial = 0; trial < 1000; trial++) {
        const int n = 2 + trial % 7, rank = trial % n;
        const bench_lateness late = lateness_of(n, LATE_MOST, rank, 45, &x);
        assert_true(late.stands_out && late.rank == rank && late.share == 1);
        assert_false(lateness_of(n, LATE_MOST, rank, 0, &x).stands_out);
        assert_false(lateness_of(n, BENCH_LATENESS_ITERATIONS, rank, 0, &x).stands_out);
        assert_false(lateness_of(n, BENCH_LATENESS_ITERATIONS - 1, rank, 45, &x).stands_out);
    }
}

/* Always last, but by less than is worth a line; and last by far in one part of the run only. */
TEST(a_rank_that_is_last_by_little_or_for_a_while_does_not_stand_out)
{
    static double ends_us[3 * LATE_MOST], scratch[3 + LATE_MOST];
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < LATE_MOST; i++) {
            ends_us[i] = ends_us[LATE_MOST + i] = 100.0 * i;
            ends_us[LATE_MOST + i] += i % 2;
            ends_us[2 * LATE_MOST + i] = 100.0 * i + (!part                   ? 4.9
                                                      : i < LATE_MOST * 3 / 4 ? 60
                                                                              : -1);
        }
        const bench_lateness late = bench_lateness_make(ends_us, 3, LATE_MOST, 100, scratch);
        assert_int_equal(late.rank, 2);
        assert_true(late.share == (part ? 0.75 : 1));
        assert_false(late.stands_out);
    }
}

int main(void)
{
    return run_all_tests("bench_intervals");
}
