/*
 * The parts of weir-check: programs that it starts, expectations and verdicts, the search for a
 * slow node or link by halves, and the deviations of a fleet's times.
 */
#include "bench/health/deviation.h"
#include "bench/health/expect.h"
#include "bench/health/output.h"
#include "bench/health/process.h"
#include "bench/health/search.h"
#include "verify/tests/support/unit_test.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

enum { NODES_MOST = 40 };

/* ------------------------------------------------------------------- programs */

/* Runs a line of the shell; expects its result and the last line of its error output. */
static void expect_process(char *shell, double deadline_s, int result, const char *last)
{
    char *argv[] = {"/bin/sh", "-c", shell, NULL}, line[600] = "";
    assert_int_equal(health_process_run(argv, deadline_s, line, sizeof line), result);
    assert_string_equal(line, last);
}

TEST(a_program_has_its_exit_code_and_its_last_complete_line)
{
    char long_line[600] = "";
    expect_process("exit 0", 20, 0, "");
    expect_process("echo out; echo one >&2; echo name: two >&2; exit 7", 20, 7, "two");
    expect_process("echo one >&2; echo >&2; echo >&2", 20, 0, "one");
    expect_process("echo one >&2; printf piece >&2; sleep 0.02; echo s >&2", 20, 0, "pieces");
    expect_process("echo one >&2; printf piece >&2", 20, 0, "one");
    expect_process("kill -9 $$", 20, 128 + SIGKILL, "");
    memset(long_line, 'x', 511);
    expect_process("printf %0600d 0 | tr 0 x >&2; echo >&2", 20, 0, long_line);
    char *absent[] = {"/nonexistent/program", NULL}, line[600];
    assert_int_equal(health_process_run(absent, 20, line, sizeof line), 127);
    assert_string_equal(line, strerror(ENOENT));
}

TEST(a_program_that_does_not_end_is_killed_with_its_children)
{
    const double began_s = weiri_clock_s();
    expect_process("sleep 30", 0.1, HEALTH_TIMED_OUT, "");
    expect_process("exec 2>&-; sleep 30", 0.1, HEALTH_TIMED_OUT, "");
    assert_true(weiri_clock_s() - began_s < 20);
}

/* Processor time that this process takes while it waits for one that has closed its output. */
TEST(waiting_for_a_program_takes_no_processor)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    expect_process("exec 2>&-; sleep 0.4", 20, 0, "");
    getrusage(RUSAGE_SELF, &after);
    timersub(&after.ru_utime, &before.ru_utime, &before.ru_utime);
    timersub(&after.ru_stime, &before.ru_stime, &before.ru_stime);
    timeradd(&before.ru_utime, &before.ru_stime, &before.ru_utime);
    assert_true(before.ru_utime.tv_sec == 0 && before.ru_utime.tv_usec < 50000);
}

TEST(an_exit_code_is_lost_if_SIGCHLD_is_ignored)
{
    char *argv[] = {"/bin/true", NULL}, line[128];
    signal(SIGCHLD, SIG_IGN);
    const int result = health_process_run(argv, 20, line, sizeof line);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(result, HEALTH_NOT_STARTED);
    assert_string_equal(line,
                        "the exit code of /bin/true is lost: SIGCHLD is ignored (trap - CHLD)");
}

/* ---------------------------------------------------------------- the search */

static int group_has(const fleet_group *group, int node)
{
    for (int i = 0; i < group->count; i++)
        if (group->nodes[i] == node)
            return 1;
    return 0;
}

/* Searches a fleet whose node, or whose link from node to other, is slow; other -1: the node; both
 * -1: nothing is. Stores the number of rounds and returns 1 if the search finds just that. */
