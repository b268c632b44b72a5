/* The table and the CSV file of bench_moe: see moe_output.h. */
#include "bench/moe/moe_output.h"

#include "base/words.h"
#include "bench/output/floor.h"
#include "bench/output/table.h"

#include <math.h>
#include <stdlib.h>

static const char *const phase_names[MOE_PHASES] = {"dispatch", "combine", "pair", "chain"};

/* ---------------------------------------------------------------------- csv */

#define PUT(record, column, text) bench_record_put(record, BENCH_COLUMN_##column, text)
#define PRINT(record, column, ...) bench_record_print(record, BENCH_COLUMN_##column, __VA_ARGS__)

/* The bytes that a phase moves, as in the table. */
static double phase_bytes(const bench_moe_trial *t, moe_phase phase, double dispatch_bytes)
{
    const double element = (double)weir_dtype_bytes(t->config.dispatch_dtype);
    const double combine = dispatch_bytes * (double)weir_dtype_bytes(t->config.dtype) / element;
    if (phase == MOE_PHASE_DISPATCH)
        return dispatch_bytes;
    return phase == MOE_PHASE_COMBINE ? combine : dispatch_bytes + combine;
}

static double gbs(double bytes, double us)
{
    return us > 0 ? bytes / us / 1e3 : 0;
}

/* The bytes that cross between ranks: rows of combine cannot be sent once for several choices in
 * layout expert, where each choice has its own output. */
static double phase_link_bytes(const bench_moe_trial *t, moe_phase phase, const moe_volume *volume)
{
    const int by_expert = t->config.layout == WEIR_MOE_EXPERT_MAJOR;
    const double back = by_expert ? volume->expert_bytes : volume->link_bytes;
    if (phase == MOE_PHASE_DISPATCH)
        return volume->link_bytes;
    const double combine = phase_bytes(t, MOE_PHASE_COMBINE, back);
    return phase == MOE_PHASE_COMBINE ? combine : volume->link_bytes + combine;
}

static double ceiling_pct(const moe_output *out, double link_bytes, const moe_result *r)
{
    const double us = r->stats.median;
    return r->wrong ? NAN : bench_ceiling_pct(&out->report->ceiling, gbs(link_bytes, us), us);
}

/* What a row of the CSV has of all ranks, or of one of several groups. A row of all ranks has the
 * first group's ranks, experts and volume. */
typedef struct moe_view {
    const bench_group *group;
    int is_part, experts; /* is_part: a row of one group */
    const moe_volume *volume;
    const bench_stats *stats;
    uint64_t wrong;
} moe_view;

enum { ALL = -1 };
static moe_view view_of(const moe_output *out, const moe_point *point, const moe_result *r,
                        int group)
{
    const bench_job *job = out->report->run->job;
    const int is_part = group != ALL;
    moe_view view = {.group = &job->groups[is_part ? group : job->group], .is_part = is_part};
    view.experts = bench_moe_experts(out->options, view.group->nranks);
    view.volume = is_part ? &point->volumes[group] : &point->volume;
    view.stats = is_part ? &r->parts[group].stats : &r->stats;
    view.wrong = is_part ? r->parts[group].wrong : r->wrong;
    return view;
}

static void csv_put_run(bench_record *f, const moe_output *out, const moe_view *view)
{
    char color[16];
    snprintf(color, sizeof color, "%d", view->group->color);
    if (view->is_part)
        bench_record_put_run_of(f, out->report->run, view->group->nranks, view->group->nnodes,
                                color);
    else
        bench_record_put_run(f, out->report->run);
}

static void csv_put_candidate(bench_record *f, const moe_output *out, const moe_view *view,
                              const moe_result *r)
{
    const bench_job *job = out->report->run->job;
    const int is_weir = r->candidate == &bench_moe_weir;
    PRINT(f, COLLECTIVE, "moe_%s", phase_names[r->phase]);
    PUT(f, TRANSPORT, is_weir ? weir_transport_name(weir_comm_transport(job->comm)) : "");
    PUT(f, CONTENDER, r->candidate->name);
    PUT(f, ALGO, !is_weir ? r->candidate->algo : view->group->nnodes > 1 ? "node-first" : "read");
}

