/* The order of checks and timed iterations in a round: see point.h. */
#include "bench/measure/point.h"

#include "bench/check/checks.h"
#include "bench/hours/hours.h"
#include "bench/measure/timed.h"
#include "bench/trial/data.h"

#include <stdlib.h>

/* The candidates of a round as subjects of the engine; large. */
typedef struct timed_round {
    bench_timed timed[BENCH_CANDIDATES_MAX];
    bench_subject subjects[BENCH_CANDIDATES_MAX];
    int count, iterations; /* 0: nothing is timed */
    unsigned char *memory; /* for the checks of timed iterations */
    double began_s;
} timed_round;

/* Adds the time since since_s to the cost of verification. */
static void count_verification(bench_trial *trial, double since_s)
{
    if (bench_options_verifies(trial->options))
        trial->row->cost[trial->in_place].verification_s += weiri_clock_s() - since_s;
}

/* ------------------------------------------------------------ before the timing */

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

/* Makes subjects of the members that no check has found wrong since. */
static void select_subjects(bench_trial *trial, timed_round *round)
{
    bench_result *results = trial->row->results[trial->in_place];
    for (int member = 0; member < trial->series->nmembers; member++) {
        int i = trial->series->members[member];
        if (bench_result_failed(&results[i]))
            continue;
        bench_timed *timed = &round->timed[round->count];
        *timed = (bench_timed){.trial = trial,
                               .candidate = trial->candidates[i],
                               .result = &results[i],
                               .member = member};
        round->subjects[round->count++] = bench_timed_subject(timed);
        bench_samples_open(&timed->samples, trial, trial->candidates[i], round->memory);
    }
}

/* Gives the subjects the places of their times in the series. Collective; agreed. */
static weir_status place_times(bench_trial *trial, timed_round *round)
{
    bench_series *series = trial->series;
    weir_status status = bench_series_reserve(trial->job, series, round->iterations);
    for (int i = 0; i < round->count && status == WEIR_OK; i++) {
        const int member = round->timed[i].member;
        bench_subject *subject = &round->subjects[i];
        subject->wall_us = series->times_us[member] + series->count;
        subject->warm_us = series->warm_us[member];
        if (series->wants_starts)
            subject->start_us = series->starts_us[member] + series->count;
        if (series->wants_ends)
            subject->end_us = series->ends_us[member] + series->count;
    }
    return status;
}

/* New data, and in the first round the first checks. Collective; agreed. */
static weir_status prepare_data(bench_trial *trial)
{
    const double began_s = weiri_clock_s();
    weir_status status = bench_trial_lay_out(trial);
    if (status == WEIR_OK && trial->round == 0)
        status = bench_checks_first(trial);
    count_verification(trial, began_s);
    return status;
}

static void forget_probe(bench_result *result)
{
    bench_clocks_clear(&result->clocks);
    bench_result_clear_rivals(result);
}

/* Selects what is timed, and how often: the first round finds the number of iterations.
 * Collective; agreed. */
static weir_status begin_round(bench_trial *trial, const bench_barrier *barrier, timed_round *round)
{
    bench_series *series = trial->series;
    weir_status status = WEIR_OK;
    round->memory = malloc(BENCH_SAMPLES_BYTES);
    series->wants_starts =
        trial->options->mode == BENCH_MODE_LATENCY && bench_job_has_common_clock(trial->job);
    series->wants_ends = bench_job_has_common_clock(trial->job) &&
                         bench_pattern_has_all(trial->pattern, trial->job->group_nranks);
    if (!round->memory)
        status = bench_job_note(trial->job, WEIR_ERR_NO_MEMORY,
                                "no memory for checks of timed iterations");
    status = bench_job_agree(trial->job, status, "checks of timed iterations");
    if (trial->round == 0)
        choose_members(trial);
    if (status == WEIR_OK)
        select_subjects(trial, round);
    round->began_s = weiri_clock_s();
    if (round->count == 0) {
        series->until = series->extension_rounds = 0;
        return status;
    }
    if (trial->round == 0) {
        status = bench_iterations_plan(trial, barrier, round->subjects, round->count);
        for (int i = 0; i < round->count; i++)
            forget_probe(round->timed[i].result);
    }
    round->iterations = bench_series_next_iterations(series);
    return status == WEIR_OK ? place_times(trial, round) : status;
}

