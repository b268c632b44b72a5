/*
 * A plan as text for people: a summary, and for each rank its thread blocks with their
 * operations, such as
 *
 *   put      i[8..15] -> rank 2 s[0..7]
 *   signal   to rank 2
 *   re       i[0] + s[3] -> o[0]
 *
 * Ranks, and thread blocks of a rank, that read the same are shown once. A channel that is
 * not the first of its type between two ranks has its number behind a #.
 */
#ifndef WEIR_PLAN_DRAW_SHOW_H
#define WEIR_PLAN_DRAW_SHOW_H

#include "plan/format/plan.h"

#include <stdio.h>

typedef struct weiri_plan_show_options {
    int rank;               /* that one alone; -1: all */
    int summary;            /* 1: no operations */
    uint64_t message_bytes; /* of the table of what ranks move; 0: a usual length */
} weiri_plan_show_options;

/* Local. WEIR_ERR_INVALID: the plan does not serve that length, or has no such rank;
 * WEIR_ERR_NO_MEMORY. What the file says of failed writes is the caller's to ask. */
weir_status weiri_plan_show(const weir_plan *plan, const weiri_plan_show_options *options,
                            FILE *to);

/* One operation as a line without an end. own_part: the part of groups of thread blocks that
 * goes without saying; -1: none does. */
void weiri_plan_show_op(const weir_plan *plan, int rank, const weiri_plan_op *op, int own_part,
                        FILE *to);

/* Ranks or thread blocks, such as 0..3 7, written from a list in ascending order. */
void weiri_plan_show_ids(const uint32_t *ids, uint32_t count, FILE *to);

#endif
