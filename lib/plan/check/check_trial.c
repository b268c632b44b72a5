/*
 * Tries a fix before it is offered: simulates the byte class that shows a violation once more, with
 * a signal, a wait or both changed, and looks whether the violation occurs again.
 *
 * A stronger signal or wait only adds to the order of events. A trial therefore runs like the
 * simulation that found the violation and reports no others before it. Other violations do not
 * matter to a trial: each gets separate advice.
 */
#include "plan/check/check.h"

#include <stdlib.h>
#include <string.h>

static int trial_finds(const weir_plan_report *report, const weir_plan_violation *sought)
{
    for (unsigned i = 0; i < report->nviolations; i++) {
        const weir_plan_violation *at = &report->violations[i];
        if (at->fault == sought->fault && at->rank == sought->rank && at->block == sought->block &&
            at->op == sought->op && strcmp(at->text, sought->text) == 0)
            return 1;
    }
    return 0;
}

/* Simulates the byte class with the changes. Returns 0 if that failed. */
static int trial_run(weiri_check *check, const weiri_check_trial *trial, weir_plan_report *report)
{
    weiri_check run = {.run_class = check->run_class,
                       .plan = check->plan,
                       .report = report,
                       .status = WEIR_OK,
                       .is_strict = check->is_strict,
                       .classes = check->classes,
                       .trial = trial};
    weiri_check_set_up(&run);
    run.restart = 1;
    while (run.restart && run.status == WEIR_OK) {
        report->nviolations = 0;
        run.run_class(&run, check->row);
        check->naccessed_in_trials += run.naccessed;
    }
    weiri_check_tear_down(&run);
    weiri_clocks_free(&run.clocks);
    return run.status == WEIR_OK;
}

int weiri_check_would_help(weiri_check *check, const weiri_check_trial *trial)
{
    const weir_plan_violation *sought = &check->report->violations[check->report->nviolations - 1];
    weir_plan_report *report = NULL;
    int helps = 0;
    if (check->recorder || check->naccessed_in_trials > WEIRI_CHECK_TRIALS_MAX)
        return 0;
    report = calloc(1, sizeof *report);
    if (report && trial_run(check, trial, report))
        helps = !trial_finds(report, sought);
    free(report);
    return helps;
}
