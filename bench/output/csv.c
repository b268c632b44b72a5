/* The CSV file of a run: a header line, then a line for each record (record.h). */

#include "bench/output/output_file.h"
#include "bench/output/record.h"
#include "programs/csv.h"

weir_status bench_csv_open(bench_csv *csv, const bench_run *run, const bench_ceiling *ceiling,
                           const char *path)
{
    csv->run = run;
    csv->ceiling = ceiling;
    csv->fault = NULL;
    char reason[BENCH_OUTPUT_REASON_BYTES];
    csv->file = bench_output_open(path, reason);
    if (!csv->file)
        return bench_job_note(run->job, WEIR_ERR_INVALID, "--csv %s: %s", path, reason);
    for (int i = 0; i < BENCH_COLUMNS; i++)
        fprintf(csv->file, "%s%s", i ? "," : "", bench_columns[i].name);
    fputc('\n', csv->file);
    fflush(csv->file);
    return WEIR_OK;
}

void bench_csv_record(bench_csv *csv, const bench_record *record)
{
    for (int i = 0; i < BENCH_COLUMNS; i++) {
        if (i)
            fputc(',', csv->file);
        weiri_csv_write_field(csv->file, record->text[i]);
    }
    fputc('\n', csv->file);
    if (!csv->fault)
        csv->fault = record->fault;
}

static void write_result(bench_csv *csv, const bench_row *row, int placement,
                         const bench_result *result)
{
    bench_record record;
    bench_record_fill(&record, csv->run, csv->ceiling, row, placement, result);
    bench_csv_record(csv, &record);
}

void bench_csv_row(bench_csv *csv, const bench_row *row)
{
    if (!csv->file)
        return;
    for (int placement = 0; placement < row->placements; placement++)
        for (int i = 0; i < row->ncandidates; i++)
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
    return bench_record_check(csv->run, csv->fault, "--csv", csv->run->options->csv_path);
}
