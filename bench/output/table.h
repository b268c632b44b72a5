/* What a run prints: nccl-tests' header and table, remarks after rows, and the ratios between
 * candidates at the end. Local; rank 0 only. */
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
    char pattern[40]; /* of sendrecv, of the row before */
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

/* infos: a description of each rank; NULL: unknown. */
void bench_remarks_row(FILE *out, const bench_run *run, const bench_rank_info *infos,
                       const bench_row *row);
/* Completes a comment line: "rank 5 (node b, GPU 3) is last in 81% of iterations, 9.2 us after the
 * median". */
void bench_remarks_last_rank(FILE *out, const bench_run *run, const bench_rank_info *infos,
                             const bench_lateness *late);
/* What each group measured of what the table shows, and of each peer; of more than eight groups the
 * fastest and the slowest. Nothing if ranks are not divided. */
void bench_remarks_groups(FILE *out, const bench_run *run, const bench_row *row);
/* Rows whose intervals are wider than their medians: such a row says little. */
typedef struct bench_interval_count {
    long rows, wide;
    char first[256]; /* the first such result */
} bench_interval_count;

void bench_interval_row(bench_interval_count *count, const bench_row *row);
/* Warns if there were such rows. */
void bench_interval_end(const bench_interval_count *count, bench_job *job);

/* The findings of --determinism, a line for each algorithm and peer:
 * "fused: same bits in 10 repeats and on 8 ranks". */
void bench_remarks_determinism(FILE *out, const bench_determinism *found);

/*
 * weir compared with its peers, in comment lines of standard output: one line per row, and a
 * summary with the geometric mean and the worst size; another summary for each kernel of the user.
 * Also which algorithm ran at which sizes.
 * Local; rank 0 only.
 */

enum { BENCH_SPANS_MAX = 32 };

/* All rows so far in which a peer, or weir's selection, is compared with weir or with a kernel of
 * the user; without rows of zero bytes. */
typedef struct bench_ratio_sum {
    char name[64];
    char subject[32]; /* what the ratios are relative to: "weir", or the kernel's name */
    double log_sum;
    long rows;
    bench_ratio worst; /* the smallest ratio: where the subject compares worst */
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
    bench_ratio_sum sums[BENCH_CANDIDATES_MAX];
    int nsums;
    bench_algo_span spans[BENCH_SPANS_MAX];
    int nspans;
    char last_refusal[160]; /* the last line about a candidate that takes no part */
} bench_ratios;

void bench_ratios_begin(bench_ratios *ratios, FILE *out);
void bench_ratios_row(bench_ratios *ratios, const bench_row *row);
void bench_ratios_end(const bench_ratios *ratios);

#endif
