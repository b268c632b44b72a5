/*
 * The calls of a candidate that an iteration times: a dispatch, a combine, or a chain of pairs.
 * They are enqueued when they are timed, or, with --cudagraph 1, captured once and replayed.
 */
#ifndef BENCH_MOE_CALL_H
#define BENCH_MOE_CALL_H

#include "bench/gpu/gpu.h"
#include "bench/measure/timed.h"
#include "bench/moe/moe_trial.h"

/* Calls of one phase, as they are enqueued. */
typedef struct moe_call {
    moe_candidate *candidate;
    moe_phase phase;
    int slot;               /* where the first call reads its inputs */
    bench_gpu_graph *graph; /* NULL: not captured */
} moe_call;

typedef struct moe_calls {
    moe_candidate *candidate;
    moe_call phases[MOE_PHASES];
    void *numbers;                       /* GPUs: memory of the allreduces before a timed call */
    bench_slowness slowness[MOE_PHASES]; /* --inject slow */
    uint64_t runs[MOE_PHASES];
} moe_calls;

/* What a timed call took, and when this rank saw it end. */
typedef struct moe_time {
    double us, end_us;
} moe_time;

/* Prepares the calls of a candidate, and captures them with --cudagraph 1. calls must not move
 * until bench_moe_calls_close. Collective; agreed. */
weir_status bench_moe_calls_open(moe_calls *calls, moe_candidate *candidate);
/* Runs the calls of a phase, on the inputs of version or from version on, and measures them: on the
 * host by the clock, on a GPU by events. Collective. */
weir_status bench_moe_calls_run(moe_calls *calls, moe_phase phase, int version, moe_time *time);
void bench_moe_calls_close(moe_calls *calls);
/* Returns the version that the last pair of a chain works on whose first one works on `first`. */
int bench_moe_chain_end(const bench_moe_options *options, int first);

#endif
