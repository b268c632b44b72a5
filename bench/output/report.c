/* Calls the writers in their order: see report.h. */
#include "bench/output/report.h"

#include "bench/job/exchange.h"
#include "bench/output/floor.h"
#include "bench/output/manifest.h"
#include "bench/output/table.h"

#include <stdlib.h>
#include <string.h>

/* Opens the files that the options name. */
static weir_status open_files(bench_report *report)
{
    const bench_run *run = report->run;
    const bench_options *options = run->options;
    weir_status status = bench_ceiling_open(&report->ceiling, run);
    if (status == WEIR_OK && options->csv_path)
        status = bench_csv_open(&report->csv, run, options->csv_path);
    if (status == WEIR_OK && options->json_path)
        status = bench_json_report_open(&report->json, run, options->json_path);
    if (status == WEIR_OK)
        status = bench_tune_open(run, &report->tune);
    return status == WEIR_OK ? bench_tune_nccl_open(run, &report->tune_nccl) : status;
}

weir_status bench_report_open(bench_report *report, const bench_run *run)
{
    bench_job *job = run->job;
    memset(report, 0, sizeof *report);
    report->run = run;
    weir_status status = job->rank == 0 ? open_files(report) : WEIR_OK;
    status = bench_job_agree(job, status, "output");
    if (status != WEIR_OK)
        return status;
    bench_rank_info *infos = job->rank == 0 ? calloc((size_t)job->nranks, sizeof *infos) : NULL;
    if (job->rank == 0 && !infos)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for the header");
    status = bench_job_agree(job, status, "header");
    if (status != WEIR_OK)
        return status;
    bench_run_gather(run, infos);
    report->infos = infos;
    if (job->rank == 0)
        status = bench_manifest_write(run, infos, 0);
    return bench_job_agree(job, status, "manifest");
}

/* Standard output, of which rank 0 reports once that it cannot be written. Local. */
static weir_status check_output(bench_report *report)
{
    if (report->output != WEIR_OK)
        return WEIR_OK;
    report->output = bench_job_check_output(report->run->job);
    return report->output;
}

weir_status bench_report_check(bench_report *report)
{
    weir_status status = bench_csv_check(&report->csv);
    if (status == WEIR_OK)
        status = bench_json_report_check(&report->json);
    return status == WEIR_OK ? check_output(report) : status;
}

weir_status bench_report_check_output(bench_report *report)
{
    return bench_job_agree(report->run->job, check_output(report), "output");
}

static bench_json_totals report_totals(const bench_report *report)
{
    const double average_gbs = bench_table_average(&report->table);
    const bench_options *options = report->run->options;
    return (bench_json_totals){.failed = report->table.failed,
                               .busbw_gbs = average_gbs,
                               .busbw_okay = !options->floor_name ? "unchecked"
                                             : bench_floor_is_met(options, average_gbs) ? "true"
                                                                                        : "false",
                               .cost = &report->cost,
                               .found = &report->determinism,
                               .warnings = &report->run->job->warnings};
}

void bench_report_begin(bench_report *report)
{
    bench_header_write(stdout, report->run, report->infos);
    bench_table_begin(&report->table, stdout, report->run);
    bench_ratios_begin(&report->ratios, stdout);
    bench_json_totals totals = report_totals(report);
    bench_json_report_begin(&report->json, report->infos, &totals);
}

static void report_add_cost(bench_report *report, const bench_row *row)
{
    bench_cost cost = bench_row_cost(row);
    double share = cost.timing_s > 0 ? cost.verification_s / cost.timing_s : 0;
    report->cost.timing_s += cost.timing_s;
    report->cost.verification_s += cost.verification_s;
    if (share <= report->worst_share)
        return;
    report->worst_share = share;
    report->worst_bytes = row->shape.bytes;
}

/* Computes what the writers show. */
static void report_conclude(const bench_report *report, bench_row *row)
{
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++) {
            bench_result *result = &row->results[placement][i];
            bench_figures *figures = &result->figures;
            *figures = bench_result_figures(row, result);
            figures->ceiling_pct =
                bench_ceiling_pct(&report->ceiling, figures->busbw_gbs, result->stats.median);
        }
}

