/*
 * The traffic pattern of alltoallv: a matrix of weights, [from][to], or a sequence of matrices (a
 * trace) that calls cycle through. A size S of the sweep means the same for every pattern: the
 * rank that sends or receives most moves S bytes in every call, the others in proportion.
 *
 *   uniform     all weights are equal
 *   spread:X    nccl-tests' traffic: (1 - X) of an equal share, and X of a share in
 *               proportion to the distance (to - from) mod nranks
 *   zipf:A      1 / (1 + p)^A, where p, from 0, is the receiver's place in an order of
 *               the ranks drawn from the seed; the order is the same for all senders
 *   hot:K       K receivers, drawn from the seed, share 90% of what each rank sends, the
 *               others 10%; if all ranks are hot, all weights are equal
 *   matrix:FILE, trace:FILE   weights from a file, see dist_file.c
 */
#ifndef BENCH_SIZES_DIST_H
#define BENCH_SIZES_DIST_H

#include <weir/weir.h>

typedef enum bench_dist_kind {
    BENCH_DIST_SPREAD, /* includes uniform, which is spread:0 */
    BENCH_DIST_ZIPF,
    BENCH_DIST_HOT,
    BENCH_DIST_MATRIX,
    BENCH_DIST_TRACE
} bench_dist_kind;

typedef struct bench_dist {
    bench_dist_kind kind;
    double parameter; /* X, A or K */
    const char *path; /* the file's, within the option's text */
    int nsteps;       /* number of matrices, 1 or more */
    double *weights;  /* nsteps x nranks x nranks, scaled so that the largest sum of a row or
                         column of each matrix is 1; NULL for SPREAD */
} bench_dist;

/* The option's words, for error messages. */
#define BENCH_DIST_WORDS                                                                           \
    "uniform, spread:X with X from 0 to 1, zipf:A with A from 0 to 20, hot:K with K ranks, "       \
    "matrix:FILE or trace:FILE"

/* Parses the option; bench_dist_open makes the weights. dist keeps pointers into text. Pure.
 * WEIR_ERR_INVALID if text is none of the above. */
weir_status bench_dist_parse(const char *text, bench_dist *dist);
/* Makes the weights; ranks with the same file and seed get the same. Local. WEIR_ERR_INVALID or
 * WEIR_ERR_NO_MEMORY: problem (BENCH_PROBLEM_BYTES) is one line. */
weir_status bench_dist_open(bench_dist *dist, int nranks, uint64_t seed, char *problem);
void bench_dist_close(bench_dist *dist);

/* The number of elements that rank `from` sends to rank `to` in a step, a multiple of 16 bytes; the
 * rank that moves most has about nranks * count elements. Pure. */
size_t bench_dist_elements(const bench_dist *dist, int step, size_t count, size_t element_bytes,
                           int from, int to, int nranks);

/* Implemented in dist_file.c: reads one matrix of nranks x nranks weights, or for a trace as many
 * as the file has. On success the caller frees *weights. Errors as bench_dist_open. */
weir_status bench_dist_read(const bench_dist *dist, int nranks, double **weights, int *nsteps,
                            char *problem);

#endif
