/*
 * The timed iterations of bench_moe. An iteration of a candidate: barrier, dispatch, check, the
 * experts' outputs, barrier, combine, check; then, if wanted, a chain of pairs, whose last pair is
 * checked. Candidates take turns in alternating order. Three routings and data sets take turns as
 * well, so that a row of the previous call is not right by chance.
 */
#include "bench/moe/moe_measure.h"

#include "bench/job/exchange.h"
#include "bench/measure/point.h"
#include "bench/moe/moe_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ITERATIONS = 10,
    MOST_ITERATIONS = 400,
    WHOLE_BYTES = 32 << 20 /* rows are compared as a whole up to so many bytes in each iteration */
};
static const double budget_s = 0.6;

/* A candidate with its times. */
typedef struct moe_subject {
    moe_candidate candidate;
    moe_calls calls;
    double *us[MOE_PHASES], *ends_us[MOE_PHASES]; /* this rank's */
    uint64_t wrong[MOE_PHASES];
    char message[WEIRV_MOE_MESSAGE + 16]; /* of the first error on this rank */
} moe_subject;

typedef struct moe_measurement {
    bench_moe_trial *trial;
    moe_subject subjects[MOE_CANDIDATES_MAX];
    int count, iterations;
    double *scratch;                   /* of several groups: a time of each iteration and group */
    int dispatch_every, combine_every; /* rows compared as a whole: one of so many */
    moe_target target;                 /* of the fault */
} moe_measurement;

/* ------------------------------------------------------------------- checks */

static void keep_error(moe_subject *s, moe_phase phase, uint64_t wrong, const char *message)
{
    if (wrong && !*s->message)
        snprintf(s->message, sizeof s->message, "%s: %s", s->candidate.ops->name, message);
    s->wrong[phase] += wrong;
}

static void check_received(moe_measurement *m, moe_subject *s, moe_phase phase, int version,
                           int iteration)
{
    moe_candidate *c = &s->candidate;
    const bench_moe_trial *t = m->trial;
    char message[WEIRV_MOE_MESSAGE];
    const int by_expert = t->config.layout == WEIR_MOE_EXPERT_MAJOR, rank = t->rank;
    const int end = weirv_moe_end_row(t->oracle, version, rank);
    const weirv_moe_received_rows got = {
        c->rows,
        c->info.scales_per_row ? c->scales : NULL,
        by_expert ? NULL : c->row_weights,
        by_expert ? NULL : c->row_experts,
        c->counts,
        by_expert ? c->offsets : NULL,
        NULL,
        c->rows + (size_t)end * c->info.recv_row_bytes,
        c->info.scales_per_row ? c->scales + end * c->info.scales_per_row : NULL};
    const weirv_moe_sample sample = {m->dispatch_every, iteration % m->dispatch_every};
    const uint64_t wrong =
        weirv_moe_check_dispatch(t->oracle, version, version, rank, &got, sample, message);
    keep_error(s, phase, wrong, message);
}

static void check_combined(moe_measurement *m, moe_subject *s, moe_phase phase, int version,
                           int iteration, weirv_moe_added added)
{
    const bench_moe_trial *t = m->trial;
    char message[WEIRV_MOE_MESSAGE];
    const weirv_moe_sample sample = {m->combine_every, iteration % m->combine_every};
    const uint64_t wrong = weirv_moe_check_combine(t->oracle, version, t->rank, s->candidate.out,
                                                   added, t->config.layout == WEIR_MOE_EXPERT_MAJOR,
                                                   s->candidate.tolerance, sample, message);
    keep_error(s, phase, wrong, message);
}

/* Fills the row after the last one that may be written. */
static void set_guard(const moe_candidate *c, int version)
{
    const int end = weirv_moe_end_row(c->trial->oracle, version, c->trial->rank);
    memset(c->rows + (size_t)end * c->info.recv_row_bytes, WEIRV_MOE_GUARD, c->info.recv_row_bytes);
}

/* --------------------------------------------------------------- iterations */

