/*
 * Operations of a candidate on a GPU's stream, timed by events. A batch is enqueued as a whole
 * between two events, operation by operation or as one replay of a CUDA graph. A lead-in of
 * untimed operations before the first event keeps the stream busy until the batch is enqueued, and
 * lets ranks wait for each other; so neither launch latency nor different start times of the ranks
 * are timed.
 */
#ifndef BENCH_MEASURE_BATCH_H
#define BENCH_MEASURE_BATCH_H

#include "bench/trial/trial.h"

typedef struct bench_batch {
    bench_trial *trial;
    bench_candidate *candidate;
    int operations;
    int graph;    /* 1: batches are replays of a graph */
    int recorded; /* 1: the graph is captured */
    int step;     /* alltoallv: the step before the first operation of the graph */
} bench_batch;

/* Prepares batches of a prepared candidate; with graph, captures one. Collective. */
weir_status bench_batch_open(bench_batch *batch, bench_trial *trial, bench_candidate *candidate,
                             int operations, int graph);
/* Runs one batch and waits for it. *us: microseconds per operation. Collective. */
weir_status bench_batch_run(bench_batch *batch, double *us);
void bench_batch_close(bench_batch *batch);

#endif
