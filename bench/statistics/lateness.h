/*
 * Which rank ends iterations last: see bench_lateness_make. Needs a clock that the ranks share.
 */
#ifndef BENCH_STATISTICS_LATENESS_H
#define BENCH_STATISTICS_LATENESS_H

typedef struct bench_lateness {
    int is_known;
    int rank;       /* the one that was last most often */
    double share;   /* the share of iterations in which it was, 0 to 1 */
    double lag_us;  /* the median over iterations of its end after the median rank's end */
    int stands_out; /* 1: it was last more often, and by more, than chance and the order of the
                       others explain */
} bench_lateness;

/*
 * ends_us: nranks x iterations numbers, row r is rank r's. median_us: an iteration of the slowest
 * rank. scratch: room for nranks + iterations numbers.
 *
 * A rank stands out if
 * - it was last in at least half of the iterations of each of BENCH_LATENESS_PARTS consecutive
 *   parts. If the last rank of an iteration were drawn at random from n ranks, a part of k
 *   iterations would pass with a probability of at most exp(-2 k (1/2 - 1/n)^2) (Hoeffding,
 *   Probability inequalities for sums of bounded random variables, 1963, theorem 1), and all parts,
 *   for any of n ranks, with at most n exp(-2 iterations (1/2 - 1/n)^2): below 1e-6 for 8 ranks and
 *   56 iterations. With two ranks, chance alone gives a half, and three quarters are demanded;
 * - its lag is at least BENCH_LATENESS_PERCENT of median_us: an algorithm's last rank is regularly
 *   last, by less.
 * Pure.
 */
enum { BENCH_LATENESS_PARTS = 8, BENCH_LATENESS_PERCENT = 5, BENCH_LATENESS_ITERATIONS = 64 };
bench_lateness bench_lateness_make(const double *ends_us, int nranks, int iterations,
                                   double median_us, double *scratch);

#endif
