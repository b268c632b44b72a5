/*
 * weir-topo prints the hardware of a node, and where weir would run each rank. Standard output
 * contains the result only; an error is one line on standard error, and the exit code is 2 for
 * usage, 3 for the environment, 1 if --diff finds a difference.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "programs/options.h"
#include "programs/program.h"
#include "base/write_file.h"
#include "topo/measure.h"
#include "topo/topo.h"

enum { MAX_RANKS = 4096 };

typedef struct settings {
    int help, version, json, svg, quiet;
    int nranks;                         /* 0: as many as GPUs, else as usable cores */
    const char *diff_path, *diff_other; /* NULL: this machine */
    const char *xml_path, *nccl_path, *save_path, *measure_path, *nodes_path;
    const char *nccl_out, *guest_map, *graph_path;
} settings;

#define OPTION(name, value, type, member)                                                          \
    0, name, value, &weiri_option_##type, offsetof(settings, member)

static const weiri_option rows[] = {
    {OPTION("ranks", "N", int, nranks), .low = 1, .high = MAX_RANKS,
     .help = "place N ranks (default: one per GPU, else per usable core)"},
    {OPTION("json", NULL, flags, json), .help = "print one JSON object"},
    {OPTION("svg", NULL, flags, svg), .help = "draw the machine: print an SVG file"},
    {OPTION("xml", "FILE", text, xml_path),
     .help = "show a recorded machine (hwloc XML) instead of this one"},
    {OPTION("nccl", "FILE", text, nccl_path),
     .help = "show a machine that NCCL or RCCL has described (NCCL_TOPO_DUMP_FILE)"},
    {OPTION("diff", "A [B]", text, diff_path),
     .help = "print what differs between two recorded machines, or between this machine and A"},
    {OPTION("save", "FILE", text, save_path),
     .help = "record the machine as hwloc XML, without names and addresses"},
    {OPTION("nccl-graph", "FILE", text, graph_path),
     .help = "show the rings and trees that NCCL has made on the machine (NCCL_GRAPH_DUMP_FILE)"},
    {OPTION("write-nccl", "FILE", text, nccl_out), .help = "write the machine for NCCL_TOPO_FILE"},
    {OPTION("guest", "MAP", text, guest_map),
     .help = "with --write-nccl: for a virtual machine; a line of MAP has a device's PCI address "
             "on the host and its address in the guest, or the word numa, then HOST-NODE "
             "GUEST-NODE GUEST-CPUS"},
    {OPTION("nodes", "DIR", text, nodes_path),
     .help = "show the nodes of a job by kind; DIR has one record (--save) per node"},
    {OPTION("measure", "FILE", text, measure_path),
     .help = "measure and record the links between GPUs; with --ranks, or with fewer than two "
             "GPUs, the links between the ranks' cores"},
    {OPTION("quiet", NULL, flags, quiet), .help = "no progress on standard error"},
    {OPTION("version", NULL, flags, version), .help = "print the version"},
    {OPTION("help", NULL, flags, help), .help = "print this help"},
};
static const weiri_options options = {rows, sizeof rows / sizeof *rows};

static void print_help(void)
{
    printf("usage: weir-topo [options]\n"
           "Prints this machine's cores, GPUs and NICs, how close they are to each other, and the\n"
           "place of each rank; or measures the links between them.\n\n");
    weiri_options_print(&options, stdout);
}

static int default_nranks(const weiri_topo *topo)
{
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    return counts.gpus > 0 ? counts.gpus : counts.usable_cores;
}

static void write_links(const void *links, FILE *to)
{
    weiri_links_write(links, to);
}

static weir_status record(const weiri_links *links, const char *path)
{
    if (weiri_write_file(path, write_links, links) == 0)
        return WEIR_OK;
    const int error = errno;
    return weiri_fail_errno(weiri_write_refuses_path(error) ? WEIR_ERR_INVALID : WEIR_ERR_SYSTEM,
                            error, "--measure %s", path);
}

static weir_status measure(const settings *chosen, const weiri_topo *topo, int nranks)
{
    weiri_topo_counts counts;
    weiri_links *links;
    weiri_topo_count(topo, &counts);
    if (!weiri_topo_is_live(topo))
        return weiri_fail(WEIR_ERR_INVALID, "--measure: a recorded machine cannot be measured");
    weiri_progress progress;
    weiri_progress_begin(&progress, stderr, "weir-topo", chosen->quiet);
    weir_status status = counts.gpus > 1 && !chosen->nranks
                             ? weiri_topo_measure_gpus(topo, &progress, &links)
                             : weiri_topo_measure_cores(topo, nranks, &progress, &links);
    weiri_progress_clear(&progress);
    if (status)
        return status;
    status = record(links, chosen->measure_path);
    if (!status)
        weiri_topo_print_links(links, stdout);
    char text[160];
    if (!status && weiri_links_asymmetry(links, text, sizeof text))
        fprintf(stderr, "weir-topo: warning: %s; was the machine busy? measure again\n", text);
    weiri_links_free(links);
    return status;
}

