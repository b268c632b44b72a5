/*
 * Rows of the tuning table that name a plan file. This folder knows which rows there are; reading,
 * proving and running plans is the task of lib/plan, which is above it: it implements the functions
 * below (plan/execute/planned.c), and the linker joins the two.
 *
 * A plan is read at the first call that its row could serve. Ranks then agree: the row is used if
 * every rank has read and proved the same plan, else it is skipped on all ranks, with one warning.
 */
#ifndef WEIR_COLL_PLANNED_H
#define WEIR_COLL_PLANNED_H

#include "coll/coll.h"

#define WEIRI_PLANNED_PREFIX "plan:"

typedef enum weiri_planned_state {
    WEIRI_PLANNED_UNREAD,
    WEIRI_PLANNED_READY,
    WEIRI_PLANNED_SKIPPED,
} weiri_planned_state;

/* A row; the same on all ranks. Members after `state` belong to lib/plan. */
typedef struct weiri_planned {
    struct weiri_planned *next; /* in coll->planned */
    weir_collective collective;
    char *path, *where; /* "table.txt:12", for messages */
    char name[32];      /* "plan:NAME", NAME as the plan has it */
    weiri_planned_state state;
    struct weir_plan *plan; /* proved, once it is ready */
    int needs_op;           /* weir_op; -1: any */
    int reached[2]; /* how peers access the input and the output (plan/execute/executor.h) */
    uint32_t ports; /* port channels, at most, of a rank */
} weiri_planned;

/* What a row's plan would do with a call; the same on all ranks. */
typedef enum weiri_planned_use {
    WEIRI_PLANNED_PASSES, /* the call goes to the next row */
    WEIRI_PLANNED_SERVES, /* and does no more than enqueue it, or run it */
    WEIRI_PLANNED_WAITS,  /* it first waits for the other ranks on the host, and may then pass */
} weiri_planned_use;

/* Whether an algorithm of the table is a plan: "plan:FILE". */
int weiri_planned_is(const char *algo);
/* Adds a row of a table in a file, to whose folder FILE is relative. coll owns *row. */
weir_status weiri_planned_add(weiri_coll *coll, weir_collective collective, const char *table,
                              int line, const char *algo, weiri_planned **row);

/* Implemented by lib/plan. */

/* Runs a task with the row's plan. *served becomes 0, with
 * WEIR_OK, if the plan cannot serve it; every rank comes to the same result. Collective. */
weir_status weiri_planned_run(weiri_coll *coll, weiri_planned *row, const weiri_task *task,
                              int *served);
/* What weiri_planned_run would do with the call. Local. */
weiri_planned_use weiri_planned_look(const weiri_coll *coll, const weiri_planned *row,
                                     const weiri_task *task);
/* Frees the rows and what runs them. Local; no rank uses the communicator any more. */
void weiri_planned_close(weiri_coll *coll);

#endif
