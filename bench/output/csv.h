/*
 * The CSV file (RFC 4180, lines end with a line feed): one row a size,
 * placement and candidate, written and flushed as soon as it is known. Columns
 * may only be added at the end. Local, for rank 0.
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

/* Creates the file and writes the header line. WEIR_ERR_INVALID, noted in the
 * job: it cannot be written. */
weir_status bench_csv_open(bench_csv *csv, const bench_run *run, const bench_ceiling *ceiling,
                           const char *path);
/* NULL file: does nothing. */
void bench_csv_row(bench_csv *csv, const bench_row *row);
/* WEIR_ERR_SYSTEM, noted in the job: not all could be written. */
weir_status bench_csv_close(bench_csv *csv);

#endif
