/*
 * What an operation moves, in bytes of a call: from whose memory into whose. Estimates and
 * listings count with it; what executes copies has its own program.
 */
#ifndef WEIR_PLAN_COST_MOVES_H
#define WEIR_PLAN_COST_MOVES_H

#include "plan/format/layout.h"

/* One stretch of bytes that an operation moves. Of packets, which take twice their data's
 * bytes, bytes has all. from == to: within a rank's memory. */
typedef struct weiri_plan_leg {
    int from, to;        /* ranks */
    uint64_t bytes;
    uint32_t accesses;   /* of that memory, where from == to: 2 of a copy, 1 of an operand */
    uint32_t index;      /* which destination of the operation it is for; sources: UINT32_MAX */
    int is_source;       /* 1: the operation's rank reads it; 0: it is written */
} weiri_plan_leg;

typedef void weiri_plan_take_leg(void *context, const weiri_plan_leg *leg);

/* Calls take for each leg of a rank's operation, of a pipeline's turn if turn_bytes is not
 * 0. Legs without bytes are left out. */
void weiri_plan_each_leg(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                         const weiri_plan_op *op, uint64_t turn, uint64_t turn_bytes,
                         weiri_plan_take_leg *take, void *context);

/* The bytes of data that the operation reduces: those of all its sources but the first. */
uint64_t weiri_plan_reduced_bytes(const weir_plan *plan, const weiri_plan_layout *layout,
                                  int rank, const weiri_plan_op *op, uint64_t turn,
                                  uint64_t turn_bytes);

/* The layout of a message of so many bytes: of an allgather its output, else its input.
 * WEIR_ERR_INVALID: they do not divide into the collective's blocks, or the plan does not
 * serve that length. */
weir_status weiri_plan_lay_out_message(const weir_plan *plan, uint64_t message_bytes,
                                       weiri_plan_layout *layout);

/* A length to show a plan with: 1 MiB, or what is next to it in the plan's range. */
uint64_t weiri_plan_usual_bytes(const weir_plan *plan);

/* Adds what the whole plan moves from rank f to rank t to bytes[f * nranks + t]. */
void weiri_plan_add_traffic(const weir_plan *plan, const weiri_plan_layout *layout,
                            uint64_t *bytes);

/* One operation of a thread block and its place: the one at, or, inside of a pipeline, its
 * turn. weiri_plan_walk_begin stands on the first, or past the end of a block without. */
typedef struct weiri_plan_walk {
    const weiri_plan_gpu *gpu;
    const weiri_plan_block *block;
    const weiri_plan_layout *layout;
    uint32_t at;                 /* of the block's operations; block->nops: past the end */
    uint64_t turn, turns;        /* of the pipeline around it */
    uint64_t turn_bytes;         /* 0: none is */
    uint32_t body, after;        /* where its body begins and ends */
} weiri_plan_walk;
void weiri_plan_walk_begin(const weir_plan *plan, const weiri_plan_layout *layout, int rank,
                           uint32_t block, weiri_plan_walk *walk);
void weiri_plan_walk_next(weiri_plan_walk *walk);
/* The operation that it stands on; NULL past the end. */
const weiri_plan_op *weiri_plan_walk_op(const weiri_plan_walk *walk);

#endif