static void csv_put_shape(bench_record *f, const moe_output *out, const bench_moe_trial *t,
                          const moe_view *view, const moe_result *r)
{
    const weir_moe_config *c = &t->config;
    const moe_volume *volume = view->volume;
    PUT(f, DTYPE, weir_dtype_name(c->dtype));
    PUT(f, REDOP, r->phase == MOE_PHASE_DISPATCH ? "none" : "sum");
    PUT(f, ROOT, "-1");
    PUT(f, PLACEMENT, "out");
    PRINT(f, BYTES, "%.0f", phase_bytes(t, r->phase, volume->rows_bytes));
    PRINT(f, COUNT, "%d", t->tokens);
    PRINT(f, ITERS, "%d", r->iterations);
    PRINT(f, DIST, "%.40s/%s/h%d-e%d-k%d-a%d/%s/%s%s", out->options->routing_text,
          weir_moe_layout_name(c->layout), c->hidden, view->experts, c->topk,
          out->options->alignment, weir_dtype_name(c->dispatch_dtype),
          out->options->common.buffers == BENCH_BUFFERS_PLAIN ? "plain" : "weir",
          out->options->common.graph ? "/graph" : "");
    PRINT(f, TOKENS, "%d", t->tokens);
    PRINT(f, HIDDEN, "%d", c->hidden);
    PRINT(f, EXPERTS, "%d", view->experts);
    PRINT(f, TOPK, "%d", c->topk);
    PUT(f, LAYOUT, weir_moe_layout_name(c->layout));
    PUT(f, DISPATCH_DTYPE, weir_dtype_name(c->dispatch_dtype));
    PRINT(f, LINK_BYTES, "%.0f", phase_link_bytes(t, r->phase, volume));
    PRINT(f, EXPERT_BYTES, "%.0f", phase_bytes(t, r->phase, volume->expert_bytes));
}

static void csv_put_result(bench_record *f, const moe_output *out, const bench_moe_trial *t,
                           const moe_view *view, const moe_result *r)
{
    const double link_bytes = phase_link_bytes(t, r->phase, view->volume);
    const double rows_bytes = phase_bytes(t, r->phase, view->volume->rows_bytes);
    const double us = view->stats->median;
    bench_record_put_verdict(f, 1, (unsigned long long)view->wrong, "exact");
    PUT(f, COUNTS, "");
    bench_record_put_ceiling(f, view->is_part ? NAN : ceiling_pct(out, link_bytes, r));
    bench_record_put_lateness(f, view->is_part ? NULL : &r->late);
    bench_record_put_conditions(
        f, out->report->run, r->phase == MOE_PHASE_CHAIN ? "back-to-back" : "barrier-operation",
        r->candidate != &bench_moe_weir ? "" : NULL,
        r->candidate == &bench_moe_nccl_ep && out->report->run->job->starves_peers, 0, NULL);
    bench_record_put_times(f, view->wrong ? NULL : view->stats, gbs(rows_bytes, us),
                           gbs(link_bytes, us));
}

static void csv_row(moe_output *out, const moe_point *point, const moe_result *r, int group)
{
    const bench_moe_trial *t = &point->trial;
    const moe_view view = view_of(out, point, r, group);
    bench_record record;
    bench_record_begin(&record);
    csv_put_run(&record, out, &view);
    csv_put_candidate(&record, out, &view, r);
    csv_put_shape(&record, out, t, &view, r);
    csv_put_result(&record, out, t, &view, r);
    bench_record_end(&record);
    bench_csv_record(&out->report->csv, &record);
    bench_csv_flush(&out->report->csv);
}

/* -------------------------------------------------------------------- table */