static int search_finds(int n, int node, int other, int *rounds)
{
    fleet_search search;
    fleet_group groups[2];
    int ngroups;
    assert_int_equal(search_begin(&search, n), 0);
    while ((ngroups = search_next(&search, groups)) > 0 && search.rounds < 100) {
        int slow[2] = {0};
        for (int g = 0; g < ngroups; g++) {
            assert_true(groups[g].count >= 2); /* one node exchanges nothing */
            for (int i = 0; g == 1 && i < groups[1].count; i++)
                assert_false(group_has(&groups[0], groups[1].nodes[i])); /* side by side */
            slow[g] = node >= 0 && group_has(&groups[g], node) &&
                      (other < 0 || group_has(&groups[g], other));
        }
        search_tell(&search, slow);
    }
    *rounds = search.rounds;
    const int *found = search.nodes;
    const int is_right = (found[0] == node && found[1] == other) ||
                         (other >= 0 && found[0] == other && found[1] == node) ||
                         (n == 2 && node >= 0 && found[0] >= 0);
    search_end(&search);
    return is_right;
}

TEST(every_slow_node_and_link_is_found)
{
    for (int n = 2; n <= NODES_MOST; n++) {
        const double limit = 2 * log2(n) + 1;
        for (int node = -1; node < n; node++)
            for (int other = -1; other < (node < 0 ? 0 : n); other++) {
                int rounds;
                if (other == node && node >= 0)
                    continue;
                if (!search_finds(n, node, other, &rounds) || rounds > limit)
                    fail_msg("%d nodes, %d and %d: %d rounds", n, node, other, rounds);
            }
    }
}

/* ------------------------------------------------------------- deviations */

/* A fleet of n nodes whose times vary by a few percent. */
static void fill_times(double *times, int n)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            times[a * n + b] = a == b ? NAN : 10 + (a * b + a + b) % 5 * 0.1;
}

static void scale_link(double *times, int n, int a, int b, double factor)
{
    times[a * n + b] *= factor;
    times[b * n + a] *= factor;
}

TEST(a_slow_node_and_a_slow_link_deviate)
{
    double times[64], nodes[8], pairs[64], usual;
    for (int n = 3; n <= 8; n++) {
        fill_times(times, n);
        assert_int_equal(deviation_find(times, n, DEVIATION_LEAST, nodes, pairs, &usual), 0);
        for (int i = 0; i < n * n; i++)
            assert_true(nodes[i / n] < DEVIATIONS_MOST && !(pairs[i] > DEVIATIONS_MOST));
        assert_true(usual > 9.9 && usual < 10.5);
        if (n < 4)
            continue; /* of three nodes, a slow link makes half of the links of two slow */
        scale_link(times, n, 1, 2, 4);
        deviation_find(times, n, DEVIATION_LEAST, nodes, pairs, &usual);
        for (int i = 0; i < n * n; i++) {
            const int is_slow = i == n + 2 || i == 2 * n + 1;
            assert_true(nodes[i / n] < DEVIATIONS_MOST);
            assert_int_equal(pairs[i] > DEVIATIONS_MOST, is_slow);
        }
        fill_times(times, n);
        for (int other = 0; other < n; other++)
            if (other != 3)
                scale_link(times, n, 3, other, 4);
        deviation_find(times, n, DEVIATION_LEAST, nodes, pairs, &usual);
        for (int i = 0; i < n * n; i++) {
            assert_int_equal(nodes[i / n] > DEVIATIONS_MOST, i / n == 3);
            assert_false(pairs[i] > DEVIATIONS_MOST);
        }
        deviation_find(times, n, DEVIATION_LEAST_BUSY, nodes, pairs, &usual);
        assert_true(nodes[3] < DEVIATIONS_MOST); /* four times may be chance on a busy node */
    }
}

/* ------------------------------------------------------ verdicts, expectations */

