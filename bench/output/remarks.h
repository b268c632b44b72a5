/*
 * What a reader must know about how a row was measured, in comment lines of standard output; none
 * if everything went as requested. Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_REMARKS_H
#define BENCH_OUTPUT_REMARKS_H

#include "bench/statistics/result.h"
#include "bench/job/run.h"

#include <stdio.h>

void bench_remarks_row(FILE *out, const bench_run *run, const bench_row *row);
/* The findings of --determinism, a line for each algorithm and peer:
 * "fused: same bits in 10 repeats and on 8 ranks". */
void bench_remarks_determinism(FILE *out, const bench_determinism *found);

#endif
