/*
 * The timing engine. It knows nothing of what it times: subjects are functions,
 * and ranks meet through two callbacks.
 *
 * Every subject's iterations are split into two blocks, and the blocks of all
 * subjects run as A B C C B A, so that slow drifts of the machine meet all of
 * them alike; the first subject always runs last. A block is: begin, barrier,
 * warm-ups, timed iterations, agreement on errors. A rank whose subject fails
 * runs nothing more in that block but still meets the others wherever they
 * meet.
 */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include "weir.h"

typedef enum bench_isolation {
    BENCH_BACK_TO_BACK,       /* no barrier between operations */
    BENCH_BARRIER_OPERATION,  /* a barrier after each operation */
    BENCH_BARRIER_ITERATION   /* a barrier after each iteration */
} bench_isolation;

typedef struct bench_timing {
    int iterations; /* 1 or more */
    int warmups;
    int aggregate; /* operations an iteration, 1 or more */
    bench_isolation isolation;
} bench_timing;

/* Where the ranks meet. Both are collective and never timed. */
typedef struct bench_meeting {
    void *context;
    void (*barrier)(void *context);
    /* Gives every rank the worst status of all. */
    weir_status (*agree)(void *context, weir_status mine);
} bench_meeting;

typedef struct bench_subject {
    void *context;
    /* Collective; before each block, not timed. May be NULL. */
    weir_status (*begin)(void *context);
    /* One operation. */
    weir_status (*run)(void *context);
    /* Result: this rank's microseconds an operation, one number an iteration
     * (barriers left out). The caller's array of timing.iterations. */
    double *wall_us;
    /* Result: this rank's processor time an operation, the mean of all. */
    double cpu_us;
} bench_subject;

/* Times all subjects. Collective, blocking. Returns the agreed worst status at
 * the first block that failed; the subjects' results are then not to be used. */
weir_status bench_engine_run(const bench_timing *timing, const bench_meeting *meeting,
                             bench_subject *subjects, int nsubjects);

#endif
