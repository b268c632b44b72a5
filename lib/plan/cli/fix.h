/*
 * Applies the fixes that the checker offers until a plan is proved. fix.c chooses them, and
 * fix_edit.c changes plans.
 */
#ifndef WEIR_PLAN_CLI_FIX_H
#define WEIR_PLAN_CLI_FIX_H

#include "plan/check/check.h"

/* An operation, or the place before it: `op` counts those of the thread block. */
typedef struct plan_fix_at {
    int rank; /* -1: none */
    uint32_t block, op;
} plan_fix_at;

/* What a fix has done with an operation. */
typedef struct plan_fix_mark {
    uint32_t fix;        /* its number; 0: none has changed the operation */
    weiri_plan_kind was; /* WEIRI_PLAN_KINDS: the fix has added it */
} plan_fix_mark;

/* A plan that is being changed. */
typedef struct plan_fix_draft {
    weir_plan *plan;
    plan_fix_mark *marks[WEIRI_PLAN_RANKS_MAX]; /* by operation of the rank */
    uint32_t doubled;     /* fix that set use_double_scratch_buffer; 0: none did */
    uint32_t number;      /* of the fix that is being applied */
    plan_fix_at *tracked; /* positions that move with what is inserted before them */
    int ntracked;
} plan_fix_draft;

/* A fix of the checker, in positions of a draft. */
typedef struct plan_fix {
    weiri_check_fix_kind kind;
    plan_fix_at first, second;
} plan_fix;

/* fix.c */

/* Changes the draft's plan by fixes until it is proved, then takes back those that it does not
 * need. *is_proved: whether it is; if not, report and the draft say what remains. */
weir_status plan_fix_all(plan_fix_draft *draft, weir_plan_report *report, int *is_proved);

/* fix_edit.c */

/* Copies a plan, with its marks if `from` has any. */
weir_status plan_fix_copy(const plan_fix_draft *from, plan_fix_draft *to);
void plan_fix_free(plan_fix_draft *draft);
/* Applies a fix, of which some have a second form; the positions of fix are tracked. Returns 0 if
 * it cannot be applied or would change nothing; the draft is then not usable. */
int plan_fix_apply(plan_fix_draft *draft, plan_fix *fix, int form);
/* Takes back a fix. */
void plan_fix_remove(plan_fix_draft *draft, uint32_t number);

#endif
