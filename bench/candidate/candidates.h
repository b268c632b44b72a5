/* The candidates of a run, in the order that blocks are timed. */
#ifndef BENCH_CANDIDATE_CANDIDATES_H
#define BENCH_CANDIDATE_CANDIDATES_H

#include "bench/candidate/candidate.h"
#include "bench/statistics/result.h"

typedef struct bench_candidates {
    bench_candidate *list[BENCH_CANDIDATES_MAX];
    int count;
} bench_candidates;

/* weir as --algo says (with all: its own choice, then each algorithm that takes
 * this number of ranks), then the peers. Collective; agreed and told. */
weir_status bench_candidates_open(bench_job *job, const bench_options *options,
                                  weir_collective collective, const bench_buffers *buffers,
                                  bench_candidates *candidates);
/* Collective. */
void bench_candidates_close(bench_candidates *candidates);

#endif
