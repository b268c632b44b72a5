/*
 * One result as the fields of a result file: names and values in the order of the CSV's
 * columns, for the writers of CSV and JSON. Columns may only be added at the end. Local,
 * for rank 0.
 */
#ifndef BENCH_OUTPUT_RECORD_H
#define BENCH_OUTPUT_RECORD_H

#include "bench/output/ceiling.h"
#include "bench/statistics/result.h"
#include "bench/job/run.h"

enum { BENCH_COLUMNS = 41, BENCH_RECORD_BYTES = 1024 };

typedef struct bench_column {
    const char *name;
    int is_number; /* its fields are decimal numbers, or empty */
} bench_column;

extern const bench_column bench_columns[BENCH_COLUMNS];

/* text points into storage, the result, the run, or what is static. */
typedef struct bench_record {
    const char *text[BENCH_COLUMNS];
    int count;
    size_t used; /* of storage */
    char storage[BENCH_RECORD_BYTES];
} bench_record;

/* Fills in all fields of a result that ran; of one that failed, times and bandwidths are empty. */
void bench_record_fill(bench_record *record, const bench_run *run, const bench_ceiling *ceiling,
                       const bench_row *row, int placement, const bench_result *result);

#endif
