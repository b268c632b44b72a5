/*
 * The timing engine. It knows nothing of what it times: subjects are functions,
 * and ranks meet through two callbacks.
 *
 * Every subject's iterations are split into two blocks, and the blocks of all
 * subjects run as A B C C B A, so that slow drifts of the machine meet all of
 * them alike; callers that come several times have A B C in one call and C B A in
 * the next. A block is: begin, barrier, warm-ups, timed iterations, agreement on
 * errors, after. Warm-ups are a fixed number, or small batches until the slowest rank's
 * times have stopped falling, or are no longer than they were in earlier calls.
 * A rank whose subject fails runs nothing more in that block but still meets the
 * others wherever they meet.
 */
#ifndef BENCH_MEASURE_ENGINE_H
#define BENCH_MEASURE_ENGINE_H

#include <weir/weir.h>

typedef enum bench_isolation {
    BENCH_BACK_TO_BACK,       /* no barrier between operations */
    BENCH_BARRIER_OPERATION,  /* a barrier after each operation */
    BENCH_BARRIER_ITERATION,  /* a barrier after each iteration */
    BENCH_SYNCHRONISED,       /* each operation starts at one moment on all ranks */
    BENCH_BATCHES             /* an iteration's operations are enqueued as a batch, which the
                                 subject itself times; a barrier before each batch */
} bench_isolation;

typedef enum bench_order {
    BENCH_BOTH_WAYS, /* A B C C B A, half of the iterations each */
    BENCH_FORWARD,   /* A B C */
    BENCH_BACKWARD   /* C B A */
} bench_order;

/* bench_timing.warmups: until the series is stationary. */
enum { BENCH_WARMUPS_STEADY = -1 };

typedef struct bench_timing {
    int iterations; /* 1 or more */
    int warmups;
    int aggregate; /* operations an iteration, 1 or more */
    bench_isolation isolation;
    bench_order order;
} bench_timing;

/* Where the ranks meet. All are collective and never timed. */
typedef struct bench_barrier {
    void *context;
    void (*barrier)(void *context);
    /* Gives every rank the worst status of all. */
    weir_status (*agree)(void *context, weir_status mine);
    /* Gives every rank the largest value of all. */
    double (*largest)(void *context, double mine);
    /* Returns at the same moment on every rank, as nearly as can be. */
    void (*start)(void *context);
} bench_barrier;

typedef struct bench_subject {
    void *context;
    /* Collective; before each block, not timed. May be NULL. */
    weir_status (*begin)(void *context);
    /* Local; before each timed iteration, and after the last one of a block. Not
     * timed. Both may be NULL. */
    void (*next)(void *context);
    void (*end)(void *context);
    /* Local; after each block that went well, once all ranks have ended it. Not timed.
     * May be NULL. */
    void (*after)(void *context);
    /* One operation, which is complete when it returns. */
    weir_status (*run)(void *context);
    /* BENCH_BATCHES: so many operations; gives this rank's microseconds of one. */
    weir_status (*run_batch)(void *context, int operations, double *us);
    /* Result: this rank's microseconds an operation, one number an iteration
     * (barriers left out). The caller's array of timing.iterations. */
    double *wall_us;
    /* Result, for BENCH_SYNCHRONISED: when this rank started each iteration's
     * first operation, on its monotonic clock. The caller's array; may be NULL. */
    double *start_us;
    /* Result: this rank's processor time an operation, the mean of all. */
    double cpu_us;
    /* Result: this rank's wall time in begin, next and end, until all ranks are ready. */
    double aside_us;
    double warm_us; /* the shortest warm-up so far on the slowest rank; 0: none yet. Updated. */
    int warmups;  /* result: the most that a block had */
    int unsteady; /* result: times still fell when a block's warm-ups ended */
} bench_subject;

/* Times all subjects. Collective, blocking. Returns the agreed worst status at
 * the first block that failed; the subjects' results are then not to be used. */
weir_status bench_engine_run(const bench_timing *timing, const bench_barrier *barrier,
                             bench_subject *subjects, int nsubjects);

#endif
