/*
 * A store in one SQLite file: the rows of all runs, with the columns of our CSV, the run's
 * name, and where the row came from; and the name of the baseline. It serves wherever a
 * folder of run folders does; its runs' rows have the path FILE/RUN/... . A build without
 * SQLite notes that it cannot read such a file. Local.
 */
#ifndef RESULTS_STORE_SQLITE_H
#define RESULTS_STORE_SQLITE_H

#include "results/read/rows.h"

/* Whether there is an SQLite file of that name (store.c). */
int results_sqlite_is(const char *path);

/* The rows of a run, NULL: of all. 0, or -1: noted. */
int results_sqlite_read(results_set *set, const char *path, const char *run);
/* The names of all runs, ascending, kept by the set. 0, or -1: noted. */
int results_sqlite_runs(results_set *set, const char *path, const char ***names, size_t *count);
/* The run that `latest` or `baseline` stands for. 0, or -1 and run has the reason. */
int results_sqlite_find(const char *path, const char *word, char *run, size_t bytes);
/* Makes a run the baseline. 0, or -1 with the reason. */
int results_sqlite_accept(const char *path, const char *run, char *reason, size_t bytes);
/* Adds the set's rows as a run that is not there yet; makes the file if need be. All of them
 * are added or none. 0, or -1 with the reason. */
int results_sqlite_add(const results_set *set, const char *path, const char *run, char *reason,
                       size_t bytes);

#endif
