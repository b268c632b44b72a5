/*
 * Which nodes and links of a fleet are slower than the others, without fixed thresholds: times of
 * all pairs are compared on a logarithmic scale by medians and median absolute deviations. A node
 * whose median over its pairs is far from the median of all nodes is slow; so is a pair of other
 * nodes that is far from it. Pure.
 */
#ifndef BENCH_HEALTH_DEVIATION_H
#define BENCH_HEALTH_DEVIATION_H

/* Deviations beyond which a value is no chance. */
#define DEVIATIONS_MOST 5.0
/* The least deviation that a fleet is taken to have, of the logarithm of times: 10%, so that a node
 * or link is slow from about twice the usual time on; while other processes use the nodes'
 * processors four times that, so that it is slow from 17 times on. */
#define DEVIATION_LEAST 0.0953
#define DEVIATION_LEAST_BUSY (4 * DEVIATION_LEAST)

/* times: n x n, symmetric, NaN where not measured. Writes n deviations of nodes and n x n of pairs,
 * in units of the usual deviation, NaN where unknown; *usual is the fleet's median time. A node
 * that is slow explains its pairs, whose deviations are NaN then. Returns 0, or
 * -1 without memory. With two nodes nothing deviates. */
int deviation_find(const double *times, int n, double least, double *nodes, double *pairs,
                   double *usual);
/* The median of a node's times with the others; NaN without any, or without memory. */
double deviation_node_time(const double *times, int n, int node);
/* The deviation of one time from a usual one, in units of the least deviation. */
double deviation_of(double time, double usual, double least);

#endif
