/*
 * A candidate as a subject of the timing engine: new data before each block, checks of single
 * iterations, the fault of --inject, batches on a GPU, and a reading of the GPU's clocks after
 * each block; and the ranks' barrier over MPI.
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
    int member;          /* index in the series */
    uint64_t operations; /* of the current block, warm-ups included */
    uint64_t iterations; /* timed iterations of the round */
    bench_samples samples;
    bench_batch batches; /* on a GPU in throughput mode */
} bench_timed;

/* timed must not move while the subject is used. Local. */
bench_subject bench_timed_subject(bench_timed *timed);
/* Barriers and agreement over MPI. Local. */
bench_barrier bench_timed_barrier(bench_job *job);

#endif
