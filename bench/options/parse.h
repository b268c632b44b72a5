/* Reads the command line, and prints --help. Both work from the option table in table.c. */
#ifndef BENCH_OPTIONS_PARSE_H
#define BENCH_OPTIONS_PARSE_H

#include "bench/options/options.h"
#include "programs/options.h"

#include <stdio.h>

/* The options of the benchmarks of collectives; the settings are bench_options. */
extern const weiri_options bench_options_table;

/* Parses the command line of the benchmark of one collective, and checks the options against each
 * other. Local. WEIR_ERR_INVALID: problem (BENCH_PROBLEM_BYTES) is one line that names the option
 * and the remedy. options points into argv. */
weir_status bench_options_parse(int argc, char **argv, weir_collective collective,
                                bench_options *options, char *problem);

/* Prints --help. Local. */
void bench_options_help(FILE *to, const char *program);

/* The rules that relate several options to each other, and the defaults that depend on others. */

/* Called by bench_options_parse, once each option was read alone. Local. As bench_options_parse. */
weir_status bench_options_check(bench_options *options, weir_collective collective, char *problem);

#endif
