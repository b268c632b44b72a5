/*
 * Collectives, verified and timed by the benchmarks, which run as separate processes: a crash or a
 * hang of one ends that check only.
 */
#include "base/new_file.h"
#include "bench/health/checks.h"
#include "bench/health/process.h"
#include "results/read/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MOST = 8, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_DEADLINE = 4, FOLDER_BYTES = 512 };

/* The collectives of each level, and the sizes of one bound by latency and one by bandwidth. */
static const struct {
    const char *name;
    health_level level; /* from which it is checked */
} collectives[] = {
    {"allreduce", HEALTH_QUICK},    {"alltoall", HEALTH_STANDARD},
    {"allgather", HEALTH_STANDARD}, {"reduce_scatter", HEALTH_STANDARD},
    {"broadcast", HEALTH_LONG},     {"reduce", HEALTH_LONG},
    {"sendrecv", HEALTH_LONG},      {"alltoallv", HEALTH_LONG},
};
static const struct {
    const char *option, *word;
    unsigned long long bytes;
    int is_latency;
} sizes[] = {{"1K", "1KiB", 1 << 10, 1}, {"16M", "16MiB", 16 << 20, 0}};

enum {
    COLLECTIVES = sizeof collectives / sizeof *collectives,
    SIZES = sizeof sizes / sizeof *sizes
};

/* One run of a benchmark. */
typedef struct collective_run {
    int collective, size, nranks, on_gpus, has_fault;
    const char *csv;
} collective_run;

static int collectives_ranks(const health_settings *settings, const weiri_topo *topo, int *on_gpus)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    *on_gpus = counts.gpus >= 2;
    if (settings->nranks)
        return settings->nranks;
    const int nranks = *on_gpus ? counts.gpus : counts.usable_cores;
    return nranks < 2 ? 2 : nranks > RANKS_MOST ? RANKS_MOST : nranks;
}

/* Runs the benchmark; its rows are in run->csv. Returns as health_process_run does. */
static int collective_execute(const health_settings *settings, const collective_run *run,
                              char *line, size_t bytes)
{
    char program[512], nranks[16], deadline[16];
    snprintf(program, sizeof program, "%s/bench_%s", settings->programs,
             collectives[run->collective].name);
    snprintf(nranks, sizeof nranks, "%d", run->nranks);
    snprintf(deadline, sizeof deadline, "%d", (int)settings->deadline_s);
    const char *argv[32] = {program,
                            "-g",
                            nranks,
                            "-b",
                            sizes[run->size].option,
                            "-e",
                            sizes[run->size].option,
                            "--csv",
                            run->csv,
                            "-T",
                            deadline,
                            "--quiet",
                            "--verify",
                            "exact",
                            "--backend",
                            run->on_gpus ? "cuda" : "host"};
    int count = 16;
    if (settings->peer_so && run->on_gpus) {
        argv[count++] = "--peer";
        argv[count++] = settings->peer_so;
    }
    if (settings->inject) {
        argv[count++] = "--inject";
        argv[count++] = settings->inject;
    }
    setenv("WEIR_LAUNCHER", "none", 1);
    return health_process_run((char *const *)(void *)argv, 2 * settings->deadline_s + 1, line,
                              bytes);
}

/* The row of a candidate out of place, or NULL. */
static const results_row *collective_row(const results_set *set, const char *candidate)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->rows[i].text[RESULTS_PLACEMENT], "out") == 0 &&
            strcmp(set->rows[i].text[RESULTS_CONTENDER], candidate) == 0)
            return &set->rows[i];
    return NULL;
}

/* Turns the outcome of a program that measured nothing into a verdict. A build without CUDA refuses
 * GPUs, and a fault of --inject some collectives; nothing else may be refused. */
static void collective_judge_exit(health_check *check, const collective_run *run, int code,
                                  const char *line)
{
    if (code == EXIT_WRONG)
        health_set(check, HEALTH_WRONG, "wrong data: %s", line);
    else if (code == EXIT_DEADLINE || code == HEALTH_TIMED_OUT)
        health_set(check, HEALTH_HUNG, "did not end before its deadline: %s", line);
    else if (code == EXIT_USAGE && (run->on_gpus || run->has_fault))
        health_set(check, HEALTH_SKIPPED, "%s", line);
    else if (code > 128)
        health_set(check, HEALTH_BROKEN, "ended by signal %d: %s", code - 128, line);
    else
        health_set(check, HEALTH_BROKEN, "exit code %d: %s", code, line);
}

/* Fills a check with a row's result. */
static void collective_fill(health_check *check, const collective_run *run, const results_row *row,
                            int code, const char *line)
{
    snprintf(check->collective, sizeof check->collective, "%s", collectives[run->collective].name);
    check->bytes = sizes[run->size].bytes;
    check->nranks = run->nranks;
    health_look(check, "WEIR_LOG=info; the same benchmark by hand; weir-topo; other jobs");
    if (row && row->failed)
        health_set(check, HEALTH_WRONG, "%s wrong elements", row->text[RESULTS_WRONG]);
    else if (row && code == 0)
        health_set_value(check, sizes[run->size].is_latency ? row->median_us : row->busbw_gbs,
                         sizes[run->size].is_latency ? "us" : "GB/s", 2);
    else
        collective_judge_exit(check, run, code, line);
}

