/*
 * A store in one SQLite file: the rows of all runs with the columns of weir's CSV, the run's name
 * and the row's origin, and the name of the baseline. It can be used wherever a folder of run
 * folders can. Rows of its runs have the path FILE/RUN/... . A build without SQLite reports that it
 * cannot read such a file. Local.
 */
#ifndef RESULTS_STORE_SQLITE_H
#define RESULTS_STORE_SQLITE_H

#include "results/read/rows.h"

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