TEST(the_worst_verdict_decides_the_exit_code)
{
    static const struct {
        health_verdict verdict;
        int code;
    } rows[] = {{HEALTH_NOTED, 0},   {HEALTH_SKIPPED, 0}, {HEALTH_SLOW, 5}, {HEALTH_BROKEN, 3},
                {HEALTH_MISSING, 6}, {HEALTH_HUNG, 4},    {HEALTH_WRONG, 1}};
    health_report report = {0};
    int judged, failed;
    health_set(health_add(&report, "good", "good"), HEALTH_PASS, "%s", "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        health_set(health_add(&report, "x", "x"), rows[i].verdict, "%s", "");
        assert_int_equal(health_exit_code(&report), rows[i].code);
    }
    health_count(&report, &judged, &failed);
    assert_int_equal(judged, 6);
    assert_int_equal(failed, 5);
    health_report_free(&report);
}

TEST(each_failure_has_an_action)
{
    static const struct {
        const char *id;
        health_verdict verdict;
        const char *action;
    } rows[] = {{"allreduce.1KiB.weir", HEALTH_WRONG, "drain"},
                {"gpu3.ecc.uncorrected", HEALTH_MISSING, "reset the GPU"},
                {"gpu0.nvlink.errors", HEALTH_MISSING, "reset the GPU"},
                {"gpu12.nvlinks", HEALTH_MISSING, "reset the GPU"},
                {"gpu2.driver", HEALTH_MISSING, "reboot"},
                {"gpus", HEALTH_MISSING, "reboot"},
                {"gpus.usable", HEALTH_MISSING, "reboot"},
                {"gpu1.pcie", HEALTH_SLOW, "reboot"},
                {"gpu1.throttled", HEALTH_SLOW, "watch"},
                {"gpus.links", HEALTH_SLOW, "watch"},
                {"fleet.node3.exchange", HEALTH_HUNG, "drain"},
                {"fleet.node3.answer", HEALTH_HUNG, "reboot"},
                {"alltoall.16MiB.weir", HEALTH_HUNG, "reboot"},
                {"node.cores", HEALTH_MISSING, "drain"},
                {"nics.up", HEALTH_MISSING, "drain"},
                {"fleet.node3.latency", HEALTH_SLOW, "drain"},
                {"fleet.link1-3.latency", HEALTH_SLOW, "watch"},
                {"host.copy.all", HEALTH_SLOW, "watch"},
                {"collectives", HEALTH_BROKEN, "watch"},
                {"gpus", HEALTH_PASS, ""},
                {"gpus", HEALTH_NOTED, ""},
                {"gpus", HEALTH_SKIPPED, ""}};
    health_report report = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        health_check *check = health_add(&report, rows[i].id, "x");
        health_set(check, rows[i].verdict, "%s", "");
        assert_string_equal(health_action_name(health_action_of(check)), rows[i].action);
    }
    health_report_free(&report);
}

TEST(the_strongest_action_is_the_reports)
{
    static const char *const ids[] = {"host.copy.all", "gpu0.nvlinks", "gpu0.driver", "node.cores"};
    static const char *const actions[] = {"watch", "reset the GPU", "reboot", "drain"};
    health_report report = {0};
    assert_string_equal(health_action_name(health_action_of_all(&report)), "");
    for (int i = 0; i < 4; i++) {
        health_set(health_add(&report, ids[i], "x"), i ? HEALTH_MISSING : HEALTH_SLOW, "%s", "");
        assert_string_equal(health_action_name(health_action_of_all(&report)), actions[i]);
    }
    health_set(health_add(&report, "host.copy.core", "x"), HEALTH_SLOW, "%s", "");
    assert_string_equal(health_action_name(health_action_of_all(&report)), "drain");
    health_report_free(&report);
}

static void add_value(health_report *report, const char *id, double value, const char *unit)
{
    health_set_value(health_add(report, id, id), value, unit, 2);
}

static weir_status apply_rules(health_report *report, const char *text)
{
    char path[] = "/tmp/weir-health-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    const weir_status status = health_models_apply(path, report);
    unlink(path);
    return status;
}

