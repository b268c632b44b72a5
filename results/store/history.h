/*
 * The nights of a store as series: for each collective, type, number of ranks and placement, the
 * smallest, the middle and the largest size measured for weir, with the nights at which the level
 * changed. Local.
 */
#ifndef RESULTS_STORE_HISTORY_H
#define RESULTS_STORE_HISTORY_H

#include "results/read/rows.h"

enum { RESULTS_CHANGES = 8 };

typedef struct results_series {
    const results_row *row;    /* an example of its rows */
    const double *times_us;    /* one per night; NaN: not measured */
    size_t nights;
    size_t changes[RESULTS_CHANGES]; /* the first nights of new levels, ascending */
    size_t nchanges;
} results_series;

typedef struct results_history {
    const char **nights;       /* names of run folders, ascending */
    size_t count;
    results_series *series;
    size_t nseries;
} results_history;

/* Reads all nights. The rows and all memory belong to the set. Returns 0, or -1 after reporting the
 * problem. */
int results_history_read(results_set *set, const char *store, results_history *made);

/*
 * Finds changes of level by binary segmentation: each cut is the one with the largest |t| between
 * both sides, accepted from 6 on, with at least 5 nights on each side and 2% between the medians.
 * Writes the first nights of new levels, ascending, and returns their number. Skips NaNs.
 */
size_t results_change_points(const double *times, size_t count, size_t *changes, size_t most);

#endif
