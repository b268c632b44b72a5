/*
 * Fits the values of the cost model (cost.h) to measured times. Every closed form is linear in
 * latency, occupation, time of a phase, and the times per byte of network and memory, so this is a
 * problem of least squares, of relative deviations, with values that must not be negative.
 *
 * Some times leave values open: between two nodes only the sum of latency and occupation matters.
 * A small pull towards the built-in values, scaled to the times as a whole, then keeps the
 * proportions of those.
 */
#include "coll/internode/cost.h"

#include "base/error.h"
#include "base/float_env.h"
#include "comm/internode/internode.h"

#include <math.h>

enum { VALUES = 5, SWEEPS = 20000 };

/* Of the sum of squares, for each time. */
static const double pull = 1e-5;
/* The smallest multiple of a built-in value, so that none is 0. */
static const double least = 1e-4;

/* The values as the forms have them: microseconds, and microseconds per byte. */
static void fit_to_times(const weir_net_cost *cost, double x[VALUES])
{
    x[0] = cost->latency_us;
    x[1] = cost->message_us;
    x[2] = 1e-3 / cost->network_gbs;
    x[3] = cost->phase_us;
    x[4] = 1e-3 / cost->memory_gbs;
}

static weir_net_cost fit_to_cost(const double x[VALUES])
{
    return (weir_net_cost){.latency_us = x[0],
                           .message_us = x[1],
                           .network_gbs = 1e-3 / x[2],
                           .phase_us = x[3],
                           .memory_gbs = 1e-3 / x[4]};
}

/* The part of each value in the time of a call if the values are those of start; their sum is the
 * predicted time. A difference from a cost in which all other values are negligible. */
static void fit_parts(const double start[VALUES], weiri_net_shape shape, const weir_net_time *time,
                      double parts[VALUES])
{
    for (int j = 0; j < VALUES; j++) {
        double alone[VALUES];
        for (int k = 0; k < VALUES; k++)
            alone[k] = start[k] * (k == j ? 1 : 1e-9);
        const weir_net_cost cost = fit_to_cost(alone);
        parts[j] = weiri_internode_cost_us(&cost, shape, time->collective, time->algo, time->bytes);
    }
}

/* The normal equations, in multiples of the starting values. */
typedef struct equations {
    double matrix[VALUES][VALUES], right[VALUES];
    size_t count;
} equations;

static void fit_add(equations *of, const double parts[VALUES], double us)
{
    for (int i = 0; i < VALUES; i++) {
        for (int j = 0; j < VALUES; j++)
            of->matrix[i][j] += parts[i] / us * parts[j] / us;
        of->right[i] += parts[i] / us;
    }
    of->count++;
}

/* Minimises by one value after the other, none below its least. y: multiples, in and out. */
static void fit_descend(const equations *of, double toward, double y[VALUES])
{
    const double weight = pull * (double)of->count / (toward * toward);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int i = 0; i < VALUES; i++) {
            double rest = of->right[i] + weight * toward;
            for (int j = 0; j < VALUES; j++)
                rest -= j == i ? 0 : of->matrix[i][j] * y[j];
            y[i] = fmax(rest / (of->matrix[i][i] + weight), least * toward);
        }
}

/* The common factor by which the built-in values fit best. */
static double fit_factor(const equations *of)
{
    double up = 0, down = 0;
    for (int i = 0; i < VALUES; i++) {
        up += of->right[i];
        for (int j = 0; j < VALUES; j++)
            down += of->matrix[i][j];
    }
    return up / down;
}

/* The root of the mean square of the relative deviations of y. */
static double fit_deviation(const equations *of, const double y[VALUES])
{
    double sum = (double)of->count;
    for (int i = 0; i < VALUES; i++) {
        sum -= 2 * of->right[i] * y[i];
        for (int j = 0; j < VALUES; j++)
            sum += of->matrix[i][j] * y[i] * y[j];
    }
    return sqrt(fmax(sum, 0) / (double)of->count);
}

/* Fits the values to times. Returns the root of the mean square of the relative
 * deviations; infinite, without a change of *cost, if no time is usable. */
static double cost_fit(const weir_net_cost *builtin, weiri_net_shape shape,
                       const weir_net_time *times, size_t count, weir_net_cost *cost)
{
    double start[VALUES], parts[VALUES], y[VALUES];
    equations of = {.count = 0};
    fit_to_times(builtin, start);
    for (size_t i = 0; i < count; i++) {
        fit_parts(start, shape, &times[i], parts);
        if (isfinite(parts[0]) && isfinite(times[i].us) && times[i].us > 0)
            fit_add(&of, parts, times[i].us);
    }
    if (!of.count)
        return INFINITY;
    const double toward = fit_factor(&of);
    for (int i = 0; i < VALUES; i++)
        y[i] = toward;
    fit_descend(&of, toward, y);
    for (int i = 0; i < VALUES; i++)
        start[i] *= y[i];
    *cost = fit_to_cost(start);
    return fit_deviation(&of, y);
}

weir_status weir_net_cost_fit(const weir_comm *comm, const weir_net_time *times, size_t count,
                              weir_net_cost *cost, double *deviation)
{
    if (!comm || !times || !cost || !comm->internode)
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_net_cost_fit: a communicator of several nodes, times and cost are "
                          "required");
    const weiri_net_shape shape = weiri_net_shape_of(comm);
    weir_net_cost fitted;
    const weiri_float_env environment = weiri_float_begin();
    const double found = cost_fit(weiri_net_cost_of(comm->internode->net->ops->transport), shape,
                                  times, count, &fitted);
    weiri_float_end(environment);
    if (!isfinite(found))
        return weiri_fail(WEIR_ERR_INVALID,
                          "weir_net_cost_fit: none of the %zu times is that of an algorithm of the "
                          "cost model, and positive",
                          count);
    *cost = fitted;
    if (deviation)
        *deviation = found;
    return WEIR_OK;
}