static int injects(const moe_measurement *m, const moe_subject *s, int iteration)
{
    return m->target.rank >= 0 && iteration == m->target.iteration && s == &m->subjects[0] &&
           m->trial->job->rank == m->target.rank;
}

/* Copies parts of the buffers to the GPU, or back, if the candidate works on one. */
static weir_status store(moe_candidate *c, int version, int parts)
{
    return c->ops->store ? c->ops->store(c, version, parts) : WEIR_OK;
}

static weir_status fetch(moe_candidate *c, int parts)
{
    return c->ops->fetch ? c->ops->fetch(c, parts) : WEIR_OK;
}

/* Injects a fault into what was received, on a GPU into its memory. */
static weir_status inject_received(moe_measurement *m, moe_candidate *c, int version, int iteration)
{
    m->trial->planted += bench_moe_inject_received(c, version, iteration % m->dispatch_every);
    weir_status status = store(c, version, MOE_PART_RECEIVED);
    return status == WEIR_OK ? fetch(c, MOE_PART_RECEIVED) : status;
}

static weir_status run_dispatch(moe_measurement *m, moe_subject *s, int iteration, moe_time *time)
{
    moe_candidate *c = &s->candidate;
    const int version = (iteration + WEIRV_MOE_VERSIONS) % WEIRV_MOE_VERSIONS;
    set_guard(c, version);
    weir_status status = store(c, version, MOE_PART_GUARD);
    if (status == WEIR_OK)
        status = bench_moe_calls_run(&s->calls, MOE_PHASE_DISPATCH, version, time);
    if (status == WEIR_OK)
        status = fetch(c, MOE_PART_RECEIVED);
    if (status == WEIR_OK && injects(m, s, iteration))
        status = inject_received(m, c, version, iteration);
    if (status != WEIR_OK)
        return status;
    check_received(m, s, MOE_PHASE_DISPATCH, version, (iteration + WEIRV_MOE_VERSIONS));
    bench_moe_inject_keep(c, version);
    return WEIR_OK;
}

/* Prepares the experts' outputs; a GPU keeps the outputs of each version. */
static weir_status fill_outputs(moe_measurement *m, moe_candidate *c, int version, int is_faulty)
{
    if (c->holds_outputs[version] && !is_faulty)
        return WEIR_OK;
    weirv_moe_fill_outputs(m->trial->oracle, version, m->trial->rank, c->outputs);
    if (is_faulty)
        m->trial->planted += bench_moe_inject_outputs(c, version);
    c->holds_outputs[version] = m->trial->job->gpu && !is_faulty;
    return store(c, version, MOE_PART_OUTPUTS | MOE_PART_WEIGHTS);
}

static weir_status run_combine(moe_measurement *m, moe_subject *s, int iteration, moe_time *time)
{
    moe_candidate *c = &s->candidate;
    const int version = (iteration + WEIRV_MOE_VERSIONS) % WEIRV_MOE_VERSIONS;
    weir_status status = fill_outputs(m, c, version, injects(m, s, iteration));
    memset(c->out, WEIRV_MOE_GUARD, (size_t)m->trial->tokens * c->info.row_bytes);
    if (status == WEIR_OK)
        status = store(c, version, MOE_PART_OUT);
    if (status == WEIR_OK)
        status = bench_moe_calls_run(&s->calls, MOE_PHASE_COMBINE, version, time);
    if (injects(m, s, iteration)) {
        bench_moe_inject_undo(c, version);
        status = status == WEIR_OK ? store(c, version, MOE_PART_WEIGHTS) : status;
    }
    if (status == WEIR_OK)
        status = fetch(c, MOE_PART_OUT);
    if (status == WEIR_OK)
        check_combined(m, s, MOE_PHASE_COMBINE, version, iteration + WEIRV_MOE_VERSIONS,
                       WEIRV_MOE_OUTPUTS);
    return status;
}

