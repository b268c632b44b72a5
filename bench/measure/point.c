/* The order of checks and timed rounds: see point.h. */
#include "bench/measure/point.h"

#include "bench/check/checks.h"
#include "bench/trial/data.h"

/* Adds the time since since_s to the cost of verification. */
static void count_verification(bench_trial *trial, double since_s)
{
    if (bench_options_verifies(trial->options))
        trial->row->cost[trial->in_place].verification_s += bench_clock_s() - since_s;
}

/* One more round for --until. */
static weir_status run_extension_round(bench_trial *trial)
{
    double began_s = bench_clock_s();
    trial->round++;
    weir_status status = bench_trial_lay_out(trial);
    count_verification(trial, began_s);
    return status == WEIR_OK ? bench_timing_round(trial) : status;
}

/* After the last planned round: extensions, statistics, and the last check. */
static weir_status finish_point(bench_trial *trial)
{
    weir_status status = bench_series_extend_until(trial->job, trial->series);
    while (status == WEIR_OK && trial->series->extension_rounds) {
        status = run_extension_round(trial);
        if (status == WEIR_OK && trial->series->extension_rounds == 0)
            status = bench_series_extend_until(trial->job, trial->series);
    }
    if (status == WEIR_OK)
        status = bench_collect(trial);
    double began_s = bench_clock_s();
    if (status == WEIR_OK && bench_options_verifies(trial->options))
        status = bench_checks_last(trial);
    count_verification(trial, began_s);
    return status;
}

weir_status bench_point_round(void *point)
{
    bench_trial *trial = point;
    double began_s = bench_clock_s();
    weir_status status = bench_trial_lay_out(trial);
    if (status == WEIR_OK && trial->round == 0)
        status = bench_checks_first(trial);
    count_verification(trial, began_s);
    if (status == WEIR_OK)
        status = bench_timing_round(trial);
    if (status == WEIR_OK && trial->round == bench_options_rounds(trial->options) - 1)
        status = finish_point(trial);
    return status;
}
