/*
 * A plan as a picture, SVG: time from left to right as the simulation (cost.h) has it, a lane
 * for each thread block, below its rank's memory. Operations are boxes, coloured by what
 * they do; thin bars are waits; arrows lead from signals and packets to what waited for
 * them, and, dashed, from data to the memory that it came into; the critical path is framed.
 * Every box says in its title what it is. Colours follow the reader's light or dark scheme;
 * there are no scripts.
 */
#ifndef WEIR_PLAN_DRAW_SVG_H
#define WEIR_PLAN_DRAW_SVG_H

#include "plan/cost/cost.h"

/* At most so many lanes and boxes: no reader shows more. */
enum { WEIRI_PLAN_SVG_LANES_MAX = 2048, WEIRI_PLAN_SVG_STEPS_MAX = 50000 };

/* Draws a simulated plan, of one rank alone unless rank is negative. Local. WEIR_ERR_INVALID:
 * too much to draw, or no such rank; WEIR_ERR_NO_MEMORY. Write errors stay in to (ferror). */
weir_status weiri_plan_svg(const weir_plan *plan, const weiri_plan_cost *cost, int rank, FILE *to);

#endif
