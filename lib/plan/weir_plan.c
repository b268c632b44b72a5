/*
 * weir-plan: checks plans, shows them, and estimates what they take. Standard output holds
 * the result only; a problem is one line on standard error, and the exit code is 2 for usage
 * and for plans that are refused, 3 for the environment.
 */
#include "plan/cost.h"
#include "plan/moves.h"
#include "plan/show.h"
#include "plan/svg.h"

#include "base/error.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    const char *rank, *bytes, *topology; /* as given, or NULL */
    int only_rank;                       /* -1: all */
    uint64_t message_bytes;              /* 0: a usual length */
    int summary, svg, help, version;
    char **files;
    int nfiles;
} settings;

typedef struct command {
    const char *name, *operands, *help;
    int least, most; /* operands */
    weir_status (*run)(const settings *chosen);
} command;

enum { ANY = 1 << 30 };

/* ---------------------------------------------------------------------- commands */

/* SIZE with K, M or G, as the benchmarks have it. */
static weir_status read_bytes(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    end += suffix != NULL;
    if (errno || *text < '0' || *text > '9' || *end || number == 0 || number >> (62 - shift))
        return weiri_fail(WEIR_ERR_INVALID,
                          "--bytes %s: expected bytes above 0, K, M, G and T are allowed", text);
    *bytes = (uint64_t)number << shift;
    return WEIR_OK;
}

static weir_status read_rank(const char *text, int *rank)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number > 9999)
        return weiri_fail(WEIR_ERR_INVALID, "--rank %s: expected a rank's number", text);
    *rank = (int)number;
    return WEIR_OK;
}

static weir_status read_values(settings *chosen)
{
    weir_status status = WEIR_OK;
    chosen->only_rank = -1;
    if (chosen->rank)
        status = read_rank(chosen->rank, &chosen->only_rank);
    if (status == WEIR_OK && chosen->bytes)
        status = read_bytes(chosen->bytes, &chosen->message_bytes);
    return status;
}

/* What both commands need that simulate. */
static weir_status simulate(const settings *chosen, const weir_plan *plan, weiri_plan_cost *found)
{
    weiri_plan_model model;
    uint64_t bytes =
        chosen->message_bytes ? chosen->message_bytes : weiri_plan_usual_bytes(plan);
    weir_status status =
        weiri_plan_model_read(chosen->topology ? chosen->topology : "h200x8", &model);
    return status == WEIR_OK ? weiri_plan_simulate(plan, &model, bytes, found) : status;
}

static weir_status show_picture(const settings *chosen, const weir_plan *plan)
{
    weiri_plan_cost found = {0};
    weir_status status = simulate(chosen, plan, &found);
    if (status == WEIR_OK)
        status = weiri_plan_svg(plan, &found, chosen->only_rank, stdout);
    weiri_plan_cost_free(&found);
    return status;
}

static weir_status show_text(const settings *chosen, const weir_plan *plan)
{
    const weiri_plan_show_options options = {.rank = chosen->only_rank,
                                             .summary = chosen->summary,
                                             .message_bytes = chosen->message_bytes};
    return weiri_plan_show(plan, &options, stdout);
}

static weir_status show(const settings *chosen)
{
    weir_plan *plan = NULL;
    if (chosen->topology && !chosen->svg)
        return weiri_fail(WEIR_ERR_INVALID, "show: --topology goes with --svg");
    weir_status status = weir_plan_read(chosen->files[0], &plan);
    if (status == WEIR_OK)
        status = (chosen->svg ? show_picture : show_text)(chosen, plan);
    weir_plan_free(plan);
    return status;
}

static weir_status cost(const settings *chosen)
{
    weiri_plan_cost found = {0};
    weir_plan *plan = NULL;
    weir_status status = weir_plan_read(chosen->files[0], &plan);
    if (status == WEIR_OK)
        status = simulate(chosen, plan, &found);
    if (status == WEIR_OK)
        weiri_plan_cost_print(plan, &found, stdout);
    weiri_plan_cost_free(&found);
    weir_plan_free(plan);
    return status;
}

