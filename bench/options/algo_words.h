/*
 * The algorithms of weir that a run measures, each a candidate: what --algo names,
 * and with --tune the candidates for each size.
 */
#ifndef BENCH_OPTIONS_ALGO_WORDS_H
#define BENCH_OPTIONS_ALGO_WORDS_H

#include "bench/options/options.h"
#include <weir/weir.h>

typedef struct bench_algo_word {
    char name[32]; /* as weir_comm_set_algo takes it: "auto", "fused", "packet:16x64"; of a
                      file, its kernel's, perhaps with a grid, too */
    const char *file;  /* a kernel's source, or NULL: a part of --algo's text */
    size_t file_bytes; /* its length */
    size_t least_bytes, most_bytes; /* sizes worth trying; most 0: all */
} bench_algo_word;

/* Writes the words for a backend ("host", "cuda") and a number of ranks, and returns how
 * many: the first is what the table shows. -1 if there are more than
 * BENCH_CANDIDATES_MAX. Pure. */
int bench_algos_list(const bench_options *options, weir_collective collective,
                     const char *backend, int nranks, bench_algo_word *words);

/* What is wrong with the first of --algo's words that is no algorithm of the collective and
 * no file with a kernel's name, and what --backend has instead, or of two that are one, written
 * to bad (bytes long); 0 if nothing is wrong, else -1. Local. */
int bench_algos_check(const bench_options *options, weir_collective collective, char *bad,
                      size_t bytes);

/* Reads the first word of *rest, a part of --algo's text, and moves *rest behind it (NULL: no more
 * words). Returns 0 if there is no word. Pure but for *rest. */
int bench_algo_words_next(const char **rest, bench_algo_word *word);

/* The grid behind a name, "packet:16x64"; 0 and 0 without one. Returns the name's length. */
size_t bench_algo_grid(const char *name, int *blocks, int *threads);

#endif
