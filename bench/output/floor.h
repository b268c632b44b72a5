/*
 * A floor of the average bus bandwidth that the table's footer shows: --min-bw GB/S, or else
 * NCCL_TESTS_MIN_BW, of which nccl-tests demands 90%. With a floor, the last line of standard
 * output begins with "# PASS" or "# FAIL", and a run that misses it ends with exit code 1. Local.
 */
#ifndef BENCH_OUTPUT_FLOOR_H
#define BENCH_OUTPUT_FLOOR_H

#include "bench/options/options.h"

#include <stdio.h>

/* Whether an average reaches the floor; 1 without a floor. */
int bench_floor_is_met(const bench_options *options, double average_gbs);
/* The word after the average in the footer: "OK" or "FAILED"; "" without a floor. */
const char *bench_floor_word(const bench_options *options, double average_gbs);
/* Writes the last line of a run with so many wrong results; nothing without a floor. */
void bench_floor_print(FILE *out, const bench_options *options, double average_gbs,
                       unsigned long long wrong);

#endif
