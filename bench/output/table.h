/* nccl-tests' text table. Local; rank 0 only. */
#ifndef BENCH_OUTPUT_TABLE_H
#define BENCH_OUTPUT_TABLE_H

#include "bench/statistics/result.h"
#include "bench/job/run.h"

#include <stdio.h>

typedef struct bench_table {
    FILE *out;
    const bench_run *run;
    long failed;      /* number of wrong results */
    double busbw_sum; /* of the rows' right halves */
    long busbw_count;
} bench_table;

void bench_table_begin(bench_table *table, FILE *out, const bench_run *run);
void bench_table_row(bench_table *table, const bench_row *row);
void bench_table_end(bench_table *table);
/* The average in nccl-tests' footer, GB/s; 0 without rows. */
double bench_table_average(const bench_table *table);

/* Writes value into text, which has width + 1 bytes, with as many decimals as fit: 2, 1, none, else
 * an exponent. Pure. */
void bench_table_number(double value, int width, char *text);

/* The lines above the table: nccl-tests' own first, then weir's as comments. */

/* infos: one entry per rank. Local; rank 0 only. */
void bench_header_write(FILE *out, const bench_run *run, const bench_rank_info *infos);

/*
 * What a reader must know about how a row was measured, in comment lines of standard output; none
 * if everything went as requested. Local; rank 0 only.
 */

void bench_remarks_row(FILE *out, const bench_run *run, const bench_row *row);
/* The findings of --determinism, a line for each algorithm and peer:
 * "fused: same bits in 10 repeats and on 8 ranks". */
void bench_remarks_determinism(FILE *out, const bench_determinism *found);

#endif
