/*
 * --ceiling: results held against the machine's measured links (lib/base/links.h). A
 * result's ceiling is the time that its bytes need at best: those that must come to each rank,
 * as the bus bandwidth counts them, at the bandwidth that all links have together, and one
 * latency. 100% is that time. Local, for rank 0.
 */
#ifndef BENCH_OUTPUT_CEILING_H
#define BENCH_OUTPUT_CEILING_H

#include "base/links.h"
#include "bench/statistics/result.h"
#include "bench/job/run.h"

typedef struct bench_ceiling {
    weiri_links *links; /* NULL: no --ceiling, all calls do nothing; owned */
    const bench_run *run;
    struct bench_ceiling_spot {
        double pct;
        size_t bytes;
        const char *algo;
    } low, high; /* of weir's results */
    char algos[2][32];
} bench_ceiling;

/* Reads the file of --ceiling, if there is one, and warns where it has another number of
 * ranks. WEIR_ERR_INVALID, noted in the job: it cannot
 * be read, or is of other memory or of another machine's links. */
weir_status bench_ceiling_open(bench_ceiling *ceiling, const bench_run *run);
/* A result's ceiling over its median, in percent; NaN if either is not known, or no
 * bytes are moved. */
double bench_ceiling_pct(const bench_ceiling *ceiling, const bench_row *row,
                         const bench_result *result);
/* Keeps what the footer tells. */
void bench_ceiling_row(bench_ceiling *ceiling, const bench_row *row);
/* The footer's line. Frees. */
void bench_ceiling_end(bench_ceiling *ceiling, FILE *out);

#endif