/* The order alternates from round to round; in the last round the first subject runs last. */
static bench_order order_of(const bench_series *series)
{
    int left =
        series->extension_rounds ? series->extension_rounds : series->planned - series->rounds;
    if (series->planned == 1)
        return BENCH_BOTH_WAYS;
    return left % 2 ? BENCH_BACKWARD : BENCH_FORWARD;
}

/* ------------------------------------------------------------- after the timing */

/* Adds what the engine found to the series. */
static void keep_round(bench_series *series, const timed_round *round)
{
    for (int i = 0; i < round->count; i++) {
        const int member = round->timed[i].member;
        const bench_subject *subject = &round->subjects[i];
        series->cpu_us[member] += subject->cpu_us * round->iterations;
        series->unsteady[member] |= subject->unsteady;
        series->warm_us[member] = subject->warm_us;
        if (subject->warmups > series->warmups[member])
            series->warmups[member] = subject->warmups;
    }
    bench_series_end_round(series, round->iterations);
}

/* Takes over what the checks of timed iterations found. Collective; agreed. */
static weir_status end_round(bench_trial *trial, timed_round *round, weir_status status)
{
    for (int i = 0; i < round->count && status == WEIR_OK; i++)
        status = round->timed[i].rivals;
    for (int i = 0; i < round->count && status == WEIR_OK; i++)
        status = bench_samples_collect(&round->timed[i].samples, round->timed[i].result);
    if (round->count)
        trial->series->spent_s += weiri_clock_s() - round->began_s;
    free(round->memory);
    return status;
}

/* After the last round: statistics and the last check. Collective; agreed. */
static weir_status finish_point(bench_trial *trial)
{
    weir_status status = bench_collect(trial);
    const double began_s = weiri_clock_s();
    if (status == WEIR_OK && bench_options_verifies(trial->options))
        status = bench_checks_last(trial);
    if (status == WEIR_OK)
        bench_collect_wrong(trial);
    count_verification(trial, began_s);
    return status;
}

weir_status bench_point_round(void *point)
{
    bench_trial *trial = point;
    bench_series *series = trial->series;
    const bench_barrier barrier = bench_timed_barrier(trial->job);
    const int is_last = trial->round == bench_options_rounds(trial->options) - 1;
    weir_status status;
    do {
        static timed_round round; /* larger than small stacks */
        round.count = round.iterations = 0;
        round.memory = NULL;
        status = prepare_data(trial);
        if (status == WEIR_OK)
            status = begin_round(trial, &barrier, &round);
        if (status == WEIR_OK && round.iterations > 0) {
            bench_timing timing = bench_iterations_timing(trial, round.iterations);
            timing.order = order_of(series);
            bench_cost_clock clock = bench_cost_start(trial);
            status = bench_engine_run(&timing, &barrier, round.subjects, round.count);
            bench_cost_stop(trial, &clock, round.subjects, round.count);
            keep_round(series, &round);
        }
        status = end_round(trial, &round, status);
        if (status == WEIR_OK && is_last && series->extension_rounds == 0)
            status = bench_series_extend_until(trial->job, series);
        trial->round += status == WEIR_OK && is_last && series->extension_rounds;
    } while (status == WEIR_OK && is_last && series->extension_rounds);
    if (status == WEIR_OK && is_last && trial->options->for_s > 0 && !trial->in_place)
        status = bench_hours_run(trial);
    return status == WEIR_OK && is_last ? finish_point(trial) : status;
}
