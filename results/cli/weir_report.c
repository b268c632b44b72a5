/* weir-report: results, a comparison and the history of a store as one HTML page. */
#include "programs/options.h"
#include "programs/program.h"
#include "base/write_file.h"
#include "results/output/page.h"
#include "results/output/series.h"
#include "results/read/load.h"

#include <weir/weir.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { EXIT_USAGE = 2, EXIT_NOTHING = 3 };

typedef struct settings {
    const char *out, *store, *links, *sources[2]; /* A (NULL: none) and B */
    int help, version, nranks;                    /* nranks 0: not given */
} settings;

#define OPTION(letter, name, value, type, member)                                                  \
    letter, name, value, &weiri_option_##type, offsetof(settings, member)

static const weiri_option rows[] = {
    {OPTION('o', "output", "FILE", text, out), .initial = "report.html", .help = "the page"},
    {OPTION(0, "store", "DIR", text, store),
     .help = "a folder of run folders: shows the history of the runs, and finds the runs 'latest' "
             "and 'baseline'"},
    {OPTION(0, "links", "FILE", text, links),
     .help = "links measured by weir-topo --measure, to show results as percentages of the links' "
             "speed (default: links.txt in the folder of B's results or of the nightly gate's "
             "run). If topology.json (weir-topo --json) is in such a folder, it becomes a picture"},
    {OPTION(0, "ranks", "N", int, nranks), .low = 1, .high = 1000000,
     .help = "number of ranks, for files that do not state it (OSU)"},
    {OPTION(0, "version", NULL, flags, version), .help = "print the version"},
    {OPTION(0, "help", NULL, flags, help), .help = "print this help"},
};
static const weiri_options options = {rows, sizeof rows / sizeof *rows};

static void print_help(void)
{
    puts("usage: weir-report [-o FILE] [--store DIR] [--links FILE] [--ranks N] [A] B\n\n"
         "Writes one HTML page about B and what changed since A: verdicts, plots (by gnuplot), "
         "tables,\n"
         "and with --store the history of its nights. A and B: see weir-compare --help.\n");
    weiri_options_print(&options, stdout);
    puts("\nexit codes: 0; 2 usage; 3 nothing to report, or the page cannot be written.");
}

static int usage(const char *what, const char *about)
{
    results_complain("weir-report", "%s '%s'; weir-report --help", what, about);
    return EXIT_USAGE;
}

static int read_settings(settings *s, int argc, char **argv)
{
    int named = 0;
    *s = (settings){.out = NULL};
    weiri_options_set_defaults(&options, s);
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            if (named == 2)
                return usage("at most two sources; a third one:", argv[i]);
            s->sources[named++] = argv[i];
        } else if (weiri_option_take(&options, NULL, argc, argv, &i, s) != WEIR_OK) {
            results_complain("weir-report", "%s", weir_last_error());
            return EXIT_USAGE;
        }
        if (s->help || s->version)
            return 0;
    }
    if (named == 0 && s->store)
        s->sources[named++] = "latest";
    if (named == 0)
        return usage("needs results:", "B");
    if (named == 1) {
        s->sources[1] = s->sources[0];
        s->sources[0] = NULL;
    }
    for (int i = 0; i < 2; i++)
        if (s->sources[i] && results_same_file(s->out, s->sources[i]))
            return usage("the page would overwrite results:", s->out);
    return 0;
}

typedef struct material {
    results_set a, b, nights;
    results_comparison comparison;
    results_history history;
    results_manifest manifest_a, manifest_b;
    results_about about_a, about_b;
    results_machine machine;
    results_expectations expectations;
} material;

static int nothing(void)
{
    results_complain("weir-report", "nothing to report");
    return EXIT_NOTHING;
}

