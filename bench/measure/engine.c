/* The timed loops, one per isolation, and the blocks around them: see engine.h. */
#include "bench/measure/engine.h"

#include <time.h>

static double read_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* The subject's untimed time so far. */
static double untimed_us(const bench_subject *subject)
{
    return subject->untimed_us ? *subject->untimed_us : 0;
}

/* Prepares an iteration; the time since since_us is not timed. Returns the clock. */
static double before_iteration(bench_subject *subject, double since_us)
{
    if (subject->next)
        subject->next(subject->context);
    double now_us = read_us(CLOCK_MONOTONIC);
    subject->aside_us += now_us - since_us;
    return now_us;
}

/* Records the end of an iteration, which is now or was just before. */
static void after_iteration(bench_subject *subject, int iteration, double now_us)
{
    if (subject->end_us)
        subject->end_us[iteration] = now_us;
}

/* No barrier between iterations. */
static weir_status loop_back_to_back(const bench_timing *timing, const bench_barrier *barrier,
                                     bench_subject *subject, int first, int end)
{
    (void)barrier;
    weir_status status = WEIR_OK;
    double after = read_us(CLOCK_MONOTONIC);
    for (int i = first; i < end; i++) {
        double before = before_iteration(subject, after) - untimed_us(subject);
        for (int k = 0; k < timing->aggregate && status == WEIR_OK; k++)
            status = subject->run(subject->context);
        after = read_us(CLOCK_MONOTONIC);
        subject->wall_us[i] = (after - untimed_us(subject) - before) / timing->aggregate;
        after_iteration(subject, i, after);
    }
    return status;
}

/* A barrier after each iteration, or after each operation; only the time between barriers counts. A
 * failed rank still enters every barrier. */
static weir_status loop_isolated(const bench_timing *timing, const bench_barrier *barrier,
                                 bench_subject *subject, int first, int end)
{
    int each = timing->isolation == BENCH_BARRIER_OPERATION;
    weir_status status = WEIR_OK;
    for (int i = first; i < end; i++) {
        double after = 0, sum = 0, before = before_iteration(subject, read_us(CLOCK_MONOTONIC));
        const double untimed = untimed_us(subject);
        for (int k = 0; k < timing->aggregate; k++) {
            if (status == WEIR_OK)
                status = subject->run(subject->context);
            if (!each)
                continue;
            after = read_us(CLOCK_MONOTONIC);
            sum += after - before;
            barrier->barrier(barrier->context);
            before = read_us(CLOCK_MONOTONIC);
        }
        if (!each) {
            after = read_us(CLOCK_MONOTONIC);
            sum = after - before;
            barrier->barrier(barrier->context);
        }
        subject->wall_us[i] = (sum - untimed_us(subject) + untimed) / timing->aggregate;
        after_iteration(subject, i, after);
    }
    return status;
}

/* Ranks start each operation together; only the operation is timed. A failed rank still enters
 * every barrier. */
static weir_status loop_synchronised(const bench_timing *timing, const bench_barrier *barrier,
                                     bench_subject *subject, int first, int end)
{
    weir_status status = WEIR_OK;
    for (int i = first; i < end; i++) {
        double after = 0, sum = 0;
        before_iteration(subject, read_us(CLOCK_MONOTONIC));
        const double untimed = untimed_us(subject);
        for (int k = 0; k < timing->aggregate; k++) {
            barrier->start(barrier->context);
            double before = read_us(CLOCK_MONOTONIC);
            if (k == 0 && subject->start_us)
                subject->start_us[i] = before;
            if (status == WEIR_OK)
                status = subject->run(subject->context);
            after = read_us(CLOCK_MONOTONIC);
            sum += after - before;
        }
        subject->wall_us[i] = (sum - untimed_us(subject) + untimed) / timing->aggregate;
        after_iteration(subject, i, after);
    }
    return status;
}

/* The subject times each batch itself. A failed rank still enters every barrier. */
static weir_status loop_batches(const bench_timing *timing, const bench_barrier *barrier,
                                bench_subject *subject, int first, int end)
{
    weir_status status = WEIR_OK;
    for (int i = first; i < end; i++) {
        before_iteration(subject, read_us(CLOCK_MONOTONIC));
        barrier->barrier(barrier->context);
        subject->wall_us[i] = 0;
        if (status == WEIR_OK)
            status = subject->run_batch(subject->context, timing->aggregate, &subject->wall_us[i]);
        after_iteration(subject, i, read_us(CLOCK_MONOTONIC));
    }
    return status;
}

/* The shorter of two operations, so that a single disturbance does not count; or one batch. */
static weir_status time_pair(const bench_timing *timing, bench_subject *subject, double *shorter_us)
{
    weir_status status = WEIR_OK;
    if (timing->isolation == BENCH_BATCHES)
        return subject->run_batch(subject->context, timing->aggregate, shorter_us);
    double before = read_us(CLOCK_MONOTONIC);
    for (int i = 0; i < 2 && status == WEIR_OK; i++) {
        status = subject->run(subject->context);
        double after = read_us(CLOCK_MONOTONIC);
        if (i == 0 || after - before < *shorter_us)
            *shorter_us = after - before;
        before = after;
    }
    return status;
}