TEST(rules_apply_to_their_model_only)
{
    health_report report = {.gpu_model = "NVIDIA H100 80GB HBM3", .cpu_model = "Some CPU"};
    add_value(&report, "gpu0.copy.within", 100, "GB/s");
    add_value(&report, "gpu1.copy.within", 3000, "GB/s");
    add_value(&report, "gpu1.nvlinks", 17, "");
    assert_int_equal(apply_rules(&report, "# comment\n\ngpu A100 | gpu*.copy.within | >= 9000 | x\n"
                                          "gpu H100|gpu*.copy.within|>= 2000|sheet\n"
                                          "gpu H100 | gpu*.copy.within | >= 9000 | later\n"
                                          "gpu H100 | gpu*.nvlinks | = 18 | sheet"),
                     WEIR_OK);
    assert_int_equal(report.checks[0].verdict, HEALTH_SLOW);
    assert_int_equal(report.checks[1].verdict, HEALTH_PASS); /* the first rule counts */
    assert_string_equal(report.checks[1].source, "sheet");
    assert_int_equal(report.checks[2].verdict, HEALTH_MISSING);
    health_report_free(&report);
}

TEST(rules_of_nics_apply_to_nics_of_their_model)
{
    health_report report = {.gpu_model = "Some GPU"};
    static const char *const models[] = {"MT28908 Family [ConnectX-6]",
                                         "MT2892 Family [ConnectX-6 Dx]",
                                         "MT2910 Family [ConnectX-7]"};
    for (int i = 0; i < 3; i++) {
        char id[HEALTH_ID_BYTES];
        snprintf(id, sizeof id, "nic.mlx5_%d.rate", i);
        add_value(&report, id, 25, "Gbit/s");
        strcpy(report.checks[i].device, models[i]);
    }
    assert_int_equal(health_models_apply(NULL, &report), WEIR_OK);
    assert_int_equal(report.checks[0].verdict, HEALTH_SLOW);
    assert_int_equal(report.checks[1].verdict, HEALTH_NOTED); /* there are 25GbE variants */
    assert_int_equal(report.checks[2].verdict, HEALTH_SLOW);
    health_report_free(&report);
}

TEST(copies_over_pcie_have_the_figure_of_their_model)
{
    static const struct {
        const char *model;
        double least;
    } rows[] = {{"NVIDIA H100 80GB HBM3", 40},
                {"NVIDIA H200", 40},
                {"NVIDIA H100 PCIe", 20},
                {"NVIDIA H200 NVL", 20},
                {"NVIDIA A100-SXM4-80GB", 10}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        health_report report = {0};
        strcpy(report.gpu_model, rows[i].model);
        add_value(&report, "gpu0.copy.to-host", rows[i].least - 1, "GB/s");
        add_value(&report, "gpu0.copy.from-host", rows[i].least, "GB/s");
        assert_int_equal(health_models_apply(NULL, &report), WEIR_OK);
        assert_int_equal(report.checks[0].verdict, HEALTH_SLOW);
        assert_int_equal(report.checks[1].verdict, HEALTH_PASS);
        health_report_free(&report);
    }
}

TEST(other_versions_than_the_baselines_are_shown)
{
    char path[] = "/tmp/weir-health-XXXXXX";
    health_report good = {0}, other = {0}, same = {0};
    health_baseline *baseline;
    health_set(health_add(&good, "node.versions", "versions"), HEALTH_NOTED, "driver %d", 1);
    health_set(health_add(&other, "node.versions", "versions"), HEALTH_NOTED, "driver %d", 2);
    health_set(health_add(&same, "node.versions", "versions"), HEALTH_NOTED, "driver %d", 1);
    close(mkstemp(path));
    assert_int_equal(health_write_file(&good, path, health_write_json), WEIR_OK);
    assert_int_equal(health_baseline_read(path, &baseline), WEIR_OK);
    unlink(path);
    health_baseline_apply(baseline, 0.2, 1, &other);
    health_baseline_apply(baseline, 0.2, 1, &same);
    assert_string_equal(other.checks[0].detail, "driver 2; the baseline had driver 1");
    assert_string_equal(same.checks[0].detail, "driver 1");
    assert_int_equal(health_exit_code(&other), 0);
    health_baseline_free(baseline);
    health_report_free(&good);
    health_report_free(&other);
    health_report_free(&same);
}

