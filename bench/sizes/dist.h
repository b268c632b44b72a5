/*
 * Who sends how much to whom in alltoallv: a matrix of weights, [from][to], or
 * several that calls take in turn (a trace). A size S of the sweep means the same
 * for all: the rank that sends or receives most moves S in every call, and the
 * others in proportion.
 *
 *   uniform     all weights alike
 *   spread:X    nccl-tests' traffic: (1 - X) of an equal share and X of one in
 *               proportion to the distance (to - from) mod nranks
 *   zipf:A      1 / (1 + p)^A, where p from 0 is the receiver's place in an order
 *               of the ranks drawn from the seed: all prefer the same ones
 *   hot:K       K receivers, drawn from the seed, share 90% of what each rank
 *               sends, the others 10%; all ranks hot: all alike
 *   matrix:FILE, trace:FILE   weights from a file, see dist_file.c
 */
#ifndef BENCH_SIZES_DIST_H
#define BENCH_SIZES_DIST_H

#include <weir/weir.h>

typedef enum bench_dist_kind {
    BENCH_DIST_SPREAD, /* and uniform, which is spread:0 */
    BENCH_DIST_ZIPF,
    BENCH_DIST_HOT,
    BENCH_DIST_MATRIX,
    BENCH_DIST_TRACE
} bench_dist_kind;

typedef struct bench_dist {
    bench_dist_kind kind;
    double parameter; /* X, A or K */
    const char *path; /* the file's, in the option's text */
    int nsteps;       /* matrices, 1 or more */
    double *weights;  /* nsteps x nranks x nranks, scaled so that in each matrix the
                         largest sum of a row or column is 1; NULL: SPREAD */
} bench_dist;

/* The option's words, in one line. */
#define BENCH_DIST_WORDS \
    "uniform, spread:X with X from 0 to 1, zipf:A with A from 0 to 20, hot:K with K ranks, " \
    "matrix:FILE or trace:FILE"

/* Reads the option; weights are made by bench_dist_open. Local.
 * WEIR_ERR_INVALID: it is none of the above. */
weir_status bench_dist_parse(const char *text, bench_dist *dist);
/* Makes the weights, the same on every rank that has the same file. Local.
 * WEIR_ERR_INVALID, WEIR_ERR_NO_MEMORY: problem (BENCH_PROBLEM_BYTES) is one line. */
weir_status bench_dist_open(bench_dist *dist, int nranks, uint64_t seed, char *problem);
void bench_dist_close(bench_dist *dist);

/* Elements that rank from sends to rank to in a step, when the rank with most to
 * move has about nranks * count elements to. Pure. Parts are whole 16 bytes. */
size_t bench_dist_elements(const bench_dist *dist, int step, size_t count, size_t element_bytes,
                           int from, int to, int nranks);

/* dist_file.c: reads matrices of nranks x nranks weights; one, or for a trace as
 * many as there are. On success the caller frees weights. As bench_dist_open. */
weir_status bench_dist_read(const bench_dist *dist, int nranks, double **weights, int *nsteps,
                            char *problem);

#endif
