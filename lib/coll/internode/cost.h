/*
 * The cost model of the algorithms across nodes. It selects one for numbers of nodes that the
 * tuning table has no rows for. cost.c names the sources of the closed forms. All functions are
 * pure: ranks that agree on the arguments select the same algorithm.
 */
#ifndef WEIR_COLL_INTERNODE_COST_H
#define WEIR_COLL_INTERNODE_COST_H

#include "coll/coll.h"

/* The built-in values of a network transport: estimates for common hardware. A tuning file can have
 * the values of a cluster (a line "cost", see coll/select.c), which --tune fits to measured times.
 */
const weir_net_cost *weiri_net_cost_of(weir_transport transport);

/* The nodes of a communicator. */
typedef struct weiri_net_shape {
    int nnodes, ranks_per_node; /* the smallest node's */
    int gpus;                   /* buffers are GPU memory */
    double
        crowding; /* ranks for each core of the machine where they are most crowded; below 1: 1 */
} weiri_net_shape;

/* That of a communicator of several nodes; equal on all ranks. */
weiri_net_shape weiri_net_shape_of(const weir_comm *comm);

/* The predicted time of a call, of the size by which the tuning table is ordered. Infinite for an
 * algorithm that the model does not know. */
double weiri_internode_cost_us(const weir_net_cost *cost, weiri_net_shape shape,
                               weir_collective collective, const char *algo, size_t bytes);

/* The algorithm with the smallest predicted time; NULL: the model knows none. */
const weiri_algo *weiri_internode_cheapest(const weir_net_cost *cost, weiri_net_shape shape,
                                           weir_collective collective, size_t bytes);

#endif
