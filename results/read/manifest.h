/*
 * Manifests: what a run was measured with, as JSON beside its CSV (README.md). Read with
 * jansson into lines of a path and a value, such as build.commit and 77a4130. Local.
 */
#ifndef RESULTS_READ_MANIFEST_H
#define RESULTS_READ_MANIFEST_H

#include "results/read/rows.h"

typedef struct results_fact {
    const char *path, *value; /* the set's */
} results_fact;

typedef struct results_manifest {
    results_fact *facts; /* ascending by path; results_manifest_free */
    size_t count;
    const char *file;    /* NULL: none was found */
} results_manifest;

/* The manifest beside the first of the set's CSV files that has one. A broken one is noted
 * and has no facts. */
void results_manifest_read(results_set *set, results_manifest *made);
void results_manifest_free(results_manifest *made);

/* Calls different for each path whose values differ; a NULL value: the side lacks it. Paths
 * that differ between any two runs (run_id, utc, pid, ...) are left out. */
typedef void results_difference(void *context, const char *path, const char *a, const char *b);
void results_manifest_diff(const results_manifest *a, const results_manifest *b,
                           results_difference *different, void *context);

#endif