static void write_header(const moe_output *out, size_t memory_bytes)
{
    const bench_moe_options *o = out->options;
    const bench_job *job = out->report->run->job;
    printf("# weir version %s nccl-headers=0 nccl-library=0\n", WEIR_VERSION);
    printf("# Collective test starting: bench_moe\n");
    printf("# Ranks: %d on %s; %s; library memory of the largest group %.1f MiB per rank\n",
           job->nranks, job->host, job->place, (double)memory_bytes / (1 << 20));
    bench_parts_begin(stdout, job, &o->common);
    printf("# Model: hidden %d, experts %d%s, top-%d%s%s; routing %s; layout %s, alignment %d\n",
           o->hidden, bench_moe_experts(o, job->group_nranks),
           bench_job_is_even(job) || o->experts ? "" : " in the first group", o->topk,
           o->model ? ", " : "", o->model ? o->model : "", o->routing_text,
           weir_moe_layout_name((weir_moe_layout)o->layout), o->alignment);
    printf("# Types: rows %s, dispatched as %s; buffers: %s memory\n",
           weir_dtype_name((weir_dtype)o->common.dtype), o->fp8 ? "f8e4m3 with scales" : "they are",
           o->common.buffers == BENCH_BUFFERS_PLAIN ? "unregistered" : "registered");
    printf("# size: rows that the busiest rank receives, one for each choice; busbw counts rows "
           "from other "
           "ranks only, in dispatch each token once\n");
    printf("# Timing: slowest rank; a barrier before each call, in a chain of %d pairs before the "
           "first; %severy iteration is checked\n#\n",
           o->chain,
           o->common.graph ? "calls are replays of graphs; "
           : job->gpu      ? "without the time of launches; "
                           : "");
    printf("# %10s %8s %9s %9s %5s %10s %9s %7s %7s %7s %9s %9s %9s %9s\n", "size", "tokens",
           "type", "phase", "root", "candidate", "time", "algbw", "busbw", "#wrong", "p99",
           "ci low", "ci high", "ceiling");
    printf("# %10s %8s %9s %9s %5s %10s %9s %7s %7s %7s %9s %9s %9s %9s\n", "(B)", "", "", "", "",
           "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)");
}

static void write_row(moe_output *out, const moe_point *point, const moe_result *r)
{
    const bench_moe_trial *t = &point->trial;
    const moe_volume *volume = &point->volume;
    bench_table *totals = &out->report->table;
    const double bytes = phase_bytes(t, r->phase, volume->rows_bytes);
    const double link_bytes = phase_link_bytes(t, r->phase, volume);
    const double pct = ceiling_pct(out, link_bytes, r);
    char ceiling[16] = "-";
    if (!isnan(pct))
        snprintf(ceiling, sizeof ceiling, "%.1f", pct);
    printf("  %10.0f %8d %9s %9s %5d %10s", bytes, t->tokens, weir_dtype_name(t->config.dtype),
           phase_names[r->phase], -1, r->candidate->name);
    if (r->wrong)
        printf(" %9s %7s %7s %7llu\n", "N/A", "N/A", "N/A", (unsigned long long)r->wrong);
    else
        printf(" %9.2f %7.2f %7.2f %7d %9.2f %9.2f %9.2f %9s\n", r->stats.median,
               gbs(bytes, r->stats.median), gbs(link_bytes, r->stats.median), 0, r->stats.p99,
               r->stats.ci_low, r->stats.ci_high, ceiling);
    fflush(stdout);
    csv_row(out, point, r, ALL);
    for (int group = 0; r->parts && group < out->report->run->job->ngroups; group++)
        csv_row(out, point, r, group);
    totals->failed += (long)r->wrong;
    if (r->candidate != &bench_moe_weir) {
        out->peer = r->candidate->title;
    } else if (!r->wrong) {
        totals->busbw_sum += gbs(link_bytes, r->stats.median);
        totals->busbw_count++;
    }
}

