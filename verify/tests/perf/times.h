/*
 * Times of measurements that are run by hand: sorting them, comparing two ways to do the same, and
 * binding ranks to cores.
 */
#ifndef VERIFY_TESTS_PERF_TIMES_H
#define VERIFY_TESTS_PERF_TIMES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity; before the first system header */
#endif
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMES_PAIRS_MOST = 2000 };

/* A median with its 95% interval. */
typedef struct times_ratio {
    double median, low, high;
} times_ratio;

static inline int times_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static inline void times_sort(double *times, size_t count)
{
    qsort(times, count, sizeof *times, times_compare);
}

/* Times two ways, 0 and 1, in `pairs` pairs of alternating blocks (A B B A). time_block returns
 * microseconds; negative: it failed. fastest_us has each way's time in its fastest blocks (the 5%
 * quantile), *ratio way 0's time by way 1's in neighbouring blocks. Returns 0, or 1 if a block
 * failed. */
static inline int times_pair(double (*time_block)(void *context, int way), void *context, int pairs,
                             double fastest_us[2], times_ratio *ratio)
{
    const int wide = (int)(0.98 * sqrt(pairs)) + 1; /* of a median, by the binomial distribution */
    static double times[2][TIMES_PAIRS_MOST], ratios[TIMES_PAIRS_MOST];
    for (int i = 0; i < pairs; i++) {
        for (int turn = 0; turn < 2; turn++) {
            const int way = (i + turn) & 1;
            times[way][i] = time_block(context, way);
            if (times[way][i] < 0)
                return 1;
        }
        ratios[i] = times[0][i] / times[1][i];
    }
    for (int way = 0; way < 2; way++) {
        times_sort(times[way], (size_t)pairs);
        fastest_us[way] = times[way][pairs / 20];
    }
    times_sort(ratios, (size_t)pairs);
    *ratio = (times_ratio){ratios[pairs / 2], ratios[pairs / 2 - wide], ratios[pairs / 2 + wide]};
    return 0;
}

/* Binds a rank to a core; ranks share cores if there are not enough. */
static inline void times_bind(int rank)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET((size_t)rank % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &own);
    sched_setaffinity(0, sizeof own, &own);
}

#endif
