/* The file of --tune before anything is measured: an old one is a tuning table, and a new one can
 * replace it. Local; rank 0 only. */
#ifndef BENCH_OUTPUT_TUNE_FILE_H
#define BENCH_OUTPUT_TUNE_FILE_H

#include "bench/job/job.h"
#include "bench/output/output_file.h"

#include <stdio.h>

enum { BENCH_TUNE_PATH_BYTES = 4096 };

/* Opens the temporary file that replaces the table once it is complete. NULL, with the reason:
 * impossible. temporary has BENCH_TUNE_PATH_BYTES, reason BENCH_OUTPUT_REASON_BYTES. */
FILE *bench_tune_open_new(const char *path, char *temporary, char *reason);
/* Checks before a long measurement that its outcome can be written. WEIR_ERR_INVALID, noted: the
 * file has lines that do not belong in a tuning table, or its folder cannot be written. */
weir_status bench_tune_check_path(bench_job *job, const char *path);

#endif
