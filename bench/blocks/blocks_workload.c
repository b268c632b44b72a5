/*
 * The workload of bench_blocks: numbers of pages, each with all candidates (bench/workload.h). An
 * iteration: caches are cleared, a barrier, the timed transfer, a barrier, and a check of every
 * byte. Candidates take turns in alternating order.
 */
#include "bench/workload.h"

#include "bench/blocks/blocks_trial.h"
#include "base/words.h"
#include "bench/job/exchange.h"
#include "bench/measure/parts.h"
#include "bench/measure/point.h"
#include "bench/measure/timed.h"
#include "bench/output/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ITERATIONS = 10, MOST_ITERATIONS = 400, FAULTY_ITERATION = 1 };
static const double budget_s = 1;

/* One candidate's times and errors. */
typedef struct blocks_result {
    blocks_kind kind;
    double *us;      /* this rank's; the slowest rank's on rank 0, once collected */
    double *ends_us; /* when this rank saw each iteration end; owned */
    bench_lateness late;
    bench_slowness slowness;
    uint64_t runs;
    uint64_t wrong;
    char message[BLOCKS_MESSAGE_BYTES + 32]; /* of the first error on this rank */
    bench_stats stats;                       /* on rank 0 */
    bench_part *parts; /* of several groups, what each measured; on rank 0; owned */
} blocks_result;

typedef struct blocks_run {
    bench_job *job;
    bench_report *report;
    int points, planted;
    blocks_trial trial;
    blocks_result results[BLOCKS_KINDS];
    int count, iterations;
    double bytes;       /* that the rank with most receives */
    double *part_bytes; /* the same in each of several groups, on rank 0; owned */
    double *scratch;    /* of several groups: a time of each iteration and group; owned */
} blocks_run;

static blocks_options options;

/* -------------------------------------------------------------- options, start */

static weir_status run_parse(weir_collective collective, int argc, char **argv, char *problem)
{
    (void)collective;
    return blocks_options_parse(argc, argv, &options, problem);
}

static void run_inform(const bench_run *run)
{
    (void)run;
    if (options.common.action != BENCH_ACTION_LIST_FAULTS)
        blocks_options_help(stdout);
    else
        for (int i = 1; i < BLOCKS_FAULTS; i++)
            printf("%s\n", blocks_fault_name(i));
}

static void run_check(bench_run *run, char *problem)
{
    const int least = bench_job_least_nranks(run->job);
    if (least <= options.prefill)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--prefill %d: of %d rank%s%s none is left for decode; start more",
                 options.prefill, least, weiri_s(least),
                 run->job->ngroups > 1 ? " in a group" : "");
    else if (options.common.inject_slow_rank > run->job->nranks)
        snprintf(problem, BENCH_PROBLEM_BYTES,
                 "--inject slow-rank:%d: there are %d ranks; give a rank from 0 to %d",
                 options.common.inject_slow_rank - 1, run->job->nranks, run->job->nranks - 1);
}

static weir_status run_open(bench_run *run, bench_report *report, void **state)
{
    blocks_run *b = calloc(1, sizeof *b);
    weir_status status = WEIR_OK;
    if (!b)
        status = bench_job_note(run->job, WEIR_ERR_NO_MEMORY, "no memory for results");
    else if (bench_job_most_nodes(run->job) > 1 && options.has_peer[BLOCKS_READV])
        status = bench_job_note(run->job, WEIR_ERR_INVALID,
                                "--peer readv: process_vm_readv reads no memory of other nodes; "
                                "leave it out");
    status = bench_job_agree(run->job, status, "set-up");
    if (status != WEIR_OK) {
        free(b);
        return status;
    }
    b->job = run->job;
    b->report = report;
    if (options.common.inject_slow)
        bench_warning_add(run->job, "inject", "--inject slow: operations of weir were made slower");
    *state = b;
    return WEIR_OK;
}

/* ------------------------------------------------------------------ iterations */

static void keep_error(blocks_result *r, uint64_t wrong, const char *message)
{
    if (wrong && !*r->message)
        snprintf(r->message, sizeof r->message, "%s: %s", blocks_kind_name(r->kind), message);
    r->wrong += wrong;
}

