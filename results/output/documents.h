/*
 * What JSON files of results contain in addition to their rows, kept for writing them again
 * (results_print_rows_json). Local.
 */
#ifndef RESULTS_OUTPUT_DOCUMENTS_H
#define RESULTS_OUTPUT_DOCUMENTS_H

#include "results/read/rows.h"

#include <jansson.h>

/* Keeps a copy of all members of top, an object with a list `results`, except the results' rows,
 * which have this path and line numbers from `first` on. Does nothing for a set that does not keep
 * documents. */
void results_document_keep(results_set *set, const char *path, int first, json_t *top);

#endif
