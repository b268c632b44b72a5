/*
 * Chooses fixes for weir-plan fix. Of each report the first violation counts whose fix helps: the
 * violation is gone, and the changed plan has no fault of another kind than before. Each check
 * shows the next violations, until the plan is proved or no fix helps. At the end the fixes are
 * taken back one by one, the last one first, if the plan is proved without.
 *
 * Nothing depends on time or addresses: the same plan yields the same result.
 */
#include "plan/cli/fix.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { FIXES_MAX = 1 << 14, FORMS = 2 };

typedef struct plan_fix_state {
    weir_plan_report report;
    weiri_check_fix fixes[WEIR_PLAN_VIOLATIONS_MAX];
} plan_fix_state;

/* ------------------------------------------------------------------------ checks */

/* Checks a draft. *is_proved: whether it is accepted. Fails if the plan cannot be checked. */
static weir_status fix_check(const plan_fix_draft *draft, plan_fix_state *state, int *is_proved)
{
    memset(state, 0, sizeof *state);
    const weir_status status = weiri_check_plan(draft->plan, 0, &state->report, state->fixes);
    *is_proved = status == WEIR_OK;
    return status == WEIR_ERR_INVALID && state->report.nviolations ? WEIR_OK : status;
}

static plan_fix_at at_of(const weir_plan *plan, weiri_check_change change)
{
    if (change.block == WEIRI_CHECK_NONE)
        return (plan_fix_at){-1, WEIRI_CHECK_NONE, WEIRI_CHECK_NONE};
    for (int rank = 0; rank < plan->nranks; rank++) {
        if (change.block < plan->gpus[rank].nblocks)
            return (plan_fix_at){rank, change.block, change.op};
        change.block -= plan->gpus[rank].nblocks;
    }
    return (plan_fix_at){-1, WEIRI_CHECK_NONE, WEIRI_CHECK_NONE};
}

static plan_fix fix_of(const weir_plan *plan, const weiri_check_fix *fix)
{
    return (plan_fix){fix->kind, at_of(plan, fix->first), at_of(plan, fix->second)};
}

/* The position of a violation; the index of its thread block, not the id. */
static plan_fix_at place_of(const weir_plan *plan, const weir_plan_violation *violation)
{
    plan_fix_at at = {violation->rank, WEIRI_CHECK_NONE, violation->op};
    for (uint32_t i = 0; i < plan->gpus[at.rank].nblocks; i++)
        if (plan->gpus[at.rank].blocks[i].id == violation->block)
            at.block = i;
    return at;
}

static int is_same_place(plan_fix_at a, plan_fix_at b)
{
    return a.rank == b.rank && a.block == b.block && a.op == b.op;
}

/* Whether the report still has the violation at a place, and offers the same fix for it. */
static int remains(const weir_plan *plan, const plan_fix_state *after, weir_plan_fault fault,
                   plan_fix_at place, const plan_fix *fix)
{
    for (unsigned i = 0; i < after->report.nviolations; i++) {
        const plan_fix offered = fix_of(plan, &after->fixes[i]);
        if (after->report.violations[i].fault == fault &&
            is_same_place(place_of(plan, &after->report.violations[i]), place) &&
            offered.kind == fix->kind && is_same_place(offered.first, fix->first) &&
            is_same_place(offered.second, fix->second))
            return 1;
    }
    return 0;
}

/* The kinds of faults in a report, as bits. Wrong results show only if there are no races, and so
 * are not new. */
static unsigned faults_of(const weir_plan_report *report)
{
    unsigned bits = 1u << WEIR_PLAN_FAULT_RESULT;
    for (unsigned i = 0; i < report->nviolations; i++)
        bits |= 1u << report->violations[i].fault;
    return bits;
}

/* ------------------------------------------------------------------------- fixes */

/* Tries the fix of a violation in one form. *helps: it does, and the draft and the state are those
 * with it. */
static weir_status fix_try(plan_fix_draft *draft, plan_fix_state *state, unsigned which, int form,
                           int *is_proved, int *helps)
{
    const weir_plan_fault fault = state->report.violations[which].fault;
    plan_fix fix = fix_of(draft->plan, &state->fixes[which]);
    plan_fix_at tracked[] = {place_of(draft->plan, &state->report.violations[which]), fix.first,
                             fix.second};
    plan_fix_draft tried;
    plan_fix_state *after = malloc(sizeof *after);
    *helps = 0;
    if (!after)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the report");
    weir_status status = plan_fix_copy(draft, &tried);
    if (status != WEIR_OK) {
        free(after);
        return status;
    }
    tried.number++;
    tried.tracked = tracked;
    tried.ntracked = 3;
    if (plan_fix_apply(&tried, &fix, form) && weiri_plan_validate(tried.plan) == WEIR_OK) {
        status = fix_check(&tried, after, is_proved);
        fix.first = tracked[1];
        fix.second = tracked[2];
        *helps = status == WEIR_OK &&
                 (*is_proved || (!(faults_of(&after->report) & ~faults_of(&state->report)) &&
                                 !remains(tried.plan, after, fault, tracked[0], &fix)));
    }
    if (*helps) {
        plan_fix_draft old = *draft;
        *draft = tried;
        draft->tracked = NULL;
        draft->ntracked = 0;
        *state = *after;
        tried = old;
    }
    plan_fix_free(&tried);
    free(after);
    return status;
}

/* Applies the first fix that helps. */
static weir_status fix_one(plan_fix_draft *draft, plan_fix_state *state, int *is_proved, int *helps)
{
    weir_status status = WEIR_OK;
    *helps = 0;
    for (unsigned i = 0; i < state->report.nviolations && !*helps && status == WEIR_OK; i++)
        for (int form = 0; form < FORMS && !*helps && status == WEIR_OK; form++)
            status = fix_try(draft, state, i, form, is_proved, helps);
    return status;
}

/* Takes back the fixes that a proved plan does not need. */
static weir_status fix_minimize(plan_fix_draft *draft, plan_fix_state *state)
{
    weir_status status = WEIR_OK;
    for (uint32_t number = draft->number; number > 0 && status == WEIR_OK; number--) {
        plan_fix_draft tried;
        int is_proved = 0;
        status = plan_fix_copy(draft, &tried);
        if (status != WEIR_OK)
            return status;
        plan_fix_remove(&tried, number);
        if (weiri_plan_validate(tried.plan) == WEIR_OK)
            status = fix_check(&tried, state, &is_proved);
        if (is_proved) {
            plan_fix_draft old = *draft;
            *draft = tried;
            tried = old;
        }
        plan_fix_free(&tried);
    }
    return status;
}

weir_status plan_fix_all(plan_fix_draft *draft, weir_plan_report *report, int *is_proved)
{
    plan_fix_state *state = malloc(sizeof *state);
    int helps = 1;
    if (!state)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the report");
    weir_status status = fix_check(draft, state, is_proved);
    while (status == WEIR_OK && !*is_proved && helps && draft->number < FIXES_MAX)
        status = fix_one(draft, state, is_proved, &helps);
    *is_proved = status == WEIR_OK && state->report.nviolations == 0;
    if (*is_proved)
        status = fix_minimize(draft, state);
    if (status == WEIR_OK && *is_proved)
        status = fix_check(draft, state, is_proved);
    *report = state->report;
    free(state);
    return status;
}
