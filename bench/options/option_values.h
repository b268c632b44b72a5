/*
 * Types of options that only benchmarks have, as rows of their table (programs/options.h) name
 * them. All are local.
 */
#ifndef BENCH_OPTIONS_OPTION_VALUES_H
#define BENCH_OPTIONS_OPTION_VALUES_H

#include "bench/options/options.h"
#include "programs/options.h"

/* int: "all" (BENCH_ALL), or the name of a type or an operation; or for -r a number. */
extern const weiri_option_type bench_option_dtype, bench_option_op, bench_option_root;
/* double: seconds, given as "90", "90s", "10m" or "8h". */
extern const weiri_option_type bench_option_duration;
/* bench_options: --peer adds a peer to `peers`. --inject sets `inject` and what belongs to it, or
 * the action that lists faults. */
extern const weiri_option_type bench_option_peer, bench_option_inject;
/* bench_options: --with adds a competing call to `rivals`. */
extern const weiri_option_type bench_option_with;
/* bench_options: --beside adds a computation to them. */
extern const weiri_option_type bench_option_beside;

/* Returns the bench_buffers_word of a word of --buffers; -1 if it is none. Pure. */
int bench_buffers_find(const char *text);
/* Reads a floor of the bus bandwidth, in GB/s. Returns 0, or -1 with what was expected. */
int bench_floor_read(const char *text, bench_options *options, char *expected);
/* Takes the floor from NCCL_TESTS_MIN_BW, unless one was given. Returns 0, or -1 with a usage
 * error. */
int bench_floor_of_environment(bench_options *options, char *problem);
/* Reads the rule of --split, else of nccl-tests' variables. Returns 0, or -1 with a usage error. */
int bench_split_of_options(bench_options *options, char *problem);

#endif
