/* The rank that ends iterations last: see lateness.h. */
#include "bench/statistics/lateness.h"

#include "bench/statistics/stats.h"

#include <math.h>

/* How often each rank was last, and its end after the median rank's. */
typedef struct ends {
    const double *us;
    int nranks, iterations;
} ends;

static double end_of(const ends *all, int rank, int iteration)
{
    return all->us[(size_t)rank * (size_t)all->iterations + (size_t)iteration];
}

static int last_of(const ends *all, int iteration)
{
    int last = 0;
    for (int rank = 1; rank < all->nranks; rank++)
        if (end_of(all, rank, iteration) > end_of(all, last, iteration))
            last = rank;
    return last;
}

/* The share of the iterations [first, end) in which a rank was last; lasts: the last rank of each.
 */
static double share_of(const double *lasts, int rank, int first, int end)
{
    int count = 0;
    for (int i = first; i < end; i++)
        count += lasts[i] == rank;
    return (double)count / (end - first);
}

/* How far a rank ends after the median rank, the median over iterations. values and lags have room
 * for a number per rank and per iteration. */
static double lag_of(const ends *all, int rank, double *values, double *lags)
{
    for (int i = 0; i < all->iterations; i++) {
        for (int r = 0; r < all->nranks; r++)
            values[r] = end_of(all, r, i);
        lags[i] = end_of(all, rank, i) - bench_stats_make(values, (size_t)all->nranks).median;
    }
    return bench_stats_make(lags, (size_t)all->iterations).median;
}

/* The part of the iterations that is the least favourable to a rank. */
static double least_share(const double *lasts, int iterations, int rank)
{
    double least = 1;
    for (int part = 0; part < BENCH_LATENESS_PARTS; part++) {
        const long long n = iterations;
        least = fmin(least, share_of(lasts, rank, (int)(n * part / BENCH_LATENESS_PARTS),
                                     (int)(n * (part + 1) / BENCH_LATENESS_PARTS)));
    }
    return least;
}

bench_lateness bench_lateness_make(const double *ends_us, int nranks, int iterations,
                                   double median_us, double *scratch)
{
    const ends all = {.us = ends_us, .nranks = nranks, .iterations = iterations};
    bench_lateness late = {.is_known = nranks > 1 && iterations > 0};
    double *lasts = scratch + nranks; /* until the lags are there */
    for (int i = 0; i < iterations; i++)
        lasts[i] = last_of(&all, i);
    for (int rank = 0; late.is_known && rank < nranks; rank++) {
        const double share = share_of(lasts, rank, 0, iterations);
        if (rank > 0 && share <= late.share)
            continue;
        late.rank = rank;
        late.share = share;
    }
    if (!late.is_known)
        return late;
    const double least = least_share(lasts, iterations, late.rank);
    late.lag_us = lag_of(&all, late.rank, scratch, scratch + nranks);
    late.stands_out = iterations >= BENCH_LATENESS_ITERATIONS &&
                      least >= (nranks == 2 ? 0.75 : 0.5) &&
                      late.lag_us * 100 >= median_us * BENCH_LATENESS_PERCENT;
    return late;
}
