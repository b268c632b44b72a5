/*
 * weir-plan: checks plans, shows them, estimates what they take, and makes some. Standard
 * output holds the result only; a problem is one line on standard error, and the exit code
 * is 2 for usage and for plans that are refused, 3 for the environment.
 */
#include "plan/cli/commands.h"

#include "base/error.h"
#include "plan/cost/model.h"

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
    {"check", "FILE ...", "proves that plans compute their collective and cannot hang or race",
     1, ANY, command_check},
    {"show", "FILE", "prints a plan: what it moves, and every rank's operations", 1, 1,
     command_show},
    {"cost", "FILE", "estimates the time on a topology, and what takes it", 1, 1, command_cost},
    {"make", "NAME", "writes one of weir's plans, for -n ranks", 1, 1, command_make},
    {"list", "", "lists those that make knows", 0, 0, command_list},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* ----------------------------------------------------------------------- options */

static const struct option_row {
    const char *name, *letter; /* letter may be NULL */
    const char *value;         /* no value: a flag */
    size_t offset;
    const char *of, *help;     /* of: the commands that take it; NULL: all */
} options[] = {
#define AT(member) offsetof(settings, member)
    {"--bytes", NULL, "SIZE", AT(bytes), "show cost",
     "of a message, K, M and G allowed (default: 1M)"},
    {"--topology", NULL, "NAME|FILE", AT(topology), "show cost",
     "the machine, see below (default: h200x8)"},
    {"--rank", NULL, "R", AT(rank), "show", "this rank alone"},
    {"--summary", NULL, NULL, AT(summary), "show", "without operations"},
    {"--svg", NULL, NULL, AT(svg), "show", "a picture instead: an estimated timeline, as SVG"},
    {"--json", NULL, NULL, AT(json), "check", "as JSON"},
    {"--ranks", "-n", "N", AT(ranks), "make", "the plan's number of ranks"},
    {"--output", "-o", "FILE", AT(output), "make", "instead of standard output"},
    {"--instances", NULL, "K", AT(instances), "make",
     "every thread block K times, with a part of the data each (default: 1)"},
    {"--in-place", NULL, NULL, AT(in_place), "make", "input and output are the same memory"},
    {"--op", NULL, "OP", AT(op), "make", "reduces with max, min or prod only (default: any)"},
    {"--version", NULL, NULL, AT(version), NULL, "prints the version"},
    {"--help", "-h", NULL, AT(help), NULL, "this"},
#undef AT
};
enum { OPTIONS = sizeof options / sizeof *options };

static void print_help(void)
{
    char left[64];
    puts("usage: weir-plan COMMAND [options] FILE ...\n\n"
         "Plans are collectives as data, in the JSON of MSCCL++'s DSL.\n\ncommands:");
    for (int i = 0; i < COMMANDS; i++) {
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].operands);
        printf("  %-20s %s\n", left, commands[i].help);
    }
    puts("\noptions:");
    for (int i = 0; i < OPTIONS; i++) {
        snprintf(left, sizeof left, "%s%s%s %s", options[i].letter ? options[i].letter : "",
                 options[i].letter ? ", " : "", options[i].name,
                 options[i].value ? options[i].value : "");
        printf("  %-20s %s%s%s\n", left, options[i].of ? options[i].of : "",
               options[i].of ? ": " : "", options[i].help);
    }
    puts("\ntopologies; also files of lines key = value (lib/plan/cost/model.h), or of weir-topo\n"
         "--measure:");
    weiri_plan_model_list(stdout);
    puts("\nexit codes: 0 done; 2 usage, or a plan that is refused; 3 system or environment.\n"
         "README: lib/plan/README.md");
}

static int takes(const struct option_row *row, const command *of)
{
    size_t length = strlen(of->name);
    for (const char *word = row->of; word; word = strchr(word, ' ')) {
        word += *word == ' ';
        if (strncmp(word, of->name, length) == 0 && (!word[length] || word[length] == ' '))
            return 1;
    }
    return row->of == NULL;
}

static const struct option_row *find_option(const char *name, size_t length)
{
    for (int i = 0; i < OPTIONS; i++) {
        const char *letter = options[i].letter;
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
        if (letter && strlen(letter) == length && strncmp(letter, name, length) == 0)
            return &options[i];
    }
    return NULL;
}

/* Takes argv[*i] and, where it has one, its value. of NULL: before a command. */
static weir_status take_option(settings *chosen, const command *of, int argc, char **argv, int *i)
{
    char *argument = argv[*i];
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] ? argument + length + 1 : NULL;
    const struct option_row *row = find_option(argument, length);
    if (!row || (value && !row->value) || (of ? !takes(row, of) : row->of != NULL))
        return weiri_fail(WEIR_ERR_INVALID, "%s%sunknown option %s; --help lists them all",
                          of ? of->name : "", of ? ": " : "", argument);
    if (!row->value) {
        *(int *)(void *)((char *)chosen + row->offset) = 1;
        return WEIR_OK;
    }
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value || !*value)
        return weiri_fail(WEIR_ERR_INVALID, "%s: expected a value, as in %s %s", row->name,
                          row->name, row->value);
    *(const char **)(void *)((char *)chosen + row->offset) = value;
    return WEIR_OK;
}

static weir_status find_command(const char *name, const command **found)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) {
            *found = &commands[i];
            return WEIR_OK;
        }
    return weiri_fail(WEIR_ERR_INVALID, "unknown command %s; --help lists them all", name);
}

/* The operands take the place of the arguments. */
static weir_status parse(int argc, char **argv, settings *chosen, const command **of)
{
    int literal = 0;
    weir_status status = WEIR_OK;
    chosen->words = argv;
    for (int i = 1; i < argc && status == WEIR_OK; i++) {
        if (!literal && strcmp(argv[i], "--") == 0)
            literal = 1;
        else if (!literal && argv[i][0] == '-' && argv[i][1])
            status = take_option(chosen, *of, argc, argv, &i);
        else if (!*of)
            status = find_command(argv[i], of);
        else
            chosen->words[chosen->nwords++] = argv[i];
    }
    if (status != WEIR_OK || chosen->help || chosen->version)
        return status;
    if (!*of)
        return weiri_fail(WEIR_ERR_INVALID, "expected a command; --help lists them all");
    if (chosen->nwords < (*of)->least || chosen->nwords > (*of)->most)
        return weiri_fail(WEIR_ERR_INVALID, "%s: expected %s, %d given", (*of)->name,
                          *(*of)->operands ? (*of)->operands : "no more words", chosen->nwords);
    return settings_read(chosen);
}

int main(int argc, char **argv)
{
    settings chosen = {0};
    const command *of = NULL;
    weir_status status = parse(argc, argv, &chosen, &of);
    if (status == WEIR_OK && chosen.help)
        print_help();
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
