/* Checked and timed repetitions of a recording: see measure.h. */
#include "bench/replay/measure.h"

#include "bench/gpu/gpu.h"
#include "bench/job/exchange.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_REPETITIONS = 8, MOST_REPETITIONS = 200, PHASE_CALLS = 1024 };
static const double budget_us = 2e6;

/* Of what the lanes of a rank share: errors and wrong elements. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* -------------------------------------------------------------------- running */

static weir_status fail_at(const replay_measurement *m, const replay_work *work, weir_status status)
{
    const replay_plan *plan = m->plan;
    char why[sizeof plan->job->note.text];
    pthread_mutex_lock(&lock);
    snprintf(why, sizeof why, "%s",
             *plan->job->note.text ? plan->job->note.text : weir_last_error());
    bench_job_note(plan->job, status, "%s (%s:%u): %s", replay_step_name(work->step->kind),
                   plan->trace->files[work->call->file], work->call->line, why);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Waits for all lanes of a GPU. */
static weir_status wait_for_gpu(const replay_plan *plan)
{
    if (!plan->job->gpu)
        return WEIR_OK;
    weir_status status = bench_gpu_join(plan->job->gpu);
    return status == WEIR_OK ? bench_gpu_sync(plan->job->gpu) : status;
}

/* Runs a step; steps of a group of a library are complete at the last one. */
static weir_status run_work(const replay_measurement *m, replay_subject *s, const replay_work *work)
{
    weir_status status = s->candidate.ops->run(&s->candidate, work);
    return status == WEIR_OK ? WEIR_OK : fail_at(m, work, status);
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

/* What the lanes of a rank do at once. */
typedef struct lane_run {
    const replay_measurement *m;
    replay_subject *s; /* NULL: only the computation between calls */
    size_t seed;
    double begin_us;
} lane_run;

static weir_status check_work(const lane_run *run, size_t at)
{
    replay_subject *s = run->s;
    const replay_work *work = &run->m->plan->works[at];
    char *result = s->candidate.ops->result ? s->candidate.ops->result(work) : work->out;
    char message[sizeof s->message] = "";
    uint64_t wrong = 0;
    weir_status status = replay_data_check(run->m->plan, work, run->seed, result,
                                           s == run->m->subjects && at == run->m->fault_at, &wrong,
                                           message, sizeof message);
    pthread_mutex_lock(&lock);
    s->wrong[work->klass] += wrong;
    if (wrong && !*s->message)
        memcpy(s->message, message, sizeof message);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Runs and checks the steps of a group. */
static weir_status check_group(const lane_run *run, size_t first, size_t last)
{
    const replay_plan *plan = run->m->plan;
    weir_status status = WEIR_OK;
    for (size_t i = first; i <= last && status == WEIR_OK; i++)
        status = replay_data_fill(plan, &plan->works[i], run->seed);
    for (size_t i = first; i <= last && status == WEIR_OK; i++)
        status = run_work(run->m, run->s, &plan->works[i]);
    if (status == WEIR_OK)
        status = wait_for_gpu(plan);
    for (size_t i = first; i <= last && status == WEIR_OK; i++)
        status = check_work(run, i);
    return status;
}

/* Checks the calls of a lane. On a GPU, where one mirror serves all calls, data of a group of calls
 * are not checked. */
static weir_status check_lane(void *context, int lane)
{
    const lane_run *run = context;
    const replay_plan *plan = run->m->plan;
    weir_status status = WEIR_OK;
    for (size_t i = plan->lanes[lane], last; i < plan->lanes[lane + 1] && status == WEIR_OK;
         i = last + 1) {
        last = group_end(plan, i);
        if (lane == 0)
            bench_job_phase(run->m->job, "a checked call of the recording", i);
        if (is_apart(plan, i, last))
            status = check_group(run, i, last);
        else
            for (; i <= last && status == WEIR_OK; i++)
                status = run_work(run->m, run->s, &plan->works[i]);
    }
    return status;
}

/* One repetition in which every call is checked. Collective; agreed. */
static weir_status run_checked(const replay_measurement *m, replay_subject *s, size_t seed)
{
    lane_run run = {m, s, seed, 0};
    weir_status status = WEIR_OK;
    if (m->crew)
        status = replay_crew_run(m->crew, check_lane, &run);
    else
        for (int lane = 0; lane < m->plan->nlanes && status == WEIR_OK; lane++)
            status = check_lane(&run, lane);
    return bench_job_agree(m->job, status, s->candidate.name);
}

/* Computes until then on the host. Like a job's computation, it writes the input of the next call,
 * without changing it, so that the input is in this core's cache. */
static double compute(const replay_work *next, double until_us)
{
    enum { LINE_BYTES = 64, LINES = 512 };
    volatile char *in = next->in;
    const size_t bytes = next->in_elements * weir_dtype_bytes((weir_dtype)next->dtype);
    double now = weiri_clock_us();
    for (size_t at = 0; now < until_us; now = weiri_clock_us())
        for (int line = 0; line < LINES && at < bytes; line++, at += LINE_BYTES)
            in[at] = in[at];
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
        if (status == WEIR_OK)
            status = bench_gpu_fork(gpu);
        for (size_t call = i; call <= last && status == WEIR_OK; call++)
            status = run_work(m, s, &plan->works[call]);
        if (status == WEIR_OK)
            status = bench_gpu_join(gpu);
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

/* Computes, then calls. now_us: the lane's time. */
static weir_status time_work(const lane_run *run, size_t at, double *now_us)
{
    const replay_plan *plan = run->m->plan;
    const replay_work *work = &plan->works[at];
    weir_status status = WEIR_OK;
    if (work->gap_s > 0 && plan->job->gpu)
        status = bench_gpu_compute(plan->job->gpu, work->lane, (double)work->gap_s * 1e6,
                                   run->m->options->sms);
    else if (work->gap_s > 0)
        *now_us = compute(work, *now_us + (double)work->gap_s * 1e6);
    if (!run->s || status != WEIR_OK)
        return status;
    run->s->starts_us[at] = *now_us;
    status = run_work(run->m, run->s, work);
    run->s->ends_us[at] = *now_us = weiri_clock_us();
    if (work->lane == 0 && at % PHASE_CALLS == 0)
        bench_job_phase(run->m->job, "timed calls of the recording", at);
    return status;
}

/* Host: the steps of a lane, on its thread. */
static weir_status time_lane(void *context, int lane)
{
    const lane_run *run = context;
    double now = run->begin_us;
    weir_status status = WEIR_OK;
    for (size_t i = run->m->plan->lanes[lane];
         i < run->m->plan->lanes[lane + 1] && status == WEIR_OK; i++)
        status = time_work(run, i, &now);
    return status;
}

/* GPU: enqueues the steps of all lanes in the order of the recording. */
static weir_status enqueue_lanes(const lane_run *run)
{
    const replay_plan *plan = run->m->plan;
    size_t at[REPLAY_LANES_MAX + 1], i;
    int lane = -1;
    double now = run->begin_us;
    memcpy(at, plan->lanes, sizeof at);
    weir_status status = bench_gpu_fork(plan->job->gpu);
    while (status == WEIR_OK && (i = replay_plan_next(plan, at, &lane)) != SIZE_MAX)
        status = time_work(run, i, &now);
    return status == WEIR_OK ? wait_for_gpu(plan) : status;
}

/* One timed repetition; repetition -1: untimed; s NULL: only the computation. */
static weir_status run_timed(const replay_measurement *m, replay_subject *s, int repetition,
                             double *step_us)
{
    const replay_plan *plan = m->plan;
    double sum = 0;
    bench_job_phase(m->job, "a timed repetition of the recording", (uint64_t)(repetition + 1));
    bench_job_barrier_closely(m->job);
    lane_run run = {m, s, 0, weiri_clock_us()};
    weir_status status = m->crew ? replay_crew_run(m->crew, time_lane, &run) : enqueue_lanes(&run);
    *step_us = weiri_clock_us() - run.begin_us;
    if (s)
        s->begin_us = run.begin_us;
    if (!s || repetition < 0 || status != WEIR_OK)
        return status;
    for (size_t i = 0; i < plan->nworks && !plan->job->gpu; i++) {
        const double us = s->ends_us[i] - s->starts_us[i];
        sum += us;
        add_time(m, s, &plan->works[i], repetition, us);
    }
    s->step_us[repetition] = *step_us;
    s->calls_us[repetition] = plan->job->gpu ? *step_us - m->compute_us : sum;
    if (!plan->job->gpu)
        s->later_us[repetition] = replay_later_us(plan, s->starts_us, s->ends_us);
    return status;
}

/* --------------------------------------------------------------------- set-up */

static weir_status subject_check(const replay_plan *plan, replay_subject *s)
{
    for (size_t i = 0; s->candidate.ops->refuses && i < plan->nworks; i++) {
        const replay_work *work = &plan->works[i];
        const char *why = s->candidate.ops->refuses(&s->candidate, work);
        if (why)
            return bench_job_note(plan->job, WEIR_ERR_INVALID,
                                  "--peer %s cannot run %s %s (%s:%u): %s; leave it out",
                                  s->candidate.peer->text, replay_step_name(work->step->kind),
                                  weir_dtype_name((weir_dtype)work->dtype),
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
    replay_pool *pool = &m->plan->pool;
    s->instance_us = replay_take(pool, instances, sizeof *s->instance_us);
    s->starts_us = replay_take(pool, m->plan->nworks + 1, sizeof *s->starts_us);
    s->ends_us = replay_take(pool, m->plan->nworks + 1, sizeof *s->ends_us);
    weir_status status =
        bench_job_agree(m->job, pool->has_failed ? replay_no_memory() : WEIR_OK, "times");
    if (status == WEIR_OK && ops->open)
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
                                replay_plan *plan)
{
    memset(m, 0, sizeof *m);
    m->job = plan->job;
    m->options = options;
    m->plan = plan;
    weir_status status = WEIR_OK;
    if (m->job->gpu)
        status = bench_gpu_add_lanes(m->job->gpu, plan->nlanes);
    else
        status = replay_crew_open(plan->nlanes, &m->crew);
    status = bench_job_agree(m->job, status, "lanes");
    if (status == WEIR_OK)
        status = choose_fault(m);
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
    replay_crew_close(m->crew);
    for (int i = 0; i < m->count; i++) {
        replay_subject *s = &m->subjects[i];
        if (s->candidate.state)
            s->candidate.ops->close(&s->candidate);
    }
    m->count = 0;
}

/* Measures the computation alone: the least of some repetitions. Collective; agreed. */
static weir_status measure_compute(replay_measurement *m)
{
    weir_status status = WEIR_OK;
    double us, least = INFINITY;
    for (int i = 0; i < LEAST_REPETITIONS && m->options->gaps && status == WEIR_OK; i++) {
        status = run_timed(m, NULL, -1, &us);
        least = us < least ? us : least;
    }
    status = bench_job_agree(m->job, status, "computation");
    if (status == WEIR_OK && m->options->gaps)
        m->compute_us = bench_exchange_fold(m->job, BENCH_FOLD_MAX, least);
    return status;
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
        s->step_us =
            replay_take(&m->plan->pool, n * (3 + (size_t)m->plan->nclasses), sizeof *s->step_us);
        if (!s->step_us)
            status = replay_no_memory();
        s->calls_us = s->step_us + n;
        s->later_us = s->calls_us + n;
        s->class_us = s->later_us + n;
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
    bench_exchange_reduce(m->job, BENCH_FOLD_SUM, s->later_us, n, s->later_us);
    bench_exchange_reduce(m->job, BENCH_FOLD_MAX, s->class_us, n * plan->nclasses, s->class_us);
    bench_exchange_reduce(m->job, BENCH_FOLD_MAX, s->instance_us, (int)plan->schedule->instances,
                          s->instance_us);
    for (int i = 0; i < n; i++) {
        s->calls_us[i] /= m->job->nranks;
        s->later_us[i] /= m->job->nranks;
    }
    s->waits = (replay_waits){NAN, NAN};
    return bench_job_has_common_clock(m->job) && !m->job->gpu
               ? replay_split_waits(m, s->starts_us, s->ends_us, &s->waits)
               : WEIR_OK;
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
        status = measure_compute(m);
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
    return status == WEIR_OK ? replay_collect_recorded(m) : status;
}
