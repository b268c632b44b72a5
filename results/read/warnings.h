/*
 * The warnings in the manifests of a set: conditions that make its results doubtful, such as a busy
 * node. Local.
 */
#ifndef RESULTS_READ_WARNINGS_H
#define RESULTS_READ_WARNINGS_H

#include "results/read/rows.h"

enum { RESULTS_WARNINGS_MOST = 8 };

typedef struct results_warning {
    const char *kind, *text; /* of the first file that has it; memory of the set */
    size_t files;            /* CSV files whose manifests have this kind */
} results_warning;

typedef struct results_warnings {
    results_warning list[RESULTS_WARNINGS_MOST];
    int count;
    size_t manifests; /* manifests that were read */
} results_warnings;

/* Reads the manifests next to all CSV files of the set. Invalid ones are reported in the set.
 * Control characters in texts become '?'. */
void results_warnings_read(results_set *set, results_warnings *made);

#endif
