/*
 * The algorithms that a run measures: the words of --algo, or with --tune the algorithms and grids
 * to try. Each word becomes a candidate.
 */
#ifndef BENCH_OPTIONS_ALGO_WORDS_H
#define BENCH_OPTIONS_ALGO_WORDS_H

#include "bench/options/options.h"
#include <weir/weir.h>

typedef struct bench_algo_word {
    char name[32];     /* as weir_comm_set_algo takes it: "auto", "fused", "packet:16x64"; or a
                          kernel's name, with a grid if given */
    const char *file;  /* a kernel's source file, a part of --algo's text; NULL: built in */
    size_t file_bytes; /* the length of file */
    size_t least_bytes, most_bytes; /* sizes worth trying; most_bytes 0: no limit */
} bench_algo_word;

/* Writes the words for a backend ("host", "cuda" or "net") and a number of ranks, and returns their
 * number; the table shows the first one. -1: there are more than BENCH_CANDIDATES_MAX. Reads
 * WEIR_INVARIANT, which excludes some. */
int bench_algos_list(const bench_options *options, weir_collective collective, const char *backend,
                     int nranks, bench_algo_word *words);

/* Checks the words of --algo. Returns 0, or -1 with a description in problem (bytes long): the
 * first word that is neither an algorithm of the collective nor a readable file with a kernel's
 * name, and what --backend has instead; or two words with the same name. Reads the file system. */
int bench_algos_check(const bench_options *options, weir_collective collective, char *bad,
                      size_t bytes);

/* Reads the first word of *rest, a part of --algo's text, and moves *rest after it (NULL: no more
 * words). Returns 0 if there is no word. Pure except for *rest. */
int bench_algo_words_next(const char **rest, bench_algo_word *word);

/* The grid after a name ("packet:16x64"); 0 and 0 without one. Returns the length of the name.
 * Pure. */
size_t bench_algo_grid(const char *name, int *blocks, int *threads);

#endif
