/* The lines above the table: nccl-tests' own first, then weir's as comments. */
#ifndef BENCH_OUTPUT_HEADER_H
#define BENCH_OUTPUT_HEADER_H

#include "bench/job/run.h"

#include <stdio.h>

/* infos: one entry per rank. Local; rank 0 only. */
void bench_header_write(FILE *out, const bench_run *run, const bench_rank_info *infos);

#endif