static weir_status run_chain(moe_measurement *m, moe_subject *s, int iteration, moe_time *time)
{
    moe_candidate *c = &s->candidate;
    const bench_moe_trial *t = m->trial;
    const int is_fp8 = t->options->fp8, first = iteration % WEIRV_MOE_VERSIONS;
    const int version = bench_moe_chain_end(t->options, first);
    set_guard(c, version);
    weir_status status = store(c, version, MOE_PART_GUARD);
    if (status == WEIR_OK)
        status = bench_moe_calls_run(&s->calls, MOE_PHASE_CHAIN, first, time);
    time->us /= t->options->chain;
    if (status == WEIR_OK)
        status = fetch(c, MOE_PART_OUT | (is_fp8 ? MOE_PART_RECEIVED : 0));
    if (status != WEIR_OK)
        return status;
    /* The guard of the last version can have been a row of an earlier one. */
    if (is_fp8)
        check_received(m, s, MOE_PHASE_CHAIN, version, iteration);
    check_combined(m, s, MOE_PHASE_CHAIN, version, iteration,
                   is_fp8 ? WEIRV_MOE_OUTPUTS : WEIRV_MOE_TOKENS);
    return WEIR_OK;
}

static weir_status run_iteration(moe_measurement *m, moe_subject *s, int iteration, int is_timed)
{
    moe_time times[MOE_PHASES] = {{0, 0}};
    weir_status status = run_dispatch(m, s, iteration, &times[MOE_PHASE_DISPATCH]);
    if (status == WEIR_OK)
        status = run_combine(m, s, iteration, &times[MOE_PHASE_COMBINE]);
    times[MOE_PHASE_PAIR].us = times[MOE_PHASE_DISPATCH].us + times[MOE_PHASE_COMBINE].us;
    if (status == WEIR_OK && is_timed && m->trial->options->chain)
        status = run_chain(m, s, iteration, &times[MOE_PHASE_CHAIN]);
    for (int phase = 0; is_timed && phase < MOE_PHASES; phase++) {
        s->us[phase][iteration] = times[phase].us;
        s->ends_us[phase][iteration] = times[phase].end_us;
    }
    return status;
}

/* Runs the iterations of all candidates in alternating order. */
static weir_status run_all(moe_measurement *m, int first, int last, int is_timed)
{
    weir_status status = WEIR_OK;
    for (int i = first; status == WEIR_OK && i < last; i++)
        for (int turn = 0; status == WEIR_OK && turn < m->count; turn++) {
            const int at = i % 2 ? m->count - 1 - turn : turn;
            bench_job_phase(m->trial->job, "moe iteration", (uint64_t)(i < 0 ? 0 : i));
            status = run_iteration(m, &m->subjects[at], i, is_timed);
        }
    return status;
}

/* ------------------------------------------------------------------ results */

/* Chooses how many iterations fit the time budget, on rank 0. */
static void choose_iterations(moe_measurement *m, double iteration_s)
{
    const int given = m->trial->options->common.iterations;
    const double fit = budget_s * m->count / (iteration_s + 1e-9);
    int iterations = fit < LEAST_ITERATIONS  ? LEAST_ITERATIONS
                     : fit > MOST_ITERATIONS ? MOST_ITERATIONS
                                             : (int)fit;
    bench_exchange_broadcast(m->trial->job, &iterations, sizeof iterations, 0);
    m->iterations = given ? given : iterations;
}

static weir_status alloc_times(moe_measurement *m)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < m->count; i++)
        for (int phase = 0; phase < MOE_PHASES; phase++) {
            moe_subject *s = &m->subjects[i];
            s->us[phase] = calloc((size_t)m->iterations, sizeof(double));
            s->ends_us[phase] = calloc((size_t)m->iterations, sizeof(double));
            if (!s->us[phase] || !s->ends_us[phase])
                status = bench_job_note(m->trial->job, WEIR_ERR_NO_MEMORY, "no memory for times");
        }
    return bench_job_agree(m->trial->job, status, "times");
}

/* Prints the first error of the lowest rank that has one, with the rank's group, whose experts the
 * error names. Collective. */
