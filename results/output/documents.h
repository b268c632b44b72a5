/*
 * What JSON files of results have beside their rows, for writing them again
 * (results_print_rows_json). Local.
 */
#ifndef RESULTS_OUTPUT_DOCUMENTS_H
#define RESULTS_OUTPUT_DOCUMENTS_H

#include "results/read/rows.h"

#include <jansson.h>

/* Keeps a copy of all members of top, an object with a list `results`, but for the results'
 * rows, which have this very path, and lines from first on. Does nothing in a set that does
 * not want documents. */
void results_document_keep(results_set *set, const char *path, int first, json_t *top);

#endif
