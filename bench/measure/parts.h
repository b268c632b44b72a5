/*
 * What each of several groups of ranks measured (--split), in programs that have no bench_result:
 * bench_moe, bench_blocks, bench_barrier, bench_init. The groups are in the order of the job's.
 */
#ifndef BENCH_MEASURE_PARTS_H
#define BENCH_MEASURE_PARTS_H

#include "bench/job/job.h"
#include "bench/options/options.h"
#include "bench/statistics/stats.h"

#include <stdint.h>
#include <stdio.h>

/* One group; valid on rank 0. */
typedef struct bench_part {
    bench_stats stats; /* us, of its slowest rank; no samples: it was not timed */
    uint64_t wrong;    /* all that is wrong on its ranks */
} bench_part;

/* Writes the comment line of the header that says how many groups there are, if there are several.
 * Local; rank 0 only. */
void bench_parts_begin(FILE *out, const bench_job *job, const bench_options *options);
/* Adds up the errors; mine: this rank's. Without memory they stay 0. Collective. */
void bench_parts_put_wrong(const bench_job *job, uint64_t mine, bench_part *parts);
/* Makes statistics. us: this rank's times; scratch: on rank 0 ngroups x count numbers.
 * Collective. */
void bench_parts_put_times(const bench_job *job, const double *us, int count, double *scratch,
                           bench_part *parts);
/* Writes a comment line with the time or the errors of each group; if there are more than eight, of
 * those that have errors, and of the fastest and the slowest one. what: "dispatch", or "". Local;
 * rank 0 only. */
void bench_parts_write(FILE *out, const bench_job *job, const char *what, const char *candidate,
                       const bench_part *parts);

#endif