/* Warms up with pairs of operations, or batches, until STEADY_PAIRS in a row are at most 5% faster
 * than the best pair before them on the slowest rank. One pair suffices if it is as fast as the
 * warm-ups of an earlier call. Collective; agreed. */
static weir_status warm_up_steadily(const bench_timing *timing, const bench_barrier *barrier,
                                    bench_subject *subject, weir_status status)
{
    enum { STEADY_PAIRS = 2, MOST_PAIRS = 30 };
    double best_us = 0;
    int steady = 0, pairs = 0;
    while (steady < STEADY_PAIRS && pairs < MOST_PAIRS) {
        double us = 0;
        if (status == WEIR_OK)
            status = time_pair(timing, subject, &us);
        us = barrier->largest(barrier->context, us);
        status = barrier->agree(barrier->context, status);
        if (status != WEIR_OK)
            return status;
        steady = pairs > 0 && us >= 0.95 * best_us ? steady + 1 : 0;
        if (pairs == 0 && subject->warm_us > 0 && us <= 1.05 * subject->warm_us)
            steady = STEADY_PAIRS;
        best_us = pairs == 0 || us < best_us ? us : best_us;
        pairs++;
    }
    if (!(subject->warm_us > 0) || best_us < subject->warm_us)
        subject->warm_us = best_us;
    subject->unsteady |= steady < STEADY_PAIRS;
    int operations = pairs * (timing->isolation == BENCH_BATCHES ? timing->aggregate : 2);
    subject->warmups = operations > subject->warmups ? operations : subject->warmups;
    return status;
}

static weir_status warm_up(const bench_timing *timing, bench_subject *subject)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < timing->warmups && status == WEIR_OK; i++)
        status = subject->run(subject->context);
    subject->warmups = timing->warmups;
    return status;
}

typedef weir_status (*timed_loop)(const bench_timing *timing, const bench_barrier *barrier,
                                  bench_subject *subject, int first, int end);

static const timed_loop loops[] = {
    [BENCH_BACK_TO_BACK] = loop_back_to_back,
    [BENCH_BARRIER_OPERATION] = loop_isolated,
    [BENCH_BARRIER_ITERATION] = loop_isolated,
    [BENCH_SYNCHRONISED] = loop_synchronised,
    [BENCH_BATCHES] = loop_batches,
};

/* Everything before the timed loop. Returns 0 if the block is over because all ranks have agreed
 * on a failure; otherwise *status is this rank's own. */
static int begin_block(const bench_timing *timing, const bench_barrier *barrier,
                       bench_subject *subject, weir_status *status)
{
    double since_us = read_us(CLOCK_MONOTONIC);
    *status = subject->begin ? subject->begin(subject->context) : WEIR_OK;
    barrier->barrier(barrier->context);
    subject->aside_us += read_us(CLOCK_MONOTONIC) - since_us;
    if (timing->warmups == BENCH_WARMUPS_STEADY) {
        *status = warm_up_steadily(timing, barrier, subject, *status);
        if (*status != WEIR_OK)
            return 0;
        /* One more operation, because ranks leave the agreement at different times. */
        *status = subject->run(subject->context);
    } else if (*status == WEIR_OK) {
        *status = warm_up(timing, subject);
    }
    /* Loops with barriers need every rank: ranks must agree whether the loop runs at all. */
    if (timing->isolation != BENCH_BACK_TO_BACK) {
        *status = barrier->agree(barrier->context, *status);
        barrier->barrier(barrier->context);
    }
    return 1;
}

/* Everything after the timed loop. Returns the agreed status. */
static weir_status end_block(const bench_barrier *barrier, bench_subject *subject,
                             weir_status status)
{
    double since_us = read_us(CLOCK_MONOTONIC);
    if (status == WEIR_OK && subject->end)
        subject->end(subject->context);
    status = barrier->agree(barrier->context, status);
    subject->aside_us += read_us(CLOCK_MONOTONIC) - since_us;
    if (status == WEIR_OK && subject->after)
        subject->after(subject->context);
    return status;
}

weir_status bench_engine_run(const bench_timing *timing, const bench_barrier *barrier,
                             bench_subject *subjects, int nsubjects)
{
    int half = timing->order == BENCH_BOTH_WAYS ? timing->iterations / 2
               : timing->order == BENCH_FORWARD ? timing->iterations
                                                : 0;
    for (int i = 0; i < nsubjects; i++) {
        subjects[i].cpu_us = subjects[i].aside_us = 0;
        subjects[i].warmups = subjects[i].unsteady = 0;
    }
    for (int block = 0; block < 2 * nsubjects; block++) {
        int back = block >= nsubjects;
        bench_subject *subject = &subjects[back ? 2 * nsubjects - 1 - block : block];
        int first = back ? half : 0, end = back ? timing->iterations : half;
        weir_status status = WEIR_OK;
        if (first == end)
            continue;
        if (!begin_block(timing, barrier, subject, &status))
            return status;
        double cpu_us = read_us(CLOCK_THREAD_CPUTIME_ID);
        if (status == WEIR_OK)
            status = loops[timing->isolation](timing, barrier, subject, first, end);
        cpu_us = read_us(CLOCK_THREAD_CPUTIME_ID) - cpu_us;
        subject->cpu_us += cpu_us / timing->aggregate / timing->iterations;
        status = end_block(barrier, subject, status);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}