static void collective_name(const collective_run *run, const char *candidate, char *id, char *what)
{
    const char *name = collectives[run->collective].name;
    snprintf(id, HEALTH_ID_BYTES, "%s.%s.%s", name, sizes[run->size].word, candidate);
    snprintf(what, HEALTH_TEXT_BYTES, "%s of %s, %d %s, by %s", name, sizes[run->size].word,
             run->nranks, run->on_gpus ? "GPUs" : "ranks", candidate);
}

/* Adds, or replaces if the new value is better, the check of a candidate. */
static void collective_record(health_report *report, const collective_run *run,
                              const char *candidate, const results_row *row, int code,
                              const char *line)
{
    char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
    health_check fresh, *check;
    collective_name(run, candidate, id, what);
    check = health_find(report, id);
    if (!check)
        check = health_add(report, id, what);
    fresh = *check;
    fresh.detail[0] = '\0';
    collective_fill(&fresh, run, row, code, line);
    health_judge(&fresh, HEALTH_SLOW);
    const int is_better =
        sizes[run->size].is_latency ? fresh.value < check->value : fresh.value > check->value;
    if (check->collective[0] == '\0' || is_better || fresh.verdict > HEALTH_SKIPPED) {
        const double seconds = check->seconds;
        *check = fresh;
        check->seconds = seconds;
    }
}

static void collective_check(health_report *report, const health_settings *settings,
                             collective_run *run)
{
    char line[HEALTH_TEXT_BYTES] = "", id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
    results_set set;
    const double began = weiri_clock_s();
    collective_name(run, "weir", id, what);
    weiri_progress_show(settings->progress, what, 0);
    const int code = collective_execute(settings, run, line, sizeof line);
    results_set_init(&set, 0, NULL);
    if (access(run->csv, R_OK) == 0)
        results_load(&set, run->csv, NULL);
    collective_record(report, run, "weir", collective_row(&set, "weir"), code, line);
    health_find(report, id)->seconds += weiri_clock_s() - began;
    for (size_t i = 0; i < set.count; i++) {
        const char *candidate = set.rows[i].text[RESULTS_CONTENDER];
        if (strcmp(candidate, "weir") != 0 && &set.rows[i] == collective_row(&set, candidate))
            collective_record(report, run, candidate, &set.rows[i], code, line);
    }
    results_set_free(&set);
    unlink(run->csv);
}

/* Calls collective_check for each collective and size of the level that is wanted. */
static void collectives_walk(health_report *report, const health_settings *settings,
                             const weiri_topo *topo, int only_slow)
{
    char folder[FOLDER_BYTES], csv[FOLDER_BYTES + 8], json[FOLDER_BYTES + 8];
    collective_run run = {.csv = csv, .has_fault = settings->inject != NULL};
    run.nranks = collectives_ranks(settings, topo, &run.on_gpus);
    if (weiri_temporary_folder(folder, sizeof folder, "weir-check") != 0) {
        health_set(health_add(report, "collectives", "collectives"), HEALTH_BROKEN,
                   "cannot make a folder in TMPDIR or /tmp: %s", strerror(errno));
        return;
    }
    snprintf(csv, sizeof csv, "%s/a.csv", folder);
    snprintf(json, sizeof json, "%s/a.json", folder);
    for (run.collective = 0; run.collective < COLLECTIVES; run.collective++)
        for (run.size = 0; run.size < SIZES; run.size++) {
            char id[HEALTH_ID_BYTES], what[HEALTH_TEXT_BYTES];
            collective_name(&run, "weir", id, what);
            const health_check *check = health_find(report, id);
            const int is_slow = check && check->verdict == HEALTH_SLOW;
            if (collectives[run.collective].level <= settings->level && (!only_slow || is_slow))
                collective_check(report, settings, &run);
        }
    unlink(json);
    rmdir(folder);
}

void health_check_collectives(health_report *report, const health_settings *settings,
                              const weiri_topo *topo)
{
    collectives_walk(report, settings, topo, 0);
    if (!settings->inject || strncmp(settings->inject, "slow", 4) == 0)
        return;
    for (size_t i = 0; i < report->count; i++)
        if (report->checks[i].collective[0] && report->checks[i].verdict > HEALTH_SKIPPED)
            return;
    health_set(health_add(report, "inject", "the fault of --inject"), HEALTH_BROKEN,
               "no collective found %s; the rows of collectives give the reason", settings->inject);
}

static int again_is_slow(const health_report *report, const char *prefix)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->checks[i].verdict == HEALTH_SLOW &&
            strncmp(report->checks[i].id, prefix, strlen(prefix)) == 0)
            return 1;
    return 0;
}

/* Replaces the values of slow checks by better ones, and judges them again. */
static void again_take_better(health_report *report, const health_report *fresh)
{
    for (size_t i = 0; i < report->count; i++) {
        health_check *check = &report->checks[i];
        const health_check *other = health_find(fresh, check->id);
        if (check->verdict != HEALTH_SLOW || !other || !(other->value > 0))
            continue;
        const int is_time = strcmp(check->unit, "us") == 0;
        if (is_time ? other->value > check->value : other->value < check->value)
            continue;
        check->value = other->value;
        check->verdict = HEALTH_NOTED;
        health_judge(check, HEALTH_SLOW);
    }
}

void health_check_again(health_report *report, const health_settings *settings,
                        const weiri_topo *topo)
{
    health_report fresh = {0};
    if (again_is_slow(report, "host."))
        health_check_host_copies(&fresh, settings, topo);
    if (again_is_slow(report, "gpu"))
        health_check_gpu_copies(&fresh, settings, topo, NULL);
    again_take_better(report, &fresh);
    health_report_free(&fresh);
    collectives_walk(report, settings, topo, 1);
}
