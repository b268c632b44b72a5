/*
 * --tune-nccl: writes a table for NCCL's tuner, with a row where a setting is certainly faster than
 * NCCL's own choice. --verify-nccl: prints where a table helps or hurts. Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_TUNE_NCCL_H
#define BENCH_OUTPUT_TUNE_NCCL_H

#include "bench/statistics/result.h"
#include "bench/job/run.h"

typedef struct bench_tune_nccl bench_tune_nccl;

/* *tune is NULL without these options. WEIR_ERR_INVALID, noted: the file is no such table, or its
 * folder cannot be written. WEIR_ERR_NO_MEMORY. */
weir_status bench_tune_nccl_open(const bench_run *run, bench_tune_nccl **tune);
/* Adds the times of one size; tune may be NULL. */
void bench_tune_nccl_row(bench_tune_nccl *tune, const bench_row *row);
/* Selects settings, writes the table and its JSON if the run was complete, and frees tune. Rows for
 * the same collective, nodes and ranks are replaced, all others kept. */
weir_status bench_tune_nccl_close(bench_tune_nccl *tune, int is_complete);

#endif
