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
    const results_row *row; /* an example of its rows */
    const double *times_us; /* one per night; NaN: not measured */
    size_t nights;
    size_t changes[RESULTS_CHANGES]; /* the first nights of new levels, ascending */
    size_t nchanges;
} results_series;

typedef struct results_history {
    const char **nights; /* names of run folders, ascending */
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

/*
 * A store in one SQLite file: the rows of all runs with the columns of weir's CSV, the run's name
 * and the row's origin, and the name of the baseline. It can be used wherever a folder of run
 * folders can. Rows of its runs have the path FILE/RUN/... . A build without SQLite reports that it
 * cannot read such a file. Local.
 */

/* Whether path is an SQLite file (store.c). */
int results_sqlite_is(const char *path);

/* Reads the rows of a run (NULL: of all runs). Returns 0, or -1 after reporting the problem. */
int results_sqlite_read(results_set *set, const char *path, const char *run);
/* The names of all runs, ascending; memory of the set. Returns 0, or -1 after reporting the
 * problem. */
int results_sqlite_runs(results_set *set, const char *path, const char ***names, size_t *count);
/* Resolves `latest` or `baseline` to a run. Returns 0, or -1 with the reason in run. */
int results_sqlite_find(const char *path, const char *word, char *run, size_t bytes);
/* Makes a run the baseline. Returns 0, or -1 with the reason. */
int results_sqlite_accept(const char *path, const char *run, char *reason, size_t bytes);
/* Adds the set's rows as a new run, creating the file if necessary; adds all of them or none.
 * Returns 0, or -1 with the reason. */
int results_sqlite_add(const results_set *set, const char *path, const char *run, char *reason,
                       size_t bytes);

#endif
