/*
 * The loop of --for. A part is as many iterations as take about a fifth of a second: the ranks time
 * them, then read their signs. Rank 0 gets the slowest rank's time of each iteration, and all
 * ranks' signs; it decides about the next part.
 */
#include "bench/hours/hours.h"

#include "bench/hours/hours_output.h"
#include "bench/job/exchange.h"
#include "bench/measure/point.h"
#include "bench/measure/timed.h"

#include <stdlib.h>

enum { PART_US = 200000, PART_MOST = 32768, PART_FIRST = 16 };

typedef struct hours {
    bench_trial *trial;
    bench_subject subject; /* of the engine; begins and ends once, not in every part */
    bench_signs signs;
    double *times_us; /* PART_MOST */
    double *changes;  /* rank 0: nranks x BENCH_SIGNS */
    bench_hours_output output;
    double began_s, window_began_s, part_began_s;
} hours;

/* What rank 0 decides. */
typedef struct hours_decision {
    int part; /* iterations */
    int is_over;
} hours_decision;

/* Times a part. Its first operations are not timed, because ranks leave the exchange before it one
 * after the other. Collective; agreed. */
static weir_status hours_time_part(hours *h, int part)
{
    enum { UNTIMED = 4 };
    const bench_barrier barrier = bench_timed_barrier(h->trial->job);
    bench_timing timing = bench_iterations_timing(h->trial, part);
    timing.warmups = part / UNTIMED < UNTIMED ? part / UNTIMED : UNTIMED;
    timing.order = BENCH_FORWARD;
    return bench_engine_run(&timing, &barrier, &h->subject, 1);
}

/* Judges each time of a part on rank 0, by the median of all times so far. */
static void hours_take_part(hours *h, int part)
{
    bench_hours_output *out = &h->output;
    int outliers = 0;
    for (int i = 0; i < part; i++) {
        bench_histogram_add(&out->window, h->times_us[i]);
        bench_histogram_add(&out->all, h->times_us[i]);
    }
    out->median_us = bench_histogram_quantile(&out->all, 0.5);
    for (int i = 0; i < part; i++) {
        if (h->times_us[i] <= BENCH_OUTLIER_FACTOR * out->median_us)
            continue;
        outliers++;
        bench_causes_explain(&out->causes, h->changes, h->times_us[i] - out->median_us);
    }
    if (!outliers)
        bench_causes_learn(&out->causes, h->changes);
    bench_hours_add_changes(out, h->changes);
}

/* How many iterations make the next part, by what the latest one took: on a busy machine, few
 * iterations may take nearly all the time, so that the median says nothing. Parts grow slowly, as
 * they may meet such iterations at any time. */
static int hours_next_part(const hours *h, int part, double now_s)
{
    enum { GROWTH = 4 };
    const double fitting = part * PART_US / (1e6 * (now_s - h->part_began_s) + 1);
    const double most = (double)part * GROWTH < PART_MOST ? part * GROWTH : PART_MOST;
    return fitting < 1 ? 1 : fitting < most ? (int)fitting : (int)most;
}

/* Ends the window if it is time, and decides about the next part. Rank 0 only. */
static hours_decision hours_decide(hours *h, int part, int is_stopped)
{
    const bench_options *options = h->trial->options;
    const double now_s = weiri_clock_s();
    const int is_over = is_stopped || now_s - h->began_s >= options->for_s;
    h->output.is_stopped = is_stopped;
    if (is_over || now_s - h->window_began_s >= options->window_s) {
        bench_hours_write_window(&h->output, h->window_began_s - h->began_s, now_s - h->began_s);
        h->window_began_s = now_s;
    }
    const int next = hours_next_part(h, part, now_s);
    h->part_began_s = now_s;
    return (hours_decision){next, is_over};
}

/* Exchanges what the ranks have found in a part. Collective. */
static hours_decision hours_exchange(hours *h, int part)
{
    bench_job *job = h->trial->job;
    double own[BENCH_SIGNS];
    hours_decision decision = {0, 0};
    const int is_terminated = bench_watch_was_terminated(&job->watch);
    bench_signs_read(&h->signs, own);
    if (is_terminated) /* launchers continue a process before they terminate it */
        own[BENCH_SIGN_STOPPED] = 0;
    bench_exchange_reduce(job, BENCH_FOLD_MAX, h->times_us, part, h->times_us);
    bench_exchange_gather(job, own, sizeof own, h->changes);
    const int is_stopped = bench_exchange_fold(job, BENCH_FOLD_MAX, is_terminated) > 0;
    if (job->rank == 0) {
        hours_take_part(h, part);
        decision = hours_decide(h, part, is_stopped);
    }
    bench_exchange_broadcast(job, &decision, sizeof decision, 0);
    return decision;
}

/* Collective; agreed. */
static weir_status hours_loop(hours *h)
{
    bench_job *job = h->trial->job;
    hours_decision decision = {PART_FIRST, 0};
    const bench_subject whole = h->subject;
    h->subject.begin = NULL;
    h->subject.end = h->subject.after = NULL;
    h->subject.wall_us = h->times_us;
    weir_status status = bench_job_agree(job, whole.begin(whole.context), "timed loop");
    bench_signs_open(&h->signs, "", job->nvml);
    h->began_s = h->window_began_s = h->part_began_s = weiri_clock_s();
    while (status == WEIR_OK && !decision.is_over) {
        status = hours_time_part(h, decision.part);
        if (status == WEIR_OK)
            decision = hours_exchange(h, decision.part);
    }
    bench_signs_close();
    if (status == WEIR_OK)
        whole.end(whole.context);
    return status;
}

/* The first candidate that no check found wrong and that runs alone; -1: none. */
static int hours_candidate(const bench_trial *trial)
{
    const bench_result *results = trial->row->results[trial->in_place];
    for (int i = 0; i < trial->row->ncandidates; i++)
        if (results[i].ran && !bench_result_failed(&results[i]) && !trial->candidates[i]->rivals)
            return i;
    return -1;
}

weir_status bench_hours_run(bench_trial *trial)
{
    static bench_timed timed; /* these two are larger than small stacks */
    static hours h;
    bench_job *job = trial->job;
    const int candidate = hours_candidate(trial);
    weir_status status = WEIR_OK;
    if (candidate < 0)
        return WEIR_OK;
    timed = (bench_timed){.trial = trial,
                          .candidate = trial->candidates[candidate],
                          .result = &trial->row->results[trial->in_place][candidate]};
    h = (hours){.trial = trial,
                .subject = bench_timed_subject(&timed),
                .times_us = malloc(PART_MOST * sizeof *h.times_us),
                .changes = calloc((size_t)job->nranks * BENCH_SIGNS, sizeof *h.changes)};
    bench_samples_open(&timed.samples, trial, timed.candidate, NULL);
    if (!h.times_us || !h.changes)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for --for");
    if (status == WEIR_OK && job->rank == 0)
        status = bench_hours_open(&h.output, job, trial->options, timed.result);
    status = bench_job_agree(job, status, "windows of --for");
    bench_watch_take_term(&job->watch, 1);
    if (status == WEIR_OK)
        status = hours_loop(&h);
    if (status == WEIR_OK) {
        status = job->rank == 0 ? bench_hours_close(&h.output) : WEIR_OK;
        status = bench_job_agree(job, status, "windows of --for");
    }
    bench_hours_free(&h.output);
    bench_watch_take_term(&job->watch, 0);
    free(h.times_us);
    free(h.changes);
    return status;
}
