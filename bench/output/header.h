/* The lines above the table: nccl-tests' own first, then ours as comments. */
#ifndef BENCH_OUTPUT_HEADER_H
#define BENCH_OUTPUT_HEADER_H

#include "bench/job/run.h"

#include <stdio.h>

/* Local, for rank 0. infos: one entry a rank. */
void bench_header_write(FILE *out, const bench_run *run, const bench_rank_info *infos);

#endif
