/*
 * The CSV file (RFC 4180, lines end with a line feed): one row per size, placement and candidate,
 * written and flushed as soon as it is known. Columns are only added at the end. Local; rank 0
 * only.
 */
#ifndef BENCH_OUTPUT_CSV_H
#define BENCH_OUTPUT_CSV_H

#include "bench/output/ceiling.h"
#include "bench/statistics/result.h"
#include "bench/job/run.h"

typedef struct bench_csv {
    FILE *file;
    const bench_run *run;
    const bench_ceiling *ceiling;
} bench_csv;

/* Creates the file and writes the header line. WEIR_ERR_INVALID, noted in the job, if it cannot be
 * written. */
weir_status bench_csv_open(bench_csv *csv, const bench_run *run, const bench_ceiling *ceiling,
                           const char *path);
/* Does nothing if there is no file. */
void bench_csv_row(bench_csv *csv, const bench_row *row);
/* WEIR_ERR_SYSTEM, noted in the job, if not everything could be written. */
weir_status bench_csv_close(bench_csv *csv);

#endif
