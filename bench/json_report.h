/* -J: the run as nccl-tests' JSON, schema version 3. Local, for rank 0. */
#ifndef BENCH_JSON_REPORT_H
#define BENCH_JSON_REPORT_H

#include "bench/ceiling.h"
#include "bench/json.h"
#include "bench/determinism.h"
#include "bench/result.h"
#include "bench/run.h"

typedef struct bench_json_report {
    bench_json json; /* file NULL: no report, all calls do nothing */
    const bench_run *run;
    const bench_ceiling *ceiling;
} bench_json_report;

/* Creates the file. WEIR_ERR_INVALID, noted in the job: it cannot be written. */
weir_status bench_json_report_open(bench_json_report *report, const bench_run *run,
                                   const bench_ceiling *ceiling, const char *path);
/* Everything before the first row. */
void bench_json_report_begin(bench_json_report *report, const bench_rank_info *infos);
void bench_json_report_row(bench_json_report *report, const bench_row *row);
/* failed: wrong results; busbw_gbs: the footer's average; cost: of all rows;
 * found: by --determinism. Closes the file. WEIR_ERR_SYSTEM, noted in the job: not
 * all could be written. */
weir_status bench_json_report_end(bench_json_report *report, long failed, double busbw_gbs,
                                  const bench_cost *cost, const bench_determinism *found);

#endif