static void report_errors(const moe_measurement *m, const moe_subject *s)
{
    const bench_job *job = m->trial->job;
    char *all = bench_exchange_collect(job, s->message, sizeof s->message), group[32] = "";
    for (int rank = 0; all && rank < job->nranks; rank++) {
        const char *message = all + (size_t)rank * sizeof s->message;
        if (!*message)
            continue;
        if (job->ngroups > 1)
            snprintf(group, sizeof group, "group %d: ", job->groups[job->group_of[rank]].color);
        bench_job_say(job, "%d tokens: %s%s", m->trial->tokens, group, message);
        break;
    }
    free(all);
}

/* Makes room for what each of several groups measures. Collective; agreed. */
static weir_status alloc_parts(moe_measurement *m, moe_point *point)
{
    bench_job *job = m->trial->job;
    const size_t n = (size_t)job->ngroups;
    weir_status status = WEIR_OK;
    if (n == 1)
        return WEIR_OK;
    point->parts = calloc((size_t)MOE_PHASES * MOE_CANDIDATES_MAX * n, sizeof *point->parts);
    point->volumes = calloc(n, sizeof *point->volumes);
    m->scratch = calloc(n * (size_t)m->iterations, sizeof *m->scratch);
    if (!point->parts || !point->volumes || !m->scratch)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for groups");
    return bench_job_agree(job, status, "groups");
}

/* Gives rank 0 the volume of each group. Collective. */
static void collect_volumes(const bench_job *job, moe_point *point)
{
    moe_volume *all = bench_exchange_collect(job, &point->volume, sizeof point->volume);
    for (int i = 0; all && i < job->ngroups; i++)
        point->volumes[i] = all[job->groups[i].leader];
    free(all);
}

/* Fills in the results of one phase; statistics are on rank 0 only. A pair is two calls, each of
 * which has a last rank. Collective; agreed. */
static weir_status collect_phase(moe_measurement *m, moe_point *point, moe_phase phase)
{
    bench_job *job = m->trial->job;
    const int has_last = bench_job_has_common_clock(job) && phase != MOE_PHASE_PAIR;
    const int calls = phase == MOE_PHASE_CHAIN ? m->trial->options->chain : 1; /* in a time */
    weir_status status = WEIR_OK;
    for (int i = 0; i < m->count && status == WEIR_OK; i++) {
        moe_subject *s = &m->subjects[i];
        moe_result *r = &point->results[point->count++];
        const uint64_t here = phase == MOE_PHASE_PAIR
                                  ? s->wrong[MOE_PHASE_DISPATCH] + s->wrong[MOE_PHASE_COMBINE]
                                  : s->wrong[phase];
        *r = (moe_result){
            .candidate = s->candidate.ops, .phase = phase, .iterations = m->iterations};
        if (point->parts) {
            r->parts = point->parts + (size_t)(point->count - 1) * (size_t)job->ngroups;
            bench_parts_put_wrong(job, here, r->parts);
            bench_parts_put_times(job, s->us[phase], m->iterations, m->scratch, r->parts);
        }
        r->wrong = (uint64_t)bench_exchange_fold(job, BENCH_FOLD_SUM, (double)here);
        bench_exchange_reduce(job, BENCH_FOLD_MAX, s->us[phase], m->iterations, s->us[phase]);
        if (job->rank == 0)
            r->stats = bench_stats_make(s->us[phase], (size_t)m->iterations);
        if (has_last)
            status = bench_collect_lateness(job, s->ends_us[phase], m->iterations,
                                            r->stats.median * calls, &r->late);
    }
    return status;
}

/* Measures how long copies take that move as many bytes as the local kernels. One rank on a GPU. */
static weir_status time_copies(moe_measurement *m, moe_point *point)
{
    const bench_moe_trial *t = m->trial;
    moe_candidate *c = &m->subjects[0].candidate;
    const weir_moe_info *info = &c->info;
    const double row = (double)info->row_bytes, sent = (double)info->recv_row_bytes;
    const double tokens = t->tokens;
    const double rows = bench_moe_volume(t, 1).rows_bytes;
    const double received = t->config.layout == WEIR_MOE_EXPERT_MAJOR ? rows : tokens;
    const double bytes[] = {tokens * row + (t->options->fp8 ? 2 * tokens * sent : 0) +
                                received * sent,
                            received * row + tokens * row};
    weir_status status = WEIR_OK;
    for (int i = 0; i < MOE_COPIES && status == WEIR_OK; i++) {
        const moe_phase phase = i ? MOE_PHASE_COMBINE : MOE_PHASE_DISPATCH;
        moe_copy *copy = &point->copies[i];
        status = bench_moe_weir_copy_us(c, bytes[i], &copy->copy_us);
        copy->bytes = bytes[i];
        copy->us = bench_stats_make(m->subjects[0].us[phase], (size_t)m->iterations).median;
    }
    return status;
}

