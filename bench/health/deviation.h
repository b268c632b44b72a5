/*
 * Which nodes and links of a fleet are slower than the others, without fixed thresholds: times of
 * all pairs are compared on a logarithmic scale by medians and median absolute deviations. A node
 * whose median over its pairs is far from the median of all nodes is slow; so is a pair of other
 * nodes that is far from it. Pure.
 */
#ifndef BENCH_HEALTH_DEVIATION_H
#define BENCH_HEALTH_DEVIATION_H

/* Deviations beyond which a value is no chance. The deviation of a fleet counts as at least 10%, so a
 * node or link is slow from about twice the usual time on; while other processes use the nodes'
 * processors, from 17 times. */
#define DEVIATIONS_MOST 5.0
#define DEVIATIONS_MOST_BUSY 20.0

/* times: n x n, symmetric, NaN where not measured. Writes n deviations of nodes and n x n of pairs,
 * in units of the usual deviation, NaN where unknown; *usual is the fleet's median time. A node
 * beyond `most` deviations explains its pairs, whose deviations are NaN then. Returns 0, or
 * -1 without memory. With two nodes nothing deviates. */
int deviation_find(const double *times, int n, double most, double *nodes, double *pairs,
                   double *usual);
/* The deviation of one time from a usual one. */
double deviation_of(double time, double usual);

#endif