/* Ends with 1 if the machines differ. */
static weir_status diff(const settings *chosen, int *differs)
{
    weiri_topo *a = NULL, *b = NULL;
    weir_status status = weiri_topo_load_any(chosen->diff_path, &a);
    if (!status)
        status = chosen->diff_other ? weiri_topo_load_any(chosen->diff_other, &b)
                                    : weiri_topo_discover_full(&b);
    if (!status)
        status = weiri_topo_diff(a, chosen->diff_path, b,
                                 chosen->diff_other ? chosen->diff_other : "this machine", stdout,
                                 differs);
    weiri_topo_destroy(a);
    weiri_topo_destroy(b);
    return status;
}

/* Takes the second word of --diff out of the arguments, as options have one value. */
static int take_other(int argc, char **argv, settings *chosen)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--diff") != 0)
        at++;
    if (at + 2 >= argc || argv[at + 2][0] == '-')
        return argc;
    chosen->diff_other = argv[at + 2];
    memmove(&argv[at + 2], &argv[at + 3], (size_t)(argc - at - 2) * sizeof *argv);
    return argc - 1;
}

/* hwloc's own programs would show another machine. */
static void warn_of_redirection(void)
{
    const char *variable = weiri_topo_redirection();
    if (variable)
        fprintf(stderr,
                "weir-topo: warning: %s is set, but weir uses the machine it runs on; --xml FILE "
                "shows a recorded one\n",
                variable);
}

/* NCCL reads values of at most 253 characters. */
static weir_status write_nccl(const settings *chosen, const weiri_topo *topo)
{
    enum { NCCL_THREADS_MOST = 253 / 9 * 32 };
    weiri_topo_counts counts;
    weiri_topo_count(topo, &counts);
    if (counts.pus > NCCL_THREADS_MOST && !chosen->guest_map)
        fprintf(stderr,
                "weir-topo: warning: NCCL refuses a file with an affinity of more than %d hardware "
                "threads; leave affinity=... out of the file, and NCCL asks the system\n",
                NCCL_THREADS_MOST);
    return weiri_topo_save_nccl(topo, chosen->guest_map, chosen->nccl_out);
}

static weir_status show(const settings *chosen)
{
    if (chosen->nodes_path)
        return weiri_topo_print_kinds(chosen->nodes_path, stdout);
    if (chosen->xml_path && chosen->nccl_path)
        return weiri_fail(WEIR_ERR_INVALID, "--xml and --nccl: expected one of them");
    if (chosen->guest_map && !chosen->nccl_out)
        return weiri_fail(WEIR_ERR_INVALID, "--guest: it needs --write-nccl FILE");
    const char *path = chosen->xml_path ? chosen->xml_path : chosen->nccl_path;
    if (!path)
        warn_of_redirection();
    weiri_topo *topo;
    weir_status status = chosen->xml_path    ? weiri_topo_load(path, &topo)
                         : chosen->nccl_path ? weiri_topo_load_nccl(path, &topo)
                                             : weiri_topo_discover_full(&topo);
    if (status)
        return status;
    int nranks = chosen->nranks ? chosen->nranks : default_nranks(topo);
    const char *source = path ? path : "this machine";
    if (chosen->save_path)
        status = weiri_topo_save(topo, chosen->save_path);
    if (!status && chosen->nccl_out)
        status = write_nccl(chosen, topo);
    if (!status && chosen->measure_path)
        status = measure(chosen, topo, nranks);
    else if (!status && chosen->graph_path)
        status = weiri_topo_print_graphs(topo, chosen->graph_path,
                                         chosen->svg    ? WEIRI_GRAPH_SVG
                                         : chosen->json ? WEIRI_GRAPH_JSON
                                                        : WEIRI_GRAPH_TEXT,
                                         stdout);
    else if (!status && chosen->svg)
        weiri_topo_print_svg(topo, stdout);
    else if (!status && chosen->json)
        status = weiri_topo_print_json(topo, source, nranks, stdout);
    else if (!status)
        status = weiri_topo_print_text(topo, source, nranks, stdout);
    weiri_topo_destroy(topo);
    return status;
}

int main(int argc, char **argv)
{
    weiri_program_begin();
    settings chosen = {0};
    int differs = 0;
    argc = take_other(argc, argv, &chosen);
    weir_status status = weiri_options_take_all(&options, argc, argv, &chosen);
    if (!status && chosen.help)
        print_help();
    else if (!status && chosen.version)
        printf("weir-topo: %s\n", weir_version_string());
    else if (!status && chosen.diff_path)
        status = diff(&chosen, &differs);
    else if (!status)
        status = show(&chosen);
    if (!status && (fflush(stdout) != 0 || ferror(stdout)))
        status = weiri_fail(WEIR_ERR_SYSTEM,
                            "cannot write to standard output: is the disk full, or is it closed?");
    if (status)
        fprintf(stderr, "weir-topo: %s\n", weir_last_error());
    return status || !differs ? weir_status_exit_code(status) : 1;
}
