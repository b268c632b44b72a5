/* The file of a table that a run adds rows to. Before anything is measured: an old one is a tuning
 * table, and a new one can replace it. Afterwards: it is replaced. Local; rank 0 only. */
#ifndef BENCH_OUTPUT_TUNE_FILE_H
#define BENCH_OUTPUT_TUNE_FILE_H

#include "bench/job/job.h"
#include "bench/output/output_file.h"

#include <stdio.h>

enum { BENCH_TUNE_PATH_BYTES = 4096 };

/* Opens the temporary file that replaces the table once it is complete. NULL, with the reason:
 * impossible. temporary has BENCH_TUNE_PATH_BYTES, reason BENCH_OUTPUT_REASON_BYTES. */
FILE *bench_tune_open_new(const char *path, char *temporary, char *reason);
/* Replaces the table at once: its lines, or the header if there is no table yet, and what add
 * writes. WEIR_ERR_SYSTEM, noted: it cannot be read or written. */
typedef struct bench_tune_rows {
    const char *header;
    int (*is_replaced)(const void *tune, const char *line); /* 1: the line is left out */
    void (*add)(const void *tune, FILE *to);
} bench_tune_rows;
weir_status bench_tune_rewrite(bench_job *job, const char *path, const bench_tune_rows *rows,
                               const void *tune);
/* Checks before a long measurement that its outcome can be written. WEIR_ERR_INVALID, noted: the
 * file has lines that do not belong in a tuning table, or its folder cannot be written. */
weir_status bench_tune_check_path(bench_job *job, const char *path);

#endif
