/* The order in which the writers speak. */
#include "bench/report.h"

#include "bench/header.h"
#include "bench/manifest.h"
#include "bench/remarks.h"

#include <stdlib.h>
#include <string.h>

weir_status bench_report_open(bench_report *report, const bench_run *run)
{
    const bench_options *options = run->options;
    weir_status status = WEIR_OK;
    memset(report, 0, sizeof *report);
    report->run = run;
    if (run->job->rank == 0 && options->csv_path)
        status = bench_csv_open(&report->csv, run, options->csv_path);
    if (run->job->rank == 0 && status == WEIR_OK && options->json_path)
        status = bench_json_report_open(&report->json, run, options->json_path);
    return bench_job_agree(run->job, status, "output");
}

weir_status bench_report_begin(bench_report *report)
{
    const bench_run *run = report->run;
    bench_rank_info *infos = NULL;
    weir_status status = WEIR_OK;
    if (run->job->rank == 0)
        infos = calloc((size_t)run->job->nranks, sizeof *infos);
    if (run->job->rank == 0 && !infos)
        status = bench_job_note(run->job, WEIR_ERR_NO_MEMORY, "no memory for the header");
    status = bench_job_agree(run->job, status, "header");
    if (status != WEIR_OK)
        return status;
    bench_run_gather(run, infos);
    if (run->job->rank == 0) {
        status = bench_manifest_write(run, infos);
        bench_header_write(stdout, run, infos);
        bench_table_begin(&report->table, stdout, run);
        bench_ratios_begin(&report->ratios, stdout);
        bench_json_report_begin(&report->json, infos);
    }
    free(infos);
    return bench_job_agree(run->job, status, "manifest");
}

void bench_report_row(bench_report *report, const bench_row *row)
{
    bench_table_row(&report->table, row);
    bench_csv_row(&report->csv, row);
    bench_json_report_row(&report->json, row);
    bench_ratios_row(&report->ratios, row);
    bench_remarks_row(stdout, report->run, row);
}

void bench_report_end(bench_report *report)
{
    const bench_run *run = report->run;
    bench_ratios_end(&report->ratios);
    if (run->options->memory_report)
        printf("# %-20s : library %.1f MiB a rank beyond the buffers\n", "Memory usage",
               (double)weir_comm_scratch_bytes(run->job->comm) / 1048576);
    bench_table_end(&report->table);
}

weir_status bench_report_close(bench_report *report)
{
    bench_job *job = report->run->job;
    weir_status status = bench_csv_close(&report->csv);
    weir_status json = bench_json_report_end(&report->json, report->table.failed,
                                             bench_table_average(&report->table));
    return bench_job_agree(job, status != WEIR_OK ? status : json, "output");
}
