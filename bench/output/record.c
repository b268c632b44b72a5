/* The columns, and how the benchmarks of collectives fill them: see record.h. */
#include "bench/output/record.h"

#include "base/env.h"
#include "bench/options/environment.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define COLUMN(enumerator, name, form) {#name, WEIRI_COLUMN_##form != WEIRI_COLUMN_NAME},
const bench_column bench_columns[BENCH_COLUMNS] = {WEIRI_COLUMNS(COLUMN)};
#undef COLUMN

static void record_set_fault(bench_record *record, int column)
{
    if (!record->fault)
        record->fault = bench_columns[column].name;
}

void bench_record_begin(bench_record *record)
{
    memset(record->text, 0, sizeof record->text);
    record->fault = NULL;
    record->used = 0;
}

void bench_record_put(bench_record *record, bench_column_index column, const char *text)
{
    if (record->text[column])
        record_set_fault(record, column);
    record->text[column] = text;
}

void bench_record_print(bench_record *record, bench_column_index column, const char *format, ...)
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
    bench_record_put(record, column, at);
}

void bench_record_leave(bench_record *record, bench_column_index first, bench_column_index last)
{
    for (int column = (int)first; column <= (int)last; column++)
        bench_record_put(record, (bench_column_index)column, "");
}

void bench_record_end(bench_record *record)
{
    for (int column = 0; column < BENCH_COLUMNS; column++) {
        if (record->text[column])
            continue;
        record_set_fault(record, column);
        record->text[column] = "";
    }
}

weir_status bench_record_check(const bench_run *run, const char *fault, const char *option,
                               const char *path)
{
    if (!fault)
        return WEIR_OK;
    return bench_job_note(run->job, WEIR_ERR_INTERNAL,
                          "%s %s: the column %s is written never or twice, a defect of this "
                          "program; see docs/developer/add-a-column.md",
                          option, path, fault);
}

void bench_record_put_run_of(bench_record *record, const bench_run *run, int nranks, int nnodes,
                             const char *group)
{
    bench_record_print(record, BENCH_COLUMN_SCHEMA, "%d", WEIRI_COLUMNS_SCHEMA);
    bench_record_put(record, BENCH_COLUMN_RUN_ID, run->id);
    bench_record_put(record, BENCH_COLUMN_UTC, run->utc);
    bench_record_put(record, BENCH_COLUMN_HOST, run->job->host);
    bench_record_put(record, BENCH_COLUMN_BACKEND,
                     weir_backend_name(weir_comm_backend(run->job->comm)));
    bench_record_print(record, BENCH_COLUMN_NRANKS, "%d", nranks);
    bench_record_print(record, BENCH_COLUMN_NNODES, "%d", nnodes);
    bench_record_put(record, BENCH_COLUMN_SPLIT, run->options->split_name);
    bench_record_print(record, BENCH_COLUMN_GROUP, "%s", group);
}

void bench_record_put_run(bench_record *record, const bench_run *run)
{
    const bench_job *job = run->job;
    bench_record_put_run_of(record, run, job->group_nranks, job->groups[job->group].nnodes,
                            job->ngroups > 1 ? "all" : "");
}

/* "8", "zero", or "8 efficiency": the limit and the policy of thread blocks, of weir or of NCCL. */
static void record_describe_budget(int is_peer, char *text, size_t bytes)
{
    const char *most = weiri_env(is_peer ? WEIRI_ENV_NCCL_MAX_CTAS : WEIRI_ENV_MAX_BLOCKS);
    const char *policy = weiri_env(is_peer ? WEIRI_ENV_NCCL_CTA_POLICY : WEIRI_ENV_BLOCK_POLICY);
    snprintf(text, bytes, "%.20s%s%.30s", most ? most : "", most && policy ? " " : "",
             policy ? policy : "");
}

