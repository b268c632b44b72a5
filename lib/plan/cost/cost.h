/*
 * Estimates the time of a plan: a discrete-event simulation of its thread blocks and ports on a
 * machine that model.h describes, operation by operation, with waits and shared links.
 */
#ifndef WEIR_PLAN_COST_COST_H
#define WEIR_PLAN_COST_COST_H

#include "plan/format/layout.h"
#include "plan/cost/model.h"

enum { WEIRI_PLAN_STEPS_MAX = 1 << 20 }; /* operations, counted again in each turn of a pipeline */

/* One execution of an operation; times are in microseconds from the launch. */
typedef struct weiri_plan_step {
    int32_t rank;
    uint32_t block, op; /* index among the rank's blocks, and among the block's operations */
    uint64_t turn;      /* of its pipeline */
    double reached_us;  /* when its block reached it */
    double began_us;    /* when it could begin, after waiting */
    double ended_us;
    int64_t cause; /* the step that it waited for, or its block's previous one; -1: none */
    int waited;    /* 1: it waited for cause */
} weiri_plan_step;

/* The arrival of a step's data in another rank's memory. */
typedef struct weiri_plan_arrival {
    int64_t step;
    int32_t rank;
    double us;
    uint64_t bytes;
} weiri_plan_arrival;

/* Kinds of resources that operations share. */
typedef enum weiri_load_kind {
    WEIRI_LOAD_PAIR,    /* the link from one rank to another */
    WEIRI_LOAD_OUT,     /* all links out of a rank */
    WEIRI_LOAD_IN,      /* all links into a rank */
    WEIRI_LOAD_MEMORY,  /* the memory of a rank */
    WEIRI_LOAD_NET_OUT, /* the network, out of a rank */
    WEIRI_LOAD_NET_IN,  /* the network, into a rank */
    WEIRI_LOAD_NODE,    /* the memory of all ranks of a node */
    WEIRI_LOAD_KINDS
} weiri_load_kind;

/* One such resource, and its use. */
typedef struct weiri_plan_load {
    weiri_load_kind kind;
    int from, to;   /* rank, or index of the node; to: only of a PAIR */
    double gbs;     /* bandwidth; 0: no limit */
    uint64_t bytes; /* transferred */
} weiri_plan_load;

typedef struct weiri_plan_cost {
    weiri_plan_model model;
    weiri_plan_layout layout;
    uint64_t message_bytes;
    double total_us;
    weiri_plan_step *steps;
    uint32_t nsteps;
    weiri_plan_arrival *arrivals;
    uint32_t narrivals;
    weiri_plan_load *loads; /* PAIR comes first: index from * nranks + to */
    uint32_t nloads;
    int64_t last;     /* the step whose end or arrival defines the total; -1: no step */
    int busiest_rank; /* the thread block with the most work */
    uint32_t busiest_block;
    double busiest_us; /* the time of that block without waits and contention */
} weiri_plan_cost;

/* Simulates a plan for a message of message_bytes. Local. The caller frees cost with
 * weiri_plan_cost_free. WEIR_ERR_INVALID: the plan does not serve the length, has more ranks than
 * the model, has too many operations to simulate, or does not end; the message then names rank,
 * thread block and operation. WEIR_ERR_NO_MEMORY. */
weir_status weiri_plan_simulate(const weir_plan *plan, const weiri_plan_model *model,
                                uint64_t message_bytes, weiri_plan_cost *cost);
void weiri_plan_cost_free(weiri_plan_cost *cost);

/* The chain of causes of the last step, in order of time: *count indices into steps. The caller
 * releases it with free(). NULL: no memory. */
int64_t *weiri_plan_critical_path(const weiri_plan_cost *cost, uint32_t *count);

#endif
