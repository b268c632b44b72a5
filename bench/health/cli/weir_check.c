/*
 * weir-check: is this node, or are the nodes and links of this job, healthy and as fast as they
 * should be? Standard output has the report; its last line begins with PASS or FAIL.
 */
#include "base/error.h"
#include "bench/health/busy.h"
#include "bench/health/checks.h"
#include "bench/health/cli/options.h"
#include "bench/health/expect.h"
#include "bench/health/fleet.h"
#include "bench/health/output.h"
#include "programs/numbers.h"
#include "programs/program.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The folder of this program, where the benchmarks are, too. */
static void check_find_programs(char *folder, size_t bytes)
{
    const ssize_t length = readlink("/proc/self/exe", folder, bytes - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, bytes, ".");
}

static void check_stamp(health_report *report, const char *level)
{
    const time_t now = time(NULL);
    struct tm utc;
    snprintf(report->level, sizeof report->level, "%s", level);
    if (gethostname(report->host, sizeof report->host) != 0)
        snprintf(report->host, sizeof report->host, "?");
    report->host[sizeof report->host - 1] = '\0';
    report->nodes = 1;
    gmtime_r(&now, &utc);
    strftime(report->utc, sizeof report->utc, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* Expectations from all sources, the most specific first. */
static weir_status check_expect(const check_options *options, const health_baseline *baseline,
                                int is_complete, health_report *report)
{
    if (baseline)
        health_baseline_apply(baseline, options->share, is_complete, report);
    const weir_status status = health_models_apply(options->models, report);
    if (!status)
        health_ceilings_apply(report);
    return status;
}

/* Runs every check of a node. */
static weir_status check_node(const check_options *options, const health_settings *settings,
                              const health_baseline *baseline, health_report *report)
{
    weiri_topo *topo;
    weir_status status = weiri_topo_discover_full(&topo);
    if (status)
        return status;
    if (options->topology)
        status = health_check_topology(report, options->topology, topo);
    if (status) {
        weiri_topo_destroy(topo);
        return status;
    }
    health_counters *before = health_counters_read(topo);
    health_busy_look(report);
    health_check_facts(report, settings, topo);
    health_check_host_copies(report, settings, topo);
    health_busy_since(report);
    health_check_gpu_copies(report, settings, topo, before);
    health_busy_since(report);
    health_check_collectives(report, settings, topo);
    health_busy_since(report);
    health_check_counters(report, topo, before);
    status = check_expect(options, baseline, 1, report);
    for (int i = 0; i < 2 && !status && health_worst(report) >= HEALTH_SLOW; i++) {
        health_check_again(report, settings, topo);
        health_busy_since(report);
    }
    health_busy_excuse(report);
    health_counters_free(before);
    weiri_topo_destroy(topo);
    return status;
}

static weir_status check_write(const check_options *options, const health_report *report)
{
    const struct {
        const char *path;
        void (*form)(const health_report *report, FILE *to);
    } files[] = {{options->json, health_write_json},
                 {options->junit, health_write_junit},
                 {options->ctrf, health_write_ctrf},
                 {options->prometheus, health_write_prometheus},
                 {options->markdown, health_write_markdown}};
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && !status; i++)
        if (files[i].path)
            status = health_write_file(report, files[i].path, files[i].form);
    health_write_text(report, stdout);
    if (!status && (fflush(stdout) != 0 || ferror(stdout)))
        status = weiri_fail(WEIR_ERR_SYSTEM,
                            "cannot write to standard output: is the disk full, or is it closed?");
    return status;
}

/* Reads what the checks are compared with, so that errors in it are reported before anything is
 * measured. */
static weir_status check_read_expectations(const check_options *options, health_baseline **baseline)
{
    health_report none = {0};
    const weir_status status =
        options->baseline ? health_baseline_read(options->baseline, baseline) : WEIR_OK;
    return status || !options->models ? status : health_models_apply(options->models, &none);
}

/* The exit code of a failure, which is printed, or of a report. */
static int check_exit_code(weir_status status, const health_report *report)
{
    if (status == WEIR_OK)
        return health_exit_code(report);
    fprintf(stderr, "weir-check: %s\n", weir_last_error());
    return weir_status_exit_code(status);
}

/* Checks a node and writes the report. Returns the exit code. */
static int check_run_node(const check_options *options)
{
    static const char *const levels[] = {
        [HEALTH_QUICK] = "quick", [HEALTH_STANDARD] = "standard", [HEALTH_LONG] = "long"};
    char programs[512];
    health_report report = {0};
    health_baseline *baseline = NULL;
    weiri_progress progress;
    const double began = weiri_clock_s();
    check_find_programs(programs, sizeof programs);
    weiri_progress_begin(&progress, stderr, "weir-check", options->quiet);
    const health_settings settings = {.level = (health_level)options->level,
                                      .nranks = options->nranks,
                                      .gpus = options->ngpus,
                                      .nics = options->nnics,
                                      .inject = options->inject,
                                      .deadline_s = options->timeout_s,
                                      .programs = programs,
                                      .peer_so = options->peer,
                                      .progress = &progress};
    check_stamp(&report, levels[options->level]);
    weir_status status = check_read_expectations(options, &baseline);
    if (!status)
        status = check_node(options, &settings, baseline, &report);
    weiri_progress_clear(&progress);
    report.seconds = weiri_clock_s() - began;
    if (!status)
        status = check_write(options, &report);
    const int code = check_exit_code(status, &report);
    health_baseline_free(baseline);
    health_report_free(&report);
    return code;
}

/* ------------------------------------------------------------------ a fleet_nodes */

/* --inject flip:I: the node that sends flipped bits; -1 without it. */
static weir_status check_flips(const check_options *options, int *node)
{
    long long number = -1;
    *node = -1;
    if (options->inject && (strncmp(options->inject, "flip:", 5) != 0 ||
                            weiri_whole_read(options->inject + 5, 0, INT_MAX, &number) != 0))
        return weiri_fail(WEIR_ERR_INVALID, "--inject %s: expected flip:I with --fleet",
                          options->inject);
    *node = (int)number;
    return WEIR_OK;
}

/* Fills the report of a fleet, on its first process. */
static weir_status check_coordinate(const check_options *options, weir_boot *boot,
                                    weiri_progress *progress, health_report *report)
{
    fleet_options chosen = {.timeout_ms = options->timeout_s * 1000, .progress = progress};
    fleet_nodes *opened;
    weir_status status = check_flips(options, &chosen.flips);
    if (status == WEIR_OK)
        status = fleet_open(boot, &chosen, &opened);
    if (status != WEIR_OK)
        return status;
    fleet_check_facts(report, opened);
    (options->bisect ? fleet_check_by_halves : fleet_check_pairs)(report, opened);
    fleet_close(opened);
    return WEIR_OK;
}

/* The report of a fleet of which processes are missing. */
static void check_report_missing(health_report *report)
{
    health_check *check = health_add(report, "fleet.nodes", "nodes of the job");
    health_set(check, HEALTH_MISSING, "%s", weir_last_error());
    health_look(check, "the launcher's output, and whether the node can be reached");
}

/* Checks the nodes of a job. Every process calls it; the first writes the report. */
static int check_run_fleet(const check_options *options)
{
    weir_boot *boot = NULL;
    health_report report = {0};
    weiri_progress progress;
    int rank = 0, nranks = 0;
    const double began = weiri_clock_s();
    if (options->rank >= 0) {
        rank = options->rank;
        nranks = options->hosts;
    }
    weir_status status =
        fleet_boot(options->address, rank, nranks, options->timeout_s * 1000, &boot);
    if (status == WEIR_OK && weir_boot_nranks(boot) < 2)
        status =
            weiri_fail(WEIR_ERR_INVALID, "--fleet: a job of one process; start one on each node");
    if (status == WEIR_OK)
        rank = weir_boot_rank(boot);
    if (rank != 0) {
        const int lost = status != WEIR_OK || fleet_agent_serve(boot) != 0;
        if (lost)
            fprintf(stderr, "weir-check: %s\n", weir_last_error());
        weir_boot_destroy(boot);
        return lost ? 3 : 0;
    }
    check_stamp(&report, options->bisect ? "bisect" : "fleet");
    weiri_progress_begin(&progress, stderr, "weir-check", options->quiet);
    if (status == WEIR_OK)
        status = check_coordinate(options, boot, &progress, &report);
    else if (status == WEIR_ERR_TIMEOUT) {
        check_report_missing(&report);
        status = WEIR_OK;
    }
    weiri_progress_clear(&progress);
    report.seconds = weiri_clock_s() - began;
    if (status == WEIR_OK)
        status = check_write(options, &report);
    const int code = check_exit_code(status, &report);
    health_report_free(&report);
    weir_boot_destroy(boot);
    return code;
}

int main(int argc, char **argv)
{
    check_options options;
    weiri_program_begin();
    if (check_options_parse(argc, argv, &options) != WEIR_OK) {
        fprintf(stderr, "weir-check: %s\n", weir_last_error());
        return 2;
    }
    if (options.help || options.version) {
        if (options.help)
            check_options_help();
        else
            printf("weir-check: %s\n", weir_version_string());
        return 0;
    }
    return options.fleet ? check_run_fleet(&options) : check_run_node(&options);
}
