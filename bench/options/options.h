/*
 * The command line of the benchmarks. One table of rows (options.c) is what
 * the parser reads and what --help prints; the result is this plain struct. What
 * all ranks must have alike is written by alike.c, which compares it.
 */
#ifndef BENCH_OPTIONS_OPTIONS_H
#define BENCH_OPTIONS_OPTIONS_H

#include <weir/weir.h>

#include <stdio.h>

enum { BENCH_ROUNDS_FEW = 4, BENCH_ROUND_ITERATIONS = 3 };
enum { BENCH_PEERS_MAX = 8, BENCH_PROBLEM_BYTES = 1024 };

/* "all" of -d, -o and -r. */
enum { BENCH_ALL = -1 };

typedef enum bench_action {
    BENCH_ACTION_RUN,
    BENCH_ACTION_HELP,
    BENCH_ACTION_HELP_ENV,
    BENCH_ACTION_VERSION,
    BENCH_ACTION_LIST_ALGOS,
    BENCH_ACTION_LIST_FAULTS
} bench_action;

/* --verify as bits, see bench_options_oracles. */
enum { BENCH_ORACLE_MPI = 1, BENCH_ORACLE_EXACT = 2 };

/* -a: which of the ranks' times of one iteration the table reports. */
typedef enum bench_rank_time {
    BENCH_RANK_ZERO,
    BENCH_RANK_MEAN,
    BENCH_RANK_MIN,
    BENCH_RANK_MAX
} bench_rank_time;

/* The rows' parsers store int, size_t, double or const char * by offset: keep types. */
typedef struct bench_options {
    int action; /* bench_action */
    size_t min_bytes, max_bytes, step_bytes, step_factor;
    int min_given, max_given, step_given;
    int iterations; /* 0: as many as fit the time budget */
    int rounds;
    int batched;    /* set by the program: timed operations are enqueued in batches, whose
                       number -G says, and -n the operations of each */
    double until;   /* 0: no more rounds; else half the interval, as a share of the median */
    int warmups;    /* -1: until the series is stationary */
    int aggregate, cycles, checks;
    int dtype, op, root; /* BENCH_ALL: each in turn */
    int barrier_mode;    /* -z */
    int timeout_s;       /* 0: weir's default */
    int graph, cpu_time, timestamps, rank_time, registration, memory_report, unalign_elements;
    int per_iteration, skip, cold, determinism;
    int nthreads, ngpus, ignored;
    int inject; /* bench_fault */
    int inject_timed;
    const char *json_path, *csv_path, *tune_path, *ceiling_path;
    const char *backend, *transport, *algo, *verify, *buffers, *dist, *counts, *plan, *mode;
    size_t seed;
    const char *peers[BENCH_PEERS_MAX];
    int npeers;
} bench_options;

/* Parses the command line of the benchmark of one collective and checks the
 * words against one another. Local. On WEIR_ERR_INVALID problem (at most
 * BENCH_PROBLEM_BYTES) is one line that names the option and the remedy.
 * options points into argv. */
weir_status bench_options_parse(int argc, char **argv, weir_collective collective,
                                bench_options *options, char *problem);

/* Prints --help, made from the option table. */
void bench_options_help(FILE *to, const char *program);

/* 1 if outputs are checked at all. */
int bench_options_verifies(const bench_options *options);

/* The smallest difference between two times of an operation that the clock,
 * which counts nanoseconds, can show. */
double bench_options_step_us(const bench_options *options);
/* Into how many rounds the iterations of a size are divided: as many as --rounds
 * says, fewer where -n is small; 1 where rounds would be too few or too short to be
 * told apart, and for a fault in a timed iteration. */
int bench_options_rounds(const bench_options *options);
/* --until ends a size after this long. */
int bench_options_until_s(const bench_options *options);

/* The references that outputs are compared with, BENCH_ORACLE_*; 0: none. */
int bench_options_oracles(const bench_options *options);

/* Rules that join several options; called by bench_options_parse. */
weir_status bench_options_check(bench_options *options, weir_collective collective, char *problem);

/* "K", "M", "G" and "T" suffixes, decimals allowed ("1.5G"): bytes. */
weir_status bench_parse_bytes(const char *text, size_t *bytes);

#endif
