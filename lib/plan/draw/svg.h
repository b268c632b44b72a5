/*
 * Draws a simulated plan (cost.h) as SVG: a timeline from left to right with a lane for each thread
 * block, below a bar for the memory of its rank. Operations are boxes, coloured by their kind; thin
 * bars are waits; solid arrows lead from signals and packets to the operations that waited for
 * them, dashed ones from puts to the memory where their data arrives; the critical path is framed.
 * The title of a box describes its operation. Colours follow the viewer's light or dark scheme;
 * there are no scripts.
 */
#ifndef WEIR_PLAN_DRAW_SVG_H
#define WEIR_PLAN_DRAW_SVG_H

#include "plan/cost/cost.h"

/* Largest numbers of lanes and boxes; viewers do not handle more. */
enum { WEIRI_PLAN_SVG_LANES_MAX = 2048, WEIRI_PLAN_SVG_STEPS_MAX = 50000 };

/* Draws a plan, or one rank of it unless rank is negative. Local. WEIR_ERR_INVALID: too much to
 * draw, or no such rank; WEIR_ERR_NO_MEMORY. Write errors stay in the stream (ferror). */
weir_status weiri_plan_svg(const weir_plan *plan, const weiri_plan_cost *cost, int rank, FILE *to);

#endif
