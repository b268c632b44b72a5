/*
 * --ceiling: results relative to the measured links of the machine (lib/base/links.h). The ceiling
 * of a result is the shortest time that its bytes need: the bytes that must reach each rank, as
 * the bus bandwidth counts them, at the bandwidth of all links together, plus one latency. 100% is
 * that time. Local; rank 0 only.
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

/* Reads the file of --ceiling, if given, and warns if it is for another number of ranks.
 * WEIR_ERR_INVALID, noted in the job: the file cannot be read, or is for another kind of memory or
 * for one node of several. */
weir_status bench_ceiling_open(bench_ceiling *ceiling, const bench_run *run);
/* The shortest time that links need for bytes at a bandwidth of busbw_gbs in median_us, divided by
 * median_us, in percent; NaN if it is unknown, or no bytes are moved. */
double bench_ceiling_pct(const bench_ceiling *ceiling, double busbw_gbs, double median_us);
/* Records the lowest and the highest percentage, for the footer. */
void bench_ceiling_row(bench_ceiling *ceiling, const bench_row *row);
/* Writes the footer's line, and frees. */
void bench_ceiling_end(bench_ceiling *ceiling, FILE *out);

#endif
