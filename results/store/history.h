/*
 * Nights of a store as series: of each collective, type, number of ranks and placement the
 * smallest, the middle and the largest size that weir measured, with the nights after which
 * the level changed. Local.
 */
#ifndef RESULTS_STORE_HISTORY_H
#define RESULTS_STORE_HISTORY_H

#include "results/read/rows.h"

enum { RESULTS_CHANGES = 8 };

typedef struct results_series {
    const results_row *row;    /* what it is of */
    const double *times_us;    /* a night each; NaN: not measured */
    size_t nights;
    size_t changes[RESULTS_CHANGES]; /* the first night of a new level, ascending */
    size_t nchanges;
} results_series;

typedef struct results_history {
    const char **nights;       /* names of run folders, ascending */
    size_t count;
    results_series *series;
    size_t nseries;
} results_history;

/* Everything lives in the set, which gets all nights' rows. 0, or -1: noted. */
int results_history_read(results_set *set, const char *store, results_history *made);

/*
 * Where the level of times changes: binary segmentation, each cut the one with the largest
 * |t| between both sides, taken from 6 on and with 5 nights and 2% between the medians at
 * least. Writes first nights of new levels, ascending; returns how many. NaNs are skipped.
 */
size_t results_change_points(const double *times, size_t count, size_t *changes, size_t most);

#endif
