/* The CSV file of a run: a header line, then a line for each record: see csv.h. */
#include "bench/output/csv.h"

#include "base/log.h"
#include "bench/output/output_file.h"
#include "programs/csv.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void bench_csv_flush(bench_csv *csv)
{
    if (!csv->file)
        return;
    errno = 0;
    if (fflush(csv->file) != 0 || ferror(csv->file))
        csv->error = csv->error ? csv->error : errno ? errno : EIO;
    else if (!csv->error)
        csv->complete_bytes = ftello(csv->file);
}

/* Closes the file; if a row is incomplete, also removes it. */
static void csv_end(bench_csv *csv)
{
    const int fd = csv->error ? dup(fileno(csv->file)) : -1;
    if (fclose(csv->file) != 0 && !csv->error)
        csv->error = errno;
    csv->file = NULL;
    if (fd < 0)
        return;
    if (csv->complete_bytes < 0 || ftruncate(fd, csv->complete_bytes) != 0)
        weiri_log(WEIRI_LOG_DEBUG, "--csv: its last row is incomplete: it is no regular file");
    close(fd);
}

weir_status bench_csv_open(bench_csv *csv, const bench_run *run, const char *path)
{
    csv->run = run;
    csv->fault = NULL;
    csv->error = 0;
    csv->complete_bytes = 0;
    char reason[BENCH_OUTPUT_REASON_BYTES];
    csv->file = bench_output_open(path, reason);
    if (!csv->file)
        return bench_job_note(run->job, WEIR_ERR_INVALID, "--csv %s: %s", path, reason);
    for (int i = 0; i < BENCH_COLUMNS; i++)
        fprintf(csv->file, "%s%s", i ? "," : "", bench_columns[i].name);
    fputc('\n', csv->file);
    bench_csv_flush(csv);
    return WEIR_OK;
}

void bench_csv_record(bench_csv *csv, const bench_record *record)
{
    if (!csv->file)
        return;
    for (int i = 0; i < BENCH_COLUMNS; i++) {
        if (i)
            fputc(',', csv->file);
        weiri_csv_write_field(csv->file, record->text[i]);
    }
    fputc('\n', csv->file);
    if (!csv->fault)
        csv->fault = record->fault;
}

weir_status bench_csv_check(bench_csv *csv)
{
    if (!csv->file || !csv->error)
        return WEIR_OK;
    csv_end(csv);
    return bench_job_note(csv->run->job, WEIR_ERR_SYSTEM,
                          "--csv %s: not all could be written; is the disk full? (%s; the file "
                          "ends with the last complete row)",
                          csv->run->options->csv_path, strerror(csv->error));
}

weir_status bench_csv_close(bench_csv *csv)
{
    if (!csv->file)
        return WEIR_OK;
    bench_csv_flush(csv);
    const weir_status status = bench_csv_check(csv);
    if (status != WEIR_OK)
        return status;
    csv_end(csv);
    if (csv->error)
        return bench_job_note(csv->run->job, WEIR_ERR_SYSTEM,
                              "--csv %s: not all could be written; is the disk full? (%s)",
                              csv->run->options->csv_path, strerror(csv->error));
    return bench_record_check(csv->run, csv->fault, "--csv", csv->run->options->csv_path);
}
