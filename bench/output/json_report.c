/*
 * nccl-tests' schema 3, with its conventions: booleans are the strings "true" and "false", root is
 * a padded string. Unlike nccl-tests it records only environment variables that influence the
 * measurement, and each result has `rows`: what the CSV has, for all candidates, under the names
 * of the columns.
 */
#include "bench/output/json_report.h"

#include "bench/options/environment.h"
#include "bench/output/manifest.h"
#include "bench/output/output_file.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { SCHEMA = 3 };

extern char **environ;

weir_status bench_json_report_open(bench_json_report *report, const bench_run *run,
                                   const char *path)
{
    report->run = run;
    report->has_ceiling = run->options->ceiling_path != NULL;
    report->fault = NULL;
    char reason[BENCH_OUTPUT_REASON_BYTES];
    report->json = (weiri_json_writer){.file = bench_output_open_new(&report->made, path, reason)};
    if (report->json.file)
        return WEIR_OK;
    return bench_job_note(run->job, WEIR_ERR_INVALID, "-J %s: %s", path, reason);
}

static void put_flag(weiri_json_writer *json, const char *key, int value)
{
    weiri_json_put_text(json, key, value ? "true" : "false");
}

static void report_put_environment(weiri_json_writer *json)
{
    weiri_json_put_list(json, "env");
    for (char **variable = environ; *variable; variable++)
        if (bench_environment_allows(*variable))
            weiri_json_add_text(json, *variable);
    weiri_json_close_list(json);
}

