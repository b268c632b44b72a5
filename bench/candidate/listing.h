/* The output of --list-algos. */
#ifndef BENCH_CANDIDATE_LISTING_H
#define BENCH_CANDIDATE_LISTING_H

#include "bench/options/options.h"

#include <stdio.h>

/* Prints a line for each built-in algorithm of the collective, for the plan of --plan, and for each
 * kernel file that --algo names. Local. */
void bench_listing_print(FILE *to, const bench_options *options, weir_collective collective);

#endif
