/*
 * The manifest: what was measured on what, with what, as one JSON object. It
 * stands beside every CSV file (a.csv has a.json) and in -J under "manifest".
 * Local, for rank 0.
 */
#ifndef BENCH_OUTPUT_MANIFEST_H
#define BENCH_OUTPUT_MANIFEST_H

#include "bench/output/json.h"
#include "bench/job/run.h"

enum { BENCH_MANIFEST_SCHEMA = 2 };

/* Writes the object. infos: one entry a rank. */
void bench_manifest_put(bench_json *json, const bench_run *run, const bench_rank_info *infos);
/* Writes the companion of --csv, unless there is none: the CSV is no regular file.
 * WEIR_ERR_INVALID, noted in the job: it cannot be written. */
weir_status bench_manifest_write(const bench_run *run, const bench_rank_info *infos);

#endif
