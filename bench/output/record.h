/*
 * One result as the fields of a result file: names and values in the order of the CSV's columns
 * (lib/base/columns.h), for the writers of CSV and JSON. Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_RECORD_H
#define BENCH_OUTPUT_RECORD_H

#include "base/columns.h"
#include "bench/output/ceiling.h"
#include "bench/statistics/result.h"
#include "bench/job/run.h"

#define BENCH_COUNT_COLUMN(enumerator, name, form) +1
enum { BENCH_COLUMNS = WEIRI_COLUMNS(BENCH_COUNT_COLUMN), BENCH_RECORD_BYTES = 1024 };
#undef BENCH_COUNT_COLUMN

typedef struct bench_column {
    const char *name;
    int is_number; /* 1: its fields are decimal numbers, or empty */
} bench_column;

extern const bench_column bench_columns[BENCH_COLUMNS];

/* The texts point into storage, the result, the run, or static memory. */
typedef struct bench_record {
    const char *text[BENCH_COLUMNS];
    int count;
    size_t used; /* bytes of storage */
    char storage[BENCH_RECORD_BYTES];
} bench_record;

/* Fills in all fields of a result that ran; times and bandwidths stay empty if it failed. */
void bench_record_fill(bench_record *record, const bench_run *run, const bench_ceiling *ceiling,
                       const bench_row *row, int placement, const bench_result *result);

/*
 * The CSV file (RFC 4180, lines end with a line feed): one row per size, placement and candidate,
 * written and flushed as soon as it is known. Columns are only added at the end. Local; rank 0
 * only.
 */

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
