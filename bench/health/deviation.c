/* Medians and deviations of a fleet's times: see deviation.h. */
#include "bench/health/deviation.h"

#include <math.h>
#include <stdlib.h>

static const double NORMAL = 1.4826; /* a normal distribution's deviation over its MAD */

static int deviation_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts values and returns their median; NaN without values. */
static double deviation_median(double *values, int count)
{
    if (count == 0)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, deviation_order);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The deviation of values around a centre, but at least `least`. space holds them all. */
static double deviation_spread(const double *values, int count, double centre, double least,
                               double *space)
{
    int used = 0;
    for (int i = 0; i < count; i++)
        if (!isnan(values[i]))
            space[used++] = fabs(values[i] - centre);
    const double median = deviation_median(space, used);
    return NORMAL * (median > least ? median : least);
}

double deviation_of(double time, double usual, double least)
{
    return log(time / usual) / (NORMAL * least);
}

/* The median of a node's pairs; NaN if none is known. space holds n values. */
static double deviation_node_median(const double *values, int n, int node, double *space)
{
    int count = 0;
    for (int other = 0; other < n; other++)
        if (other != node && !isnan(values[node * n + other]))
            space[count++] = values[node * n + other];
    return deviation_median(space, count);
}

double deviation_node_time(const double *times, int n, int node)
{
    double *space = calloc((size_t)n, sizeof *space);
    const double median = space ? deviation_node_median(times, n, node, space) : NAN;
    free(space);
    return median;
}

/* Each node's median over its pairs, and the median of the nodes' medians. */
static double deviation_node_medians(const double *logs, int n, double *medians, double *space)
{
    int used = 0;
    for (int node = 0; node < n; node++)
        medians[node] = deviation_node_median(logs, n, node, space);
    for (int node = 0; node < n; node++)
        if (!isnan(medians[node]))
            space[used++] = medians[node];
    return deviation_median(space, used);
}

int deviation_find(const double *times, int n, double least, double *nodes, double *pairs,
                   double *usual)
{
    const size_t all = (size_t)n * (size_t)n;
    double *space = calloc(all, sizeof *space);
    if (!space)
        return -1;
    for (size_t i = 0; i < all; i++)
        pairs[i] = log(times[i]);
    const double centre = deviation_node_medians(pairs, n, nodes, space);
    const double spread = deviation_spread(nodes, n, centre, least, space);
    *usual = exp(centre);
    for (int node = 0; node < n; node++)
        nodes[node] = n > 2 ? (nodes[node] - centre) / spread : 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (nodes[a] > DEVIATIONS_MOST || nodes[b] > DEVIATIONS_MOST)
                pairs[a * n + b] = NAN; /* the node explains it */
    const double pair_spread = deviation_spread(pairs, (int)all, centre, least, space);
    for (size_t i = 0; i < all; i++)
        pairs[i] = n > 2 ? (pairs[i] - centre) / pair_spread : isnan(pairs[i]) ? NAN : 0;
    free(space);
    return 0;
}