/* Reads everything. Returns 0; or EXIT_NOTHING after saying why. */
static int gather(const settings *s, const results_rules *rules, material *m)
{
    results_set_init(&m->a, s->nranks, stderr);
    results_set_init(&m->b, s->nranks, stderr);
    results_set_init(&m->nights, s->nranks, stderr);
    int failed = s->sources[0] && results_load(&m->a, s->sources[0], s->store) != 0;
    failed |= results_load(&m->b, s->sources[1], s->store) != 0;
    if (failed || results_match(&m->a, &m->b, rules, &m->comparison) != 0)
        return nothing();
    results_judge(&m->comparison, rules);
    results_manifest_read(&m->a, &m->manifest_a);
    results_manifest_read(&m->b, &m->manifest_b);
    results_about_read(&m->a, &m->about_a);
    results_about_read(&m->b, &m->about_b);
    if (results_machine_read(&m->b, s->links, &m->machine) != 0)
        return EXIT_NOTHING;
    if (s->store && results_history_read(&m->nights, s->store, &m->history) != 0)
        return nothing();
    return m->comparison.count > 0 ? 0 : nothing();
}

/* Writes the page with a stream that weiri_write_file opened. */
static void print_page(const void *context, FILE *file)
{
    results_page page = *(const results_page *)context;
    results_plots plots;
    page.file = file;
    if (results_plots_open(&plots) == 0)
        page.plots = &plots;
    else
        results_complain("weir-report", "no gnuplot: the page has no plots; apt-get install "
                                        "gnuplot-nox");
    if (results_page_write(&page) != 0)
        results_complain("weir-report",
                         "gnuplot failed, or its exit code is unknown: plots may be missing");
    results_plots_free(&plots);
}

static int write_page(const settings *s, const results_rules *rules, material *m)
{
    results_report report = {.a = &m->a,
                             .b = &m->b,
                             .name_a = s->sources[0],
                             .name_b = s->sources[1],
                             .comparison = &m->comparison,
                             .rules = rules,
                             .expectations = &m->expectations,
                             .about_a = &m->about_a,
                             .about_b = &m->about_b};
    const results_page page = {.report = &report,
                               .history = s->store ? &m->history : NULL,
                               .manifest_a = &m->manifest_a,
                               .manifest_b = &m->manifest_b,
                               .machine = &m->machine};
    if (weiri_write_file(s->out, print_page, &page) == 0)
        return 0;
    results_complain("weir-report", "%s: %s", s->out, strerror(errno));
    return EXIT_NOTHING;
}

static void material_free(material *m)
{
    results_manifest_free(&m->manifest_a);
    results_manifest_free(&m->manifest_b);
    results_machine_free(&m->machine);
    results_set_free(&m->a);
    results_set_free(&m->b);
    results_set_free(&m->nights);
}

/* weir-report --plot-data FOLDER FILE...: the data of results/plot, which calls this. */
static int write_plot_data(const char *folder, char **files, int count)
{
    results_set set;
    results_set_init(&set, 0, stderr);
    for (int i = 0; i < count; i++)
        results_load(&set, files[i], NULL);
    int plots = results_series_write(&set, folder, stdout);
    if (plots < 0)
        results_complain("plot", "%s: %s", folder, strerror(errno));
    else if (plots == 0 && set.problems == 0)
        fprintf(stderr,
                "plot: nothing to draw: no row of %d file%s has a time; a benchmark's "
                "--csv FILE writes some\n",
                count, count == 1 ? "" : "s");
    results_set_free(&set);
    return plots > 0 ? 0 : plots == 0 ? EXIT_USAGE : EXIT_NOTHING;
}

int main(int argc, char **argv)
{
    weiri_program_begin();
    if (argc > 3 && strcmp(argv[1], "--plot-data") == 0)
        return write_plot_data(argv[2], argv + 3, argc - 3);
    settings s;
    material m = {.comparison = {.count = 0}};
    results_rules rules = results_rules_default();
    int status = read_settings(&s, argc, argv);
    if (status != 0)
        return status;
    if (s.help) {
        print_help();
        return 0;
    }
    if (s.version) {
        printf("weir-report: %s\n", weir_version_string());
        return 0;
    }
    status = gather(&s, &rules, &m);
    if (status == 0)
        status = write_page(&s, &rules, &m);
    material_free(&m);
    return status;
}
