/*
 * The bytes that an operation moves in a call, with the ranks that own source and destination.
 * Estimates and listings use it; executors do not.
 */
#ifndef WEIR_PLAN_COST_MOVES_H
#define WEIR_PLAN_COST_MOVES_H

#include "plan/format/layout.h"

/* A leg: a number of bytes that an operation moves from one rank's memory to another's. Packets
 * count with their flags, twice the bytes of their data. from == to: within a rank's memory. */
typedef struct weiri_plan_leg {
    int from, to; /* ranks */
    uint64_t bytes;
    uint32_t accesses; /* if from == to, accesses per byte: 2 for a copy, 1 for an operand */
    uint32_t index;    /* the destination of the operation; of a source: UINT32_MAX */
    int is_source;     /* 1: the operation's rank reads it; 0: it writes it */
} weiri_plan_leg;

typedef void weiri_plan_take_leg(void *context, const weiri_plan_leg *leg);

/* Calls take for each leg of a rank's operation; in one turn of its pipeline if turn_bytes is not
 * 0. Legs of 0 bytes are skipped. */
void weiri_plan_each_leg(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                         const weiri_plan_op *op, uint64_t turn, uint64_t turn_bytes,
                         weiri_plan_take_leg *take, void *context);

/* The bytes that the operation reduces: the data of all its sources but the first. */
uint64_t weiri_plan_reduced_bytes(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                                  const weiri_plan_op *op, uint64_t turn, uint64_t turn_bytes);

/* The layout for a message, which is the output of an allgather and the input of other collectives.
 * WEIR_ERR_INVALID: the bytes do not divide into the collective's blocks, or the plan does not
 * serve that length. */
weir_status weiri_plan_lay_out_message(const weir_plan *plan, uint64_t message_bytes,
                                       weiri_plan_layout *layout);

/* The default length for showing a plan: 1 MiB, or the nearest length in the plan's range. */
uint64_t weiri_plan_default_bytes(const weir_plan *plan);

/* Adds the bytes that the plan moves from rank f to rank t to bytes[f * nranks + t]. */
void weiri_plan_add_traffic(const weir_plan *plan, const weiri_plan_layout *layout,
                            uint64_t *bytes);

/* A position in the execution of a thread block: an operation, and in a pipeline its turn.
 * weiri_plan_walk_begin sets it to the first operation. */
typedef struct weiri_plan_walk {
    const weiri_plan_gpu *gpu;
    const weiri_plan_block *block;
    const weiri_plan_layout *layout;
    uint32_t at;          /* index of the operation; block->nops: at the end */
    uint64_t turn, turns; /* of the pipeline that contains it */
    uint64_t turn_bytes;  /* 0: no pipeline contains it */
    uint32_t body, after; /* the body of that pipeline: [body, after) */
} weiri_plan_walk;
void weiri_plan_walk_begin(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                           uint32_t block, weiri_plan_walk *walk);
void weiri_plan_walk_next(weiri_plan_walk *walk);
/* The operation at the position; NULL at the end. */
const weiri_plan_op *weiri_plan_walk_op(const weiri_plan_walk *walk);

#endif
