/*
 * What bench_moe measured, and its writers: nccl-tests' table with one line for each number of
 * tokens, phase and candidate, and lines of the CSV file. Rank 0 only.
 */
#ifndef BENCH_MOE_OUTPUT_H
#define BENCH_MOE_OUTPUT_H

#include "bench/measure/parts.h"
#include "bench/moe/moe_trial.h"
#include "bench/output/report.h"
#include "bench/statistics/lateness.h"

enum { MOE_CANDIDATES_MAX = 2, MOE_COPIES = 2 };

/* One candidate in one phase. */
typedef struct moe_result {
    const moe_candidate_ops *candidate;
    moe_phase phase;
    uint64_t wrong; /* rows and counts, of all ranks and iterations */
    int iterations;
    bench_stats stats;   /* on rank 0: of the slowest rank's times, us; valid if nothing is wrong */
    bench_lateness late; /* on rank 0: of a call, the rank that ends last; unknown of a pair */
    bench_part *parts;   /* on rank 0: what each group measured; NULL: the ranks form one */
} moe_result;

/* A phase of one rank on a GPU beside a copy that reads and writes as many bytes. */
typedef struct moe_copy {
    double bytes; /* 0: not measured */
    double copy_us, us;
} moe_copy;

/* One number of tokens. */
typedef struct moe_point {
    bench_moe_trial trial;
    moe_volume volume;   /* of a dispatch of this rank's group; on rank 0, of the first group */
    moe_volume *volumes; /* on rank 0: of each group; NULL: the ranks form one; owned */
    bench_part *parts;   /* of all results; owned */
    moe_result results[MOE_PHASES * MOE_CANDIDATES_MAX]; /* the candidates of each phase in turn */
    int count;
    moe_copy copies[MOE_COPIES]; /* dispatch, combine */
} moe_point;

typedef struct moe_output {
    bench_report *report;
    const bench_moe_options *options;
    double ratio_logs[MOE_PHASES]; /* sums of log(peer's time / weir's) */
    int ratios[MOE_PHASES];
    double least_ratio[MOE_PHASES];
    const char *peer; /* its title; NULL: no row of a peer yet */
} moe_output;

/* Writes the header. */
void bench_moe_output_begin(moe_output *out, bench_report *report, const bench_moe_options *options,
                            size_t memory_bytes);
/* Frees what a point owns, but for its trial. */
void bench_moe_point_clear(moe_point *point);
/* Writes the lines of a point. */
void bench_moe_output_point(moe_output *out, const moe_point *point);
/* Writes the footer. */
void bench_moe_output_end(moe_output *out);

#endif
