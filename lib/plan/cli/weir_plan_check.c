/* The command check of weir-plan: prints proofs and violations as text or JSON. */
#include "plan/cli/commands.h"

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/words.h"
#include "plan/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of the operation of a violation; NULL if it has none. */
static const char *plan_cli_kind_at(const weir_plan *plan, const weir_plan_violation *at)
{
    if (!plan || at->rank < 0 || at->rank >= plan->nranks)
        return NULL;
    const weiri_plan_gpu *gpu = &plan->gpus[at->rank];
    for (uint32_t i = 0; i < gpu->nblocks; i++)
        if (gpu->blocks[i].id == at->block && at->op < gpu->blocks[i].nops)
            return weiri_plan_kind_name(gpu->ops[gpu->blocks[i].first_op + at->op].kind);
    return NULL;
}

/* -------------------------------------------------------------------------- text */

static void plan_cli_print_proof(const weir_plan *plan, const weir_plan_report *report)
{
    char lengths[WEIRI_CHECK_TEXT], collective[WEIRI_SHOWN_BYTES];
    weiri_check_describe_lengths(report, lengths);
    printf("accepted: %s of %d ranks, no deadlock, no race, balanced, %s",
           weiri_text_shown(weir_plan_collective(plan), collective, sizeof collective),
           weir_plan_nranks(plan), lengths);
    puts(report->proves_result ? "" : "; its result was not checked: the collective is unknown");
}

static void plan_cli_print_violation(const weir_plan *plan, const weir_plan_violation *at)
{
    const char *kind = plan_cli_kind_at(plan, at);
    printf("  %s: rank %d", weir_plan_fault_name(at->fault), at->rank);
    if (at->block != WEIR_PLAN_NOWHERE)
        printf(", thread block %u", at->block);
    if (at->op != WEIR_PLAN_NOWHERE)
        printf(", op %u", at->op);
    if (kind)
        printf(" (%s)", kind);
    char text[WEIRI_SHOWN_BYTES];
    printf(": %s\n", weiri_text_shown(at->text, text, sizeof text));
}

void plan_cli_print_report(const char *file, const weir_plan *plan, const weir_plan_report *report,
                           weir_status status)
{
    char shown[WEIRI_SHOWN_BYTES];
    printf("%s: ", weiri_text_shown(file, shown, sizeof shown));
    if (status == WEIR_OK)
        plan_cli_print_proof(plan, report);
    else if (report->nviolations)
        printf("rejected: %u violation%s%s\n", report->nviolations, weiri_s(report->nviolations),
               report->nviolations == WEIR_PLAN_VIOLATIONS_MAX ? " or more" : "");
    else
        printf("not checked: %s\n", weir_last_error());
    for (unsigned i = 0; i < report->nviolations; i++)
        plan_cli_print_violation(plan, &report->violations[i]);
}

/* -------------------------------------------------------------------------- JSON */

static void plan_cli_json_number(weiri_json_writer *json, const char *key, uint32_t number)
{
    if (number == WEIR_PLAN_NOWHERE)
        weiri_json_put_null(json, key);
    else
        weiri_json_put_whole(json, key, number);
}

static void plan_cli_json_violation(weiri_json_writer *json, const weir_plan *plan,
                                    const weir_plan_violation *at)
{
    const char *kind = plan_cli_kind_at(plan, at);
    weiri_json_break(json, 4);
    weiri_json_open_object(json);
    weiri_json_put_text(json, "fault", weir_plan_fault_name(at->fault));
    weiri_json_put_whole(json, "rank", at->rank);
    plan_cli_json_number(json, "thread_block", at->block);
    plan_cli_json_number(json, "op", at->op);
    if (kind)
        weiri_json_put_text(json, "name", kind);
    weiri_json_put_text(json, "text", at->text);
    weiri_json_close_object(json);
}

static void plan_cli_json_verdict(weiri_json_writer *json, const weir_plan_report *report,
                                  weir_status status)
{
    if (status == WEIR_OK) {
        weiri_json_put_flag(json, "proves_result", report->proves_result);
        weiri_json_put_flag(json, "all_lengths", report->all_lengths);
        weiri_json_put_whole(json, "max_turns", report->max_turns);
        weiri_json_put_whole(json, "max_chunk_bytes", (long long)report->max_chunk_bytes);
        weiri_json_put_whole(json, "root", report->root);
    } else if (!report->nviolations) {
        weiri_json_put_text(json, "error", weir_last_error());
    }
}

static void plan_cli_json_file(weiri_json_writer *json, const char *file, const weir_plan *plan,
                               const weir_plan_report *report, weir_status status)
{
    weiri_json_break(json, 2);
    weiri_json_open_object(json);
    weiri_json_put_text(json, "file", file);
    weiri_json_put_flag(json, "accepted", status == WEIR_OK);
    if (plan) {
        weiri_json_put_text(json, "collective", weir_plan_collective(plan));
        weiri_json_put_whole(json, "ranks", weir_plan_nranks(plan));
    }
    plan_cli_json_verdict(json, report, status);
    weiri_json_put_list(json, "violations");
    for (unsigned i = 0; i < report->nviolations; i++)
        plan_cli_json_violation(json, plan, &report->violations[i]);
    weiri_json_close_list(json);
    weiri_json_close_object(json);
}

/* ------------------------------------------------------------------------- files */

/* Checks one file. Violations are printed to standard output; an unreadable plan is reported there
 * only if several files are checked, because main prints the failure of a single one. */
static weir_status plan_cli_check_file(const char *file, const settings *chosen,
                                       weir_plan_report *report, weiri_json_writer *json)
{
    weir_plan *plan = NULL;
    memset(report, 0, sizeof *report);
    weir_status status = weir_plan_read(file, &plan);
    if (status == WEIR_OK)
        status =
            chosen->strict ? weir_plan_check_strict(plan, report) : weir_plan_check(plan, report);
    if (chosen->json)
        plan_cli_json_file(json, file, plan, report, status);
    else if (status == WEIR_OK || report->nviolations || chosen->nwords > 1)
        plan_cli_print_report(file, plan, report, status);
    weir_plan_free(plan);
    return status;
}

weir_status command_check(const settings *chosen)
{
    weir_plan_report *report = malloc(sizeof *report);
    weir_status worst = WEIR_OK;
    weiri_json_writer json = {.file = stdout, .layout = WEIRI_JSON_INLINE};
    int rejected = 0;
    if (!report)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the report");
    if (chosen->json)
        weiri_json_open_list(&json);
    for (int i = 0; i < chosen->nwords; i++) {
        weir_status status = plan_cli_check_file(chosen->words[i], chosen, report, &json);
        rejected += status != WEIR_OK;
        worst = worst == WEIR_OK ? status : worst;
    }
    if (chosen->json) {
        weiri_json_break(&json, 0);
        weiri_json_close_list(&json);
        putchar('\n');
    }
    /* Printed violations are not repeated as the error line. */
    if (rejected && (chosen->nwords > 1 || report->nviolations))
        weiri_fail(worst, "%d of %d plan%s rejected", rejected, chosen->nwords,
                   weiri_s((size_t)chosen->nwords));
    free(report);
    return worst;
}
