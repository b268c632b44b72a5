/* Checked and timed repetitions of a recording: see measure.h. */
#include "bench/replay/measure.h"

#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_REPETITIONS = 8, MOST_REPETITIONS = 200, PHASE_CALLS = 1024 };
static const double budget_us = 2e6;

/* -------------------------------------------------------------------- running */

static weir_status fail_at(const replay_plan *plan, const replay_work *work, weir_status status)
{
    char why[sizeof plan->job->note.text];
    snprintf(why, sizeof why, "%s",
             *plan->job->note.text ? plan->job->note.text : weir_last_error());
    return bench_job_note(plan->job, status, "%s (%s:%u): %s", replay_step_name(work->step->kind),
                          plan->trace->files[work->call->file], work->call->line, why);
}

static weir_status wait_for_gpu(const replay_plan *plan)
{
    return plan->job->gpu ? bench_gpu_sync(plan->job->gpu) : WEIR_OK;
}

/* Runs a step; steps of a group of a library are complete at the last one. */
static weir_status run_work(replay_subject *s, const replay_work *work)
{
    weir_status status = s->candidate.ops->run(&s->candidate, work);
    return status == WEIR_OK ? WEIR_OK : fail_at(s->candidate.plan, work, status);
}

/* The last step of the group that begins at a step. */
static size_t group_end(const replay_plan *plan, size_t at)
{
    while (plan->works[at].step->is_grouped)
        at++;
    return at;
}

static int is_apart(const replay_plan *plan, size_t first, size_t last)
{
    return plan->mirror == NULL || first == last;
}

/* Runs and checks the steps of a group. On a GPU, where one mirror serves all calls, data of a
 * group's first steps are not checked. */
static weir_status check_group(const replay_measurement *m, replay_subject *s, size_t first,
                               size_t last, size_t seed)
{
    const replay_plan *plan = m->plan;
    weir_status status = WEIR_OK;
    for (size_t i = first; i <= last && status == WEIR_OK; i++)
        status = replay_data_fill(plan, &plan->works[i], seed);
    for (size_t i = first; i <= last && status == WEIR_OK; i++)
        status = run_work(s, &plan->works[i]);
    if (status == WEIR_OK)
        status = wait_for_gpu(plan);
    for (size_t i = first; i <= last && status == WEIR_OK; i++) {
        const replay_work *work = &plan->works[i];
        char *result = s->candidate.ops->result ? s->candidate.ops->result(work) : work->out;
        status = replay_data_check(plan, work, seed, result, s == m->subjects && i == m->fault_at,
                                   &s->wrong[work->klass], s->message, sizeof s->message);
    }
    return status;
}

/* One repetition in which every call is checked. Collective; agreed. */
static weir_status run_checked(const replay_measurement *m, replay_subject *s, size_t seed)
{
    const replay_plan *plan = m->plan;
    weir_status status = WEIR_OK;
    for (size_t i = 0, last; i < plan->nworks && status == WEIR_OK; i = last + 1) {
        last = group_end(plan, i);
        bench_job_phase(m->job, "a checked call of the recording", i);
        if (is_apart(plan, i, last))
            status = check_group(m, s, i, last, seed);
        else
            for (; i <= last && status == WEIR_OK; i++)
                status = run_work(s, &plan->works[i]);
    }
    return bench_job_agree(m->job, status, s->candidate.name);
}

static double spin(double until_us)
{
    double now;
    do
        now = weiri_clock_us();
    while (now < until_us);
    return now;
}

static void add_time(const replay_measurement *m, replay_subject *s, const replay_work *work,
                     int repetition, double us)
{
    s->class_us[(size_t)work->klass * (size_t)m->repetitions + (size_t)repetition] += us;
    s->instance_us[work->step->instance] += us;
}

/* GPUs: one repetition in which each call, or each group of a library, is timed by events and
 * waited for. The time of a group counts for its first call. */
static weir_status run_timed_apart(const replay_measurement *m, replay_subject *s, int repetition)
{
    const replay_plan *plan = m->plan;
    bench_gpu *gpu = plan->job->gpu;
    weir_status status = WEIR_OK;
    double us = 0;
    for (size_t i = 0, last; i < plan->nworks && status == WEIR_OK; i = last + 1) {
        last = group_end(plan, i);
        bench_job_phase(m->job, "a call of the recording, timed apart", i);
        status = bench_gpu_mark_start(gpu);
        for (size_t call = i; call <= last && status == WEIR_OK; call++)
            status = run_work(s, &plan->works[call]);
        if (status == WEIR_OK)
            status = bench_gpu_mark_end(gpu);
        if (status == WEIR_OK)
            status = bench_gpu_sync(gpu);
        if (status == WEIR_OK)
            status = bench_gpu_marked_us(gpu, &us);
        if (status == WEIR_OK)
            add_time(m, s, &plan->works[i], repetition, us);
    }
    return status;
}

