/* The measurement of every type, operation, root and size of a run. */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include "bench/buffers.h"
#include "bench/contenders.h"
#include "bench/report.h"

/* Measures and reports row by row. Collective; agreed and told. failed counts
 * wrong results, alike on every rank. */
weir_status bench_sweep(const bench_run *run, const bench_buffers *buffers,
                        bench_contenders *contenders, bench_report *report, long *failed);

#endif
