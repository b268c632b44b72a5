/* Blocks, loops and clocks. */
#include "bench/measure/engine.h"

#include <time.h>

static double read_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* What comes before an iteration, not timed since since_us; returns the clock. */
static double before_iteration(bench_subject *subject, double since_us)
{
    if (subject->next)
        subject->next(subject->context);
    double now_us = read_us(CLOCK_MONOTONIC);
    subject->aside_us += now_us - since_us;
    return now_us;
}

/* Back to back: no barrier between iterations. */
static weir_status loop_back_to_back(const bench_timing *timing, bench_subject *subject, int first,
                                     int end)
{
    weir_status status = WEIR_OK;
    double after = read_us(CLOCK_MONOTONIC);
    for (int i = first; i < end; i++) {
        double before = before_iteration(subject, after);
        for (int k = 0; k < timing->aggregate && status == WEIR_OK; k++)
            status = subject->run(subject->context);
        after = read_us(CLOCK_MONOTONIC);
        subject->wall_us[i] = (after - before) / timing->aggregate;
    }
    return status;
}

/* Ranks meet after each iteration, or after each operation; the time between is
 * summed. A failed rank keeps the meetings. */
static weir_status loop_isolated(const bench_timing *timing, const bench_barrier *barrier,
                                 bench_subject *subject, int first, int end)
{
    int each = timing->isolation == BENCH_BARRIER_OPERATION;
    weir_status status = WEIR_OK;
    for (int i = first; i < end; i++) {
        double sum = 0, before = before_iteration(subject, read_us(CLOCK_MONOTONIC));
        for (int k = 0; k < timing->aggregate; k++) {
            if (status == WEIR_OK)
                status = subject->run(subject->context);
            if (!each)
                continue;
            sum += read_us(CLOCK_MONOTONIC) - before;
            barrier->barrier(barrier->context);
            before = read_us(CLOCK_MONOTONIC);
        }
        if (!each) {
            sum = read_us(CLOCK_MONOTONIC) - before;
            barrier->barrier(barrier->context);
        }
        subject->wall_us[i] = sum / timing->aggregate;
    }
    return status;
}

/* Ranks start each operation together; only the operation is timed. A failed
 * rank keeps the meetings. */
static weir_status loop_synchronised(const bench_timing *timing, const bench_barrier *barrier,
                                     bench_subject *subject, int first, int end)
{
    weir_status status = WEIR_OK;
    for (int i = first; i < end; i++) {
        double sum = 0;
        before_iteration(subject, read_us(CLOCK_MONOTONIC));
        for (int k = 0; k < timing->aggregate; k++) {
            barrier->start(barrier->context);
            double before = read_us(CLOCK_MONOTONIC);
            if (k == 0 && subject->start_us)
                subject->start_us[i] = before;
            if (status == WEIR_OK)
                status = subject->run(subject->context);
            sum += read_us(CLOCK_MONOTONIC) - before;
        }
        subject->wall_us[i] = sum / timing->aggregate;
    }
    return status;
}

/* The subject has the clock. A failed rank keeps the meetings. */
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
    }
    return status;
}

/* The shorter of two operations, so that one disturbance does not count. */
static weir_status time_pair(const bench_timing *timing, bench_subject *subject,
                             double *shorter_us)
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

/* Pairs of operations, or batches, until STEADY_PAIRS in a row were no more than a
 * twentieth faster than the best before them, on the slowest rank; one is enough
 * if it is as fast as an earlier call's. Agreed. */
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

static weir_status run_loop(const bench_timing *timing, const bench_barrier *barrier,
                            bench_subject *subject, int first, int end)
{
    switch (timing->isolation) {
    case BENCH_BACK_TO_BACK:
        break;
    case BENCH_BARRIER_OPERATION:
    case BENCH_BARRIER_ITERATION:
        return loop_isolated(timing, barrier, subject, first, end);
    case BENCH_SYNCHRONISED:
        return loop_synchronised(timing, barrier, subject, first, end);
    case BENCH_BATCHES:
        return loop_batches(timing, barrier, subject, first, end);
    }
    return loop_back_to_back(timing, subject, first, end);
}

/* One block: iterations first to end - 1. */
static weir_status run_block(const bench_timing *timing, const bench_barrier *barrier,
                             bench_subject *subject, int first, int end)
{
    double since_us = read_us(CLOCK_MONOTONIC);
    weir_status status = subject->begin ? subject->begin(subject->context) : WEIR_OK;
    barrier->barrier(barrier->context);
    subject->aside_us += read_us(CLOCK_MONOTONIC) - since_us;
    if (timing->warmups == BENCH_WARMUPS_STEADY) {
        status = warm_up_steadily(timing, barrier, subject, status);
        if (status != WEIR_OK)
            return status;
        /* One more, because ranks come from the agreement at different times. */
        status = subject->run(subject->context);
    } else if (status == WEIR_OK) {
        status = warm_up(timing, subject);
    }
    /* Every rank must know before the loop whether it will be run. */
    if (timing->isolation != BENCH_BACK_TO_BACK) {
        status = barrier->agree(barrier->context, status);
        barrier->barrier(barrier->context);
    }
    double cpu_us = read_us(CLOCK_THREAD_CPUTIME_ID);
    if (status == WEIR_OK)
        status = run_loop(timing, barrier, subject, first, end);
    cpu_us = read_us(CLOCK_THREAD_CPUTIME_ID) - cpu_us;
    subject->cpu_us += cpu_us / timing->aggregate / timing->iterations;
    since_us = read_us(CLOCK_MONOTONIC);
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
    for (int turn = 0; turn < 2 * nsubjects; turn++) {
        int back = turn >= nsubjects;
        bench_subject *subject = &subjects[back ? 2 * nsubjects - 1 - turn : turn];
        int first = back ? half : 0, end = back ? timing->iterations : half;
        if (first == end)
            continue;
        weir_status status = run_block(timing, barrier, subject, first, end);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}
