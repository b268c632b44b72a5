/*
 * The arithmetic of --for, with planted times: quantiles of histograms, the drift of the median,
 * and what explains outliers. Signs are read from a made-up /proc and /sys.
 */
#include "bench/hours/windows.h"
#include "verify/tests/support/test_files.h"

#include <math.h>
#include <signal.h>

enum { RANKS = 2, BOTH = RANKS * BENCH_SIGNS };

TEST(quantiles_are_within_a_thousandth)
{
    static bench_histogram histogram;
    for (int i = 1; i <= 10000; i++)
        bench_histogram_add(&histogram, i * 0.37);
    const double shares[] = {0.001, 0.5, 0.99, 0.999, 1};
    for (int i = 0; i < 5; i++)
        assert_true(fabs(bench_histogram_quantile(&histogram, shares[i]) / (3700 * shares[i]) - 1) <
                    0.001);
    assert_true(histogram.count == 10000 && histogram.max_us == 3700);
}

TEST(times_beyond_the_classes_count)
{
    static bench_histogram histogram;
    assert_true(isnan(bench_histogram_quantile(&histogram, 0.5)));
    bench_histogram_add(&histogram, 0);
    bench_histogram_add(&histogram, 1e12);
    assert_true(histogram.count == 2 && histogram.max_us == 1e12);
    assert_true(bench_histogram_quantile(&histogram, 0.5) < 0.011);
}

TEST(a_planted_drift_is_in_its_interval_and_noise_is_none)
{
    bench_drift drift = {0}, noise = {0};
    uint64_t x = 7;
    double percent, low, high;
    for (int i = 0; i < 100; i++) {
        const double jitter = test_random_fraction(&x) - 0.5;
        bench_drift_add(&drift, i / 60.0, 50 + 1.0 * i / 60 + jitter);
        bench_drift_add(&noise, i / 60.0, 50 + jitter);
        if (i == 1)
            assert_false(bench_drift_slope(&drift, &percent, &low, &high));
    }
    assert_true(bench_drift_slope(&drift, &percent, &low, &high));
    assert_true(low > 0 && low < 2 && high > 2 && percent > low && percent < high);
    assert_true(bench_drift_slope(&noise, &percent, &low, &high));
    assert_true(low < 0 && high > 0);
}

/* Explains so many outliers of 1 ms in a part where a rank's sign changed by so much. */
static void explain(bench_causes *causes, int count, int rank, bench_sign sign, double change)
{
    double changes[BOTH] = {0};
    changes[rank * BENCH_SIGNS + sign] = change;
    for (int i = 0; i < count; i++)
        bench_causes_explain(causes, changes, 1000);
}

TEST(outliers_are_explained_by_what_changed)
{
    bench_causes causes;
    char text[512];
    double quiet[BOTH] = {0};
    assert_int_equal(bench_causes_open(&causes, RANKS), 0);
    quiet[BENCH_SIGN_HEAT] = 1; /* rank 0's GPU is always hot, and rank 1 often loses its core */
    quiet[BENCH_SIGNS + BENCH_SIGN_NEIGHBOUR] = 400;
    quiet[BENCH_SIGNS + BENCH_SIGN_SWITCH] = 10;
    for (int i = 0; i < 10; i++)
        bench_causes_learn(&causes, quiet);
    explain(&causes, 29, 1, BENCH_SIGN_POWER, 1);
    explain(&causes, 3, 0, BENCH_SIGN_QUOTA, 500);
    explain(&causes, 2, 0, BENCH_SIGN_QUOTA, 499);     /* less than half of the time */
    explain(&causes, 1, 0, BENCH_SIGN_HEAT, 1);        /* as usual */
    explain(&causes, 1, 1, BENCH_SIGN_NEIGHBOUR, 899); /* 499 more than usual */
    explain(&causes, 1, 1, BENCH_SIGN_SWITCH, 32);     /* three times the usual, and 2 */
    explain(&causes, 1, 1, BENCH_SIGN_NEIGHBOUR, 900);
    bench_causes_describe(&causes, &causes.window, text, sizeof text);
    assert_string_equal(text,
                        "29 while rank 1's GPU was power-capped; 3 while rank 0's cgroup was out "
                        "of its CPU quota; 1 while rank 1's core ran another task; "
                        "5 unexplained");
    bench_causes_end_window(&causes);
    bench_causes_describe(&causes, &causes.window, text, sizeof text);
    assert_string_equal(text, "");
    explain(&causes, 1, 0, BENCH_SIGN_XID, 1);
    bench_causes_end_window(&causes);
    bench_causes_describe(&causes, &causes.all, text, sizeof text);
    assert_true(strstr(text, "29 while rank 1's GPU") &&
                strstr(text, "; 1 with other causes; 5 un"));
    assert_true(causes.all.outliers == 39);
    bench_causes_close(&causes);
}

