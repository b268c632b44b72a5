/*
 * A candidate in its timed loop, as a subject of the engine: new data before each
 * block, checks of single iterations, a fault where one was asked for, batches on a
 * GPU, and a reading of its clocks after each block. And where the ranks meet meanwhile.
 */
#ifndef BENCH_MEASURE_TIMED_H
#define BENCH_MEASURE_TIMED_H

#include "bench/measure/batch.h"
#include "bench/measure/engine.h"
#include "bench/check/samples.h"

typedef struct bench_timed {
    bench_trial *trial;
    bench_candidate *candidate;
    bench_result *result;
    int member;          /* of the series */
    uint64_t operations; /* of the current block, warm-ups included */
    uint64_t iterations; /* timed ones of the round */
    bench_samples samples;
    bench_batch batches; /* on a GPU, in throughput mode */
} bench_timed;

/* timed must stay where it is while the subject is used. Local. */
bench_subject bench_timed_subject(bench_timed *timed);
/* Over MPI. Local. */
bench_barrier bench_timed_barrier(bench_job *job);

#endif