/* One timed repetition; repetition -1: untimed. */
static weir_status run_timed(const replay_measurement *m, replay_subject *s, int repetition,
                             double *step_us)
{
    const replay_plan *plan = m->plan;
    const int has_classes = repetition >= 0 && !plan->job->gpu;
    double now, sum = 0;
    weir_status status = WEIR_OK;
    bench_job_phase(m->job, "a timed repetition of the recording", (uint64_t)(repetition + 1));
    bench_job_barrier_closely(m->job);
    const double begin = s->begin_us = now = weiri_clock_us();
    for (size_t i = 0; i < plan->nworks && status == WEIR_OK; i++) {
        const replay_work *work = &plan->works[i];
        if (work->gap_s > 0)
            now = spin(now + (double)work->gap_s * 1e6);
        const double start = now;
        status = run_work(s, work);
        now = weiri_clock_us();
        sum += now - start;
        s->starts_us[i] = start;
        s->ends_us[i] = now;
        if (has_classes)
            add_time(m, s, work, repetition, now - start);
        if (i % PHASE_CALLS == 0)
            bench_job_phase(m->job, "timed calls of the recording", i);
    }
    if (status == WEIR_OK)
        status = wait_for_gpu(plan);
    *step_us = weiri_clock_us() - begin;
    if (repetition >= 0) {
        s->step_us[repetition] = *step_us;
        s->calls_us[repetition] = plan->job->gpu ? *step_us - plan->gaps_s * 1e6 : sum;
    }
    return status;
}

/* --------------------------------------------------------------------- set-up */

static weir_status subject_check(const replay_plan *plan, replay_subject *s)
{
    for (size_t i = 0; i < plan->nworks; i++) {
        const replay_work *work = &plan->works[i];
        const char *why = s->candidate.ops->refuses(&s->candidate, work);
        if (why)
            return bench_job_note(
                plan->job, WEIR_ERR_INVALID, "--peer %s cannot run %s %s (%s:%u): %s; leave it out",
                s->candidate.peer ? s->candidate.peer->text : "",
                replay_step_name(work->step->kind), weir_dtype_name((weir_dtype)work->dtype),
                plan->trace->files[work->call->file], work->call->line, why);
    }
    return WEIR_OK;
}

static weir_status subject_open(replay_measurement *m, const replay_candidate_ops *ops,
                                const bench_peer *peer, const char *title)
{
    replay_subject *s = &m->subjects[m->count++];
    const size_t instances = (size_t)m->plan->schedule->instances + 1;
    s->candidate = (replay_candidate){.ops = ops, .title = title, .plan = m->plan, .peer = peer};
    snprintf(s->candidate.name, sizeof s->candidate.name, "weir");
    s->instance_us = calloc(instances, sizeof *s->instance_us);
    s->starts_us = calloc(m->plan->nworks + 1, sizeof *s->starts_us);
    s->ends_us = calloc(m->plan->nworks + 1, sizeof *s->ends_us);
    weir_status status = WEIR_OK;
    if (!s->instance_us || !s->starts_us || !s->ends_us)
        status = bench_job_note(m->job, WEIR_ERR_NO_MEMORY, "no memory for times");
    status = bench_job_agree(m->job, status, "times");
    if (status == WEIR_OK)
        status = ops->open(&s->candidate);
    return status == WEIR_OK ? bench_job_agree(m->job, subject_check(m->plan, s), s->candidate.name)
                             : status;
}

/* The last step of the last rank whose output is checked. Collective; agreed. */
static weir_status choose_fault(replay_measurement *m)
{
    const replay_plan *plan = m->plan;
    weir_status status = WEIR_OK;
    m->fault_at = SIZE_MAX;
    if (!m->options->inject)
        return WEIR_OK;
    for (size_t i = 0; plan->job->rank == plan->job->nranks - 1 && i < plan->nworks; i++)
        if (plan->works[i].out_elements && plan->works[i].step->kind != REPLAY_BARRIER &&
            !(plan->mirror &&
              (plan->works[i].step->is_grouped || (i && plan->works[i - 1].step->is_grouped))))
            m->fault_at = i;
    if (!m->options->common.checks ||
        (plan->job->rank == plan->job->nranks - 1 && m->fault_at == SIZE_MAX))
        status = bench_job_note(m->job, WEIR_ERR_INVALID,
                                "--inject flip-bit: no output of the last rank is checked");
    return bench_job_agree(m->job, status, "injection");
}