/* Writes a result to the files, then those of its groups. */
static void report_result(bench_report *report, const bench_row *row, int placement,
                          const bench_result *result)
{
    bench_record record;
    for (int group = BENCH_RECORD_ALL; group < (result->groups ? report->run->job->ngroups : 0);
         group++) {
        const bench_result part =
            group == BENCH_RECORD_ALL ? *result : bench_result_of_group(row, result, group);
        bench_record_fill(&record, report->run, row, placement, &part, group);
        bench_csv_record(&report->csv, &record);
        bench_json_report_record(&report->json, &record);
    }
}

void bench_report_row(bench_report *report, bench_row *row)
{
    const bench_run *run = report->run;
    report_conclude(report, row);
    report_add_cost(report, row);
    bench_table_row(&report->table, row);
    bench_json_report_begin_row(&report->json, row);
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++) {
            const bench_result *result = &row->results[placement][i];
            if (result->ran && (report->csv.file || report->json.json.file))
                report_result(report, row, placement, result);
        }
    const bench_json_totals totals = report_totals(report);
    bench_csv_flush(&report->csv);
    bench_json_report_end_row(&report->json, &totals);
    if (!report->tune &&
        !run->options->tune_nccl_path) /* with that many candidates ratios are not readable */
        bench_ratios_row(&report->ratios, row);
    bench_ceiling_row(&report->ceiling, row);
    bench_remarks_groups(stdout, run, row);
    bench_matrix_row(&report->matrix, row);
    bench_tune_row(report->tune, row);
    bench_tune_nccl_row(report->tune_nccl, row);
    bench_remarks_row(stdout, run, report->infos, row);
    bench_interval_row(&report->intervals, row);
}

static void write_cost(const bench_report *report)
{
    const bench_cost *cost = &report->cost;
    printf("# %-20s : timing %.4f s, verification %.4f s", "Wall time", cost->timing_s,
           cost->verification_s);
    if (cost->timing_s > 0 && report->worst_share > 0)
        printf(" (%.2f of timing; at most %.2f, at %zu B)", cost->verification_s / cost->timing_s,
               report->worst_share, report->worst_bytes);
    fputc('\n', stdout);
}

void bench_report_end(bench_report *report)
{
    const bench_run *run = report->run;
    bench_ratios_end(&report->ratios);
    bench_interval_end(&report->intervals, run->job);
    bench_ceiling_end(&report->ceiling, stdout);
    bench_matrix_end(&report->matrix, stdout, run, report->infos);
    bench_remarks_determinism(stdout, &report->determinism);
    write_cost(report);
    if (run->options->memory_report)
        printf("# %-20s : library %.1f MiB a rank beyond the buffers\n", "Memory usage",
               (double)weir_comm_scratch_bytes(run->job->comm) / 1048576);
    bench_table_end(&report->table);
    bench_floor_print(stdout, run->options, bench_table_average(&report->table),
                      (unsigned long long)report->table.failed);
}

int bench_report_misses_floor(const bench_report *report)
{
    const bench_run *run = report->run;
    int misses = 0;
    if (run->job->rank == 0)
        misses = !bench_floor_is_met(run->options, bench_table_average(&report->table));
    bench_exchange_broadcast(run->job, &misses, sizeof misses, 0);
    return misses;
}

weir_status bench_report_close(bench_report *report)
{
    if (!report->run)
        return WEIR_OK;
    bench_job *job = report->run->job;
    weir_status status = bench_csv_close(&report->csv);
    bench_json_totals totals = report_totals(report);
    weir_status json = bench_json_report_end(&report->json, &totals);
    weir_status tuned = bench_tune_close(report->tune);
    weir_status nccl = bench_tune_nccl_close(report->tune_nccl, report->is_complete);
    tuned = tuned != WEIR_OK ? tuned : nccl;
    if (report->infos && status == WEIR_OK) /* again, with the warnings of the run */
        status = bench_manifest_write(report->run, report->infos, report->is_complete);
    free(report->infos);
    bench_matrix_close(&report->matrix);
    bench_embedded_free(&report->determinism);
    status = status != WEIR_OK ? status : json;
    status = bench_job_agree(job, status != WEIR_OK ? status : tuned, "output");
    weir_status output = bench_report_check_output(report);
    return status != WEIR_OK ? status : output;
}