void bench_record_put_conditions(bench_record *record, const bench_run *run, const char *mode,
                                 const char *peer, int is_starved, int sms, const double *errors)
{
    const bench_options *options = run->options;
    char settings[BENCH_SETTINGS_BYTES] = "", budget[64] = "";
    if (peer) {
        bench_environment_of_peers(settings, sizeof settings);
        const size_t used = strlen(settings);
        snprintf(settings + used, sizeof settings - used, "%s%s", used && *peer ? " " : "", peer);
    }
    bench_record_put(record, BENCH_COLUMN_BUFFERS,
                     options->buffers == BENCH_BUFFERS_PLAIN ? "unregistered" : "registered");
    bench_record_put(record, BENCH_COLUMN_MODE, mode);
    bench_record_print(record, BENCH_COLUMN_GRAPH, "%d", run->job->gpu ? options->graph : 0);
    bench_record_put(record, BENCH_COLUMN_BINDING, run->job->binding);
    if (run->job->cores > 0)
        bench_record_print(record, BENCH_COLUMN_CORES, "%.6g", run->job->cores);
    else
        bench_record_put(record, BENCH_COLUMN_CORES, "");
    bench_record_print(record, BENCH_COLUMN_SETTINGS, "%s", settings);
    bench_record_put(record, BENCH_COLUMN_UNJUDGED, is_starved ? "one-core" : "");
    if (run->job->gpu)
        record_describe_budget(peer != NULL, budget, sizeof budget);
    bench_record_print(record, BENCH_COLUMN_SMS_BUDGET, "%s", budget);
    if (sms > 0)
        bench_record_print(record, BENCH_COLUMN_SMS, "%d", sms);
    else
        bench_record_put(record, BENCH_COLUMN_SMS, "");
    if (!errors) {
        bench_record_leave(record, BENCH_COLUMN_ERR_MAX, BENCH_COLUMN_ERR_RMS);
        return;
    }
    bench_record_print(record, BENCH_COLUMN_ERR_MAX, "%.6g", errors[0]);
    bench_record_print(record, BENCH_COLUMN_ERR_RMS, "%.6g", errors[1]);
}

/* How operations of a collective follow each other. */
static const char *record_mode(const bench_options *options)
{
    return options->asleep                                 ? "asleep"
           : options->mode == BENCH_MODE_LATENCY           ? "latency"
           : options->batched                              ? "batches"
           : options->blocking == BENCH_BLOCKING_OPERATION ? "barrier-operation"
           : options->blocking == BENCH_BLOCKING_ITERATION ? "barrier-iteration"
                                                           : "back-to-back";
}

void bench_record_put_lateness(bench_record *record, const bench_lateness *late)
{
    if (!late || !late->is_known) {
        bench_record_leave(record, BENCH_COLUMN_LAST_RANK, BENCH_COLUMN_SKEW_US);
        return;
    }
    bench_record_print(record, BENCH_COLUMN_LAST_RANK, "%d", late->rank);
    bench_record_print(record, BENCH_COLUMN_LAST_SHARE, "%.6g", late->share);
    bench_record_print(record, BENCH_COLUMN_SKEW_US, "%.3f", late->lag_us);
}

static void record_put_call(bench_record *record, const bench_row *row, const bench_shape *shape,
                            int placement, const bench_result *result)
{
    bench_record_put(record, BENCH_COLUMN_COLLECTIVE, weir_collective_name(row->collective));
    bench_record_put(record, BENCH_COLUMN_TRANSPORT, result->transport);
    bench_record_put(record, BENCH_COLUMN_CONTENDER, result->candidate);
    bench_record_put(record, BENCH_COLUMN_ALGO, result->algo);
    bench_record_put(record, BENCH_COLUMN_DTYPE, weir_dtype_name(row->dtype));
    bench_record_put(record, BENCH_COLUMN_REDOP, bench_row_op_name(row));
    bench_record_print(record, BENCH_COLUMN_ROOT, "%d", row->root);
    bench_record_put(record, BENCH_COLUMN_PLACEMENT, placement == BENCH_IN_PLACE ? "in" : "out");
    bench_record_print(record, BENCH_COLUMN_BYTES, "%zu", shape->bytes);
    bench_record_print(record, BENCH_COLUMN_COUNT, "%zu", shape->count);
    bench_record_print(record, BENCH_COLUMN_ITERS, "%d", result->iterations);
}

