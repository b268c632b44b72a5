/* The measurement of every type, operation, root and size of a run. */
#ifndef BENCH_MEASURE_SWEEP_H
#define BENCH_MEASURE_SWEEP_H

#include "bench/job/buffers.h"
#include "bench/candidate/candidates.h"
#include "bench/output/report.h"

/* Measures and reports row by row. *failed: the number of wrong results, the same on every rank.
 * Collective; agreed; a failure is reported on standard error. */
weir_status bench_sweep(const bench_run *run, const bench_buffers *buffers,
                        bench_candidates *candidates, bench_report *report, long *failed);

#endif
