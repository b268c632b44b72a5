/* The contenders of a run, in the order that blocks are timed. */
#ifndef BENCH_CANDIDATE_CANDIDATES_H
#define BENCH_CANDIDATE_CANDIDATES_H

#include "bench/candidate/candidate.h"
#include "bench/output/result.h"

typedef struct bench_contenders {
    bench_contender *list[BENCH_CONTENDERS_MAX];
    int count;
} bench_contenders;

/* weir as --algo says (with all: its own choice, then each algorithm that takes
 * this number of ranks), then the peers. Collective; agreed and told. */
weir_status bench_contenders_open(bench_job *job, const bench_options *options,
                                  weir_collective collective, const bench_buffers *buffers,
                                  bench_contenders *contenders);
/* Collective. */
void bench_contenders_close(bench_contenders *contenders);

#endif
