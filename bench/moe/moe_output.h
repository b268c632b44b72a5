/*
 * What bench_moe measured, and its writers: nccl-tests' table with one line for each number of
 * tokens, phase and candidate, and the CSV file. Rank 0 only.
 */
#ifndef BENCH_MOE_OUTPUT_H
#define BENCH_MOE_OUTPUT_H

#include "bench/job/run.h"
#include "bench/moe/moe_trial.h"
#include "bench/output/ceiling.h"
#include "bench/output/record.h"
#include "bench/statistics/stats.h"

#include <stdio.h>

/* One candidate in one phase. */
typedef struct moe_result {
    const moe_candidate_ops *candidate;
    moe_phase phase;
    uint64_t wrong; /* rows and counts, of all ranks and iterations */
    int iterations;
    bench_stats stats; /* of the slowest rank's times, us; valid if nothing is wrong */
} moe_result;

typedef struct moe_output {
    const bench_run *run;
    const bench_moe_options *options;
    bench_ceiling ceiling;
    bench_csv csv;    /* file NULL: none */
    double busbw_sum; /* of weir's results */
    int busbw_count;
    double ratio_logs[MOE_PHASES]; /* sums of log(peer's time / weir's) */
    int ratios[MOE_PHASES];
    double least_ratio[MOE_PHASES];
    const char *peer; /* its title; NULL: no row of a peer yet */
} moe_output;

/* Opens the files of the options and writes the header. Returns WEIR_ERR_INVALID, noted, if a file
 * cannot be used. */
weir_status bench_moe_output_open(moe_output *out, const bench_run *run,
                                  const bench_moe_options *options, size_t memory_bytes);
/* Writes one line. rows_bytes and the others describe one dispatch; a pair moves twice as much. */
void bench_moe_output_row(moe_output *out, const bench_moe_trial *trial, const moe_volume *volume,
                          const moe_result *result);
/* Prints one phase beside a copy that reads and writes as many bytes. */
void bench_moe_output_copy(const bench_moe_trial *trial, moe_phase phase, double bytes,
                           double copy_us, double us);
/* Notes that the peer took so much longer than weir. */
void bench_moe_output_ratio(moe_output *out, moe_phase phase, double ratio);
/* Writes the footer and closes the files, and stores whether the average bus bandwidth misses its
 * floor. WEIR_ERR_SYSTEM, noted, if not all could be written. */
weir_status bench_moe_output_close(moe_output *out, uint64_t wrong, int *misses_floor);

#endif