weir_status replay_measure_open(replay_measurement *m, const replay_options *options,
                                const replay_plan *plan)
{
    memset(m, 0, sizeof *m);
    m->job = plan->job;
    m->options = options;
    m->plan = plan;
    weir_status status = choose_fault(m);
    if (status == WEIR_OK)
        status = subject_open(m, &replay_weir, NULL, "weir");
    for (int i = 0; i < options->common.npeers && status == WEIR_OK; i++) {
        const bench_peer *peer = &options->common.peers[i];
        const int is_mpi = peer->kind == BENCH_PEER_MPI;
        status = subject_open(m, is_mpi ? &replay_mpi : &replay_vendor, peer,
                              is_mpi       ? "MPI"
                              : peer->path ? peer->path
                                           : "NCCL");
    }
    return status;
}

void replay_measure_close(replay_measurement *m)
{
    for (int i = 0; i < m->count; i++) {
        replay_subject *s = &m->subjects[i];
        if (s->candidate.state)
            s->candidate.ops->close(&s->candidate);
        free(s->step_us);
        free(s->calls_us);
        free(s->class_us);
        free(s->instance_us);
        free(s->starts_us);
        free(s->ends_us);
    }
    m->count = 0;
}

/* Finds how many repetitions fit, by one of each candidate, and makes room for their times.
 * Collective; agreed. */
static weir_status plan_rounds(replay_measurement *m)
{
    double slowest = 1, us = 0;
    weir_status status = WEIR_OK;
    for (int i = 0; i < m->count && status == WEIR_OK; i++) {
        status = run_timed(m, &m->subjects[i], -1, &us);
        slowest = us > slowest ? us : slowest;
        status = bench_job_agree(m->job, status, m->subjects[i].candidate.name);
    }
    if (status != WEIR_OK)
        return status;
    slowest = bench_exchange_fold(m->job, BENCH_FOLD_MAX, slowest);
    const double fit = budget_us / slowest;
    int wanted = m->options->common.iterations;
    if (!wanted)
        wanted = fit > MOST_REPETITIONS    ? MOST_REPETITIONS
                 : fit < LEAST_REPETITIONS ? LEAST_REPETITIONS
                                           : (int)fit;
    m->rounds = m->options->common.rounds < wanted ? m->options->common.rounds : wanted;
    m->repetitions = 0;
    for (int round = 0; round < m->rounds; round++) {
        m->repetitions += (wanted + round) / m->rounds;
        m->round_ends[round] = m->repetitions;
    }
    for (int i = 0; i < m->count; i++) {
        const size_t n = (size_t)m->repetitions;
        replay_subject *s = &m->subjects[i];
        s->step_us = calloc(n, sizeof(double));
        s->calls_us = calloc(n, sizeof(double));
        s->class_us = calloc(n * (size_t)m->plan->nclasses + 1, sizeof(double));
        if (!s->step_us || !s->calls_us || !s->class_us)
            status = bench_job_note(m->job, WEIR_ERR_NO_MEMORY, "no memory for %zu times", n);
    }
    return bench_job_agree(m->job, status, "times");
}

/* One round of a candidate, after an untimed repetition. Collective; agreed. */
static weir_status run_round(replay_measurement *m, replay_subject *s, int round)
{
    double us;
    weir_status status = run_timed(m, s, -1, &us);
    for (int i = round ? m->round_ends[round - 1] : 0;
         i < m->round_ends[round] && status == WEIR_OK; i++) {
        status = run_timed(m, s, i, &us);
        if (status == WEIR_OK && m->job->gpu)
            status = run_timed_apart(m, s, i);
    }
    return bench_job_agree(m->job, status, s->candidate.name);
}

/* ------------------------------------------------------------ times of all ranks */

/* How long ranks waited for the last one of each call, and how long calls took from then on: means
 * of ranks, in the last repetition. Collective. */