static weir_status run_iteration(blocks_run *b, blocks_result *r, int iteration)
{
    blocks_trial *t = &b->trial;
    const int injects = options.fault && iteration == FAULTY_ITERATION && r->kind <= BLOCKS_GET &&
                        b->job->group == 0 &&
                        t->rank == (r->kind == BLOCKS_PUT ? 0 : options.prefill);
    char message[BLOCKS_MESSAGE_BYTES];
    blocks_trial_clear(t);
    bench_job_barrier_closely(b->job);
    const double start_us = weiri_clock_us();
    weir_status status = blocks_transfer(t, r->kind, injects);
    r->runs++;
    if (status == WEIR_OK && r->kind <= BLOCKS_GET &&
        bench_slowness_applies(&options.common, b->job->rank))
        bench_slow_down(&r->slowness, &options.common, r->runs, start_us);
    if (iteration >= 0 && status == WEIR_OK) {
        r->ends_us[iteration] = weiri_clock_us();
        r->us[iteration] = r->ends_us[iteration] - start_us;
    }
    if (status == WEIR_OK && r->kind != BLOCKS_SOCKET)
        keep_error(r, blocks_trial_check(t, r->kind == BLOCKS_MEMCPY, message), message);
    return bench_job_agree(b->job, status, blocks_kind_name(r->kind));
}

static weir_status run_all(blocks_run *b, int first, int last)
{
    weir_status status = WEIR_OK;
    for (int i = first; status == WEIR_OK && i < last; i++)
        for (int turn = 0; status == WEIR_OK && turn < b->count; turn++) {
            const int at = i % 2 ? b->count - 1 - turn : turn;
            bench_job_phase(b->job, "blocks iteration", (uint64_t)(i < 0 ? 0 : i));
            status = run_iteration(b, &b->results[at], i);
        }
    return status;
}

/* Chooses how many iterations fit the time budget, and makes room for their times. */
static weir_status choose_iterations(blocks_run *b, double iteration_s)
{
    const double fit = budget_s * b->count / (iteration_s + 1e-9);
    weir_status status = WEIR_OK;
    b->iterations = fit < LEAST_ITERATIONS  ? LEAST_ITERATIONS
                    : fit > MOST_ITERATIONS ? MOST_ITERATIONS
                                            : (int)fit;
    bench_exchange_broadcast(b->job, &b->iterations, sizeof b->iterations, 0);
    b->iterations = options.common.iterations ? options.common.iterations : b->iterations;
    for (int i = 0; i < b->count; i++) {
        b->results[i].us = calloc((size_t)b->iterations, sizeof(double));
        b->results[i].ends_us = calloc((size_t)b->iterations, sizeof(double));
        if (!b->results[i].us || !b->results[i].ends_us)
            status = bench_job_note(b->job, WEIR_ERR_NO_MEMORY, "no memory for times");
    }
    return bench_job_agree(b->job, status, "times");
}

/* Makes room for what each of several groups measures. Collective; agreed. */
static weir_status alloc_parts(blocks_run *b)
{
    const size_t n = (size_t)b->job->ngroups;
    weir_status status = WEIR_OK;
    if (n == 1)
        return WEIR_OK;
    b->part_bytes = calloc(n, sizeof *b->part_bytes);
    b->scratch = calloc(n * (size_t)b->iterations, sizeof *b->scratch);
    int failed = !b->part_bytes || !b->scratch;
    for (int i = 0; i < b->count; i++) {
        b->results[i].parts = calloc(n, sizeof *b->results[i].parts);
        failed |= !b->results[i].parts;
    }
    if (failed)
        status = bench_job_note(b->job, WEIR_ERR_NO_MEMORY, "no memory for groups");
    return bench_job_agree(b->job, status, "groups");
}

/* Frees what a point has allocated. */
static void clear_point(blocks_run *b)
{
    for (int i = 0; i < b->count; i++) {
        free(b->results[i].us);
        free(b->results[i].ends_us);
        free(b->results[i].parts);
    }
    b->count = 0;
    free(b->part_bytes);
    free(b->scratch);
    b->part_bytes = b->scratch = NULL;
}

