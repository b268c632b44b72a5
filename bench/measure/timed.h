/*
 * A candidate as a subject of the timing engine: new data before each block, checks of single
 * iterations, the faults of --inject, batches on a GPU, and a reading of the GPU's clocks after
 * each block; and the ranks' barrier.
 */
#ifndef BENCH_MEASURE_TIMED_H
#define BENCH_MEASURE_TIMED_H

#include "bench/measure/engine.h"
#include "bench/check/samples.h"
#include "bench/gpu/gpu.h"
#include "bench/trial/trial.h"

/*
 * Operations of a candidate on a GPU's stream, timed by events. A batch is enqueued as a whole
 * between two events, operation by operation or as one replay of a CUDA graph. A lead-in of
 * untimed operations before the first event keeps the stream busy until the batch is enqueued, and
 * lets ranks wait for each other; so neither launch latency nor different start times of the ranks
 * are timed.
 */
typedef struct bench_batch {
    bench_trial *trial;
    bench_candidate *candidate;
    int operations;
    int graph;                  /* 1: batches are replays of a graph */
    bench_gpu_graph *recording; /* NULL: not captured */
    int step;                   /* alltoallv: the step before the first operation of the graph */
    double delay_us;            /* --inject slow: computation after each operation; 0: none */
} bench_batch;

/* Prepares batches of a prepared candidate; with graph, captures one. Collective. */
weir_status bench_batch_open(bench_batch *batch, bench_trial *trial, bench_candidate *candidate,
                             int operations, int graph);
/* The operations that a run of the batch performs, those before the first event included. Pure. */
int bench_batch_operations(const bench_batch *batch);
/* Runs one batch and waits for it. *us: microseconds per operation. Collective. */
weir_status bench_batch_run(bench_batch *batch, double *us);
void bench_batch_close(bench_batch *batch);

/* For --inject slow: what operations of a block took on this rank. */
typedef struct bench_slowness {
    double fastest_us; /* 0: none yet */
    double spent_us;
} bench_slowness;

/* A candidate as a subject of the engine. */
typedef struct bench_timed {
    bench_trial *trial;
    bench_candidate *candidate;
    bench_result *result;
    int member;          /* index in the series */
    weir_status rivals;  /* of what competed in the last block; agreed */
    uint64_t operations; /* of the current block, warm-ups included */
    uint64_t iterations; /* timed iterations of the round */
    bench_slowness slowness;
    bench_samples samples;
    bench_batch batches; /* on a GPU in throughput mode */
} bench_timed;

/* timed must not move while the subject is used. Local. */
bench_subject bench_timed_subject(bench_timed *timed);
/* Whether --inject makes operations of weir slower on this rank. Pure. */
int bench_slowness_applies(const bench_options *options, int rank);
/* Returns the computation, in us, that makes each operation of the next batch as slow as --inject
 * says, after a batch whose operations took took_us with a delay of delay_us. It follows the
 * fastest batch so far: a computation that takes longer than it should, on a busy GPU, and the
 * delays of other ranks would otherwise make each delay longer than the one before. Local. */
double bench_slow_batch(bench_slowness *slowness, double took_us, double delay_us, int percent);
/* Makes an operation that began at began_us, the last of so many, as slow as --inject says. Local,
 * blocking. */
void bench_slow_down(bench_slowness *slowness, const bench_options *options, uint64_t operations,
                     double began_us);
/* The job's barriers and agreement. Local. */
bench_barrier bench_timed_barrier(bench_job *job);

#endif