static void write_copy(const bench_moe_trial *t, moe_phase phase, const moe_copy *copy)
{
    printf(
        "# %d tokens, %s: %.0f bytes are read and written; a copy that moves as many takes %.2f us "
        "(%.0f GB/s), %.0f%% of the time\n",
        t->tokens, phase_names[phase], copy->bytes, copy->copy_us, gbs(copy->bytes, copy->copy_us),
        copy->us > 0 ? 100 * copy->copy_us / copy->us : 0);
}

static void write_groups(const moe_output *out, const moe_point *point, const moe_result *r)
{
    char what[40];
    const int tokens = point->trial.tokens;
    snprintf(what, sizeof what, "%d token%s, %s", tokens, weiri_s(tokens), phase_names[r->phase]);
    bench_parts_write(stdout, out->report->run->job, what, r->candidate->name, r->parts);
}

static void write_last_rank(const moe_output *out, const moe_point *point, const moe_result *r)
{
    const int tokens = point->trial.tokens;
    printf("#   %d token%s, %s, %s: ", tokens, weiri_s(tokens), phase_names[r->phase],
           r->candidate->name);
    bench_remarks_last_rank(stdout, out->report->run, out->report->infos, &r->late);
}

/* Notes how much longer the peer took than weir in one phase. */
static void add_ratio(moe_output *out, const moe_result *weir, const moe_result *peer)
{
    const int phase = weir->phase;
    if (weir->wrong || peer->wrong || weir->stats.median <= 0 || peer->stats.median <= 0)
        return;
    const double ratio = peer->stats.median / weir->stats.median;
    out->ratio_logs[phase] += log(ratio);
    if (!out->ratios[phase]++ || ratio < out->least_ratio[phase])
        out->least_ratio[phase] = ratio;
}

void bench_moe_point_clear(moe_point *point)
{
    free(point->volumes);
    free(point->parts);
    point->volumes = NULL;
    point->parts = NULL;
}

void bench_moe_output_begin(moe_output *out, bench_report *report, const bench_moe_options *o,
                            size_t memory_bytes)
{
    *out = (moe_output){.report = report, .options = o};
    write_header(out, memory_bytes);
}

void bench_moe_output_point(moe_output *out, const moe_point *point)
{
    for (int i = 0; i < point->count; i++) {
        const moe_result *r = &point->results[i];
        write_row(out, point, r);
        if (r->candidate != &bench_moe_weir)
            add_ratio(out, r - 1, r);
    }
    for (int i = 0; i < point->count; i++)
        if (point->results[i].late.stands_out && !point->results[i].wrong)
            write_last_rank(out, point, &point->results[i]);
    for (int i = 0; i < point->count; i++)
        if (point->results[i].parts)
            write_groups(out, point, &point->results[i]);
    for (int i = 0; i < MOE_COPIES; i++)
        if (point->copies[i].bytes > 0)
            write_copy(&point->trial, i ? MOE_PHASE_COMBINE : MOE_PHASE_DISPATCH,
                       &point->copies[i]);
}

void bench_moe_output_end(moe_output *out)
{
    const bench_options *options = &out->options->common;
    const bench_table *totals = &out->report->table;
    const double average_gbs = bench_table_average(totals);
    const char *word = bench_floor_word(options, average_gbs);
    for (int phase = 0; phase < MOE_PHASES; phase++)
        if (out->ratios[phase])
            printf("# %s takes %.2f times as long as weir in %s (geometric mean of %d; at least "
                   "%.2f)\n",
                   out->peer, exp(out->ratio_logs[phase] / out->ratios[phase]), phase_names[phase],
                   out->ratios[phase], out->least_ratio[phase]);
    printf("# Out of bounds values : %ld %s\n", totals->failed, totals->failed ? "FAILED" : "OK");
    printf("# Avg bus bandwidth    : %g%s%s\n#\n# Collective test concluded: bench_moe\n",
           average_gbs, *word ? " " : "", word);
    bench_ceiling_end(&out->report->ceiling, stdout);
    bench_floor_print(stdout, options, average_gbs, (unsigned long long)totals->failed);
}