/* Makes a candidate's results global; the lowest rank that has an error prints it. Collective;
 * agreed. */
static weir_status collect(blocks_run *b, blocks_result *r)
{
    const int mine = *r->message ? b->job->rank : b->job->nranks;
    if ((int)bench_exchange_fold(b->job, BENCH_FOLD_MIN, mine) == b->job->rank)
        fprintf(stderr, "%s: rank %d: %d pages: %s\n", b->job->program, b->job->rank,
                b->trial.pages, r->message);
    if (r->parts)
        bench_parts_put_wrong(b->job, r->wrong, r->parts);
    if (r->parts)
        bench_parts_put_times(b->job, r->us, b->iterations, b->scratch, r->parts);
    r->wrong = (uint64_t)bench_exchange_fold(b->job, BENCH_FOLD_SUM, (double)r->wrong);
    bench_exchange_reduce(b->job, BENCH_FOLD_MAX, r->us, b->iterations, r->us);
    if (b->job->rank == 0)
        r->stats = bench_stats_make(r->us, (size_t)b->iterations);
    return bench_job_has_common_clock(b->job)
               ? bench_collect_lateness(b->job, r->ends_us, b->iterations, r->stats.median,
                                        &r->late)
               : WEIR_OK;
}

static weir_status run_point(void *measured)
{
    blocks_run *b = measured;
    b->count = 0;
    for (blocks_kind kind = BLOCKS_PUT; kind < BLOCKS_KINDS; kind++)
        if (kind <= BLOCKS_GET || options.has_peer[kind])
            b->results[b->count++] = (blocks_result){.kind = kind};
    const double start = weiri_clock_s();
    weir_status status = run_all(b, -options.common.warmups, 0);
    if (status == WEIR_OK)
        status = choose_iterations(b, (weiri_clock_s() - start) / options.common.warmups);
    if (status == WEIR_OK)
        status = run_all(b, 0, b->iterations);
    if (status == WEIR_OK)
        status = alloc_parts(b);
    for (int i = 0; i < b->count && status == WEIR_OK; i++)
        status = collect(b, &b->results[i]);
    const double received = (double)b->trial.received_bytes;
    b->bytes = bench_exchange_fold(b->job, BENCH_FOLD_MAX, received);
    if (status == WEIR_OK && b->part_bytes)
        bench_exchange_reduce_groups(b->job, BENCH_FOLD_MAX, &received, 1, b->part_bytes);
    return status;
}

/* --------------------------------------------------------------------- output */

static void run_begin(void *state)
{
    const blocks_run *b = state;
    const blocks_engine *e = &options.engine;
    const bench_job *job = b->job;
    printf("# weir version %s\n# Collective test starting: bench_blocks\n", WEIR_VERSION);
    printf("# Ranks: %d prefill, %d decode on %s; %s; buffers: %s memory\n",
           job->ngroups * options.prefill, job->nranks - job->ngroups * options.prefill, job->host,
           job->place,
           options.common.buffers == BENCH_BUFFERS_PLAIN ? "unregistered" : "registered");
    bench_parts_begin(stdout, job, &options.common);
    printf("# Cache: %s (%s), %d layers, pages of %d tokens, %d x %d elements of 2 bytes, %s; %s "
           "pages, %s\n",
           e->name, e->version, e->layers, e->page_tokens, e->heads, e->head_size,
           e->vectors == 1 ? "latent"
           : e->is_apart   ? "keys and values apart"
                           : "keys and values together",
           options.is_sorted ? "sorted" : "random", options.is_both ? "both ways" : "one way");
    printf("# Timing: slowest rank, from a barrier until all data and tags are there; every byte "
           "is checked after each iteration\n#\n");
    printf("# %11s %8s %8s %9s %10s %10s %8s %7s %10s %10s %10s\n", "size", "pages", "blocks",
           "block", "candidate", "time", "algbw", "#wrong", "p99", "ci low", "ci high");
    printf("# %11s %8s %8s %9s %10s %10s %8s %7s %10s %10s %10s\n", "(B)", "", "", "(B)", "",
           "(us)", "(GB/s)", "", "(us)", "(us)", "(us)");
}

