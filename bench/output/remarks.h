/*
 * What a reader must know about how a row was measured, as comment lines of
 * standard output; none where all went as asked. Local, for rank 0.
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
