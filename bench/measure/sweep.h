/* The measurement of every type, operation, root and size of a run. */
#ifndef BENCH_MEASURE_SWEEP_H
#define BENCH_MEASURE_SWEEP_H

#include "bench/job/buffers.h"
#include "bench/candidate/candidates.h"
#include "bench/output/report.h"
#include "bench/trial/trial.h"

typedef struct bench_sweep bench_sweep;

/* Prepares the sweep. Collective; agreed; a failure is reported on standard error, and *sweep is
 * then NULL or must be closed. */
weir_status bench_sweep_open(const bench_run *run, const bench_buffers *buffers,
                             bench_candidates *candidates, bench_report *report,
                             bench_sweep **sweep);
/* Selects the next round of a size in a placement; *trial is NULL after the last one. Collective;
 * agreed; a failure is reported: also if no fault of --inject has changed anything, or no algorithm
 * of --algo served a call. */
weir_status bench_sweep_next(bench_sweep *sweep, bench_trial **trial);
/* Reports the row if the round, which has run, was the last one of its size, and adds wrong results
 * to the report. Runs on every rank. */
void bench_sweep_row(bench_sweep *sweep);
void bench_sweep_close(bench_sweep *sweep);

#endif