void bench_record_put_times(bench_record *record, const bench_stats *stats, double algbw_gbs,
                            double busbw_gbs)
{
    if (!stats) {
        bench_record_leave(record, BENCH_COLUMN_MEDIAN_US, BENCH_COLUMN_BUSBW_GBS);
        return;
    }
    bench_record_print(record, BENCH_COLUMN_MEDIAN_US, "%.3f", stats->median);
    bench_record_print(record, BENCH_COLUMN_MIN_US, "%.3f", stats->min);
    bench_record_print(record, BENCH_COLUMN_MAX_US, "%.3f", stats->max);
    bench_record_print(record, BENCH_COLUMN_P99_US, "%.3f", stats->p99);
    bench_record_print(record, BENCH_COLUMN_CI_LOW_US, "%.3f", stats->ci_low);
    bench_record_print(record, BENCH_COLUMN_CI_HIGH_US, "%.3f", stats->ci_high);
    bench_record_print(record, BENCH_COLUMN_ALGBW_GBS, "%.6g", algbw_gbs);
    bench_record_print(record, BENCH_COLUMN_BUSBW_GBS, "%.6g", busbw_gbs);
}

void bench_record_put_ceiling(bench_record *record, double pct)
{
    if (isnan(pct))
        bench_record_put(record, BENCH_COLUMN_CEILING_PCT, "");
    else
        bench_record_print(record, BENCH_COLUMN_CEILING_PCT, "%.1f", pct);
}

static void record_put_checks(bench_record *record, const bench_row *row,
                              const bench_result *result)
{
    bench_record_put(record, BENCH_COLUMN_VERIFY,
                     !result->checked           ? "off"
                     : result->figures.is_wrong ? "fail"
                                                : "pass");
    bench_record_print(record, BENCH_COLUMN_WRONG, "%llu", result->figures.wrong);
    bench_record_put(record, BENCH_COLUMN_ORACLE, bench_row_oracle(row, result));
    bench_record_put(record, BENCH_COLUMN_SPECIAL, bench_outcome_name(result->special));
    bench_record_put(record, BENCH_COLUMN_DETERMINISM,
                     bench_determinism_name(&result->determinism));
}

void bench_record_put_verdict(bench_record *record, int is_checked, unsigned long long wrong,
                              const char *oracle)
{
    bench_record_put(record, BENCH_COLUMN_VERIFY, !is_checked ? "off" : wrong ? "fail" : "pass");
    bench_record_print(record, BENCH_COLUMN_WRONG, "%llu", wrong);
    bench_record_put(record, BENCH_COLUMN_ORACLE, oracle);
    bench_record_put(record, BENCH_COLUMN_SPECIAL, "off");
    bench_record_put(record, BENCH_COLUMN_DETERMINISM, "off");
    bench_record_put(record, BENCH_COLUMN_GPU_SAMPLES, "0");
    bench_record_leave(record, BENCH_COLUMN_GPU_THROTTLED, BENCH_COLUMN_TEMPERATURE_C);
}

/* Empty if the value is unknown. */
static void record_put_known(bench_record *record, bench_column_index column, int is_known,
                             int value)
{
    if (is_known)
        bench_record_print(record, column, "%d", value);
    else
        bench_record_put(record, column, "");
}