#define PUT(record, column, text) bench_record_put(record, BENCH_COLUMN_##column, text)
#define PRINT(record, column, ...) bench_record_print(record, BENCH_COLUMN_##column, __VA_ARGS__)

static double gbs_of(double bytes, const bench_stats *stats)
{
    return stats->median > 0 ? bytes / stats->median / 1e3 : 0;
}

/* A row of all ranks, or of one group. */
enum { ALL = -1 };
static void csv_row(const blocks_run *b, const blocks_result *r, int group)
{
    const int is_part = group != ALL;
    const bench_group *of = &b->job->groups[is_part ? group : 0];
    const bench_stats *stats = is_part ? &r->parts[group].stats : &r->stats;
    const uint64_t wrong = is_part ? r->parts[group].wrong : r->wrong;
    const double bytes = is_part ? b->part_bytes[group] : b->bytes, gbs = gbs_of(bytes, stats);
    char color[16];
    snprintf(color, sizeof color, "%d", of->color);
    const blocks_engine *e = &options.engine;
    const blocks_trial *t = &b->trial;
    const char *name = blocks_kind_name(r->kind);
    bench_record record, *f = &record;
    bench_record_begin(f);
    if (is_part)
        bench_record_put_run_of(f, b->report->run, of->nranks, of->nnodes, color);
    else
        bench_record_put_run(f, b->report->run);
    PUT(f, COLLECTIVE, "blocks");
    PUT(f, TRANSPORT,
        r->kind <= BLOCKS_GET ? weir_transport_name(weir_comm_transport(b->job->comm)) : "");
    PUT(f, CONTENDER, r->kind <= BLOCKS_GET ? "weir" : name);
    PUT(f, ALGO, r->kind == BLOCKS_PUT ? "put" : r->kind == BLOCKS_GET ? "get" : name);
    PUT(f, DTYPE, "uint8");
    PUT(f, REDOP, "none");
    PUT(f, ROOT, "-1");
    PUT(f, PLACEMENT, "out");
    PRINT(f, BYTES, "%.0f", bytes);
    PRINT(f, COUNT, "%.0f", bytes);
    PRINT(f, ITERS, "%d", b->iterations);
    bench_record_put_times(f, wrong ? NULL : stats, gbs, gbs);
    bench_record_put_verdict(f, r->kind != BLOCKS_SOCKET, (unsigned long long)wrong, "exact");
    PRINT(f, DIST, "%s/p%d-b%zu-l%d/%s/%s/prefill%d", e->name, t->pages, t->block_bytes, e->layers,
          options.is_sorted ? "sorted" : "random", options.is_both ? "both" : "one",
          options.prefill);
    PUT(f, COUNTS, "");
    bench_record_put_ceiling(f, NAN);
    PRINT(f, TOKENS, "%d", t->pages * e->page_tokens);
    bench_record_leave(f, BENCH_COLUMN_HIDDEN, BENCH_COLUMN_TOPK);
    PUT(f, LAYOUT, e->name);
    bench_record_leave(f, BENCH_COLUMN_DISPATCH_DTYPE, BENCH_COLUMN_EXPERT_BYTES);
    bench_record_put_lateness(f, is_part ? NULL : &r->late);
    bench_record_put_conditions(f, b->report->run, "barrier-operation",
                                r->kind <= BLOCKS_GET ? NULL : "", 0, 0, NULL);
    bench_record_end(f);
    bench_csv_record(&b->report->csv, f);
    bench_csv_flush(&b->report->csv);
}

static void write_row(const blocks_run *b, const blocks_result *r)
{
    const double block = (double)b->trial.block_bytes;
    printf("  %11.0f %8d %8.0f %9.0f %10s", b->bytes, b->trial.pages, b->bytes / block, block,
           blocks_kind_name(r->kind));
    if (r->wrong)
        printf(" %10s %8s %7llu\n", "N/A", "N/A", (unsigned long long)r->wrong);
    else
        printf(" %10.2f %8.2f %7s %10.2f %10.2f %10.2f\n", r->stats.median,
               gbs_of(b->bytes, &r->stats), r->kind == BLOCKS_SOCKET ? "N/A" : "0", r->stats.p99,
               r->stats.ci_low, r->stats.ci_high);
    csv_row(b, r, ALL);
    for (int group = 0; r->parts && group < b->job->ngroups; group++)
        csv_row(b, r, group);
}

