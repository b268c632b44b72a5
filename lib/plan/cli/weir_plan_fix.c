/*
 * The command fix of weir-plan: writes a plan with the fixes that its proof needs, and prints them.
 * Without a proof nothing is written, and what remains is printed.
 */
#include "plan/cli/commands.h"
#include "plan/cli/fix.h"
#include "base/write_file.h"

#include "base/error.h"
#include "base/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------- text */

static void plan_cli_print_peers(const weir_plan *plan, int rank, const weiri_plan_op *op)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    for (uint32_t i = 0; op->channel < WEIRI_PLAN_SWITCH && i < op->nids; i++)
        printf("%s %d",
               i              ? ","
               : op->nids > 1 ? " over the channels to ranks"
                              : " to rank",
               gpu->links[op->channel][gpu->ids[op->first_id + i]].peer);
}

static void plan_cli_print_change(const weir_plan *plan, int rank, const weiri_plan_block *block,
                                  uint32_t op, const plan_fix_mark *mark)
{
    const weiri_plan_op *at = &plan->gpus[rank].ops[block->first_op + op];
    printf("  rank %d, thread block %u, op %u: ", rank, block->id, op);
    if (mark->was == WEIRI_PLAN_KINDS)
        printf("%s added", weiri_plan_kind_name(at->kind));
    else
        printf("%s in place of %s", weiri_plan_kind_name(at->kind),
               weiri_plan_kind_name(mark->was));
    plan_cli_print_peers(plan, rank, at);
    putchar('\n');
}

/* Prints what the fixes have changed, by its place in the new plan. Returns the number. */
static uint32_t plan_cli_print_changes(const plan_fix_draft *draft)
{
    const weir_plan *plan = draft->plan;
    uint32_t changes = draft->doubled != 0;
    if (draft->doubled)
        puts("  use_double_scratch_buffer set");
    for (int rank = 0; rank < plan->nranks; rank++)
        for (uint32_t i = 0; i < plan->gpus[rank].nblocks; i++) {
            const weiri_plan_block *block = &plan->gpus[rank].blocks[i];
            for (uint32_t op = 0; op < block->nops; op++) {
                const plan_fix_mark *mark = &draft->marks[rank][block->first_op + op];
                if (mark->fix)
                    plan_cli_print_change(plan, rank, block, op, mark);
                changes += mark->fix != 0;
            }
        }
    return changes;
}

/* ------------------------------------------------------------------------- files */

typedef struct plan_text {
    char *bytes;
    size_t length;
} plan_text;

static void plan_cli_put_text(const void *context, FILE *to)
{
    const plan_text *text = context;
    fwrite(text->bytes, 1, text->length, to);
}

static weir_status plan_cli_replace(const weir_plan *plan, const char *name)
{
    plan_text text = {0};
    weir_status status = weir_plan_print(plan, &text.bytes, &text.length);
    if (status == WEIR_OK && weiri_write_file(name, plan_cli_put_text, &text) != 0)
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write the plan %s", name);
    free(text.bytes);
    return status;
}

/* ------------------------------------------------------------------------ command */

/* Reports a plan that is proved, or what remains. */
static weir_status plan_cli_conclude(const settings *chosen, const plan_fix_draft *draft,
                                     const weir_plan_report *report, int is_proved)
{
    const char *file = chosen->words[0];
    if (is_proved) {
        weir_status status = plan_cli_replace(draft->plan, chosen->output);
        if (status != WEIR_OK)
            return status;
    }
    plan_cli_print_report(is_proved ? chosen->output : file, draft->plan, report,
                          is_proved ? WEIR_OK : WEIR_ERR_INVALID);
    puts(is_proved ? "changes:" : "with these changes, which do not suffice:");
    if (!plan_cli_print_changes(draft))
        puts("  none");
    *chosen->is_unproved = !is_proved;
    if (is_proved)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID,
                      "%s: %u violation%s remain%s that no fix corrects; %s is not written", file,
                      report->nviolations, weiri_s(report->nviolations),
                      report->nviolations == 1 ? "s" : "", chosen->output);
}

weir_status command_fix(const settings *chosen)
{
    plan_fix_draft given = {0}, draft = {0};
    int is_proved = 0;
    weir_plan_report *report = calloc(1, sizeof *report);
    if (!report)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the report");
    weir_status status = WEIR_OK;
    if (!chosen->output)
        status = weiri_fail(WEIR_ERR_INVALID, "fix: expected a file to write, as in -o fixed.json");
    if (status == WEIR_OK)
        status = weir_plan_read(chosen->words[0], &given.plan);
    if (status == WEIR_OK)
        status = plan_fix_copy(&given, &draft);
    if (status == WEIR_OK)
        status = plan_fix_all(&draft, report, &is_proved);
    if (status == WEIR_OK)
        status = plan_cli_conclude(chosen, &draft, report, is_proved);
    plan_fix_free(&draft);
    plan_fix_free(&given);
    free(report);
    return status;
}
