/* The rows of bench_p2p whose pattern is a pair of ranks, as one table per size. Local. */
#ifndef RESULTS_OUTPUT_MATRIX_H
#define RESULTS_OUTPUT_MATRIX_H

#include "results/judge/compare.h"

/* A row's pattern, "oneway:0-3": its kind, and the pair. */
typedef struct results_pattern {
    char kind[16];
    int first, second;
} results_pattern;

/* Reads the pattern of a row. Returns 1, or 0 if it has none, or one of all ranks. */
int results_pattern_of(const results_row *row, results_pattern *pattern);
/* Writes the tables of some pairs of a comparison: times of pingpong, else bandwidths; B's, or of
 * the only side. A cell whose time is more than 10% above the median of its table, and beyond its
 * interval, has a mark. */
void results_matrices_put(FILE *page, const results_pair *pairs, size_t count);

#endif
