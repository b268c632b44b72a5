/*
 * -J: the run as nccl-tests' JSON, schema version 3. The file takes the place of an old one with
 * its first row and is complete after every row, so a run that is stopped leaves a readable file:
 * the old one, or one with rows. Only a run that ended has its end_time. Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_JSON_REPORT_H
#define BENCH_OUTPUT_JSON_REPORT_H

#include "base/json.h"
#include "bench/output/output_file.h"
#include "bench/output/record.h"
#include "bench/statistics/result.h"
#include "bench/job/run.h"

typedef struct bench_json_report {
    weiri_json_writer json; /* file NULL: no report, all calls do nothing */
    weiri_new_file made;    /* until it is in its place */
    const bench_run *run;
    int has_ceiling; /* rows have a percentage, which may be unknown */
    int begun;
    int broken,
        reported;      /* whether something could not be written, and whether that was reported */
    const char *fault; /* of the first record that has one */
} bench_json_report;

/* The totals of all rows so far. */
typedef struct bench_json_totals {
    long failed;            /* number of wrong results */
    double busbw_gbs;       /* the average in the footer */
    const char *busbw_okay; /* whether it reaches its floor: "true", "false", "unchecked" */
    const bench_cost *cost;
    const bench_determinism *found;
    const bench_warnings *warnings;
} bench_json_totals;

/* Creates the file. WEIR_ERR_INVALID, noted in the job, if it cannot be written. */
weir_status bench_json_report_open(bench_json_report *report, const bench_run *run,
                                   const char *path);
/* Writes everything before the first row. */
void bench_json_report_begin(bench_json_report *report, const bench_rank_info *infos,
                             const bench_json_totals *totals);
/* Begin and end a row; in between each of its records is added. They do nothing without a file. */
void bench_json_report_begin_row(bench_json_report *report, const bench_row *row);
void bench_json_report_record(bench_json_report *report, const bench_record *record);
void bench_json_report_end_row(bench_json_report *report, const bench_json_totals *totals);
/* WEIR_ERR_SYSTEM, noted in the job, if something could not be written; reported once. */
weir_status bench_json_report_check(bench_json_report *report);
/* Closes the file. WEIR_ERR_SYSTEM, noted in the job, if not everything could be written;
 * WEIR_ERR_INTERNAL if a record has a fault (record.h). */
weir_status bench_json_report_end(bench_json_report *report, const bench_json_totals *totals);

#endif
