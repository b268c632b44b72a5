/* What pairs of ranks reach in patterns of single pairs, as a matrix per size after the table. */
#ifndef BENCH_OUTPUT_MATRIX_H
#define BENCH_OUTPUT_MATRIX_H

#include "bench/job/run.h"
#include "bench/statistics/result.h"

typedef struct bench_matrix_entry bench_matrix_entry;

typedef struct bench_matrix {
    bench_matrix_entry *entries; /* owned */
    size_t count, room;
    int lost; /* 1: there was no memory for a row */
} bench_matrix;

/* Keeps the times of a row whose pattern is a pair. Local; rank 0 only. */
void bench_matrix_row(bench_matrix *matrix, const bench_row *row);
/* Prints the matrices: of pingpong times in us, else GB/s in each direction. A cell is marked if
 * the interval of its time lies beyond BENCH_MATRIX_PERCENT more than the median of all cells; up
 * to BENCH_MATRIX_RANKS ranks; of more, the marked cells alone. Local; rank 0 only. */
enum { BENCH_MATRIX_PERCENT = 10, BENCH_MATRIX_RANKS = 32 };
void bench_matrix_end(bench_matrix *matrix, FILE *out, const bench_run *run,
                      const bench_rank_info *infos);
void bench_matrix_close(bench_matrix *matrix);

#endif