TEST(unknown_hardware_is_only_reported)
{
    health_report report = {.gpu_model = "Unheard Of", .cpu_model = "Unheard Of"};
    add_value(&report, "gpu0.copy.within", 1, "GB/s");
    assert_int_equal(health_models_apply(NULL, &report),
                     WEIR_OK); /* the built-in file is well-formed */
    assert_int_equal(report.checks[0].verdict, HEALTH_NOTED);
    assert_int_equal(health_exit_code(&report), 0);
    health_report_free(&report);
}

TEST(malformed_rules_are_named_by_line)
{
    static const char *const bad[] = {
        "gpu H100 | x | >= 3\n",         "gpu H100 | x | => 3 | s\n",
        "gpu H100 | x | >= three | s\n", "disk H100 | x | >= 3 | s\n",
        "gpu H100 | x | >= 3 | s | t\n", "gpu H100 | x | >= 3 4 | s\n"};
    health_report report = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "# one\n%s", bad[i]);
        assert_int_equal(apply_rules(&report, text), WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), ":2: expected"));
    }
}

TEST(ceilings_come_from_the_report)
{
    health_report report = {0};
    add_value(&report, "gpu0.pcie", 60, "GB/s");
    add_value(&report, "gpu0.copy.from-host", 20, "GB/s");
    add_value(&report, "gpu0.copy.to-host", 55, "GB/s");
    add_value(&report, "host.copy.all", 100, "GB/s");
    add_value(&report, "allreduce.16MiB.weir", 1, "GB/s");
    strcpy(report.checks[4].collective, "allreduce");
    report.checks[4].nranks = 4;
    health_ceilings_apply(&report);
    assert_int_equal(report.checks[1].verdict, HEALTH_SLOW);
    assert_int_equal(report.checks[2].verdict, HEALTH_PASS);
    assert_int_equal(report.checks[4].verdict, HEALTH_SLOW); /* below 5% of 100 / 4 */
    health_report_free(&report);
}

TEST(a_baseline_judges_an_equal_report_as_good)
{
    char path[] = "/tmp/weir-health-XXXXXX";
    health_report report = {0}, worse = {0};
    health_baseline *baseline;
    add_value(&report, "gpu0.copy.within", 1000, "GB/s");
    add_value(&report, "gpu1.copy.within", 1000, "GB/s");
    add_value(&report, "allreduce.1KiB.weir", 10, "us");
    add_value(&report, "node.cores", 8, "");
    add_value(&report, "gpu0.ecc.uncorrected", 5, "");
    close(mkstemp(path));
    assert_int_equal(health_write_file(&report, path, health_write_json), WEIR_OK);
    assert_int_equal(health_baseline_read(path, &baseline), WEIR_OK);
    unlink(path);
    health_baseline_apply(baseline, 0.2, 1, &report);
    assert_int_equal(health_exit_code(&report), 0);
    assert_int_equal(report.checks[0].verdict, HEALTH_PASS);
    assert_int_equal(report.checks[4].verdict, HEALTH_NOTED); /* counters are no property */

    add_value(&worse, "gpu0.copy.within", 799, "GB/s");
    add_value(&worse, "allreduce.1KiB.weir", 14.1, "us");
    add_value(&worse, "node.cores", 7, "");
    health_baseline_apply(baseline, 0.2, 1, &worse);
    assert_int_equal(worse.checks[0].verdict, HEALTH_SLOW);
    assert_int_equal(worse.checks[1].verdict, HEALTH_SLOW);
    assert_int_equal(worse.checks[2].verdict, HEALTH_MISSING);
    assert_int_equal(health_find(&worse, "gpu1.copy.within")->verdict, HEALTH_MISSING);
    health_baseline_free(baseline);
    health_report_free(&report);
    health_report_free(&worse);
}

int main(void)
{
    return run_all_tests("health");
}
