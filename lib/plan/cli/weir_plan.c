/*
 * weir-plan: checks plans, prints them, estimates their time, and generates some. Standard output
 * has only the result; a failure is one line on standard error. The exit code is 2 for usage errors
 * and rejected plans, 3 for system errors.
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

static const weiri_option options[] = {
#define AT(member) offsetof(settings, member)
    {"--bytes", "SIZE", AT(bytes), "message size in bytes; suffixes K, M, G, T (default: 1M)", NULL,
     "show cost"},
    {"--topology", "NAME|FILE", AT(topology),
     "model of the machine, see below (default: h200x8); show: with --svg", NULL, "show cost moe"},
    {"--rank", "R", AT(rank), "print only this rank", NULL, "show"},
    {"--summary", NULL, AT(summary), "omit the operations", NULL, "show"},
    {"--svg", NULL, AT(svg), "draw the estimated timeline as SVG", NULL, "show"},
    {"--json", NULL, AT(json), "print the result as JSON", NULL, "check"},
    {"--strict", NULL, AT(strict), "assume less of executors; see \"Stricter order\" in the guide",
     NULL, "check"},
    {"--ranks", "N", AT(ranks), "number of ranks (make: required; moe: all up to the topology's)",
     "-n", "make moe"},
    {"--output", "FILE", AT(output), "write to FILE instead of standard output", "-o", "make"},
    {"--instances", "K", AT(instances),
     "repeat each thread block K times and divide the data (default: 1)", NULL, "make"},
    {"--in-place", NULL, AT(in_place), "input and output are the same memory", NULL, "make"},
    {"--op", "OP", AT(op),
     "restrict the plan to max, min or prod (default: the caller's operation)", NULL, "make"},
    {"--tokens", "N", AT(tokens), "tokens of each rank (default: 128)", NULL, "moe"},
    {"--model", "NAME", AT(model),
     "hidden size, experts and top-k of " MOE_MODEL_NAMES "\n(default: deepseek-v3)", NULL, "moe"},
    {"--hidden", "N", AT(hidden), "elements of a row", NULL, "moe"},
    {"--experts", "N", AT(experts), "experts on all ranks together", NULL, "moe"},
    {"--topk", "N", AT(topk), "experts of each token", NULL, "moe"},
    {"--groups", "N", AT(groups), "a token's experts are on at most N nodes (default: any)", NULL,
     "moe"},
    {"--fp8", NULL, AT(fp8), "dispatch as fp8 with scales (default: 2 bytes an element)", NULL,
     "moe"},
    {"--crossing", "WORD", AT(crossing),
     "what crosses between ranks: a row for each choice, for each rank, for\neach node, or as the "
     "library does, weir (default)",
     NULL, "moe"},
    {"--version", NULL, AT(version), "print the version", NULL, NULL},
    {"--help", NULL, AT(help), "print this help", "-h", NULL},
#undef AT
};
enum { OPTIONS = sizeof options / sizeof *options };

static void plan_cli_print_help(void)
{
    char left[64];
    puts("usage: weir-plan COMMAND [options] FILE ...\n\n"
         "Checks, prints, estimates and generates plans: collectives described as data, in the\n"
         "JSON of MSCCL++'s DSL.\n\ncommands:");
    for (int i = 0; i < COMMANDS; i++) {
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].operands);
        printf("  %-20s %s\n", left, commands[i].help);
    }
    puts("\noptions:");
    weiri_options_print(options, OPTIONS, stdout);
    puts("\ntopologies (or a file of lines key = value, or a file from weir-topo --measure):");
    weiri_plan_model_list(stdout);
    puts("\nexit codes: 0 success; 2 usage error or rejected plan; 3 system or environment error.\n"
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
    chosen->words = argv;
    for (int i = 1; i < argc && status == WEIR_OK; i++) {
        if (!literal && strcmp(argv[i], "--") == 0)
            literal = 1;
        else if (!literal && argv[i][0] == '-' && argv[i][1])
            status = weiri_option_take(options, OPTIONS, *of ? (*of)->name : NULL, argc, argv, &i,
                                       chosen);
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
    settings chosen = {0};
    const command *of = NULL;
    weir_status status = plan_cli_parse(argc, argv, &chosen, &of);
    if (status == WEIR_OK && chosen.help)
        plan_cli_print_help();
    else if (status == WEIR_OK && chosen.version)
        printf("weir-plan: %s\n", weir_version_string());
    else if (status == WEIR_OK)
        status = of->run(&chosen);
    errno = 0;
    if (status == WEIR_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write to standard output");
    if (status != WEIR_OK)
        fprintf(stderr, "weir-plan: %s\n", weir_last_error());
    return weir_status_exit_code(status);
}