static weir_status split_waits(const replay_measurement *m, replay_subject *s)
{
    const replay_plan *plan = m->plan;
    const int instances = (int)plan->schedule->instances;
    double sums[2] = {0, 0};
    s->wait_us = s->transfer_us = NAN;
    if (!bench_job_has_common_clock(m->job) || m->job->gpu)
        return WEIR_OK;
    double *last = malloc(((size_t)instances + 1) * sizeof *last);
    weir_status status = WEIR_OK;
    if (!last)
        status = bench_job_note(m->job, WEIR_ERR_NO_MEMORY, "no memory for times");
    status = bench_job_agree(m->job, status, "times");
    if (status != WEIR_OK) {
        free(last);
        return status;
    }
    for (int i = 0; i < instances; i++)
        last[i] = 0;
    for (size_t i = 0; i < plan->nworks; i++)
        last[plan->works[i].step->instance] = s->starts_us[i];
    bench_exchange_reduce(m->job, BENCH_FOLD_MAX, last, instances, last);
    bench_exchange_broadcast(m->job, last, (size_t)instances * sizeof *last, 0);
    for (size_t i = 0; i < plan->nworks; i++) {
        const double begin = last[plan->works[i].step->instance];
        const double met = begin < s->ends_us[i] ? begin : s->ends_us[i];
        sums[0] += met - s->starts_us[i];
        sums[1] += s->ends_us[i] - met;
    }
    free(last);
    bench_exchange_reduce(m->job, BENCH_FOLD_SUM, sums, 2, sums);
    s->wait_us = sums[0] / m->job->nranks;
    s->transfer_us = sums[1] / m->job->nranks;
    return WEIR_OK;
}

/* Gives rank 0 the times of all ranks. Collective; agreed. */
static weir_status gather_times(const replay_measurement *m, replay_subject *s)
{
    const replay_plan *plan = m->plan;
    const int n = m->repetitions;
    for (int index = 0; index < plan->nclasses; index++)
        for (int i = 0; i < n; i++)
            if (plan->classes[index].mine > 0)
                s->class_us[index * n + i] /= plan->classes[index].mine;
    for (uint32_t i = 0; i < plan->schedule->instances; i++)
        s->instance_us[i] /= n;
    bench_exchange_reduce(m->job, BENCH_FOLD_MAX, s->step_us, n, s->step_us);
    bench_exchange_reduce(m->job, BENCH_FOLD_SUM, s->calls_us, n, s->calls_us);
    bench_exchange_reduce(m->job, BENCH_FOLD_MAX, s->class_us, n * plan->nclasses, s->class_us);
    bench_exchange_reduce(m->job, BENCH_FOLD_MAX, s->instance_us, (int)plan->schedule->instances,
                          s->instance_us);
    for (int i = 0; i < n; i++)
        s->calls_us[i] /= m->job->nranks;
    return split_waits(m, s);
}

/* Adds up wrong elements on every rank; the lowest rank with an error describes it. Collective. */
static void gather_wrong(const replay_measurement *m, replay_subject *s)
{
    const int mine = *s->message ? m->job->rank : m->job->nranks;
    const int first = (int)bench_exchange_fold(m->job, BENCH_FOLD_MIN, mine);
    for (int index = 0; index < m->plan->nclasses; index++)
        s->wrong[index] =
            (uint64_t)bench_exchange_fold(m->job, BENCH_FOLD_SUM, (double)s->wrong[index]);
    if (first < m->job->nranks && m->job->rank == first)
        fprintf(stderr, "%s: rank %d: %s: %s\n", m->job->program, first, s->candidate.name,
                s->message);
}

static weir_status check_all(replay_measurement *m, size_t salt)
{
    weir_status status = WEIR_OK;
    for (int i = 0; m->options->common.checks && i < m->count && status == WEIR_OK; i++)
        status = run_checked(m, &m->subjects[i], m->options->common.seed + salt);
    return status;
}

weir_status replay_measure(replay_measurement *m)
{
    weir_status status = check_all(m, 0);
    m->fault_at = SIZE_MAX;
    if (status == WEIR_OK)
        status = plan_rounds(m);
    for (int round = 0; round < m->rounds && status == WEIR_OK; round++)
        for (int i = 0; i < m->count && status == WEIR_OK; i++)
            status = run_round(m, &m->subjects[round % 2 ? m->count - 1 - i : i], round);
    if (status == WEIR_OK)
        status = check_all(m, 1);
    for (int i = 0; i < m->count && status == WEIR_OK; i++) {
        gather_wrong(m, &m->subjects[i]);
        status = gather_times(m, &m->subjects[i]);
    }
    return status;
}
