/* The CSV writer. The column list and the values stand in the same order. */
#include "bench/csv.h"

#include "base/csv.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { SCHEMA = 5 };

static const char columns[] =
    "schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,redop,"
    "root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,ci_high_us,"
    "algbw_gbs,busbw_gbs,verify,wrong,oracle,special,determinism,gpu_samples,gpu_throttled,"
    "throttle_reasons,sm_mhz,memory_mhz,power_w,temperature_c,dist,counts,ceiling_pct";

weir_status bench_csv_open(bench_csv *csv, const bench_run *run, const bench_ceiling *ceiling,
                           const char *path)
{
    csv->run = run;
    csv->ceiling = ceiling;
    csv->file = fopen(path, "w");
    if (!csv->file)
        return bench_job_note(run->job, WEIR_ERR_INVALID,
                              "--csv %s: %s; give a file that can be written", path,
                              strerror(errno));
    fprintf(csv->file, "%s\n", columns);
    fflush(csv->file);
    return WEIR_OK;
}

/* A field of text and the comma before it. */
static void write_text(FILE *file, const char *text)
{
    fputc(',', file);
    weiri_csv_write_field(file, text);
}

static void write_times(FILE *file, const bench_row *row, const bench_result *result)
{
    const bench_stats *stats = &result->stats;
    if (!result->timed || bench_result_failed(result)) {
        fputs(",,,,,,,,", file);
        return;
    }
    fprintf(file, ",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.6g,%.6g", stats->median, stats->min,
            stats->max, stats->p99, stats->ci_low, stats->ci_high,
            bench_algbw_gbs(row, stats->median), bench_busbw_gbs(row, stats->median));
}

/* alltoallv's; counts read from the device are weir's alone. */
static void write_splits(const bench_csv *csv, const bench_result *result)
{
    const bench_options *options = csv->run->options;
    int has_splits = csv->run->collective == WEIR_COLL_ALLTOALLV;
    write_text(csv->file, has_splits ? options->dist : "");
    write_text(csv->file, !has_splits ? "" : result->peer ? "host" : options->counts);
}

static void write_result(const bench_csv *csv, const bench_row *row, int placement,
                         const bench_result *result)
{
    static const bench_clocks unread = {.samples = 0};
    const bench_run *run = csv->run;
    FILE *file = csv->file;
    fprintf(file, "%d", SCHEMA);
    write_text(file, run->id);
    write_text(file, run->utc);
    write_text(file, run->job->host);
    write_text(file, weir_collective_name(row->collective));
    write_text(file, weir_backend_name(weir_comm_backend(run->job->comm)));
    write_text(file, result->transport);
    fprintf(file, ",%d,%d", run->job->nranks, run->job->nnodes);
    write_text(file, result->contender);
    write_text(file, result->algo);
    fprintf(file, ",%s,%s,%d,%s,%zu,%zu,%d", weir_dtype_name(row->dtype), bench_row_op_name(row),
            row->root, placement == BENCH_IN_PLACE ? "in" : "out", row->shape.bytes,
            row->shape.count, result->iterations);
    write_times(file, row, result);
    fprintf(file, ",%s,%llu,%s,%s,%s",
            !result->checked              ? "off"
            : bench_result_failed(result) ? "fail"
                                          : "pass",
            (unsigned long long)result->check.wrong, bench_row_oracle(row, result),
            bench_outcome_name(result->special), bench_sameness_name(&result->sameness));
    bench_clocks_write_csv(result->timed ? &result->clocks : &unread, file);
    write_splits(csv, result);
    double pct = bench_ceiling_pct(csv->ceiling, row, result);
    fprintf(file, isnan(pct) ? "," : ",%.1f", pct);
    fputc('\n', file);
}

void bench_csv_row(bench_csv *csv, const bench_row *row)
{
    if (!csv->file)
        return;
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncontenders; i++)
            if (row->results[placement][i].ran)
                write_result(csv, row, placement, &row->results[placement][i]);
    fflush(csv->file);
}

weir_status bench_csv_close(bench_csv *csv)
{
    if (!csv->file)
        return WEIR_OK;
    int failed = ferror(csv->file);
    failed |= fclose(csv->file) != 0;
    csv->file = NULL;
    if (failed)
        return bench_job_note(csv->run->job, WEIR_ERR_SYSTEM,
                              "--csv %s: not all could be written; is the disk full?",
                              csv->run->options->csv_path);
    return WEIR_OK;
}
