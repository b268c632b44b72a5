/* The table and the CSV file of bench_replay: see replay_output.h. */
#include "bench/replay/replay_output.h"

#include "base/words.h"
#include "bench/sizes/shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPENSIVE = 10 };

#define PUT(record, column, text) bench_record_put(record, BENCH_COLUMN_##column, text)
#define PRINT(record, column, ...) bench_record_print(record, BENCH_COLUMN_##column, __VA_ARGS__)

/* A row: a class of calls, or the whole recording. */
typedef struct row {
    const replay_subject *subject;
    const char *name;
    const char *dtype, *op;
    int in_place, nranks;
    double calls, bytes, elements; /* of one call */
    double factor;                 /* of the bus bandwidth */
    uint64_t wrong;
    bench_stats stats;
} row;

static double gbs(double bytes, double us)
{
    return us > 0 ? bytes / us / 1e3 : 0;
}

/* --------------------------------------------------------------------- series */

static bench_sequence sequence_of(const replay_measurement *m, const double *us)
{
    return (bench_sequence){us, (size_t)m->repetitions, m->round_ends, m->rounds};
}

static bench_stats stats_of(const replay_measurement *m, const double *us)
{
    const bench_sequence series = sequence_of(m, us);
    double *scratch = malloc((size_t)m->repetitions * sizeof *scratch);
    bench_stats stats = {.median = NAN};
    if (scratch)
        stats = bench_stats_series(&series, 0.001, scratch);
    free(scratch);
    return stats;
}

