/*
 * The timing engine. It knows nothing of collectives: subjects are callbacks, and so are barrier
 * and agreement.
 *
 * The iterations of every subject are split into two blocks, and the blocks of all subjects run as
 * A B C C B A, so that slow drifts affect all subjects equally. Callers with several rounds use A
 * B C in one call and C B A in the next. A block is: begin, barrier, warm-ups, timed iterations,
 * agreement on errors, after. The number of warm-ups is fixed, or they continue until the slowest
 * rank's times have stopped falling or have reached those of earlier calls. A rank whose subject
 * fails runs nothing more in the block but still enters every barrier.
 */
#ifndef BENCH_MEASURE_ENGINE_H
#define BENCH_MEASURE_ENGINE_H

#include <weir/weir.h>

typedef enum bench_isolation {
    BENCH_BACK_TO_BACK,      /* no barrier between operations */
    BENCH_BARRIER_OPERATION, /* a barrier after each operation */
    BENCH_BARRIER_ITERATION, /* a barrier after each iteration */
    BENCH_SYNCHRONISED,      /* ranks start each operation at the same time */
    BENCH_BATCHES            /* the operations of an iteration are enqueued as a batch, which
                                the subject times; a barrier before each batch */
} bench_isolation;

typedef enum bench_order {
    BENCH_BOTH_WAYS, /* A B C C B A, with half of the iterations each */
    BENCH_FORWARD,   /* A B C */
    BENCH_BACKWARD   /* C B A */
} bench_order;

/* Value of bench_timing.warmups: until times no longer fall. */
enum { BENCH_WARMUPS_STEADY = -1 };

typedef struct bench_timing {
    int iterations; /* 1 or more */
    int warmups;
    int aggregate; /* operations per iteration, 1 or more */
    bench_isolation isolation;
    bench_order order;
} bench_timing;

/* How ranks synchronise. All callbacks are collective and never timed. */
typedef struct bench_barrier {
    void *context;
    void (*barrier)(void *context);
    /* Gives every rank the worst status of all ranks. */
    weir_status (*agree)(void *context, weir_status mine);
    /* Gives every rank the largest value of all ranks. */
    double (*largest)(void *context, double mine);
    /* Returns on every rank at the same time, as nearly as possible. */
    void (*start)(void *context);
} bench_barrier;

typedef struct bench_subject {
    void *context;
    /* Called before each block. Collective; not timed; may be NULL. */
    weir_status (*begin)(void *context);
    /* Called before each timed iteration, and after the last one of a block. Local; not timed; may
     * be NULL. */
    void (*next)(void *context);
    void (*end)(void *context);
    /* Called after each block without errors, once all ranks have finished it. Local; not timed;
     * may be NULL. */
    void (*after)(void *context);
    /* Runs one operation, which is complete on return. */
    weir_status (*run)(void *context);
    /* For BENCH_BATCHES: runs so many operations; *us is this rank's time per operation. */
    weir_status (*run_batch)(void *context, int operations, double *us);
    /* Time in run that is not the operation's, a sum that only grows; it is left out of wall_us.
     * The caller's; NULL: none. */
    const double *untimed_us;
    /* Result: this rank's time per operation, for each iteration, without barriers. The caller's
     * array of timing.iterations. */
    double *wall_us;
    /* Result for BENCH_SYNCHRONISED: this rank's monotonic clock at the start of each iteration's
     * first operation. The caller's array; may be NULL. */
    double *start_us;
    /* Result: this rank's monotonic clock at the end of each iteration, before a barrier that
     * follows. The caller's array; may be NULL. */
    double *end_us;
    /* Result: this rank's processor time per operation, the mean of all. */
    double cpu_us;
    /* Result: this rank's wall time in begin, next and end, including the wait for other ranks. */
    double aside_us;
    double warm_us; /* the shortest warm-up of all calls on the slowest rank; 0: none yet;
                       updated */
    int warmups;    /* result: the largest number in a block */
    int unsteady;   /* result: 1 if times still fell at the end of the warm-ups */
} bench_subject;

/* Times all subjects. Collective, blocking. Returns the agreed status of the first block that
 * failed; the results of the subjects are then undefined. */
weir_status bench_engine_run(const bench_timing *timing, const bench_barrier *barrier,
                             bench_subject *subjects, int nsubjects);

#endif
