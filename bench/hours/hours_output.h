/* The rows and the verdict of --for. All functions are local, for rank 0. */
#ifndef BENCH_HOURS_HOURS_OUTPUT_H
#define BENCH_HOURS_HOURS_OUTPUT_H

#include "bench/hours/windows.h"
#include "bench/job/job.h"
#include "bench/options/options.h"
#include "bench/statistics/result.h"

#include <stdio.h>

typedef struct bench_hours_output {
    bench_job *job;
    double window_s; /* the wanted length of a window */
    FILE *csv;       /* NULL without --csv */
    char path[512];
    bench_histogram window, all;
    double median_us; /* of all times so far */
    bench_drift drift;
    bench_causes causes;
    double changes[BENCH_SIGNS]; /* of the window: sums over the ranks; levels: the largest */
    int windows, is_stopped;
    double end_s;
} bench_hours_output;

/* Opens the file and prints the lines above the rows. WEIR_ERR_NO_MEMORY, or WEIR_ERR_INVALID for
 * the file. bench_hours_free follows in any case. */
weir_status bench_hours_open(bench_hours_output *output, bench_job *job,
                             const bench_options *options, const bench_result *result);
/* Adds what all ranks' signs did, nranks x BENCH_SIGNS, to the window. */
void bench_hours_add_changes(bench_hours_output *output, const double *changes);
/* Writes the window, from and to these seconds of the run, and begins the next one. */
void bench_hours_write_window(bench_hours_output *output, double from_s, double to_s);
/* Prints the verdict and closes the file. WEIR_ERR_SYSTEM if it is incomplete. */
weir_status bench_hours_close(bench_hours_output *output);
void bench_hours_free(bench_hours_output *output);

#endif
