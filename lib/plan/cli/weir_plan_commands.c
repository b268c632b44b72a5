/* The commands of weir-plan that print, estimate and generate plans. */
#include "plan/cli/commands.h"

#include "base/error.h"
#include "plan/check/check.h"
#include "plan/cost/cost.h"
#include "plan/cost/moves.h"
#include "plan/draw/show.h"
#include "plan/examples/examples.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ values */

weir_status settings_read(settings *chosen)
{
    chosen->reduce_op = WEIR_SUM;
    if (chosen->op && weir_op_parse(chosen->op, &chosen->reduce_op) != WEIR_OK)
        return weiri_fail(WEIR_ERR_INVALID, "--op %s: expected sum, prod, max or min", chosen->op);
    return WEIR_OK;
}

/* -------------------------------------------------------------------- show, cost */

/* Simulates a plan with the options of a command. */
static weir_status plan_cli_simulate(const settings *chosen, const weir_plan *plan,
                                     weiri_plan_cost *found)
{
    weiri_plan_model model;
    uint64_t bytes = chosen->message_bytes ? chosen->message_bytes : weiri_plan_default_bytes(plan);
    weir_status status =
        weiri_plan_model_read(chosen->topology ? chosen->topology : "h200x8", &model);
    return status == WEIR_OK ? weiri_plan_simulate(plan, &model, bytes, found) : status;
}

static weir_status plan_cli_show_picture(const settings *chosen, const weir_plan *plan)
{
    weiri_plan_cost found = {0};
    weir_status status = plan_cli_simulate(chosen, plan, &found);
    if (status == WEIR_OK)
        status = weiri_plan_svg(plan, &found, chosen->only_rank, stdout);
    weiri_plan_cost_free(&found);
    return status;
}

static weir_status plan_cli_show_text(const settings *chosen, const weir_plan *plan)
{
    const weiri_plan_show_options options = {.rank = chosen->only_rank,
                                             .summary = chosen->summary,
                                             .message_bytes = chosen->message_bytes};
    return weiri_plan_show(plan, &options, stdout);
}

weir_status command_show(const settings *chosen)
{
    weir_plan *plan = NULL;
    if (chosen->topology && !chosen->svg)
        return weiri_fail(WEIR_ERR_INVALID, "show: --topology requires --svg");
    weir_status status = weir_plan_read(chosen->words[0], &plan);
    if (status == WEIR_OK)
        status = (chosen->svg ? plan_cli_show_picture : plan_cli_show_text)(chosen, plan);
    weir_plan_free(plan);
    return status;
}

/* Prints, after an estimate, that executors would reject the call: the plan is wrong, or not proved
 * for chunks as long as these. */
static weir_status plan_cli_print_rejection(const weir_plan *plan, const weiri_plan_cost *found)
{
    char lengths[WEIRI_CHECK_TEXT];
    weir_plan_report *report = calloc(1, sizeof *report);
    if (!report)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to check a plan");
    weir_status status = weir_plan_check(plan, report);
    weiri_check_describe_lengths(report, lengths);
    if (status == WEIR_ERR_INVALID)
        printf("rejected     executors reject this plan; weir-plan check %s shows why\n",
               plan->file);
    else if (status == WEIR_OK && report->max_chunk_bytes &&
             found->layout.chunk_bytes > report->max_chunk_bytes)
        printf("rejected     executors reject messages of this length: the plan is accepted %s\n",
               lengths);
    free(report);
    return status == WEIR_ERR_INVALID || status == WEIR_ERR_UNSUPPORTED ? WEIR_OK : status;
}

weir_status command_cost(const settings *chosen)
{
    weiri_plan_cost found = {0};
    weir_plan *plan = NULL;
    weir_status status = weir_plan_read(chosen->words[0], &plan);
    if (status == WEIR_OK)
        status = plan_cli_simulate(chosen, plan, &found);
    if (status == WEIR_OK)
        status = weiri_plan_cost_print(plan, &found, stdout);
    if (status == WEIR_OK)
        status = plan_cli_print_rejection(plan, &found);
    weiri_plan_cost_free(&found);
    weir_plan_free(plan);
    return status;
}

/* -------------------------------------------------------------------- list, make */

weir_status command_list(const settings *chosen)
{
    size_t count;
    const weiri_plan_example *examples = weiri_plan_examples(&count);
    (void)chosen;
    for (size_t i = 0; i < count; i++)
        printf("%-24s %s\n", examples[i].name, examples[i].summary);
    return WEIR_OK;
}

static weir_status plan_cli_write_plan(const weir_plan *plan, const char *file)
{
    char *text = NULL;
    size_t bytes;
    if (file)
        return weir_plan_write(plan, file);
    weir_status status = weir_plan_print(plan, &text, &bytes);
    if (status == WEIR_OK)
        fwrite(text, 1, bytes, stdout);
    free(text);
    return status;
}

weir_status command_make(const settings *chosen)
{
    const weiri_plan_example *example = weiri_plan_example_find(chosen->words[0]);
    const weiri_plan_example_options with = {.nranks = chosen->nranks,
                                             .instances = chosen->ninstances,
                                             .in_place = chosen->in_place,
                                             .op = chosen->reduce_op};
    weir_plan *plan = NULL;
    if (!example)
        return weiri_fail(WEIR_ERR_INVALID, "make: unknown plan %s; weir-plan list names all",
                          chosen->words[0]);
    if (!chosen->nranks)
        return weiri_fail(WEIR_ERR_INVALID, "make: expected a number of ranks, as in -n 8");
    if (chosen->nranks < 2 || chosen->nranks > WEIRI_PLAN_RANKS_MAX)
        return weiri_fail(WEIR_ERR_INVALID, "-n (--ranks) %d: expected a whole number from 2 to %d",
                          chosen->nranks, WEIRI_PLAN_RANKS_MAX);
    weir_status status = weiri_plan_example_make(example, &with, &plan);
    if (status == WEIR_OK)
        status = plan_cli_write_plan(plan, chosen->output);
    weir_plan_free(plan);
    return status;
}
