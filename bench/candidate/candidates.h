/* The candidates of a run, in the order in which their blocks are timed. */
#ifndef BENCH_CANDIDATE_CANDIDATES_H
#define BENCH_CANDIDATE_CANDIDATES_H

#include "bench/candidate/candidate.h"
#include "bench/statistics/result.h"

typedef struct bench_candidates {
    bench_candidate *list[BENCH_CANDIDATES_MAX];
    int count;
} bench_candidates;

/* Opens weir as --algo says (for "all": weir's selection, then each algorithm that supports this
 * number of ranks), then the peers. Collective; agreed; a failure is reported on standard error. */
weir_status bench_candidates_open(bench_job *job, const bench_options *options,
                                  weir_collective collective, const bench_buffers *buffers,
                                  bench_candidates *candidates);
/* Collective. */
void bench_candidates_close(bench_candidates *candidates);

#endif
