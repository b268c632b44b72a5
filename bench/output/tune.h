/*
 * --tune: what was fastest at each size becomes rows of a tuning table, the file that
 * WEIR_TUNING names (its format: lib/coll/select.c). Rank 0 alone does the work.
 */
#ifndef BENCH_OUTPUT_TUNE_H
#define BENCH_OUTPUT_TUNE_H

#include "bench/statistics/result.h"
#include "bench/job/run.h"

typedef struct bench_tune bench_tune;

/* NULL where --tune is not given. WEIR_ERR_INVALID: the file has lines that are no rows of a
 * tuning table, or its folder cannot be written; WEIR_ERR_NO_MEMORY. Local. */
weir_status bench_tune_open(const bench_run *run, bench_tune **tune);
/* Takes in the times of one size. Local; tune may be NULL. */
void bench_tune_row(bench_tune *tune, const bench_row *row);
/* Chooses, writes the file and frees tune. Rows that the file had for the same
 * collective, ranks and cores give way, all others stay. Local. On failure the
 * error text names the file. */
weir_status bench_tune_close(bench_tune *tune);

#endif