TEST(causes_are_named_by_the_time_they_lost)
{
    bench_causes causes;
    char text[512];
    double stopped[BOTH] = {0};
    assert_int_equal(bench_causes_open(&causes, RANKS), 0);
    stopped[BENCH_SIGN_STOPPED] = 1;
    explain(&causes, 9, 0, BENCH_SIGN_NEIGHBOUR, 1000);
    explain(&causes, 8, 1, BENCH_SIGN_NEIGHBOUR, 1000);
    explain(&causes, 7, 1, BENCH_SIGN_STOLEN, 1000);
    bench_causes_explain(&causes, stopped, 300000);
    bench_causes_describe(&causes, &causes.window, text, sizeof text);
    assert_string_equal(text, "1 while rank 0 was stopped (SIGSTOP); 9 while rank 0's core ran "
                              "another task; 8 while rank 1's core ran another task; "
                              "7 with other causes");
    bench_causes_close(&causes);
}

static char root[64];

/* Writes the counters of /proc and /sys, each larger by `more`. */
static void plant(int more)
{
    char text[256];
    snprintf(text, sizeof text, "cpu  1 2 3 4 5 6 7 %d 0 0\ncpu0 1 2 3\n", 100 + more);
    test_file_write(root, "proc/stat", text);
    snprintf(text, sizeof text, "900 %d 5\n", 1000 * more);
    test_file_write(root, "proc/thread-self/schedstat", text);
    snprintf(text, sizeof text, "Tcp: RtoAlgorithm RtoMin\nTcp: 1 200 3 -1 5 6 7 8 9 10 11 %d 0\n",
             more);
    test_file_write(root, "proc/net/snmp", text);
    snprintf(text, sizeof text, "%d\n", more);
    test_file_write(root, "sys/class/net/eth0/statistics/rx_errors", text);
    test_file_write(root, "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", text);
    test_file_write(root, "proc/self/cgroup", "0::/job/task\n");
    snprintf(text, sizeof text, "usage_usec 9\nthrottled_usec %d\n", 7 * more);
    test_file_write(root, "sys/fs/cgroup/job/cpu.stat", text); /* the quota is the parent's */
}

TEST(signs_are_the_differences_of_two_readings)
{
    bench_signs signs;
    double changes[BENCH_SIGNS];
    snprintf(root, sizeof root, "/tmp/weir-hours-XXXXXX");
    assert_non_null(mkdtemp(root));
    plant(10);
    bench_signs_open(&signs, root, NULL);
    plant(15);
    raise(SIGCONT); /* as after a stop */
    bench_signs_read(&signs, changes);
    assert_true(changes[BENCH_SIGN_STOPPED] == 1);
    assert_true(changes[BENCH_SIGN_QUOTA] == 35);
    assert_true(changes[BENCH_SIGN_STOLEN] == 5e6 / (double)sysconf(_SC_CLK_TCK));
    assert_true(changes[BENCH_SIGN_NEIGHBOUR] == 5);
    assert_true(changes[BENCH_SIGN_NIC] == 15);
    assert_true(changes[BENCH_SIGN_XID] == 0 && changes[BENCH_SIGN_POWER] == 0);
    bench_signs_read(&signs, changes);
    assert_true(changes[BENCH_SIGN_STOPPED] == 0 && changes[BENCH_SIGN_QUOTA] == 0);
    bench_signs_close();
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    return run_all_tests("bench_hours");
}
