/*
 * weir-topo prints the hardware of a node, and where weir would run each rank. Standard output
 * contains the result only; an error is one line on standard error, and the exit code is 2 for
 * usage, 3 for the environment.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/measure.h"
#include "topo/topo.h"

enum { MAX_RANKS = 4096 };

typedef struct settings {
    int help;
    int version;
    int json;
    int nranks; /* 0: as many as GPUs, else as usable cores */
    const char *xml_path;
    const char *save_path;
    const char *measure_path;
} settings;

typedef weir_status (*option_action)(settings *chosen, const char *value);

static weir_status choose_help(settings *chosen, const char *value)
{
    (void)value;
    chosen->help = 1;
    return WEIR_OK;
}

static weir_status choose_version(settings *chosen, const char *value)
{
    (void)value;
    chosen->version = 1;
    return WEIR_OK;
}

static weir_status choose_json(settings *chosen, const char *value)
{
    (void)value;
    chosen->json = 1;
    return WEIR_OK;
}

static weir_status choose_ranks(settings *chosen, const char *value)
{
    char *end;
    errno = 0;
    long nranks = strtol(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || nranks < 1 || nranks > MAX_RANKS)
        return weiri_fail(WEIR_ERR_INVALID, "--ranks %s: expected a number from 1 to %d", value,
                          MAX_RANKS);
    chosen->nranks = (int)nranks;
    return WEIR_OK;
}

static weir_status choose_xml(settings *chosen, const char *value)
{
    chosen->xml_path = value;
    return WEIR_OK;
}

static weir_status choose_save(settings *chosen, const char *value)
{
    chosen->save_path = value;
    return WEIR_OK;
}

static weir_status choose_measure(settings *chosen, const char *value)
{
    chosen->measure_path = value;
    return WEIR_OK;
}

/* The options: what is parsed, and what --help prints. */
static const struct option_row {
    const char *name;
    const char *value; /* NULL: the option has no value */
    const char *help;
    option_action action;
} option_rows[] = {
    {"--ranks", "N", "place N ranks (default: one per GPU, else per usable core)", choose_ranks},
    {"--json", NULL, "print one JSON object", choose_json},
    {"--xml", "FILE", "show a recorded machine (hwloc XML) instead of this one", choose_xml},
    {"--save", "FILE", "record the machine as hwloc XML, without names and addresses", choose_save},
    {"--measure", "FILE",
     "measure the links between GPUs, or with --ranks or fewer\n"
     "                  than two GPUs between the ranks' cores, and record them",
     choose_measure},
    {"--version", NULL, "print the version", choose_version},
    {"--help", NULL, "print this help", choose_help},
};
enum { NOPTIONS = sizeof option_rows / sizeof option_rows[0] };

static void print_help(void)
{
    printf("usage: weir-topo [options]\n"
           "Prints this machine's cores, GPUs and NICs, how close they are to each other, and the "
           "place of each rank; or measures the links between them.\n\n");
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option_row *row = &option_rows[i];
        printf("  %-9s %-5s %s\n", row->name, row->value ? row->value : "", row->help);
    }
}

/* The row of "--name" or "--name=value", or NULL. *inline_value is set to what
 * follows "=", or to NULL. */
static const struct option_row *find_option(const char *argument, const char **inline_value)
{
    size_t length = strcspn(argument, "=");
    *inline_value = argument[length] == '=' ? argument + length + 1 : NULL;
    for (int i = 0; i < NOPTIONS; i++)
        if (strlen(option_rows[i].name) == length &&
            strncmp(option_rows[i].name, argument, length) == 0)
            return &option_rows[i];
    return NULL;
}

static weir_status parse(int argc, char **argv, settings *chosen)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        const struct option_row *row = find_option(argv[i], &value);
        if (!row || (value && !row->value))
            return weiri_fail(WEIR_ERR_INVALID, "unknown option %s; --help lists them all",
                              argv[i]);
        if (row->value && !value && i + 1 < argc)
            value = argv[++i];
        if (row->value && (!value || !*value))
            return weiri_fail(WEIR_ERR_INVALID, "%s: expected a value, as in %s %s", row->name,
                              row->name, row->value);
        weir_status status = row->action(chosen, value);
        if (status)
            return status;
    }
    return WEIR_OK;
}

static int default_nranks(const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    return counts.gpus > 0 ? counts.gpus : counts.usable_cores;
}

static weir_status record(const weiri_links *links, const char *path)
{
    FILE *to = fopen(path, "w");
    if (!to)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "--measure %s", path);
    weiri_links_write(links, to);
    int failed = ferror(to);
    failed |= fclose(to) != 0;
    return failed ? weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write %s", path) : WEIR_OK;
}

static weir_status measure(const settings *chosen, const weiri_topo *topo, int nranks)
{
    weiri_topo_counts counts;
    weiri_links *links;
    weiri_topo_count(topo, &counts);
    if (chosen->xml_path)
        return weiri_fail(WEIR_ERR_INVALID, "--measure: a recorded machine cannot be measured");
    weir_status status = counts.gpus > 1 && !chosen->nranks
                             ? weiri_topo_measure_gpus(topo, &links)
                             : weiri_topo_measure_cores(topo, nranks, &links);
    if (status)
        return status;
    status = record(links, chosen->measure_path);
    if (!status)
        weiri_topo_print_links(links, stdout);
    weiri_links_free(links);
    return status;
}

static weir_status show(const settings *chosen)
{
    weiri_topo *topo;
    weir_status status = chosen->xml_path ? weiri_topo_load(chosen->xml_path, &topo)
                                          : weiri_topo_discover_full(&topo);
    if (status)
        return status;
    int nranks = chosen->nranks ? chosen->nranks : default_nranks(topo);
    const char *source = chosen->xml_path ? chosen->xml_path : "this machine";
    if (chosen->save_path)
        status = weiri_topo_save(topo, chosen->save_path);
    if (!status && chosen->measure_path)
        status = measure(chosen, topo, nranks);
    else if (!status && chosen->json)
        status = weiri_topo_print_json(topo, source, nranks, stdout);
    else if (!status)
        status = weiri_topo_print_text(topo, source, nranks, stdout);
    weiri_topo_destroy(topo);
    return status;
}

int main(int argc, char **argv)
{
    settings chosen = {0};
    weir_status status = parse(argc, argv, &chosen);
    if (!status && chosen.help)
        print_help();
    else if (!status && chosen.version)
        printf("weir-topo: %s\n", weir_version_string());
    else if (!status)
        status = show(&chosen);
    errno = 0;
    if (!status && (fflush(stdout) != 0 || ferror(stdout)))
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write to standard output");
    if (status)
        fprintf(stderr, "weir-topo: %s\n", weir_last_error());
    return weir_status_exit_code(status);
}
