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
/* Adds what a GPU's clocks and sensors showed to the object that is open. */
void bench_manifest_put_clocks(weiri_json_writer *json, const bench_clocks *clocks);
/* Writes the file beside --csv, at once; none if the CSV is not a regular file. Its last member is
 * "complete": true once the run has come to its end and all its rows are written; false before, and
 * for ever if the run ends with an error or is killed. WEIR_ERR_INVALID, noted in
 * the job, if it cannot be written. */
weir_status bench_manifest_write(const bench_run *run, const bench_rank_info *infos,
                                 int is_complete);

/* How this program was built, as the Makefile compiled it in; "unknown" if the program was built in
 * another manner. */
typedef struct bench_build {
    const char *sources; /* a hash of all sources as they were built: 16 hexadecimal digits */
    const char *commit;  /* from git describe, with "-dirty" if sources differed */
    const char *compiler, *flags;
    const char *kind; /* "release", "debug", "asan", "tsan" */
} bench_build;
extern const bench_build bench_built;

#endif
