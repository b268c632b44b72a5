/* The timed part of one round: see point.h. */
#include "bench/measure/point.h"

#include "bench/measure/timed.h"

#include <stdlib.h>

/* The order alternates from round to round; in the last round the first subject runs last. */
static bench_order order_of(const bench_series *series)
{
    int left =
        series->extension_rounds ? series->extension_rounds : series->planned - series->rounds;
    if (series->planned == 1)
        return BENCH_BOTH_WAYS;
    return left % 2 ? BENCH_BACKWARD : BENCH_FORWARD;
}

/* Selects the candidates that take part in all rounds. */
static void choose_members(bench_trial *trial)
{
    const bench_result *results = trial->row->results[trial->in_place];
    bench_series *series = trial->series;
    series->nmembers = 0;
    for (int i = 0; i < trial->row->ncandidates; i++)
        if (results[i].ran && !bench_result_failed(&results[i]))
            series->members[series->nmembers++] = i;
}

/* Makes subjects of the members that no check has found wrong since. Returns their number. */
static int select_subjects(bench_trial *trial, bench_timed *timed, bench_subject *subjects,
                           unsigned char *memory)
{
    bench_result *results = trial->row->results[trial->in_place];
    int count = 0;
    for (int member = 0; member < trial->series->nmembers; member++) {
        int i = trial->series->members[member];
        if (bench_result_failed(&results[i]))
            continue;
        timed[count] = (bench_timed){.trial = trial, .candidate = trial->candidates[i],
                                     .result = &results[i], .member = member};
        subjects[count] = bench_timed_subject(&timed[count]);
        bench_samples_open(&timed[count].samples, trial, trial->candidates[i], memory);
        count++;
    }
    return count;
}

/* Gives the subjects the places of their times in the series. Collective; agreed. */
static weir_status place_times(bench_trial *trial, const bench_timed *timed,
                               bench_subject *subjects, int nsubjects, int iterations)
{
    bench_series *series = trial->series;
    weir_status status = bench_series_reserve(trial->job, series, iterations);
    for (int i = 0; i < nsubjects && status == WEIR_OK; i++) {
        int member = timed[i].member;
        subjects[i].wall_us = series->times_us[member] + series->count;
        subjects[i].warm_us = series->warm_us[member];
        if (series->wants_starts)
            subjects[i].start_us = series->starts_us[member] + series->count;
    }
    return status;
}

/* Adds what the engine found to the series. */
static void keep_round(bench_series *series, const bench_timed *timed,
                       const bench_subject *subjects, int nsubjects, int iterations)
{
    for (int i = 0; i < nsubjects; i++) {
        int member = timed[i].member;
        series->cpu_us[member] += subjects[i].cpu_us * iterations;
        series->unsteady[member] |= subjects[i].unsteady;
        series->warm_us[member] = subjects[i].warm_us;
        if (subjects[i].warmups > series->warmups[member])
            series->warmups[member] = subjects[i].warmups;
    }
    bench_series_end_round(series, iterations);
}

/* The first round finds the number of iterations. Collective; agreed. */
static weir_status plan_first_round(bench_trial *trial, const bench_barrier *barrier,
                                    bench_timed *timed, bench_subject *subjects, int nsubjects)
{
    if (trial->round > 0)
        return WEIR_OK;
    weir_status status = bench_iterations_plan(trial, barrier, subjects, nsubjects);
    for (int i = 0; i < nsubjects; i++)
        bench_clocks_clear(&timed[i].result->clocks); /* the readings of the probe */
    return status;
}

/* Memory for the checks of timed iterations. Collective; agreed. */
static weir_status allocate_samples(bench_trial *trial, unsigned char **memory)
{
    weir_status status = WEIR_OK;
    *memory = malloc(bench_samples_bytes());
    if (!*memory)
        status = bench_job_note(trial->job, WEIR_ERR_NO_MEMORY,
                                "no memory for checks of timed iterations");
    return bench_job_agree(trial->job, status, "checks of timed iterations");
}

static weir_status collect_samples(bench_timed *timed, int count)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < count && status == WEIR_OK; i++)
        status = bench_samples_collect(&timed[i].samples, timed[i].result);
    return status;
}

weir_status bench_timing_round(bench_trial *trial)
{
    bench_timed timed[BENCH_CANDIDATES_MAX];
    bench_subject subjects[BENCH_CANDIDATES_MAX];
    const bench_barrier barrier = bench_timed_barrier(trial->job);
    bench_series *series = trial->series;
    unsigned char *memory = NULL;
    series->wants_starts =
        trial->options->mode == BENCH_MODE_LATENCY && bench_job_has_common_clock(trial->job);
    weir_status status = allocate_samples(trial, &memory);
    if (trial->round == 0)
        choose_members(trial);
    int count = select_subjects(trial, timed, subjects, memory);
    if (count == 0 || status != WEIR_OK) {
        series->until = series->extension_rounds = 0;
        free(memory);
        return status;
    }
    double began_s = bench_clock_s();
    status = plan_first_round(trial, &barrier, timed, subjects, count);
    int iterations = bench_series_next_iterations(series);
    if (status == WEIR_OK)
        status = place_times(trial, timed, subjects, count, iterations);
    if (status == WEIR_OK && iterations > 0) {
        bench_timing timing = bench_iterations_timing(trial, iterations);
        timing.order = order_of(series);
        bench_cost_clock clock = bench_cost_start(trial);
        status = bench_engine_run(&timing, &barrier, subjects, count);
        bench_cost_stop(trial, &clock, subjects, count);
        keep_round(series, timed, subjects, count, iterations);
    }
    if (status == WEIR_OK)
        status = collect_samples(timed, count);
    series->spent_s += bench_clock_s() - began_s;
    free(memory);
    return status;
}
