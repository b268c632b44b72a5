/* The progress of a sweep: see pace.h. */
#include "bench/measure/pace.h"

#include "bench/sizes/shape.h"

/* A round takes a fixed time for timing, and a time for data and checks that grows with the size:
 * about as much again for each of these bytes. */
static const double bytes_per_unit = 1 << 20;

static double pace_weight(size_t bytes)
{
    return 1 + (double)bytes / bytes_per_unit;
}

void bench_pace_begin(bench_pace *pace, const bench_run *run, double combinations, int rounds)
{
    double sizes = 0;
    weiri_progress_begin(&pace->progress, stderr, run->job->program, run->options->quiet);
    for (size_t bytes = run->options->min_bytes, more = 1; more;) {
        sizes += pace_weight(bytes);
        bytes = bench_sizes_next(run->options, bytes);
        more = bytes != 0;
    }
    pace->total = sizes * combinations * rounds;
    pace->done = 0;
}

void bench_pace_skip(bench_pace *pace, size_t bytes, int rounds)
{
    pace->done += pace_weight(bytes) * rounds;
}

void bench_pace_round(bench_pace *pace, size_t bytes)
{
    char what[64];
    bench_pace_skip(pace, bytes, 1);
    snprintf(what, sizeof what, "%zu B", bytes);
    weiri_progress_show(&pace->progress, what, pace->total > 0 ? pace->done / pace->total : 0);
}
