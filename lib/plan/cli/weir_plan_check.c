/* The command check of weir-plan: what is proved of plans, and what is wrong, as text or JSON. */
#include "plan/cli/commands.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The operation's name, to go with its number. */
static const char *kind_at(const weir_plan *plan, const weir_plan_violation *at)
{
    if (at->rank < 0 || at->rank >= plan->nranks)
        return NULL;
    const weiri_plan_gpu *gpu = &plan->gpus[at->rank];
    for (uint32_t i = 0; i < gpu->nblocks; i++)
        if (gpu->blocks[i].id == at->block && at->op < gpu->blocks[i].nops)
            return weiri_plan_kind_name(gpu->ops[gpu->blocks[i].first_op + at->op].kind);
    return NULL;
}

/* -------------------------------------------------------------------------- text */

static void print_proof(const weir_plan *plan, const weir_plan_report *report)
{
    printf("accepted: %s of %d ranks, no deadlock, no race, balanced, for every %s",
           weir_plan_collective(plan), weir_plan_nranks(plan),
           report->all_lengths ? "length" : "length that was tried");
    if (report->max_turns)
        printf(" of up to %u turns", report->max_turns);
    puts(report->proves_result ? "" : "; its result was not checked: the collective is unknown");
}

static void print_violation(const weir_plan *plan, const weir_plan_violation *at)
{
    const char *kind = kind_at(plan, at);
    printf("  %s: rank %d", weir_plan_fault_name(at->fault), at->rank);
    if (at->block != WEIR_PLAN_NOWHERE)
        printf(", thread block %u", at->block);
    if (at->op != WEIR_PLAN_NOWHERE)
        printf(", op %u", at->op);
    if (kind)
        printf(" (%s)", kind);
    printf(": %s\n", at->text);
}

static void print_text(const char *file, const weir_plan *plan, const weir_plan_report *report,
                       weir_status status)
{
    printf("%s: ", file);
    if (status == WEIR_OK)
        print_proof(plan, report);
    else if (report->nviolations)
        printf("refused: %u violation%s%s\n", report->nviolations,
               report->nviolations > 1 ? "s" : "",
               report->nviolations == WEIR_PLAN_VIOLATIONS_MAX ? ", and perhaps more" : "");
    else
        printf("not checked: %s\n", weir_last_error());
    for (unsigned i = 0; i < report->nviolations; i++)
        print_violation(plan, &report->violations[i]);
}

/* -------------------------------------------------------------------------- JSON */

static void put_string(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)(unsigned char)*text);
        else
            printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('"');
}

static void put_number(const char *key, uint32_t number)
{
    if (number == WEIR_PLAN_NOWHERE)
        printf(", \"%s\": null", key);
    else
        printf(", \"%s\": %u", key, number);
}

static void put_violation(const weir_plan *plan, const weir_plan_violation *at, int is_first)
{
    const char *kind = kind_at(plan, at);
    printf("%s\n    {\"fault\": \"%s\", \"rank\": %d", is_first ? "" : ",",
           weir_plan_fault_name(at->fault), at->rank);
    put_number("thread_block", at->block);
    put_number("op", at->op);
    if (kind)
        printf(", \"name\": \"%s\"", kind);
    fputs(", \"text\": ", stdout);
    put_string(at->text);
    putchar('}');
}

static void put_json(const char *file, const weir_plan *plan, const weir_plan_report *report,
                     weir_status status, int is_first)
{
    printf("%s\n  {\"file\": ", is_first ? "" : ",");
    put_string(file);
    printf(", \"accepted\": %s", status == WEIR_OK ? "true" : "false");
    if (plan) {
        fputs(", \"collective\": ", stdout);
        put_string(weir_plan_collective(plan));
        printf(", \"ranks\": %d", weir_plan_nranks(plan));
    }
    if (status == WEIR_OK)
        printf(", \"proves_result\": %s, \"all_lengths\": %s, \"max_turns\": %u, "
               "\"root\": %d",
               report->proves_result ? "true" : "false", report->all_lengths ? "true" : "false",
               report->max_turns, report->root);
    if (status != WEIR_OK && !report->nviolations) {
        fputs(", \"error\": ", stdout);
        put_string(weir_last_error());
    }
    fputs(", \"violations\": [", stdout);
    for (unsigned i = 0; i < report->nviolations; i++)
        put_violation(plan, &report->violations[i], i == 0);
    fputs("]}", stdout);
}

/* ------------------------------------------------------------------------- files */

/* Of one file. What is found is told on standard output; that a text is no plan is a
 * failure's line, and told here where others follow. */
static weir_status check_file(const char *file, const settings *chosen, weir_plan_report *report)
{
    weir_plan *plan = NULL;
    int is_first = file == chosen->words[0];
    memset(report, 0, sizeof *report);
    weir_status status = weir_plan_read(file, &plan);
    if (status == WEIR_OK)
        status = weir_plan_check(plan, report);
    if (chosen->json)
        put_json(file, plan, report, status, is_first);
    else if (status == WEIR_OK || report->nviolations || chosen->nwords > 1)
        print_text(file, plan, report, status);
    weir_plan_free(plan);
    return status;
}

weir_status command_check(const settings *chosen)
{
    weir_plan_report *report = malloc(sizeof *report);
    weir_status worst = WEIR_OK;
    int refused = 0;
    if (!report)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory");
    if (chosen->json)
        putchar('[');
    for (int i = 0; i < chosen->nwords; i++) {
        weir_status status = check_file(chosen->words[i], chosen, report);
        refused += status != WEIR_OK;
        worst = worst == WEIR_OK ? status : worst;
    }
    if (chosen->json)
        puts("\n]");
    free(report);
    if (refused && chosen->nwords > 1)
        return weiri_fail(worst, "%d of %d plans refused", refused, chosen->nwords);
    return worst;
}
