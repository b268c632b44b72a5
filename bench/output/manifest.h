/*
 * The manifest: what was measured, with which build, on which machine, as one JSON object. It is
 * written beside every CSV file (a.csv has a.json) and in -J under "manifest". Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_MANIFEST_H
#define BENCH_OUTPUT_MANIFEST_H

#include "base/json.h"
#include "bench/job/run.h"

enum { BENCH_MANIFEST_SCHEMA = 2 };

/* Writes the object. infos: one entry per rank. */
void bench_manifest_put(weiri_json_writer *json, const bench_run *run,
                        const bench_rank_info *infos);
/* Writes the file beside --csv, at once; none if the CSV is not a regular file. Its last member is
 * "complete": true once the run has come to its end and all its rows are written; false before, and
 * for ever if the run ends with an error or is killed. WEIR_ERR_INVALID, noted in
 * the job, if it cannot be written. */
weir_status bench_manifest_write(const bench_run *run, const bench_rank_info *infos,
                                 int is_complete);

/*
 * How this program was built, as the Makefile compiled it in. All texts are static; "unknown" if
 * the program was built in another manner.
 */

/* A hash of all sources as they were built: 16 hexadecimal digits. */
const char *bench_build_sources(void);
/* The commit from git describe, with "-dirty" if sources differed. */
const char *bench_build_commit(void);
const char *bench_build_compiler(void);
const char *bench_build_flags(void);
/* "release", "debug", "asan", "tsan". */
const char *bench_build_kind(void);

#endif
