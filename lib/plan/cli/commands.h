/*
 * The parts of the program weir-plan: the command line (weir_plan.c), what its commands do
 * (weir_plan_commands.c), and how the outcome of checks is told (weir_plan_check.c). No
 * part of the library. Commands print results to standard output; a failure's line is in
 * weir_last_error().
 */
#ifndef WEIR_PLAN_CLI_COMMANDS_H
#define WEIR_PLAN_CLI_COMMANDS_H

#include "plan/format/plan.h"

typedef struct settings {
    const char *rank, *bytes, *ranks, *instances, *op; /* as given, or NULL */
    const char *topology, *output;
    int svg, summary, json, in_place, help, version;
    char **words;           /* a command's operands */
    int nwords;
    int only_rank;          /* -1: all */
    int nranks, ninstances; /* 0: not given */
    weir_op reduce_op;
    uint64_t message_bytes; /* 0: a usual length */
} settings;

/* Reads the values of options that are no words. WEIR_ERR_INVALID names the option. */
weir_status settings_read(settings *chosen);

weir_status command_check(const settings *chosen);
weir_status command_show(const settings *chosen);
weir_status command_cost(const settings *chosen);
weir_status command_make(const settings *chosen);
weir_status command_list(const settings *chosen);

#endif
