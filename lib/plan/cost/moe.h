/*
 * Estimates dispatch and combine of expert parallelism (weir/moe.h) on a machine that model.h
 * describes, also for more GPUs than are at hand.
 *
 * Routing is uniform: each token chooses topk of the experts, all sets equally often. From that
 * follow the rows that a rank receives, on average and, because the slowest rank counts, on the
 * busiest of the ranks. The time is that of the most loaded resource (the link to one peer, all
 * links of a rank, its memory, the memory of a node, the network), plus the latencies of the steps
 * of a call: launch, counting choices, publishing counts, placing rows, moving them. All ranks
 * begin at the same time.
 *
 * Crossings say what moves between ranks:
 *
 *   choice   a row for each choice, straight to its rank
 *   rank     a row for each rank that has experts of the token; of combine, the sum of the
 *            token's outputs there
 *   node     between nodes a row for each node that has experts of the token, forwarded there to
 *            the ranks; of combine, the sum of the node's outputs
 *   weir     what the library does in layout expert: dispatch by rank, or with several nodes by
 *            node; combine by choice
 */
#ifndef WEIR_PLAN_COST_MOE_H
#define WEIR_PLAN_COST_MOE_H

#include "plan/cost/cost.h"

typedef enum weiri_moe_crossing {
    WEIRI_MOE_BY_CHOICE,
    WEIRI_MOE_BY_RANK,
    WEIRI_MOE_BY_NODE,
    WEIRI_MOE_BY_WEIR,
    WEIRI_MOE_CROSSINGS
} weiri_moe_crossing;

const char *weiri_moe_crossing_name(weiri_moe_crossing crossing);

typedef enum weiri_moe_phase {
    WEIRI_MOE_DISPATCH,
    WEIRI_MOE_COMBINE,
    WEIRI_MOE_PHASES
} weiri_moe_phase;

typedef struct weiri_moe_shape {
    int ranks;
    int tokens; /* of each rank */
    int hidden, experts, topk;
    int fp8;    /* 1: dispatch as fp8 with a float for each 128 elements; else 2-byte elements */
    int groups; /* experts of a token are on at most so many nodes, chosen uniformly; 0: no limit */
} weiri_moe_shape;

typedef struct weiri_moe_estimate {
    weiri_moe_crossing crossing; /* never WEIRI_MOE_BY_WEIR */
    double us;                   /* latency_us + bound_us */
    double latency_us;
    double bound_us;         /* of the most loaded resource */
    weiri_load_kind bound;   /* that resource */
    double link_bytes;       /* of the busiest rank, from others of its node */
    double net_bytes;        /* the same, from other nodes */
    double memory_bytes;     /* its memory: reads and writes together */
    double busiest;          /* rows of the busiest rank by those of the mean */
    double counted_bytes[3]; /* of a mean rank, as publications count: a row for each choice; for
                                each rank, its own included; for each node, its own included */
} weiri_moe_estimate;

/* Estimates one phase. Local. WEIR_ERR_INVALID: the message names what is wrong with the shape, or
 * the model has fewer ranks. */
weir_status weiri_moe_estimate_phase(const weiri_plan_model *model, const weiri_moe_shape *shape,
                                     weiri_moe_phase phase, weiri_moe_crossing crossing,
                                     weiri_moe_estimate *estimate);

#endif
