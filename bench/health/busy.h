/* Whether other processes use this node's processors, which makes every time meaningless. */
#ifndef BENCH_HEALTH_BUSY_H
#define BENCH_HEALTH_BUSY_H

#include "bench/health/health.h"

/* Watches the processors for a moment in which this process sleeps. If others use more than a tenth
 * of them, sets report->busy and its text. Local; blocks for 0.3 s. */
void health_busy_look(health_report *report);
/* As health_busy_look, for the time since the last look, in which this process and the programs
 * that it has waited for worked. Does not block; less than 0.2 s are left to the next call. */
void health_busy_since(health_report *report);
/* Turns slowness of a busy node into values that are only reported. */
void health_busy_excuse(health_report *report);

#endif
