/* All writers of a run: table, CSV, JSON, ratios, ceiling and tuning table. */
#ifndef BENCH_OUTPUT_REPORT_H
#define BENCH_OUTPUT_REPORT_H

#include "bench/output/ceiling.h"
#include "bench/output/csv.h"
#include "bench/output/json_report.h"
#include "bench/output/matrix.h"
#include "bench/output/table.h"
#include "bench/output/tune.h"
#include "bench/output/tune_nccl.h"

typedef struct bench_report {
    const bench_run *run;
    bench_table table;
    bench_csv csv;
    bench_json_report json;
    bench_ratios ratios;
    bench_ceiling ceiling;
    bench_matrix matrix;
    bench_interval_count intervals;
    bench_rank_info *infos;        /* on rank 0, once the header is written; owned */
    bench_tune *tune;              /* NULL without --tune */
    bench_tune_nccl *tune_nccl;    /* NULL without --tune-nccl and --verify-nccl */
    bench_determinism determinism; /* on every rank */
    bench_cost cost;               /* of all rows */
    double worst_share;            /* the largest verification / timing of a row */
    size_t worst_bytes;
    int is_complete;    /* the run has come to its end */
    long failed;        /* wrong results, on every rank */
    weir_status output; /* of standard output on this rank; an error is reported once */
} bench_report;

/* Opens the files on rank 0, and writes the manifest. Collective; agreed; a failure is reported. */
weir_status bench_report_open(bench_report *report, const bench_run *run);
/* Writes the header and the table's headings. Local; rank 0 only. */
void bench_report_begin(bench_report *report);
/* Ends the run if standard output could not take what rank 0 printed. Collective; agreed. */
weir_status bench_report_check_output(bench_report *report);
/* Computes the figures of a row, and writes it everywhere. Local; rank 0 only. */
void bench_report_row(bench_report *report, bench_row *row);
/* WEIR_ERR_SYSTEM, noted in the job, if a file or standard output could not take all rows so far;
 * each is reported once. Local; rank 0 only. */
weir_status bench_report_check(bench_report *report);
/* Writes the footer. Local; rank 0 only. */
void bench_report_end(bench_report *report);
/* 1 if the average bus bandwidth is below a floor, as rank 0 has it. Collective. */
int bench_report_misses_floor(const bench_report *report);
/* Closes what is open, if the report was opened. Collective; agreed; a failure is reported. */
weir_status bench_report_close(bench_report *report);

#endif