static void put_devices(weiri_json_writer *json, const bench_rank_info *infos, int nranks)
{
    weiri_json_put_list(json, "devices");
    for (int i = 0; i < nranks; i++) {
        weiri_json_open_object(json);
        weiri_json_put_whole(json, "rank", infos[i].rank);
        weiri_json_put_whole(json, "group", infos[i].group);
        weiri_json_put_whole(json, "pid", infos[i].pid);
        weiri_json_put_text(json, "hostname", infos[i].host);
        weiri_json_put_whole(json, "device", infos[i].device);
        weiri_json_put_text(json, "device_hex", infos[i].gpu.bus);
        weiri_json_put_text(json, "device_info",
                            infos[i].gpu.name[0] ? infos[i].gpu.name : infos[i].place);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

static void put_config(weiri_json_writer *json, const bench_run *run, const bench_rank_info *infos)
{
    const bench_options *o = run->options;
    weiri_json_put_object(json, "config");
    weiri_json_put_whole(json, "nthreads", o->nthreads);
    weiri_json_put_whole(json, "ngpus", o->ngpus);
    weiri_json_put_whole(json, "minimum_bytes", (long long)o->min_bytes);
    weiri_json_put_whole(json, "maximum_bytes", (long long)o->max_bytes);
    if (o->step_factor > 1)
        weiri_json_put_whole(json, "step_factor", (long long)o->step_factor);
    else
        weiri_json_put_whole(json, "step_bytes", (long long)o->step_bytes);
    weiri_json_put_whole(json, "warmup_iters", o->warmups < 0 ? 0 : o->warmups);
    weiri_json_put_whole(json, "iterations", o->iterations);
    weiri_json_put_whole(json, "aggregated_iterations", o->aggregate);
    weiri_json_put_whole(json, "validation", bench_options_verifies(o) ? o->checks : 0);
    weiri_json_put_whole(json, "graph", o->graph);
    put_flag(json, "blocking_collectives", o->blocking);
    put_flag(json, "per_iter_timing", o->per_iteration);
    weiri_json_put_whole(json, "per_iter_skip", o->skip);
    put_flag(json, "parallel_init", 0);
    put_devices(json, infos, run->job->nranks);
    weiri_json_close_object(json);
}

static void put_cost(weiri_json_writer *json, const bench_cost *cost)
{
    weiri_json_put_object(json, "wall_time");
    weiri_json_put_real(json, "timing_s", cost->timing_s);
    weiri_json_put_real(json, "verification_s", cost->verification_s);
    weiri_json_close_object(json);
}

static void put_determinism(weiri_json_writer *json, const bench_determinism *found)
{
    if (!found->nrows)
        return;
    weiri_json_put_list(json, "determinism");
    for (int i = 0; i < found->nrows; i++) {
        const bench_determinism_row *row = &found->rows[i];
        weiri_json_open_object(json);
        weiri_json_put_text(json, "algorithm", row->name);
        weiri_json_put_whole(json, "repeats", BENCH_REPEATS);
        weiri_json_put_whole(json, "ranks_compared", found->nranks);
        weiri_json_put_whole(json, "results", row->results);
        weiri_json_put_whole(json, "unlike_repeats", row->differing_repeats);
        weiri_json_put_whole(json, "unlike_ranks", row->differing_ranks);
        weiri_json_put_whole(json, "unlike_sizes", row->differing_sizes);
        weiri_json_put_text(json, "first", row->first);
        weiri_json_close_object(json);
    }
    weiri_json_close_list(json);
}

/* Everything after the last row; end_time may be NULL. */
static void put_end(weiri_json_writer *json, const bench_json_totals *totals, const char *end_time)
{
    weiri_json_close_list(json);
    weiri_json_put_object(json, "out_of_bounds");
    weiri_json_put_whole(json, "count", totals->failed);
    put_flag(json, "okay", totals->failed == 0);
    weiri_json_close_object(json);
    weiri_json_put_object(json, "average_bus_bandwidth");
    weiri_json_put_real(json, "bandwidth", totals->busbw_gbs);
    weiri_json_put_text(json, "okay", totals->busbw_okay);
    weiri_json_close_object(json);
    put_cost(json, totals->cost);
    put_determinism(json, totals->found);
    bench_warnings_put(json, totals->warnings);
    weiri_json_put_list(json, "errors");
    weiri_json_close_list(json);
    if (end_time)
        weiri_json_put_text(json, "end_time", end_time);
    weiri_json_close_object(json);
    fputc('\n', json->file);
}

/* An end that the next row overwrites. A row is longer than what two ends differ by, so
 * nothing is left of it. A pipe has none before the last. */
static void put_end_for_now(const bench_json_report *report, const bench_json_totals *totals)
{
    weiri_json_writer end = report->json;
    long at = ftell(end.file);
    if (at < 0)
        return;
    put_end(&end, totals, NULL);
    fseek(end.file, at, SEEK_SET);
}

void bench_json_report_begin(bench_json_report *report, const bench_rank_info *infos,
                             const bench_json_totals *totals)
{
    weiri_json_writer *json = &report->json;
    const bench_run *run = report->run;
    if (!json->file)
        return;
    weiri_json_open_object(json);
    weiri_json_put_whole(json, "version", SCHEMA);
    weiri_json_put_text(json, "start_time", run->local);
    weiri_json_put_list(json, "args");
    for (int i = 0; i < run->argc; i++)
        weiri_json_add_text(json, run->argv[i]);
    weiri_json_close_list(json);
    report_put_environment(json);
    weiri_json_put_whole(json, "nccl_version", 0);
    put_config(json, run, infos);
    weiri_json_key(json, "manifest");
    bench_manifest_put(json, run, infos);
    weiri_json_put_list(json, "results");
    report->begun = 1;
    put_end_for_now(report, totals);
}

static void report_put_clocks(weiri_json_writer *json, const bench_clocks *clocks)
{
    if (!clocks->samples)
        return;
    weiri_json_put_object(json, "gpu");
    weiri_json_put_whole(json, "samples", clocks->samples);
    weiri_json_put_whole(json, "throttled", clocks->throttled);
    bench_manifest_put_clocks(json, clocks);
    weiri_json_close_object(json);
}

static void put_half(bench_json_report *report, const char *key, const bench_result *result)
{
    weiri_json_writer *json = &report->json;
    const bench_run *run = report->run;
    weiri_json_key(json, key);
    if (!result) {
        weiri_json_add_null(json);
        return;
    }
    const bench_figures *figures = &result->figures;
    double time_us = run->options->cpu_time ? result->cpu_us : result->time_us;
    weiri_json_open_object(json);
    weiri_json_put_real(json, run->options->cpu_time ? "cpu_time" : "time",
                        figures->is_usable ? time_us : NAN);
    weiri_json_put_real(json, "alg_bw", figures->shown_algbw_gbs);
    weiri_json_put_real(json, "bus_bw", figures->shown_busbw_gbs);
    weiri_json_key(json, "nwrong");
    if (result->checked)
        weiri_json_add_whole(json, (long long)figures->wrong);
    else
        weiri_json_add_null(json);
    weiri_json_put_text(json, "special", bench_outcome_name(result->special));
    weiri_json_put_text(json, "determinism", bench_determinism_name(&result->determinism));
    if (report->has_ceiling)
        weiri_json_put_real(json, "ceiling_pct", figures->ceiling_pct);
    if (result->timed)
        report_put_clocks(json, &result->clocks);
    weiri_json_close_object(json);
}

static void report_put_times(weiri_json_writer *json, const double *times_us, int count)
{
    weiri_json_open_list(json);
    for (int i = 0; i < count; i++)
        weiri_json_add_real(json, times_us[i]);
    weiri_json_close_list(json);
}

static void put_per_iteration(weiri_json_writer *json, const bench_run *run, const char *key,
                              const bench_row *row, const bench_result *result)
{
    const bench_stats *stats = &result->per_iter;
    int skipped = result->iterations - (int)stats->samples;
    weiri_json_put_object(json, key);
    weiri_json_put_whole(json, "skipped_iterations", skipped);
    weiri_json_put_real(json, "min_us", stats->min);
    weiri_json_put_real(json, "max_us", stats->max);
    weiri_json_put_real(json, "avg_us", stats->mean);
    weiri_json_put_real(json, "p50_us", stats->median);
    weiri_json_put_real(json, "p95_us", stats->p95);
    weiri_json_put_real(json, "p99_us", stats->p99);
    weiri_json_put_real(json, "stdev_us", stats->stdev);
    weiri_json_put_real(json, "cv_pct", bench_stats_cv_pct(stats));
    weiri_json_key(json, "times_us");
    report_put_times(json, result->slowest_us, result->iterations);
    if (row->nranks > 1) {
        weiri_json_put_list(json, "per_process_max_times_us");
        for (int rank = 0; rank < run->job->nranks; rank++)
            report_put_times(json, result->all_us + (size_t)rank * (size_t)result->iterations,
                             result->iterations);
        weiri_json_close_list(json);
    }
    weiri_json_close_object(json);
}

/* Puts what has been written into the file, and the file in its place. */
static void report_place(bench_json_report *report)
{
    FILE *file = report->json.file;
    report->broken |= fflush(file) != 0 || ferror(file);
    if (!report->broken)
        report->broken = bench_output_place(&report->made, report->run->options->json_path) != 0;
}

void bench_json_report_begin_row(bench_json_report *report, const bench_row *row)
{
    static const char *const halves[] = {"out_of_place", "in_place"};
    static const char *const details[] = {"out_of_place_per_iter", "in_place_per_iter"};
    weiri_json_writer *json = &report->json;
    char root[16];
    int iterations = 0;
    if (!json->file)
        return;
    snprintf(root, sizeof root, "%6d", row->root);
    weiri_json_open_object(json);
    weiri_json_put_whole(json, "size", (long long)row->shape.bytes);
    weiri_json_put_whole(json, "count", (long long)row->shape.count);
    weiri_json_put_text(json, "type", weir_dtype_name(row->dtype));
    weiri_json_put_text(json, "redop", bench_row_op_name(row));
    weiri_json_put_text(json, "root", root);
    for (int i = 0; i < BENCH_PLACEMENTS; i++) {
        const bench_result *result = &row->results[i][row->primary[i]];
        put_half(report, halves[i], i < row->placements ? result : NULL);
        if (i >= row->placements || !result->figures.is_usable)
            continue;
        iterations = result->iterations;
        if (report->run->options->per_iteration)
            put_per_iteration(json, report->run, details[i], row, result);
    }
    bench_cost cost = bench_row_cost(row);
    weiri_json_put_whole(json, "actual_iterations", iterations);
    weiri_json_put_text(json, "experiment_name", "");
    put_cost(json, &cost);
    weiri_json_put_list(json, "rows");
}

void bench_json_report_record(bench_json_report *report, const bench_record *record)
{
    weiri_json_writer *json = &report->json;
    if (!json->file)
        return;
    weiri_json_open_object(json);
    for (int i = 0; i < BENCH_COLUMNS; i++) {
        weiri_json_key(json, bench_columns[i].name);
        if (bench_columns[i].is_number)
            weiri_json_add_number(json, record->text[i]);
        else
            weiri_json_add_text(json, record->text[i]);
    }
    weiri_json_close_object(json);
    if (!report->fault)
        report->fault = record->fault;
}

void bench_json_report_end_row(bench_json_report *report, const bench_json_totals *totals)
{
    weiri_json_writer *json = &report->json;
    if (!json->file)
        return;
    weiri_json_close_list(json);
    weiri_json_close_object(json);
    put_end_for_now(report, totals);
    report_place(report);
}

weir_status bench_json_report_check(bench_json_report *report)
{
    if (!report->json.file || report->reported || !(report->broken || ferror(report->json.file)))
        return WEIR_OK;
    report->reported = 1;
    return bench_job_note(report->run->job, WEIR_ERR_SYSTEM,
                          "-J %s: not all could be written; is the disk full?",
                          report->run->options->json_path);
}

weir_status bench_json_report_end(bench_json_report *report, const bench_json_totals *totals)
{
    weiri_json_writer *json = &report->json;
    char now[24];
    if (!json->file)
        return WEIR_OK;
    bench_run_now(now, sizeof now);
    if (report->begun) {
        put_end(json, totals, now);
        report_place(report);
    }
    int broken = fclose(json->file) != 0 || report->broken;
    weiri_new_file_drop(&report->made);
    json->file = NULL;
    if (broken && report->reported)
        return WEIR_OK;
    if (broken)
        return bench_job_note(report->run->job, WEIR_ERR_SYSTEM,
                              "-J %s: not all could be written; is the disk full?",
                              report->run->options->json_path);
    return bench_record_check(report->run, report->fault, "-J", report->run->options->json_path);
}
