/* The columns, and their values in the same order: see record.h. */
#include "bench/output/record.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { SCHEMA = 5 };

#define COLUMN(enumerator, name, form) {#name, WEIRI_COLUMN_##form != WEIRI_COLUMN_NAME},
const bench_column bench_columns[BENCH_COLUMNS] = {WEIRI_COLUMNS(COLUMN)};
#undef COLUMN

static void record_put(bench_record *record, const char *text)
{
    assert(record->count < BENCH_COLUMNS);
    record->text[record->count++] = text;
}

__attribute__((format(printf, 2, 3))) static void record_print(bench_record *record,
                                                               const char *format, ...)
{
    char *at = record->storage + record->used;
    size_t room = sizeof record->storage - record->used;
    va_list list;
    va_start(list, format);
    int length = vsnprintf(at, room, format, list);
    va_end(list);
    assert(length >= 0 && (size_t)length < room);
    if (length < 0 || (size_t)length >= room)
        at = "";
    else
        record->used += (size_t)length + 1;
    record_put(record, at);
}

static void record_put_run(bench_record *record, const bench_run *run, const bench_row *row,
                           const bench_result *result)
{
    record_print(record, "%d", SCHEMA);
    record_put(record, run->id);
    record_put(record, run->utc);
    record_put(record, run->job->host);
    record_put(record, weir_collective_name(row->collective));
    record_put(record, weir_backend_name(weir_comm_backend(run->job->comm)));
    record_put(record, result->transport);
    record_print(record, "%d", run->job->nranks);
    record_print(record, "%d", run->job->nnodes);
    record_put(record, result->candidate);
    record_put(record, result->algo);
}

static void record_put_call(bench_record *record, const bench_row *row, int placement,
                            const bench_result *result)
{
    record_put(record, weir_dtype_name(row->dtype));
    record_put(record, bench_row_op_name(row));
    record_print(record, "%d", row->root);
    record_put(record, placement == BENCH_IN_PLACE ? "in" : "out");
    record_print(record, "%zu", row->shape.bytes);
    record_print(record, "%zu", row->shape.count);
    record_print(record, "%d", result->iterations);
}

static void record_put_bandwidth(bench_record *record, int is_known, double gbs)
{
    if (is_known)
        record_print(record, "%.6g", gbs);
    else
        record_put(record, "");
}

static void record_put_times(bench_record *record, const bench_row *row, const bench_result *result)
{
    const bench_stats *stats = &result->stats;
    const double times_us[] = {stats->median, stats->min,    stats->max,
                               stats->p99,    stats->ci_low, stats->ci_high};
    int known = result->timed && !bench_result_failed(result);
    for (int i = 0; i < 6 && known; i++)
        record_print(record, "%.3f", times_us[i]);
    for (int i = 0; i < 6 && !known; i++)
        record_put(record, "");
    record_put_bandwidth(record, known, bench_algbw_gbs(row, stats->median));
    record_put_bandwidth(record, known, bench_busbw_gbs(row, stats->median));
}

static void record_put_checks(bench_record *record, const bench_row *row,
                              const bench_result *result)
{
    record_put(record, !result->checked ? "off" : bench_result_failed(result) ? "fail" : "pass");
    record_print(record, "%llu", (unsigned long long)result->check.wrong);
    record_put(record, bench_row_oracle(row, result));
    record_put(record, bench_outcome_name(result->special));
    record_put(record, bench_determinism_name(&result->determinism));
}

/* Empty if the value is unknown. */
static void record_put_known(bench_record *record, int is_known, int value)
{
    if (is_known)
        record_print(record, "%d", value);
    else
        record_put(record, "");
}

static void record_put_clocks(bench_record *record, const bench_clocks *clocks)
{
    char reasons[BENCH_REASONS_BYTES] = "";
    int known = clocks->samples > 0;
    record_print(record, "%d", clocks->samples);
    record_put_known(record, known, clocks->throttled);
    if (known)
        bench_clocks_reasons(clocks, reasons);
    record_print(record, "%s", reasons);
    record_put_known(record, known && clocks->sm_mhz >= 0, clocks->sm_mhz);
    record_put_known(record, known && clocks->memory_mhz >= 0, clocks->memory_mhz);
    record_put_known(record, known && clocks->power_w >= 0, clocks->power_w);
    record_put_known(record, known && clocks->temperature_c >= 0, clocks->temperature_c);
}

/* alltoallv only; only weir reads counts in device memory. */
static void record_put_splits(bench_record *record, const bench_run *run,
                              const bench_result *result)
{
    int has_splits = run->collective == WEIR_COLL_ALLTOALLV;
    record_put(record, has_splits ? run->options->dist : "");
    record_put(record, !has_splits ? "" : result->peer ? "host" : run->options->words.counts);
}

void bench_record_fill(bench_record *record, const bench_run *run, const bench_ceiling *ceiling,
                       const bench_row *row, int placement, const bench_result *result)
{
    static const bench_clocks unread = {.samples = 0};
    double pct = bench_ceiling_pct(ceiling, row, result);
    record->count = 0;
    record->used = 0;
    record_put_run(record, run, row, result);
    record_put_call(record, row, placement, result);
    record_put_times(record, row, result);
    record_put_checks(record, row, result);
    record_put_clocks(record, result->timed ? &result->clocks : &unread);
    record_put_splits(record, run, result);
    if (isnan(pct))
        record_put(record, "");
    else
        record_print(record, "%.1f", pct);
    while (record->count < BENCH_COLUMNS) /* columns of bench_moe */
        record_put(record, "");
}
