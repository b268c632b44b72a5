/*
 * --tune: writes what was fastest at each size as rows of a tuning table, the file that
 * WEIR_TUNING names (format: lib/coll/select.c). Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_TUNE_H
#define BENCH_OUTPUT_TUNE_H

#include "bench/statistics/result.h"
#include "bench/job/run.h"

typedef struct bench_tune bench_tune;

/* *tune is NULL without --tune. WEIR_ERR_INVALID, noted: the file has lines that do not belong in a
 * tuning table, or its folder cannot be written. WEIR_ERR_NO_MEMORY. */
weir_status bench_tune_open(const bench_run *run, bench_tune **tune);
/* Adds the times of one size; tune may be NULL. */
void bench_tune_row(bench_tune *tune, const bench_row *row);
/* Selects the algorithms, writes the file and frees tune. Rows of the file for the same collective,
 * ranks and cores are replaced, all others kept. Prints for each plan where it was selected, or how
 * much slower it was. On failure the note names the file. */
weir_status bench_tune_close(bench_tune *tune);

#endif
