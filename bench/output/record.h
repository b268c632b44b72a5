/*
 * One result as the fields of a result file: names and values in the order of the CSV's columns
 * (lib/programs/columns.h), for the writers of CSV and JSON. Each program writes every column of a
 * record once, by its name; a column that is forgotten, or written twice, is a fault, with which
 * the run fails at its end. Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_RECORD_H
#define BENCH_OUTPUT_RECORD_H

#include "bench/job/run.h"
#include "bench/statistics/result.h"
#include "programs/columns.h"

#define BENCH_COLUMN_INDEX(enumerator, name, form) BENCH_COLUMN_##enumerator,
typedef enum bench_column_index {
    WEIRI_COLUMNS(BENCH_COLUMN_INDEX) BENCH_COLUMNS
} bench_column_index;
#undef BENCH_COLUMN_INDEX

enum { BENCH_SETTINGS_BYTES = 512, BENCH_RECORD_BYTES = 1024 + BENCH_SETTINGS_BYTES };

typedef struct bench_column {
    const char *name;
    int is_number; /* 1: its fields are decimal numbers, or empty */
} bench_column;

extern const bench_column bench_columns[BENCH_COLUMNS];

/* The texts point into storage, the result, the run, or static memory. */
typedef struct bench_record {
    const char *text[BENCH_COLUMNS]; /* NULL: not written yet */
    const char *fault; /* the first column that was not written exactly once; NULL: none */
    size_t used;       /* bytes of storage */
    char storage[BENCH_RECORD_BYTES];
} bench_record;

void bench_record_begin(bench_record *record);
/* Writes a column. The text is not copied; "" means that the value is unknown. */
void bench_record_put(bench_record *record, bench_column_index column, const char *text);
void bench_record_print(bench_record *record, bench_column_index column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Leaves the columns from first to last empty. */
void bench_record_leave(bench_record *record, bench_column_index first, bench_column_index last);
/* Writes the columns that describe the run and its ranks, the same for every program: schema,
 * run_id, utc, host, backend, nranks and nnodes (of several groups those of the first), split and
 * group. */
void bench_record_put_run(bench_record *record, const bench_run *run);
/* The same for a row about so many of the ranks, which are on so many nodes, and the name of their
 * group: "" if ranks are not divided. */
void bench_record_put_run_of(bench_record *record, const bench_run *run, int nranks, int nnodes,
                             const char *group);
/* Writes what else makes times of a candidate comparable: buffers, mode, graph, binding, cores and
 * settings, and the thread blocks of kernels. mode: how operations follow each other. peer: NULL
 * for weir; else what the peer reports of its settings, which follows those of the environment.
 * sms: 0 if unknown. errors: err_max and err_rms; NULL: results are exact. */
void bench_record_put_conditions(bench_record *record, const bench_run *run, const char *mode,
                                 const char *peer, int is_starved, int sms, const double *errors);
/* Writes times and bandwidths, median_us to busbw_gbs; stats NULL: they are unknown. */
void bench_record_put_times(bench_record *record, const bench_stats *stats, double algbw_gbs,
                            double busbw_gbs);
/* Writes the outcome of checks against known data, verify to temperature_c, of a program that tries
 * no special values or repeats, and reads no clocks. oracle: the reference's name. */
void bench_record_put_verdict(bench_record *record, int is_checked, unsigned long long wrong,
                              const char *oracle);
/* Writes the percentage of the ceiling; NaN: unknown. */
void bench_record_put_ceiling(bench_record *record, double pct);
/* Writes which rank ends last, last_rank to skew_us; NULL: unknown. */
void bench_record_put_lateness(bench_record *record, const bench_lateness *late);
/* Looks for columns that were not written, which become empty. */
void bench_record_end(bench_record *record);

/* Fills in all fields of a result that ran, whose figures are known; times and bandwidths stay
 * empty if it failed. group: the group of which the result is (bench_result_of_group), or
 * BENCH_RECORD_ALL. */
enum { BENCH_RECORD_ALL = -1 };
void bench_record_fill(bench_record *record, const bench_run *run, const bench_row *row,
                       int placement, const bench_result *result, int group);
/* WEIR_OK if fault is NULL; else WEIR_ERR_INTERNAL, noted in the job: the column of this name,
 * in the file of this option and path, was not written exactly once. */
weir_status bench_record_check(const bench_run *run, const char *fault, const char *option,
                               const char *path);

#endif