static weir_status open_subjects(moe_measurement *m)
{
    const bench_moe_options *o = m->trial->options;
    const moe_candidate_ops *const all[MOE_CANDIDATES_MAX] = {&bench_moe_weir, bench_moe_peer(o)};
    weir_status status = WEIR_OK;
    for (int i = 0; status == WEIR_OK && i < MOE_CANDIDATES_MAX; i++) {
        if (!all[i])
            continue;
        moe_subject *s = &m->subjects[m->count];
        status = bench_moe_candidate_open(&s->candidate, all[i], m->trial);
        m->count += status == WEIR_OK;
        if (status == WEIR_OK)
            status = bench_moe_calls_open(&s->calls, &s->candidate);
    }
    return status;
}

static void close_subjects(moe_measurement *m)
{
    for (int i = 0; i < m->count; i++) {
        bench_moe_calls_close(&m->subjects[i].calls);
        bench_moe_candidate_close(&m->subjects[i].candidate);
        for (int phase = 0; phase < MOE_PHASES; phase++)
            free(m->subjects[i].us[phase]), free(m->subjects[i].ends_us[phase]);
    }
    free(m->scratch);
}

/* One row out of how many is compared as a whole; the others at both ends. */
static int every_of(size_t rows, size_t row_bytes)
{
    const size_t whole = WHOLE_BYTES / row_bytes + 1;
    return (int)((rows + whole - 1) / whole) < 1 ? 1 : (int)((rows + whole - 1) / whole);
}

/* Warm-ups, which give the time of an iteration, then the timed iterations. */
static weir_status run_subjects(moe_measurement *m)
{
    bench_moe_trial *t = m->trial;
    const int warmups = t->options->common.warmups;
    const double start = weiri_clock_s();
    weir_status status = bench_job_agree(t->job, run_all(m, -warmups, 0, 0), "moe");
    if (status != WEIR_OK)
        return status;
    choose_iterations(m, warmups ? (weiri_clock_s() - start) / warmups : 0.01);
    m->target = bench_moe_inject_target(t, m->iterations);
    status = alloc_times(m);
    if (status == WEIR_OK)
        status = bench_job_agree(t->job, run_all(m, 0, m->iterations, 1), "moe");
    return status;
}

weir_status bench_moe_measure(void *measured)
{
    moe_point *point = measured;
    bench_moe_trial *t = &point->trial;
    moe_measurement m = {.trial = t, .target = {-1, -1}};
    weir_status status = open_subjects(&m);
    point->count = 0;
    if (status == WEIR_OK) {
        const weir_moe_info *info = &m.subjects[0].candidate.info;
        m.dispatch_every = every_of((size_t)info->recv_rows, info->recv_row_bytes);
        m.combine_every = every_of((size_t)t->tokens, info->row_bytes);
        status = run_subjects(&m);
    }
    if (status == WEIR_OK)
        status = alloc_parts(&m, point);
    if (status == WEIR_OK) {
        const int phases = t->options->chain ? MOE_PHASES : MOE_PHASE_CHAIN;
        for (int i = 0; i < m.count; i++)
            report_errors(&m, &m.subjects[i]);
        point->volume = bench_moe_volume(t, m.subjects[0].candidate.info.recv_row_bytes);
        if (point->parts)
            collect_volumes(t->job, point);
        for (int phase = 0; phase < phases && status == WEIR_OK; phase++)
            status = collect_phase(&m, point, (moe_phase)phase);
        if (status == WEIR_OK && t->job->gpu && t->job->nranks == 1)
            status = time_copies(&m, point);
    }
    close_subjects(&m);
    return status;
}
