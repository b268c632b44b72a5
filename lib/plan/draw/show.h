/*
 * Prints plans and estimates as text for people. A plan is printed as a summary and, for each rank,
 * the operations of its thread blocks, such as
 *
 *   put      i[8..15] -> rank 2 s[0..7]
 *   signal   to rank 2
 *   re       i[0] + s[3] -> o[0]
 *
 * Ranks with the same text, and thread blocks of a rank with the same text, are printed once. A
 * channel that is not the first of its type between two ranks is followed by # and its number.
 */
#ifndef WEIR_PLAN_DRAW_SHOW_H
#define WEIR_PLAN_DRAW_SHOW_H

#include "plan/cost/cost.h"

#include <stdio.h>

typedef struct weiri_plan_show_options {
    int rank;               /* only this rank; -1: all */
    int summary;            /* 1: without operations */
    uint64_t message_bytes; /* for the table of bytes moved; 0: weiri_plan_default_bytes */
} weiri_plan_show_options;

/* Prints a plan. Local. WEIR_ERR_INVALID: the plan does not serve that length, or has no such rank;
 * WEIR_ERR_NO_MEMORY. Write errors stay in the stream (ferror). */
weir_status weiri_plan_show(const weir_plan *plan, const weiri_plan_show_options *options,
                            FILE *to);

/* Prints one operation, without a newline. own_part: the part in groups of thread blocks that is
 * not printed, because the heading names it; -1: none. */
void weiri_plan_show_op(const weir_plan *plan, int rank, const weiri_plan_op *op, int own_part,
                        FILE *to);

/* Prints an ascending list of ranks or thread blocks with ranges, such as 0..3 7. */
void weiri_plan_show_ids(const uint32_t *ids, uint32_t count, FILE *to);

/* Prints an estimate: the time and its bounds, the links, the critical path. WEIR_ERR_NO_MEMORY. */
weir_status weiri_plan_cost_print(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to);

/*
 * Draws a simulated plan (cost.h) as SVG: a timeline from left to right with a lane for each thread
 * block, below a bar for the memory of its rank. Operations are boxes, coloured by their kind; thin
 * bars are waits; solid arrows lead from signals and packets to the operations that waited for
 * them, dashed ones from puts to the memory where their data arrives; the critical path is framed.
 * The title of a box describes its operation. Colours follow the viewer's light or dark scheme;
 * there are no scripts.
 */

/* Largest numbers of lanes and boxes; viewers do not handle more. */
enum { WEIRI_PLAN_SVG_LANES_MAX = 2048, WEIRI_PLAN_SVG_STEPS_MAX = 50000 };

/* Draws a plan, or one rank of it unless rank is negative. Local. WEIR_ERR_INVALID: too much to
 * draw, or no such rank; WEIR_ERR_NO_MEMORY. Write errors stay in the stream (ferror). */
weir_status weiri_plan_svg(const weir_plan *plan, const weiri_plan_cost *cost, int rank, FILE *to);

#endif