static void record_put_clocks(bench_record *record, const bench_clocks *clocks)
{
    char reasons[BENCH_REASONS_BYTES] = "";
    int known = clocks->samples > 0;
    if (known)
        bench_clocks_reasons(clocks, reasons);
    bench_record_print(record, BENCH_COLUMN_GPU_SAMPLES, "%d", clocks->samples);
    record_put_known(record, BENCH_COLUMN_GPU_THROTTLED, known, clocks->throttled);
    bench_record_print(record, BENCH_COLUMN_THROTTLE_REASONS, "%s", reasons);
    record_put_known(record, BENCH_COLUMN_SM_MHZ, known && clocks->sm_mhz >= 0, clocks->sm_mhz);
    record_put_known(record, BENCH_COLUMN_MEMORY_MHZ, known && clocks->memory_mhz >= 0,
                     clocks->memory_mhz);
    record_put_known(record, BENCH_COLUMN_POWER_W, known && clocks->power_w >= 0, clocks->power_w);
    record_put_known(record, BENCH_COLUMN_TEMPERATURE_C, known && clocks->temperature_c >= 0,
                     clocks->temperature_c);
}

/* alltoallv, and patterns of sendrecv; only weir reads counts in device memory. */
static void record_put_splits(bench_record *record, const bench_run *run, const bench_row *row,
                              const bench_result *result)
{
    int has_splits = run->collective == WEIR_COLL_ALLTOALLV;
    bench_record_put(record, BENCH_COLUMN_DIST,
                     has_splits                                                 ? run->options->dist
                     : row->pattern && row->pattern->kind != BENCH_PATTERN_RING ? row->pattern->name
                                                                                : "");
    bench_record_put(record, BENCH_COLUMN_COUNTS,
                     !has_splits ? ""
                     : (result->peer && !result->runs_weir) ||
                             run->options->counts == BENCH_COUNTS_HOST
                         ? "host"
                         : "device");
}

/* The columns of bench_moe, of which --fuse has some. */
static void record_put_fused(bench_record *record, const bench_options *options,
                             const bench_shape *shape)
{
    if (!options->fuse) {
        bench_record_leave(record, BENCH_COLUMN_TOKENS, BENCH_COLUMN_EXPERT_BYTES);
        return;
    }
    bench_record_print(record, BENCH_COLUMN_TOKENS, "%zu", shape->count / (size_t)options->hidden);
    bench_record_print(record, BENCH_COLUMN_HIDDEN, "%d", options->hidden);
    bench_record_leave(record, BENCH_COLUMN_EXPERTS, BENCH_COLUMN_TOPK);
    bench_record_put(record, BENCH_COLUMN_LAYOUT,
                     options->fuse == BENCH_FUSE_NORM ? "norm" : "norm:fp8");
    bench_record_leave(record, BENCH_COLUMN_DISPATCH_DTYPE, BENCH_COLUMN_EXPERT_BYTES);
}

void bench_record_fill(bench_record *record, const bench_run *run, const bench_row *row,
                       int placement, const bench_result *result, int group)
{
    static const bench_clocks unread = {.samples = 0};
    const bench_figures *figures = &result->figures;
    const bench_shape *shape = &row->shape;
    const int is_peers = result->peer && !result->runs_weir;
    bench_record_begin(record);
    if (group == BENCH_RECORD_ALL) {
        bench_record_put_run(record, run);
    } else {
        const bench_group *of = &run->job->groups[group];
        char color[16];
        shape = &result->groups[group].shape;
        snprintf(color, sizeof color, "%d", of->color);
        bench_record_put_run_of(record, run, of->nranks, of->nnodes, color);
    }
    record_put_call(record, row, shape, placement, result);
    bench_record_put_times(record, figures->is_usable ? &result->stats : NULL, figures->algbw_gbs,
                           figures->busbw_gbs);
    record_put_checks(record, row, result);
    record_put_clocks(record, result->timed ? &result->clocks : &unread);
    record_put_splits(record, run, row, result);
    bench_record_put_ceiling(record, figures->ceiling_pct);
    record_put_fused(record, run->options, shape);
    bench_record_put_lateness(record, &result->late);
    bench_record_put_conditions(record, run, record_mode(run->options),
                                is_peers ? result->settings : NULL, result->is_starved, result->sms,
                                result->is_quantized ? result->errors : NULL);
    bench_record_end(record);
}
