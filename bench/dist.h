/*
 * Who sends how much to whom in alltoallv. All distributions are balanced:
 * every rank sends, and receives, the same total.
 */
#ifndef BENCH_DIST_H
#define BENCH_DIST_H

#include "weir.h"

typedef struct bench_dist {
    double spread; /* 0: every peer alike; 1: in proportion to the distance */
} bench_dist;

/* "uniform" or "spread:X". Local. WEIR_ERR_INVALID otherwise. */
weir_status bench_dist_parse(const char *text, bench_dist *dist);

/* Elements that rank from sends to rank to when each rank sends about
 * nranks * count elements in all. Pure. Peers' parts are whole 16 bytes. */
size_t bench_dist_elements(const bench_dist *dist, size_t count, size_t element_bytes, int from,
                           int to, int nranks);

#endif
