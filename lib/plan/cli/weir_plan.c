/*
 * weir-plan: checks and corrects plans, prints them, estimates their time, and generates some.
 * Standard output has only the result; a failure is one line on standard error. The exit code is 1
 * for a plan that cannot be corrected, 2 for usage errors and rejected plans, 3 for system errors.
 */
#include "plan/cli/commands.h"
#include "programs/program.h"

#include "base/error.h"
#include "plan/cost/model.h"
#include "programs/moe_models.h"
#include "programs/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct command {
    const char *name, *operands, *help;
    int least, most; /* operands */
    weir_status (*run)(const settings *chosen);
} command;

enum { ANY = 1 << 30 };

static const command commands[] = {
    {"check", "FILE ...", "prove that plans compute their collective and cannot hang or race", 1,
     ANY, command_check},
    {"fix", "FILE", "write the plan to -o FILE with the corrections that its proof needs", 1, 1,
     command_fix},
    {"show", "FILE", "print a plan: the data that it moves, and each rank's operations", 1, 1,
     command_show},
    {"cost", "FILE", "estimate the time on a topology, with bounds and critical path", 1, 1,
     command_cost},
    {"make", "NAME", "generate one of the plans that 'list' names, for -n ranks", 1, 1,
     command_make},
    {"moe", "", "estimate dispatch and combine of expert parallelism on a topology", 0, 0,
     command_moe},
    {"list", "", "list the plans that 'make' can generate", 0, 0, command_list},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* ----------------------------------------------------------------------- options */

#define OPTION(letter, name, value, type, member, of)                                              \
    letter, name, value, &weiri_option_##type, offsetof(settings, member), .commands = of

static const weiri_option rows[] = {
    {OPTION(0, "bytes", "SIZE", bytes, message_bytes, "show cost"), .low = 1,
     .help = "message size in bytes; suffixes K, M, G, T (default: 1M)"},
    {OPTION(0, "topology", "NAME|FILE", text, topology, "show cost moe"),
     .help = "model of the machine: a name that --help lists, or a file (default: h200x8); show: "
             "with --svg"},
    {OPTION(0, "rank", "R", int, only_rank, "show"), .high = WEIRI_PLAN_RANKS_MAX - 1,
     .initial = "-1", .flags = WEIRI_OPTION_EXPLAINED, .help = "print only this rank"},
    {OPTION(0, "summary", NULL, flags, summary, "show"), .help = "omit the operations"},
    {OPTION(0, "svg", NULL, flags, svg, "show"), .help = "draw the estimated timeline as SVG"},
    {OPTION(0, "json", NULL, flags, json, "check"), .help = "print the result as JSON"},
    {OPTION(0, "strict", NULL, flags, strict, "check"),
     .help = "rely on less of what executors do; see docs/user/plans-proof.md"},
    {OPTION('n', "ranks", "N", int, nranks, "make moe"), .low = 1, .high = WEIR_RANKS_MAX,
     .help = "number of ranks (make: required; moe: by default 2, 4, 8 and so on, up to the "
             "topology's number)"},
    {OPTION('o', "output", "FILE", text, output, "make fix"),
     .help = "write to FILE (fix: required; make: instead of standard output)"},
    {OPTION(0, "instances", "K", int, ninstances, "make"), .low = 1, .high = WEIRI_PLAN_BLOCKS_MAX,
     .help = "repeat each thread block K times and divide the data (default: 1)"},
    {OPTION(0, "in-place", NULL, flags, in_place, "make"),
     .help = "input and output are the same memory"},
    {OPTION(0, "op", "OP", text, op, "make"),
     .help = "restrict the plan to max, min or prod (default: the caller's operation)"},
    {OPTION(0, "tokens", "N", int, tokens, "moe"), .low = 1, .high = PLAN_MOE_MOST,
     .initial = "128", .help = "tokens of each rank"},
    {OPTION(0, "model", "NAME", text, model, "moe"), .initial = "deepseek-v3",
     .help = "hidden size, experts and top-k of " MOE_MODEL_NAMES},
    {OPTION(0, "hidden", "N", int, hidden, "moe"), .low = 1, .high = PLAN_MOE_MOST,
     .help = "elements of a row"},
    {OPTION(0, "experts", "N", int, experts, "moe"), .low = 1, .high = PLAN_MOE_MOST,
     .help = "experts on all ranks together"},
    {OPTION(0, "topk", "N", int, topk, "moe"), .low = 1, .high = PLAN_MOE_MOST,
     .help = "experts of each token"},
    {OPTION(0, "groups", "N", int, groups, "moe"), .low = 1, .high = PLAN_MOE_MOST,
     .help = "a token's experts are on at most N nodes (default: any)"},
    {OPTION(0, "fp8", NULL, flags, fp8, "moe"),
     .help = "dispatch as fp8 with scales (default: 2 bytes an element)"},
    {OPTION(0, "crossing", "choice|rank|node|weir", words, crossing, "moe"), .initial = "weir",
     .help = "what is sent between ranks: one row for each choice, one for each rank, one for each "
             "node, or (weir) what the library sends"},
    {OPTION(0, "version", NULL, flags, version, NULL), .help = "print the version"},
    {OPTION('h', "help", NULL, flags, help, NULL), .help = "print this help"},
};
static const weiri_options options = {rows, sizeof rows / sizeof *rows};

static void plan_cli_print_help(void)
{
    char left[64];
    puts("usage: weir-plan COMMAND [options] FILE ...\n\n"
         "Checks, corrects, prints, estimates and generates plans: collectives described as data, "
         "in the\n"
         "JSON of MSCCL++'s DSL.\n\ncommands:");
    for (int i = 0; i < COMMANDS; i++) {
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].operands);
        printf("  %-20s %s\n", left, commands[i].help);
    }
    puts("\noptions:");
    weiri_options_print(&options, stdout);
    puts("\ntopologies (or a file of lines key = value, or a file from weir-topo --measure):");
    weiri_plan_model_list(stdout);
    puts("\nexit codes: 0 success; 1 a plan that fix cannot correct; 2 usage error or rejected "
         "plan;\n"
         "3 system or environment error.\n"
         "Guide: docs/user/plans.md");
}

