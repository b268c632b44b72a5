/*
 * What was measured, as plain data: the writers (table, CSV, JSON, ratios) read
 * this and nothing else. Statistics exist on rank 0 only.
 */
#ifndef BENCH_STATISTICS_RESULT_H
#define BENCH_STATISTICS_RESULT_H

#include "bench/gpu/clocks.h"
#include "bench/options/options.h"
#include "bench/sizes/shape.h"
#include "bench/statistics/stats.h"
#include "verify/verify.h"

enum { BENCH_OUT_OF_PLACE, BENCH_IN_PLACE, BENCH_PLACEMENTS, BENCH_ROUNDS_MAX = 256 };

/* Of a check that not every result has. */
typedef enum bench_outcome { BENCH_OFF, BENCH_PASS, BENCH_FAIL } bench_outcome;

/* What --determinism found of one result. */
typedef struct bench_determinism_outcome {
    int tried, differing_repeats, differing_ranks;
} bench_determinism_outcome;

/* One candidate at one size in one placement. */
typedef struct bench_result {
    const char *candidate, *transport; /* the candidate's storage */
    char algo[32];
    int peer;    /* 1: a peer; 0: weir */
    int is_users; /* 1: the user's code */
    int ran;     /* 0: cannot make this call, or the algorithm does not apply */
    char refusal[64]; /* why it cannot; else empty */
    int checked; /* check is valid; with a defect nothing was timed */
    weirv_result check;
    int sampled; /* MPI's reference covered windows only */
    bench_outcome special; /* the run on special values */
    bench_determinism_outcome determinism;
    int timed; /* the rest is valid, on rank 0 */
    int iterations;
    int rounds, round_ends[BENCH_ROUNDS_MAX]; /* as in bench_sequence */
    int warmups;  /* untimed iterations, the most that a block had */
    int unsteady; /* times still fell when they ended */
    bench_clocks clocks; /* this rank's GPU after each block; once timed, on rank 0, all ranks' */
    bench_stats skew; /* us between first and last rank to start; no samples: not measured */
    bench_stats stats;    /* over iterations of the slowest rank's time, us */
    bench_stats per_iter; /* the same without the first -K iterations */
    double time_us;       /* the table's, by -a: a median */
    double cpu_us;        /* a mean, the busiest rank's */
    double *slowest_us;   /* iterations; owned here */
    double *all_us;       /* nranks x iterations, row r rank r's; owned here */
} bench_result;

/* Wall time of rank 0, in seconds. Timing is blocks of iterations with their
 * warm-ups, of all candidates; verification all that -c 0 would leave out: new data,
 * runs to be checked, comparison, and checks between timed iterations. */
typedef struct bench_cost {
    double timing_s, verification_s;
} bench_cost;

/* One line of the table. */
typedef struct bench_row {
    weir_collective collective;
    weir_dtype dtype;
    weir_op op;
    int root; /* -1: the collective has none */
    int nranks;
    bench_shape shape;
    int placements; /* 2, or 1 where the collective has no in-place form */
    int ncandidates;
    int oracles; /* BENCH_ORACLE_*: what results are compared with */
    int primary[BENCH_PLACEMENTS]; /* index of the candidate that the table shows */
    bench_cost cost[BENCH_PLACEMENTS];
    bench_result results[BENCH_PLACEMENTS][BENCH_CANDIDATES_MAX];
} bench_row;

enum { BENCH_REPEATS = 10, BENCH_DETERMINISM_ROWS = 80 };

/* One algorithm of weir, or a peer. Results: sizes, types, operations, placements. */
typedef struct bench_determinism_row {
    char name[64];
    long results, differing_repeats, differing_ranks;
    char first[256]; /* the first difference; empty if there is none */
} bench_determinism_row;

/* What was found in a run; the same on every rank. */
typedef struct bench_determinism {
    int nranks; /* whose results were compared with each other; 0: the collective's differ */
    int nrows;
    bench_determinism_row rows[BENCH_DETERMINISM_ROWS];
} bench_determinism;

/* 1 if the result is known to be wrong. */
int bench_result_failed(const bench_result *result);
/* bytes/time, GB/s (1e9), and the same times the bus factor. */
double bench_algbw_gbs(const bench_row *row, double time_us);
double bench_busbw_gbs(const bench_row *row, double time_us);
/* The slowest rank's times of a timed result, which owns them. */
bench_sequence bench_result_sequence(const bench_result *result);
/* How many times as long other's median is as shown's, with its 95% interval:
 * the bootstrap's, else from both medians' order statistics. Both were timed. */
bench_ratio bench_result_ratio(const bench_result *other, const bench_result *shown);

/* Both placements together. */
bench_cost bench_row_cost(const bench_row *row);
/* What a result was compared with: "exact+mpi", "exact+mpi-windows", "exact",
 * "mpi"; "none" where it was not. */
const char *bench_row_oracle(const bench_row *row, const bench_result *result);
/* "pass", "fail", or "off". Static. */
const char *bench_outcome_name(bench_outcome outcome);
/* What --determinism found: "same", "unlike-repeats" or "unlike-ranks" (other bits than in the
 * first repeat, than on rank 0), "unlike-both"; "off" where nothing was tried. Static. */
const char *bench_determinism_name(const bench_determinism_outcome *outcome);
/* "sum", or "none" where nothing is reduced. */
const char *bench_row_op_name(const bench_row *row);
/* "weir packet, float sum, 64 bytes, in place": which result of a row is meant. */
void bench_row_describe(const bench_row *row, int placement, const bench_result *result,
                        char *text, size_t bytes);
/* Frees what the results own. */
void bench_row_clear(bench_row *row);

#endif