/* The name of the recording in column dist: the last part of its first path. */
static const char *job_name(const replay_plan *plan)
{
    const char *path = plan->trace->files[0], *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ------------------------------------------------------------------------ csv */

static void csv_put_call(bench_record *f, const row *r, const bench_job *job)
{
    const int is_weir = !r->subject->candidate.peer;
    PRINT(f, COLLECTIVE, "replay_%s", r->name);
    PUT(f, TRANSPORT, is_weir ? weir_transport_name(weir_comm_transport(job->comm)) : "");
    PUT(f, CONTENDER, r->subject->candidate.name);
    PUT(f, ALGO, "");
    PUT(f, DTYPE, r->dtype);
    PUT(f, REDOP, r->op);
    PUT(f, ROOT, "-1");
    PUT(f, PLACEMENT, r->in_place ? "in" : "out");
    PRINT(f, BYTES, "%.0f", r->bytes);
    PRINT(f, COUNT, "%.0f", r->elements);
}

static void csv_row(bench_report *report, const replay_measurement *m, const row *r)
{
    bench_record record, *f = &record;
    bench_record_begin(f);
    bench_record_put_run_of(f, report->run, r->nranks, report->run->job->nnodes, "");
    csv_put_call(f, r, m->job);
    PRINT(f, ITERS, "%d", m->repetitions);
    bench_record_put_verdict(f, m->options->common.checks, (unsigned long long)r->wrong,
                             m->options->common.checks ? "exact" : "off");
    PRINT(f, DIST, "%.60s", job_name(m->plan));
    PUT(f, COUNTS, "");
    bench_record_put_ceiling(f, NAN);
    bench_record_put_times(f, r->wrong ? NULL : &r->stats, gbs(r->bytes, r->stats.median),
                           r->factor * gbs(r->bytes, r->stats.median));
    bench_record_leave(f, BENCH_COLUMN_TOKENS, BENCH_COLUMN_SKEW_US);
    bench_record_put_conditions(f, report->run, m->options->gaps ? "gaps" : "back-to-back",
                                r->subject->candidate.peer ? "" : NULL,
                                r->subject->candidate.peer &&
                                    r->subject->candidate.peer->kind == BENCH_PEER_VENDOR &&
                                    report->run->job->starves_peers,
                                0, NULL);
    bench_record_end(f);
    bench_csv_record(&report->csv, f);
    bench_csv_flush(&report->csv);
}

/* ---------------------------------------------------------------------- table */

void replay_output_begin(const replay_plan *plan, const replay_options *options)
{
    const replay_trace *trace = plan->trace;
    printf("# weir version %s\n# Collective test starting: bench_replay\n", WEIR_VERSION);
    printf("# Recording: %s%s: %s; %d rank%s, %d communicator%s, %zu calls\n", trace->files[0],
           trace->nfiles > 1 ? " and others" : "", trace->format, trace->nranks,
           weiri_s((unsigned)trace->nranks), trace->ncomms, weiri_s((unsigned)trace->ncomms),
           replay_calls(trace));
    printf("# Ranks: %d on %s; %s; %s memory%s\n", plan->job->nranks, plan->job->host,
           plan->job->place,
           options->common.buffers == BENCH_BUFFERS_PLAIN ? "unregistered" : "registered",
           options->buffers == REPLAY_BUFFERS_RECORDED ? ", or as recorded" : "");
    if (plan->nlanes > 1)
        printf("# Calls were in flight together: communicators run on %d %s\n", plan->nlanes,
               plan->job->gpu ? "streams" : "threads of each rank");
    if (plan->schedule->runs_message_wise)
        printf("# Sends and receives run one by one: as groups they would wait for each other in "
               "a circle\n");
    printf("# Timing: %s; a row has the time of one call of its class on the slowest rank, waits "
           "for other ranks included\n#\n",
           options->gaps ? "computation between calls as recorded"
           : plan->job->gpu
               ? "a step is enqueued at once; for rows of calls, each call is waited for"
               : "calls follow each other at once");
    printf("# %10s %8s %9s %6s %15s %5s %5s %18s %10s %7s %7s %7s %9s %9s\n", "size", "calls",
           "type", "redop", "call", "ranks", "place", "candidate", "time", "algbw", "busbw",
           "#wrong", "ci low", "ci high");
    printf("# %10s %8s %9s %6s %15s %5s %5s %18s %10s %7s %7s %7s %9s %9s\n", "(B)", "", "", "", "",
           "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)");
}

static void table_row(bench_report *report, const replay_measurement *m, const row *r)
{
    printf("  %10.0f %8.0f %9s %6s %15s %5d %5s %18s", r->bytes, r->calls, r->dtype, r->op, r->name,
           r->nranks, r->in_place ? "in" : "out", r->subject->candidate.name);
    if (r->wrong)
        printf(" %10s %7s %7s %7llu\n", "N/A", "N/A", "N/A", (unsigned long long)r->wrong);
    else
        printf(" %10.2f %7.2f %7.2f %7s %9.2f %9.2f\n", r->stats.median,
               gbs(r->bytes, r->stats.median), r->factor * gbs(r->bytes, r->stats.median),
               m->options->common.checks ? "0" : "N/A", r->stats.ci_low, r->stats.ci_high);
    csv_row(report, m, r);
    report->table.failed += (long)r->wrong;
}

static void class_row(bench_report *report, const replay_measurement *m, int index,
                      const replay_subject *s)
{
    const replay_class *c = &m->plan->classes[index];
    const int is_barrier = c->kind == REPLAY_BARRIER, is_exchange = c->kind == REPLAY_EXCHANGE;
    row r = {.subject = s,
             .name = replay_step_name(c->kind),
             .dtype = is_barrier ? "none" : weir_dtype_name((weir_dtype)c->dtype),
             .op = !is_barrier && !is_exchange && replay_kind_has_op((replay_kind)c->kind)
                       ? weir_op_name((weir_op)c->op)
                       : "none",
             .in_place = c->in_place,
             .nranks = c->nranks,
             .calls = c->calls,
             .bytes = c->bytes / c->calls,
             .elements = c->elements / c->calls,
             .factor =
                 is_exchange ? 1 : bench_bus_factor(replay_step_collective(c->kind), c->nranks),
             .wrong = s->wrong[index]};
    r.stats = stats_of(m, s->class_us + (size_t)index * (size_t)m->repetitions);
    table_row(report, m, &r);
}

/* The whole recording: `us` of each repetition. */
static void whole_row(bench_report *report, const replay_measurement *m, const char *name,
                      const replay_subject *s, const double *us)
{
    row r = {.subject = s,
             .name = name,
             .dtype = "none",
             .op = "none",
             .nranks = m->job->nranks,
             .calls = (double)m->plan->schedule->instances,
             .factor = 1};
    for (int i = 0; i < m->plan->nclasses; i++)
        r.bytes += m->plan->classes[i].bytes;
    r.stats = stats_of(m, us);
    table_row(report, m, &r);
}

/* ---------------------------------------------------------------------- lines */

/* Compares times with the recorded ones. */
static void write_recorded(const replay_measurement *m, const replay_subject *s, double calls_us)
{
    const replay_recorded *r = &m->recorded;
    const bench_stats later = stats_of(m, s->later_us);
    if (isnan(r->calls_us) || r->calls_us <= 0)
        return;
    printf("# %s: the recorded communication took %.1f us; here it takes %.2f of that%s\n",
           s->candidate.name, r->calls_us, calls_us / r->calls_us,
           m->options->gaps ? "" : ", without the computation between calls (see --gaps)");
    if (m->job->gpu || r->later_us <= 0)
        return;
    printf("# %s: without the first call of each kind on a communicator, %.1f us were recorded and "
           "%.1f us are here: %.2f [%.2f, %.2f]\n",
           s->candidate.name, r->later_us, later.median, later.median / r->later_us,
           later.ci_low / r->later_us, later.ci_high / r->later_us);
    if (r->waits.wait_us > 0 && r->waits.transfer_us > 0 && !isnan(s->waits.wait_us))
        printf("# %s: recorded waits %.1f us, transfers %.1f us; waits are %.2f of that here, "
               "transfers %.2f\n",
               s->candidate.name, r->waits.wait_us, r->waits.transfer_us,
               s->waits.wait_us / r->waits.wait_us, s->waits.transfer_us / r->waits.transfer_us);
}

static void write_whole(const replay_measurement *m, const replay_subject *s)
{
    const bench_stats step = stats_of(m, s->step_us), calls = stats_of(m, s->calls_us);
    printf("# %s: a step takes %.1f us [%.1f, %.1f], its communication %.1f us [%.1f, %.1f]",
           s->candidate.name, step.median, step.ci_low, step.ci_high, calls.median, calls.ci_low,
           calls.ci_high);
    if (m->options->gaps)
        printf(", of which %.1f us are exposed: computation alone takes %.1f us",
               step.median - m->compute_us, m->compute_us);
    printf("\n");
    if (!isnan(s->waits.wait_us) && s->waits.wait_us + s->waits.transfer_us > 0)
        printf("# %s: ranks wait for each other %.1f us (%.0f%%), transfers take %.1f us (the last "
               "repetition, means of ranks)\n",
               s->candidate.name, s->waits.wait_us,
               100 * s->waits.wait_us / (s->waits.wait_us + s->waits.transfer_us),
               s->waits.transfer_us);
    write_recorded(m, s, calls.median);
}

static void write_ratio(const replay_measurement *m, const replay_subject *weir,
                        const replay_subject *peer)
{
    const bench_sequence above = sequence_of(m, weir->calls_us),
                         below = sequence_of(m, peer->calls_us);
    const bench_stats ours = stats_of(m, weir->calls_us), theirs = stats_of(m, peer->calls_us);
    const bench_ratio whole = bench_stats_ratio(&ours, &theirs);
    bench_interval interval = {whole.low, whole.high};
    const char *title = peer->candidate.peer->path ? peer->candidate.name : peer->candidate.title;
    bench_bootstrap_ratio(&above, &below, &interval);
    printf("# this job's communication takes %.2f [%.2f, %.2f] of %s's time over weir\n",
           whole.ratio, interval.low, interval.high, title);
}

/* An instance, with one of its calls. */
typedef struct expensive {
    double us;
    uint32_t instance;
} expensive;

static int compare_expensive(const void *a, const void *b)
{
    const expensive *x = a, *y = b;
    return x->us > y->us ? -1 : x->us < y->us;
}

/* Finds a rank's step of an instance. */
static const replay_step *find_step(const replay_schedule *s, uint32_t instance, int *rank)
{
    for (int actor = 0; actor < s->nranks * s->nlanes; actor++)
        for (size_t i = 0; i < s->lanes[actor].count; i++)
            if (s->lanes[actor].list[i].instance == instance) {
                *rank = actor / s->nlanes;
                return &s->lanes[actor].list[i];
            }
    return NULL;
}

static void write_expensive(const replay_measurement *m)
{
    const replay_plan *plan = m->plan;
    const size_t n = plan->schedule->instances;
    const double *us = m->subjects[0].instance_us;
    expensive *list = replay_take(&m->plan->pool, n, sizeof *list);
    if (!list)
        return;
    for (size_t i = 0; i < n; i++)
        list[i] = (expensive){us[i], (uint32_t)i};
    qsort(list, n, sizeof *list, compare_expensive);
    printf("# The calls that cost most over weir (us, slowest rank, mean of repetitions):\n");
    for (size_t i = 0; i < n && i < MOST_EXPENSIVE; i++) {
        int rank = 0;
        const replay_step *step = find_step(plan->schedule, list[i].instance, &rank);
        const replay_call *call = step ? &plan->trace->ranks[rank].calls[step->call] : NULL;
        if (!call)
            continue;
        printf("#   %9.2f  %s", list[i].us, replay_step_name(step->kind));
        if (step->kind != REPLAY_BARRIER)
            printf(" %s %llu", weir_dtype_name((weir_dtype)call->dtype),
                   (unsigned long long)call->count);
        printf(" on %s (%s:%u)", plan->sets[step->set]->name, plan->trace->files[call->file],
               call->line);
        if (!isnan(call->duration_s))
            printf(", recorded %.2f", (double)call->duration_s * 1e6);
        printf("\n");
    }
}

void replay_output_rows(bench_report *report, const replay_measurement *m)
{
    for (int index = 0; index < m->plan->nclasses; index++)
        for (int i = 0; i < m->count; i++)
            class_row(report, m, index, &m->subjects[i]);
    for (int i = 0; i < m->count; i++) {
        whole_row(report, m, "step", &m->subjects[i], m->subjects[i].step_us);
        whole_row(report, m, "communication", &m->subjects[i], m->subjects[i].calls_us);
    }
    printf("#\n");
    for (int i = 0; i < m->count; i++)
        write_whole(m, &m->subjects[i]);
    write_expensive(m);
    for (int i = 1; i < m->count; i++)
        write_ratio(m, &m->subjects[0], &m->subjects[i]);
    fflush(stdout);
}

void replay_output_end(const bench_report *report)
{
    printf("# Out of bounds values : %ld %s\n#\n# Collective test concluded: bench_replay\n",
           report->failed, report->failed ? "FAILED" : "OK");
}
