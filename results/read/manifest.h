/*
 * Manifests: JSON files next to CSV files that describe how a run was measured. Read into pairs of
 * a path and a value, such as build.commit and 77a4130. Local.
 */
#ifndef RESULTS_READ_MANIFEST_H
#define RESULTS_READ_MANIFEST_H

#include "results/read/rows.h"

typedef struct results_fact {
    const char *path, *value; /* memory of the set */
} results_fact;

typedef struct results_manifest {
    results_fact *facts; /* ascending by path; freed by results_manifest_free */
    size_t count;
    const char *file;    /* NULL: none was found */
} results_manifest;

/* Reads the manifest next to the first of the set's CSV files that has one. An invalid one is
 * reported and gives no facts. */
void results_manifest_read(results_set *set, results_manifest *made);
void results_manifest_free(results_manifest *made);

/* Calls `different` for each path whose values differ; a NULL value means that the side lacks it.
 * Leaves out paths that differ between any two runs (run_id, utc, pid, ...). */
typedef void results_difference(void *context, const char *path, const char *a, const char *b);
void results_manifest_diff(const results_manifest *a, const results_manifest *b,
                           results_difference *different, void *context);

#endif
