/*
 * Estimates what a plan takes: a simulation of its thread blocks and ports on a machine of
 * model.h, operation by operation, with what they wait for and what they share.
 */
#ifndef WEIR_PLAN_COST_COST_H
#define WEIR_PLAN_COST_COST_H

#include "plan/format/layout.h"
#include "plan/cost/model.h"

enum { WEIRI_PLAN_STEPS_MAX = 1 << 20 }; /* operations, turns of pipelines apart */

/* One operation as it ran, in microseconds from the launch. */
typedef struct weiri_plan_step {
    int32_t rank;
    uint32_t block, op; /* of the rank's blocks, of the block's operations */
    uint64_t turn;
    double reached_us; /* its block came to it, */
    double began_us;   /* what it waited for was there, */
    double ended_us;
    int64_t cause;     /* the step that it waited for, or its block's previous one; -1: none */
    int waited;        /* 1: cause is what it waited for */
} weiri_plan_step;

/* Data of a step that came into another rank's memory. */
typedef struct weiri_plan_landing {
    int64_t step;
    int32_t rank;
    double us;
    uint64_t bytes;
} weiri_plan_landing;

/* What operations share. */
typedef enum weiri_plan_share {
    WEIRI_SHARE_PAIR,    /* from one rank to another */
    WEIRI_SHARE_OUT,     /* of a rank */
    WEIRI_SHARE_IN,
    WEIRI_SHARE_MEMORY,
    WEIRI_SHARE_NET_OUT,
    WEIRI_SHARE_NET_IN,
    WEIRI_SHARE_MACHINE, /* of a machine's ranks */
    WEIRI_SHARES
} weiri_plan_share;

typedef struct weiri_plan_load {
    weiri_plan_share share;
    int from, to;    /* ranks, or the machine; to: of a PAIR */
    double gbs;      /* 0: without limit */
    uint64_t bytes;  /* that went through it */
} weiri_plan_load;

typedef struct weiri_plan_cost {
    weiri_plan_model model;
    weiri_plan_layout layout;
    uint64_t message_bytes;
    double total_us;
    weiri_plan_step *steps;
    uint32_t nsteps;
    weiri_plan_landing *landings;
    uint32_t nlandings;
    weiri_plan_load *loads; /* PAIR comes first: from * nranks + to */
    uint32_t nloads;
    int64_t last;           /* the step whose end, or landing, is the total; -1: no step */
    int busiest_rank;       /* the thread block with most work: */
    uint32_t busiest_block;
    double busiest_us;      /* what it would take alone, without waiting */
} weiri_plan_cost;

/* Local. The caller frees cost with weiri_plan_cost_free. WEIR_ERR_INVALID: the plan does
 * not serve the length, has more ranks than the model or too many operations to simulate, or
 * comes to no end: then rank, thread block and operation are named; WEIR_ERR_NO_MEMORY. */
weir_status weiri_plan_simulate(const weir_plan *plan, const weiri_plan_model *model,
                                uint64_t message_bytes, weiri_plan_cost *cost);
void weiri_plan_cost_free(weiri_plan_cost *cost);

/* The steps that led to the last one, in their order, *count of them; the caller's to
 * free(). NULL: no memory. */
int64_t *weiri_plan_critical_path(const weiri_plan_cost *cost, uint32_t *count);

/* The estimate as text: the time and what bounds it, the critical path, the links. */
void weiri_plan_cost_print(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to);

/* The name of what a load is of, at most bytes of text: "rank 0 > rank 1". */
void weiri_plan_load_name(const weiri_plan_load *load, char *text, size_t bytes);

#endif
