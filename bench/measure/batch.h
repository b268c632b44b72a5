/*
 * Operations of a candidate on a GPU's stream, timed there: a batch is enqueued as a
 * whole, one operation after the other or as the replay of a recording (a CUDA
 * graph), between two marks. In front of the first mark runs a lead-in that keeps
 * the stream busy until all is enqueued, and in which ranks wait for each other; so
 * neither launches that the host is late with nor the ranks' different starts
 * are in the time.
 */
#ifndef BENCH_MEASURE_BATCH_H
#define BENCH_MEASURE_BATCH_H

#include "bench/trial/trial.h"

typedef struct bench_batch {
    bench_trial *trial;
    bench_candidate *candidate;
    int operations;
    int graph;    /* batches are to be replays */
    int recorded; /* and are */
    int step;     /* of alltoallv's, before the first operation of a recording */
} bench_batch;

/* Settles what a batch is; the candidate is prepared. With graph, it is recorded.
 * Collective. */
weir_status bench_batch_open(bench_batch *batch, bench_trial *trial, bench_candidate *candidate,
                             int operations, int graph);
/* Runs one, and waits. us: an operation's. Collective. */
weir_status bench_batch_run(bench_batch *batch, double *us);
void bench_batch_close(bench_batch *batch);

#endif