static void write_groups(const blocks_run *b, const blocks_result *r)
{
    char what[32];
    snprintf(what, sizeof what, "%d page%s", b->trial.pages, weiri_s(b->trial.pages));
    bench_parts_write(stdout, b->job, what, blocks_kind_name(r->kind), r->parts);
}

/* Compares weir's put and get with each peer. */
static void write_ratios(const blocks_run *b)
{
    char text[160];
    for (int i = BLOCKS_MEMCPY; i < b->count; i++)
        for (int weir = BLOCKS_PUT; weir <= BLOCKS_GET; weir++) {
            const blocks_result *one = &b->results[i], *other = &b->results[weir];
            const bench_ratio ratio = bench_stats_ratio(&one->stats, &other->stats);
            if (one->wrong || other->wrong)
                continue;
            bench_ratio_describe(&ratio, blocks_kind_name(one->kind), blocks_kind_name(other->kind),
                                 text, sizeof text);
            printf("#   %s and %s: %s\n", blocks_kind_name(other->kind),
                   blocks_kind_name(one->kind), text);
        }
}

static weir_status run_next(void *state, void **point)
{
    blocks_run *b = state;
    *point = NULL;
    weir_status status = b->job->rank == 0 ? bench_report_check(b->report) : WEIR_OK;
    status = bench_job_agree(b->job, status, "output");
    if (status != WEIR_OK)
        return status;
    if (b->points < options.npages) {
        *point = b;
        return blocks_trial_open(&b->trial, b->job, &options, options.pages[b->points++]);
    }
    if (options.fault && bench_exchange_fold(b->job, BENCH_FOLD_SUM, b->planted) == 0)
        status = bench_job_note(b->job, WEIR_ERR_INVALID,
                                "--inject %s changed nothing: give more --pages or -n",
                                blocks_fault_name(options.fault));
    return bench_job_agree(b->job, status, "injection");
}

static void run_row(void *state)
{
    blocks_run *b = state;
    for (int i = 0; i < b->count; i++) {
        if (b->job->rank == 0)
            write_row(b, &b->results[i]);
        b->report->failed += (long)b->results[i].wrong;
        b->report->table.failed += (long)b->results[i].wrong;
    }
    for (int i = 0; i < b->count && b->job->rank == 0; i++)
        if (b->results[i].late.stands_out && !b->results[i].wrong) {
            printf("#   %d page%s, %s: ", b->trial.pages, weiri_s(b->trial.pages),
                   blocks_kind_name(b->results[i].kind));
            bench_remarks_last_rank(stdout, b->report->run, b->report->infos, &b->results[i].late);
        }
    for (int i = 0; i < b->count && b->job->rank == 0; i++)
        if (b->results[i].parts)
            write_groups(b, &b->results[i]);
    if (b->job->rank == 0)
        write_ratios(b);
    fflush(stdout);
    clear_point(b);
    b->planted += b->trial.planted;
    blocks_trial_close(&b->trial);
}

static void run_end(void *state)
{
    const long failed = ((blocks_run *)state)->report->failed;
    printf("# Out of bounds values : %ld %s\n#\n# Collective test concluded: bench_blocks\n",
           failed, failed ? "FAILED" : "OK");
}

static void run_close(bench_run *run, void *state)
{
    blocks_run *b = state;
    (void)run;
    if (!b)
        return;
    clear_point(b);
    blocks_trial_close(&b->trial);
    free(b);
}

const bench_workload bench_blocks = {
    .table = &blocks_options_table,
    .options = &options.common,
    .parse = run_parse,
    .inform = run_inform,
    .check = run_check,
    .open = run_open,
    .begin = run_begin,
    .next = run_next,
    .point = run_point,
    .row = run_row,
    .end = run_end,
    .close = run_close,
};