/* How much a report without violations says. */
static void print_proof(const weir_plan *plan, const weir_plan_report *report)
{
    printf("%s: %s of %d ranks, no deadlock, no race, for every %s", weir_plan_name(plan),
           weir_plan_collective(plan), weir_plan_nranks(plan),
           report->all_lengths ? "length" : "length that was tried");
    if (report->max_turns)
        printf(" of up to %u turns", report->max_turns);
    puts(report->proves_result ? "" : "; its result was not checked: the collective is unknown");
}

static weir_status check(const settings *chosen)
{
    weir_plan_report *report = calloc(1, sizeof *report);
    weir_plan *plan = NULL;
    weir_status status = WEIR_OK;
    if (!report)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory");
    for (int i = 0; i < chosen->nfiles && status == WEIR_OK; i++) {
        status = weir_plan_read(chosen->files[i], &plan);
        if (status == WEIR_OK)
            status = weir_plan_check(plan, report);
        if (status == WEIR_OK)
            print_proof(plan, report);
        for (unsigned j = 1; j < report->nviolations; j++) {
            const weir_plan_violation *at = &report->violations[j];
            fprintf(stderr, "weir-plan: also: %s: rank %d", weir_plan_fault_name(at->fault),
                    at->rank);
            if (at->block != WEIR_PLAN_NOWHERE)
                fprintf(stderr, ", thread block %u", at->block);
            if (at->op != WEIR_PLAN_NOWHERE)
                fprintf(stderr, ", op %u", at->op);
            fprintf(stderr, ": %s\n", at->text);
        }
        weir_plan_free(plan);
        plan = NULL;
    }
    free(report);
    return status;
}

static const command commands[] = {
    {"check", "FILE ...", "proves that plans compute their collective and cannot hang or race",
     1, ANY, check},
    {"show", "FILE", "prints a plan: what it moves, and every rank's operations", 1, 1, show},
    {"cost", "FILE", "estimates the time on a topology, and what takes it", 1, 1, cost},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* ----------------------------------------------------------------------- options */

static const struct option_row {
    const char *name, *value; /* no value: a flag */
    size_t offset;
    const char *of, *help;    /* of: the commands that take it; NULL: all */
} options[] = {
    {"--bytes", "SIZE", offsetof(settings, bytes), "show cost",
     "of a message, K, M and G allowed (default: 1M)"},
    {"--topology", "NAME|FILE", offsetof(settings, topology), "show cost",
     "the machine, see below (default: h200x8)"},
    {"--rank", "R", offsetof(settings, rank), "show", "this rank alone"},
    {"--summary", NULL, offsetof(settings, summary), "show", "without operations"},
    {"--svg", NULL, offsetof(settings, svg), "show",
     "a picture instead: an estimated timeline, as SVG"},
    {"--version", NULL, offsetof(settings, version), NULL, "prints the version"},
    {"--help", NULL, offsetof(settings, help), NULL, "this"},
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
        snprintf(left, sizeof left, "%s %s", options[i].name,
                 options[i].value ? options[i].value : "");
        printf("  %-20s %s%s%s\n", left, options[i].of ? options[i].of : "",
               options[i].of ? ": " : "", options[i].help);
    }
    puts("\ntopologies; also files of lines key = value (lib/plan/model.h), or of weir-topo\n"
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
    for (int i = 0; i < OPTIONS; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
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
    chosen->files = argv;
    for (int i = 1; i < argc && status == WEIR_OK; i++) {
        if (!literal && strcmp(argv[i], "--") == 0)
            literal = 1;
        else if (!literal && argv[i][0] == '-' && argv[i][1])
            status = take_option(chosen, *of, argc, argv, &i);
        else if (!*of)
            status = find_command(argv[i], of);
        else
            chosen->files[chosen->nfiles++] = argv[i];
    }
    if (status != WEIR_OK || chosen->help || chosen->version)
        return status;
    if (!*of)
        return weiri_fail(WEIR_ERR_INVALID, "expected a command; --help lists them all");
    if (chosen->nfiles < (*of)->least || chosen->nfiles > (*of)->most)
        return weiri_fail(WEIR_ERR_INVALID, "%s: expected %s, %d given", (*of)->name,
                          *(*of)->operands ? (*of)->operands : "no more words", chosen->nfiles);
    return read_values(chosen);
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
