/*
 * weir compared with its peers, in comment lines of standard output: one line per row, and a
 * summary with the geometric mean and the worst size. Also which algorithm ran at which sizes.
 * Local; rank 0 only.
 */
#ifndef BENCH_OUTPUT_RATIOS_H
#define BENCH_OUTPUT_RATIOS_H

#include "bench/statistics/result.h"

#include <stdio.h>

enum { BENCH_SPANS_MAX = 32 };

/* All rows of one peer so far, without rows of zero bytes. */
typedef struct bench_ratio_sum {
    char name[64];
    double log_sum;
    long rows;
    bench_ratio worst; /* the smallest ratio: where weir compares worst */
    size_t worst_bytes;
    int worst_placement;
} bench_ratio_sum;

/* The smallest and the largest size at which an algorithm ran, out of place. */
typedef struct bench_algo_span {
    char name[32];
    size_t first_bytes, last_bytes;
} bench_algo_span;

typedef struct bench_ratios {
    FILE *out;
    bench_ratio_sum peers[BENCH_CANDIDATES_MAX];
    int npeers;
    bench_algo_span spans[BENCH_SPANS_MAX];
    int nspans;
    char last_refusal[160]; /* the last line about a candidate that takes no part */
} bench_ratios;

void bench_ratios_begin(bench_ratios *ratios, FILE *out);
void bench_ratios_row(bench_ratios *ratios, const bench_row *row);
void bench_ratios_end(const bench_ratios *ratios);

#endif
