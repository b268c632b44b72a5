/*
 * The algorithms of weir that a run measures, each a contender: what --algo names,
 * and with --tune the candidates for each size.
 */
#ifndef BENCH_ALGOS_H
#define BENCH_ALGOS_H

#include "bench/options.h"
#include "bench/result.h"
#include "weir.h"

typedef struct bench_algo_word {
    char name[32]; /* as weir_comm_set_algo takes it: "auto", "fused", "packet:16x64" */
    size_t least_bytes, most_bytes; /* sizes worth trying; most 0: all */
} bench_algo_word;

/* Writes the words for a backend ("host", "cuda") and a number of ranks, and returns how
 * many: the first is what the table shows. -1 if there are more than
 * BENCH_CONTENDERS_MAX. Pure. */
int bench_algos_list(const bench_options *options, weir_collective collective,
                     const char *backend, int nranks, bench_algo_word *words);

/* The first of --algo's words that is no algorithm of the collective, copied to bad
 * (32 bytes); 0 if there is none, else -1. Pure. */
int bench_algos_check(const char *list, weir_collective collective, char *bad);

#endif