static weir_status plan_cli_find_command(const char *name, const command **found)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) {
            *found = &commands[i];
            return WEIR_OK;
        }
    return weiri_fail(WEIR_ERR_INVALID, "unknown command %s; see --help", name);
}

/* Parses the command line. Operands overwrite the arguments in argv. */
static weir_status plan_cli_parse(int argc, char **argv, settings *chosen, const command **of)
{
    int literal = 0;
    weir_status status = WEIR_OK;
    weiri_options_set_defaults(&options, chosen);
    chosen->words = argv;
    for (int i = 1; i < argc && status == WEIR_OK; i++) {
        if (!literal && strcmp(argv[i], "--") == 0)
            literal = 1;
        else if (!literal && argv[i][0] == '-' && argv[i][1])
            status = weiri_option_take(&options, *of ? (*of)->name : NULL, argc, argv, &i, chosen);
        else if (!*of)
            status = plan_cli_find_command(argv[i], of);
        else
            chosen->words[chosen->nwords++] = argv[i];
    }
    if (status != WEIR_OK || chosen->help || chosen->version)
        return status;
    if (!*of)
        return weiri_fail(WEIR_ERR_INVALID, "expected a command; see --help");
    if (chosen->nwords < (*of)->least || chosen->nwords > (*of)->most)
        return weiri_fail(WEIR_ERR_INVALID, "%s: expected %s, got %d operands", (*of)->name,
                          *(*of)->operands ? (*of)->operands : "no operands", chosen->nwords);
    return settings_read(chosen);
}

int main(int argc, char **argv)
{
    weiri_program_begin();
    int is_unproved = 0;
    settings chosen = {.is_unproved = &is_unproved};
    const command *of = NULL;
    weir_status status = plan_cli_parse(argc, argv, &chosen, &of);
    if (status == WEIR_OK && chosen.help)
        plan_cli_print_help();
    else if (status == WEIR_OK && chosen.version)
        printf("weir-plan: %s\n", weir_version_string());
    else if (status == WEIR_OK)
        status = of->run(&chosen);
    if (status == WEIR_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = weiri_fail(WEIR_ERR_SYSTEM,
                            "cannot write to standard output: is the disk full, or is it closed?");
    if (status != WEIR_OK)
        fprintf(stderr, "weir-plan: %s\n", weir_last_error());
    return is_unproved ? 1 : weir_status_exit_code(status);
}
