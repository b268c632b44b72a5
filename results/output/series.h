/*
 * The lines of results/plot: rows divided into one line per candidate, and further by the columns
 * that differ for one candidate (ranks, placement, ...). Columns that merely distinguish two
 * measurements of one point (algorithm, file, run) divide only where such a pair exists, so that a
 * candidate that changes its algorithm with the size remains one line. Local.
 */
#ifndef RESULTS_OUTPUT_SERIES_H
#define RESULTS_OUTPUT_SERIES_H

#include "results/read/rows.h"

/*
 * Writes what results/plot.gp draws into a folder: for each collective a file of gnuplot settings,
 * COLLECTIVE.gp, and a file of points per line, COLLECTIVE.N.dat. Prints the collectives to list,
 * one per line. Rows that cannot be drawn are reported on standard error. Returns the number of
 * collectives, or -1 if a file cannot be written.
 */
int results_series_write(results_set *set, const char *folder, FILE *list);

#endif
