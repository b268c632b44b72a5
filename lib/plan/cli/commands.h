/*
 * The program weir-plan: the command line (weir_plan.c), the commands check (weir_plan_check.c),
 * fix (weir_plan_fix.c) and moe (weir_plan_moe.c), and the other commands (weir_plan_commands.c).
 * Not part of the library.
 * Commands print results to standard output; after a failure weir_last_error() has the message,
 * which main prints.
 */
#ifndef WEIR_PLAN_CLI_COMMANDS_H
#define WEIR_PLAN_CLI_COMMANDS_H

#include "plan/format/plan.h"

enum { PLAN_MOE_MOST = 1 << 24 };

typedef struct settings {
    const char *topology, *output, *op, *model; /* NULL: not given */
    int tokens, hidden, experts, topk, groups;  /* 0: those of the model */
    int crossing;                               /* weiri_moe_crossing */
    int svg, summary, json, strict, in_place, fp8, help, version;
    char **words; /* operands of the command */
    int nwords;
    int only_rank;          /* -1: all */
    int nranks, ninstances; /* 0: not given */
    weir_op reduce_op;
    size_t message_bytes; /* 0: weiri_plan_default_bytes */
    int *is_unproved;     /* set by fix: the failure is a plan that it could not correct */
} settings;

/* Converts the texts of options to the values. WEIR_ERR_INVALID: the message names the option. */
weir_status settings_read(settings *chosen);

weir_status command_check(const settings *chosen);
weir_status command_fix(const settings *chosen);
weir_status command_show(const settings *chosen);
weir_status command_cost(const settings *chosen);
weir_status command_make(const settings *chosen);
weir_status command_moe(const settings *chosen);
weir_status command_list(const settings *chosen);

/* Prints the proof, the violations or the failure of a checked file. */
void plan_cli_print_report(const char *file, const weir_plan *plan, const weir_plan_report *report,
                           weir_status status);

#endif
