/* The command line of weir-check. One table both parses it and makes --help. */
#include "bench/health/cli/options.h"

#include "base/error.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row {
    const char *name, *value; /* no value: a flag */
    size_t offset;
    const char *help;
} option_rows[] = {
#define AT(member) offsetof(check_options, member)
    {"--level", "WORD", AT(level), "quick (15 s at most, the default), standard (60 s) or long"},
    {"--ranks", "N", AT(ranks),
     "ranks of the collectives (default: one per GPU, else per core, 2 to 8)"},
    {"--gpus", "N", AT(gpus), "fail if there are fewer GPUs"},
    {"--nics", "N", AT(nics), "fail if fewer NICs have a link"},
    {"--baseline", "FILE", AT(baseline), "expect what --json FILE recorded on a good node"},
    {"--tolerance", "PERCENT", AT(tolerance), "below the baseline's bandwidths (default: 20)"},
    {"--models", "FILE", AT(models), "rules by hardware model, instead of the built-in ones"},
    {"--peer", "PATH", AT(peer), "also check the vendor's library (libnccl.so.2) on GPUs"},
    {"--timeout", "SECONDS", AT(timeout), "deadline of each program and round (default: 20)"},
    {"--fleet", NULL, AT(fleet), "check the nodes of this job: start one process on each"},
    {"--bisect", NULL, AT(bisect), "with --fleet: search the fault by halves, not by all pairs"},
    {"--address", "HOST:PORT", AT(address), "with --fleet: where the first process listens"},
    {"--rank", "I", AT(rank), "with --address: the number of this process, from 0"},
    {"--nodes", "N", AT(hosts), "with --address: the number of processes"},
    {"--json", "FILE", AT(json), "also write JSON; a baseline for later"},
    {"--junit", "FILE", AT(junit), "also write JUnit XML"},
    {"--ctrf", "FILE", AT(ctrf), "also write the Common Test Report Format"},
    {"--prometheus", "FILE", AT(prometheus),
     "also write metrics for node_exporter's textfile collector"},
    {"--markdown", "FILE", AT(markdown), "also write Markdown"},
    {"--inject", "FAULT", AT(inject),
     "plant a fault to show that it is found (docs/user/checking.md)"},
    {"--quiet", NULL, AT(quiet), "no progress on standard error"},
    {"--version", NULL, AT(version), "print the version"},
    {"--help", NULL, AT(help), "print this help"},
#undef AT
};
enum { NOPTIONS = sizeof option_rows / sizeof option_rows[0] };

void check_options_help(void)
{
    printf(
        "usage: weir-check [options]\n"
        "       [srun | mpirun ...] weir-check --fleet [options]\n"
        "Checks whether this node, or every node and link of a job, is healthy and as fast as it\n"
        "should be. The last line is PASS or FAIL.\n\n");
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option_row *row = &option_rows[i];
        printf("  %-12s %-9s %s\n", row->name, row->value ? row->value : "", row->help);
    }
    printf(
        "\nExit codes: 0 passed, 1 wrong data, 2 usage, 3 system or environment, 4 hung, 5 slow,\n"
        "6 missing hardware; of several failures the first of 1, 4, 6, 3, 5.\n");
}

static const struct option_row *options_find(const char *argument, const char **inline_value)
{
    const size_t length = strcspn(argument, "=");
    *inline_value = argument[length] == '=' ? argument + length + 1 : NULL;
    for (int i = 0; i < NOPTIONS; i++)
        if (strlen(option_rows[i].name) == length &&
            strncmp(option_rows[i].name, argument, length) == 0)
            return &option_rows[i];
    return NULL;
}

static weir_status options_number(const char *name, const char *text, int least, int most,
                                  int *value)
{
    char *end;
    if (!text)
        return WEIR_OK;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < least || number > most)
        return weiri_fail(WEIR_ERR_INVALID, "%s %s: expected a number from %d to %d", name, text,
                          least, most);
    *value = (int)number;
    return WEIR_OK;
}

static weir_status options_read_numbers(check_options *options)
{
    int percent = 20;
    weir_status status = options_number("--ranks", options->ranks, 2, 256, &options->nranks);
    if (!status)
        status = options_number("--gpus", options->gpus, 0, 256, &options->ngpus);
    if (!status)
        status = options_number("--nics", options->nics, 0, 256, &options->nnics);
    if (!status)
        status = options_number("--timeout", options->timeout, 1, 3600, &options->timeout_s);
    if (!status)
        status = options_number("--tolerance", options->tolerance, 1, 99, &percent);
    options->share = percent / 100.0;
    return status;
}

static weir_status options_check(const check_options *options)
{
    if (!options->fleet && (options->bisect || options->address || options->rank || options->hosts))
        return weiri_fail(WEIR_ERR_INVALID, "--bisect, --address, --rank and --nodes need --fleet");
    if ((options->rank || options->hosts) && !(options->address && options->rank && options->hosts))
        return weiri_fail(WEIR_ERR_INVALID, "--address, --rank and --nodes go together");
    if (options->level && strcmp(options->level, "quick") != 0 &&
        strcmp(options->level, "standard") != 0 && strcmp(options->level, "long") != 0)
        return weiri_fail(WEIR_ERR_INVALID, "--level %s: expected quick, standard or long",
                          options->level);
    return WEIR_OK;
}

weir_status check_options_parse(int argc, char **argv, check_options *options)
{
    *options = (check_options){.ngpus = -1, .nnics = -1, .timeout_s = 20};
    for (int i = 1; i < argc; i++) {
        const char *value;
        const struct option_row *row = options_find(argv[i], &value);
        if (!row || (value && !row->value))
            return weiri_fail(WEIR_ERR_INVALID, "unknown option %s; --help lists them all",
                              argv[i]);
        if (row->value && !value && i + 1 < argc)
            value = argv[++i];
        if (row->value && (!value || !*value))
            return weiri_fail(WEIR_ERR_INVALID, "%s: expected a value, as in %s %s", row->name,
                              row->name, row->value);
        if (row->value)
            *(const char **)(void *)((char *)options + row->offset) = value;
        else
            *(int *)(void *)((char *)options + row->offset) = 1;
    }
    const weir_status status = options_read_numbers(options);
    return status ? status : options_check(options);
}
