/*
 * --determinism: whether an algorithm leaves the same bits each time that it
 * reduces or moves the same data, and on every rank. Data of full precision show
 * an order of combination that changes; in each repeat another rank comes last.
 * Where weir/weir.h promises the same bits (all of weir but "ring"), other bits are
 * wrong data; of a ring and of peers they are only told.
 */
#ifndef BENCH_CHECK_DETERMINISM_H
#define BENCH_CHECK_DETERMINISM_H

#include "bench/output/json.h"
#include "bench/measure/trial.h"

#include <stdio.h>

enum { BENCH_REPEATS = 10, BENCH_DETERMINISM_ROWS = 80 };

/* One algorithm of weir, or a peer. Results: sizes, types, operations, placements. */
typedef struct bench_determinism_row {
    char name[64];
    long results, differing_repeats, differing_ranks;
    char first[256]; /* the first difference; empty if there is none */
} bench_determinism_row;

/* What was found in a run; the same on every rank. */
struct bench_determinism {
    int nranks; /* whose results were compared with each other; 0: the collective's differ */
    int nrows;
    bench_determinism_row rows[BENCH_DETERMINISM_ROWS];
};

/* Repeats the trial's call with one candidate, which ran and was right, and adds
 * what was found to trial->determinism and, where it breaks a promise, to
 * result->check. Holds a copy of the output meanwhile. Collective; agreed and told. */
weir_status bench_determinism_try(bench_trial *trial, bench_candidate *candidate,
                                  bench_result *result);
/* A comment line for each row: "fused: same bits in 10 repeats and on 8 ranks". Local. */
void bench_determinism_write(const bench_determinism *found, FILE *out);
/* "determinism": a list with an object for each row; nothing without rows. Local. */
void bench_determinism_put(bench_json *json, const bench_determinism *found);

#endif
