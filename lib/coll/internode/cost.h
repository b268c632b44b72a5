/*
 * The cost model of the algorithms across nodes, by which one is selected for numbers of nodes that
 * the tuning table has no rows for. docs/developer/collectives.md has the closed forms and their
 * sources. All functions are pure: ranks that agree on the arguments select the same algorithm.
 */
#ifndef WEIR_COLL_INTERNODE_COST_H
#define WEIR_COLL_INTERNODE_COST_H

#include "coll/coll.h"

/* What a network and a node cost. The built-in values are estimates for common hardware; a tuning
 * file can have those of a cluster (a line "cost", see coll/select.c). */
typedef struct weiri_net_cost {
    double latency_us;    /* of a short message, from one rank to another */
    double message_us;    /* for which a message occupies its sender and its receiver */
    double network_gbs;   /* GB/s of one rank, in one direction */
    double phase_us;      /* of a short collective within a node */
    double memory_gbs;    /* GB/s of a rank that copies or reduces */
} weiri_net_cost;

/* The built-in values of a network transport. */
const weiri_net_cost *weiri_net_cost_of(weir_transport transport);

/* The nodes of a communicator. */
typedef struct weiri_net_shape {
    int nnodes, ranks_per_node; /* the smallest node's */
    int gpus;                   /* buffers are GPU memory */
} weiri_net_shape;

/* The predicted time of a call, of the size by which the tuning table is ordered. Infinite for an
 * algorithm that the model does not know. */
double weiri_internode_cost_us(const weiri_net_cost *cost, weiri_net_shape shape,
                               weir_collective collective, const char *algo, size_t bytes);

/* The algorithm with the smallest predicted time; NULL: the model knows none. */
const weiri_algo *weiri_internode_cheapest(const weiri_net_cost *cost, weiri_net_shape shape,
                                           weir_collective collective, size_t bytes);

#endif
