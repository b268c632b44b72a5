/*
 * weir-compare: compares results and reports what became slower. The table goes to standard output,
 * problems of the files to standard error.
 */
#include "base/words.h"
#include "programs/options.h"
#include "programs/program.h"
#include "base/write_file.h"
#include "results/judge/compare.h"
#include "results/judge/expect.h"
#include "results/output/print.h"
#include "results/read/load.h"
#include "results/store/history.h"

#include <weir/weir.h>

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_REGRESSED = 1, EXIT_USAGE = 2, EXIT_NOTHING = 3 };

typedef struct settings {
    results_rules rules;
    const char *sources[2]; /* A (NULL: none) and B */
    const char *store, *accept, *add, *expect, *only, *suspects;
    const char *markdown, *json, *junit, *ctrf, *prometheus, *csv, *rows_json, *contender;
    int format, correction, changes, help, version, nranks;
} settings;

#define OPTION(name, value, type, member)                                                          \
    0, name, value, &weiri_option_##type, offsetof(settings, member)

static const weiri_option rows[] = {
    {OPTION("format", "text|markdown|json|junit|ctrf|prometheus", words, format), .initial = "text",
     .help = "format of standard output"},
    {OPTION("markdown", "FILE", text, markdown),
     .help = "also write the comparison to FILE, as Markdown"},
    {OPTION("json", "FILE", text, json), .help = "also write the comparison as JSON"},
    {OPTION("junit", "FILE", text, junit), .help = "also write the comparison as JUnit XML"},
    {OPTION("ctrf", "FILE", text, ctrf),
     .help = "also write the comparison in the Common Test Report Format"},
    {OPTION("prometheus", "FILE", text, prometheus),
     .help = "also write metrics for node_exporter's textfile collector"},
    {OPTION("strict", NULL, flags, rules.is_strict),
     .help = "fail on inconclusive rows, and on expectations that are close or absent"},
    {OPTION("changes", NULL, flags, changes),
     .help = "leave rows without a difference out of tables"},
    {OPTION("csv", "FILE", text, csv), .help = "write B's rows, of any tool, as weir's CSV"},
    {OPTION("rows-json", "FILE", text, rows_json), .help = "write B's rows as JSON, as -J does"},
    {OPTION("expect", "FILE", text, expect),
     .help = "check B against the lines of FILE, such as: allreduce 1G >= 350 GB/s"},
    {OPTION("min-effect", "PERCENT", share, rules.min_effect), .high = 1000,
     .help = "ignore changes that are smaller (default 3%)"},
    {OPTION("resolve", "PERCENT", share, rules.resolve), .high = 1000,
     .help = "say 'no difference' only if changes of this size or more are excluded (default 10%)"},
    {OPTION("alpha", "P", share, rules.alpha), .high = 50,
     .help = "risk of a false alarm in all rows together (default 0.05)"},
    {OPTION("correction", "holm|bh|none", words, correction), .initial = "holm",
     .help = "correction of the significance for the number of rows"},
    {OPTION("start-noise", "PERCENT", share, rules.start_noise), .high = 1000,
     .help = "noise from run to run, assumed if rows or runs are too few to measure it (default 8% "
             "host, 2% GPU)"},
    {OPTION("contender", "NAME", text, contender),
     .help = "compare this candidate only, such as weir or nccl"},
    {OPTION("contender-a", "NAME", text, rules.contender_a),
     .help = "the candidate of A to compare"},
    {OPTION("contender-b", "NAME", text, rules.contender_b),
     .help = "the candidate of B to compare; A and B may be one file"},
    {OPTION("ranks", "N", int, nranks), .low = 1, .high = 1000000,
     .help = "number of ranks, for files that do not state it (OSU)"},
    {OPTION("only", "FILE", text, only),
     .help = "compare only the rows that a file of suspects names"},
    {OPTION("suspects", "FILE", text, suspects),
     .help = "write the rows worth measuring again, for the nightly gate"},
    {OPTION("store", "DIR", text, store),
     .help = "the store in which 'latest' and 'baseline' name runs: a folder of run folders, or an "
             "SQLite file"},
    {OPTION("accept", "NAME", text, accept),
     .help = "make run NAME the baseline of the store, and end"},
    {OPTION("add", "NAME", text, add),
     .help = "add B, as run NAME, to a store that is an SQLite file, and end"},
    {OPTION("version", NULL, flags, version), .help = "print the version"},
    {OPTION("help", NULL, flags, help), .help = "print this help"},
};
static const weiri_options options = {rows, sizeof rows / sizeof *rows};

static void print_help(void)
{
    puts("usage: weir-compare [options] A B      has B become slower than A?\n"
         "       weir-compare --expect FILE B    does B satisfy expectations?\n\n"
         "Compares two sets of results, or checks one against expectations.\n\n"
         "A and B: a file (weir's CSV or JSON, nccl-tests, rccl-tests, OSU, IMB, MSCCL++), a\n"
         "folder of files, a quoted pattern, or latest and baseline of --store. Several runs per\n"
         "side measure the noise; files rN-*.csv of both sides are pairs, measured next to each\n"
         "other. B is slower if the ratio B/A is above 1.\n");
    weiri_options_print(&options, stdout);
    puts(
        "\nexit codes: 0 no regression; 1 a row regressed (or, of other tools, is slower),\n"
        "significantly and by --min-effect or more, or any row of B has wrong results, whatever A\n"
        "has, or an expectation is unmet, or with --strict something could not be decided; 2 "
        "usage,\n"
        "or an invalid file of --expect; 3 nothing to compare, or a file cannot be read or\n"
        "written, or a line of B cannot be used.\n"
        "Guide: docs/user/comparing.md");
}

static int usage(const char *what, const char *about)
{
    results_complain("weir-compare", "%s '%s'; weir-compare --help", what, about);
    return EXIT_USAGE;
}

/* Prints the error line. */
static int usage_error(void)
{
    results_complain("weir-compare", "%s", weir_last_error());
    return EXIT_USAGE;
}

/* Stores argv[*i] and its value, if it has one. Returns 0 or an exit code. */
static int take_option(settings *s, int argc, char **argv, int *i)
{
    return weiri_option_take(&options, NULL, argc, argv, i, s) ? usage_error() : 0;
}

typedef void printer(FILE *file, const results_report *report);

/* In the order of the words of --format. */
static printer *const formats[] = {results_print_text, results_print_markdown,
                                   results_print_json, results_print_junit,
                                   results_print_ctrf, results_print_prometheus};

static int read_settings(settings *s, int argc, char **argv)
{
    int named = 0, status = 0, literal = 0;
    *s = (settings){.rules = results_rules_default()};
    weiri_options_set_defaults(&options, s);
    for (int i = 1; i < argc && status == 0; i++) {
        if (!literal && strcmp(argv[i], "--") == 0)
            literal = 1;
        else if (!literal && argv[i][0] == '-' && argv[i][1])
            status = take_option(s, argc, argv, &i);
        else if (named == 2)
            status = usage("two sources are compared; quote patterns; a third one:", argv[i]);
        else
            s->sources[named++] = argv[i];
    }
    if (status != 0 || s->help || s->version || s->accept)
        return status;
    if (named == 1 && (s->expect || s->csv || s->rows_json || s->add)) {
        s->sources[1] = s->sources[0];
        s->sources[0] = NULL;
    } else if (named != 2) {
        return usage("needs two sources, A and B; given:", named ? s->sources[0] : "none");
    }
    s->rules.correction = (results_correction)s->correction;
    if (s->contender)
        s->rules.contender_a = s->rules.contender_b = s->contender;
    return 0;
}

/* What weiri_write_file passes on. */
typedef struct printing {
    printer *print;
    const results_report *report;
} printing;

static void print_chosen(const void *context, FILE *file)
{
    const printing *chosen = context;
    chosen->print(file, chosen->report);
}

static int print_to(const char *path, printer *print, const results_report *report)
{
    results_report to_file = *report;
    to_file.output = path;
    const printing chosen = {print, &to_file};
    if (!path || weiri_write_file(path, print_chosen, &chosen) == 0)
        return 0;
    results_complain("weir-compare", "%s: %s", path, strerror(errno));
    return EXIT_NOTHING;
}

static void print_b_as_csv(FILE *file, const results_report *report)
{
    results_print_csv(file, report->b);
}

static void print_b_as_json(FILE *file, const results_report *report)
{
    results_print_rows_json(file, report->b);
}

static void print_suspects(FILE *file, const results_report *report)
{
    results_suspects_print(file, report->comparison, report->rules);
}

/* Refuses an output that would overwrite another one, or a file that is read. */
static int check_outputs(const settings *s)
{
    const char *const files[] = {s->markdown,   s->json, s->junit,      s->ctrf,
                                 s->prometheus, s->csv,  s->rows_json,  s->suspects,
                                 s->expect,     s->only, s->sources[0], s->sources[1]};
    enum { OUTPUTS = 8, FILES = sizeof files / sizeof *files };
    for (int i = 0; i < OUTPUTS; i++)
        for (int k = i + 1; k < FILES; k++)
            if (files[i] && files[k] && results_same_file(files[i], files[k]))
                return usage("an output needs a separate file, which is not read either:",
                             files[i]);
    return 0;
}

/* Writes all requested outputs. Returns 0 or EXIT_NOTHING. */
static int print_all(const settings *s, const results_report *report)
{
    int status = 0;
    if (report->name_a || s->expect)
        formats[s->format](stdout, report);
    status |= print_to(s->markdown, results_print_markdown, report);
    status |= print_to(s->json, results_print_json, report);
    status |= print_to(s->junit, results_print_junit, report);
    status |= print_to(s->ctrf, results_print_ctrf, report);
    status |= print_to(s->prometheus, results_print_prometheus, report);
    status |= print_to(s->csv, print_b_as_csv, report);
    status |= print_to(s->rows_json, print_b_as_json, report);
    status |= print_to(s->suspects, print_suspects, report);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        results_complain("weir-compare",
                         "standard output cannot be written: is the disk full, or is it closed?");
        status = EXIT_NOTHING;
    }
    return status;
}

/* Whether anything is judged, not only converted. */
static int judges(const settings *s)
{
    return s->sources[0] || s->expect || s->junit || s->ctrf || s->prometheus || s->json ||
           s->markdown || s->format;
}

/* Says that B has lines that could not be used, which the messages above name. */
static int say_losses(const char *name, size_t losses)
{
    results_complain("weir-compare",
                     "%s: %zu line%s or file%s cannot be used, or report%s a failure (above): "
                     "correct or remove what is broken, or measure again",
                     name, losses, weiri_s(losses), weiri_s(losses), losses == 1 ? "s" : "");
    return EXIT_NOTHING;
}

/* Rows of B with wrong results, which no table shows if B is judged alone. */
static void say_wrong(const results_report *report)
{
    const results_comparison *c = report->comparison;
    if (c->wrong > 0 && !report->name_a)
        results_complain("weir-compare", "%s: wrong results in %zu row%s", report->name_b, c->wrong,
                         weiri_s(c->wrong));
}

static int outcome(const settings *s, const results_report *report)
{
    const results_comparison *c = report->comparison;
    const results_expectations *e = report->expectations;
    say_wrong(report);
    if ((report->name_a && c->verdicts[RESULTS_REGRESSED]) || e->outcomes[RESULTS_UNMET] ||
        (judges(s) && c->wrong > 0))
        return EXIT_REGRESSED;
    if (judges(s) && report->b->losses > 0)
        return say_losses(report->name_b, report->b->losses);
    if (s->rules.is_strict && ((report->name_a && c->verdicts[RESULTS_INCONCLUSIVE]) ||
                               e->outcomes[RESULTS_CLOSE] || e->outcomes[RESULTS_ABSENT]))
        return EXIT_REGRESSED;
    if (report->name_a && results_matched(c) == 0 && !s->only) {
        results_complain("weir-compare", "no row of A (%zu) fits one of B (%zu)%s%s",
                         report->a->count, report->b->count, c->differences[0] ? ": " : "",
                         c->differences);
        return EXIT_NOTHING;
    }
    if (!report->name_a && report->b->count == 0) {
        results_complain("weir-compare", "no row in %s", report->name_b);
        return EXIT_NOTHING;
    }
    if (e->outcomes[RESULTS_ABSENT]) {
        results_complain("weir-compare", "no result for %zu expectation%s",
                         e->outcomes[RESULTS_ABSENT], weiri_s(e->outcomes[RESULTS_ABSENT]));
        return EXIT_NOTHING;
    }
    return 0;
}

/* Reads the expectations and both sides. Returns 0, EXIT_USAGE or EXIT_NOTHING. */
static int load(const settings *s, results_set *a, results_set *b, results_expectations *expected)
{
    int failed = s->expect ? results_expect_read(b, s->expect, expected) : 0;
    if (failed > 0) {
        results_complain("weir-compare",
                         "--expect %s: nothing was checked; it needs expectations, "
                         "one a line, and nothing else (docs/user/comparing.md)",
                         s->expect);
        return EXIT_USAGE;
    }
    if (s->sources[0])
        failed |= results_load(a, s->sources[0], s->store);
    failed |= results_load(b, s->sources[1], s->store);
    if (s->only) {
        failed |= results_suspects_keep(a, s->only, 0);
        failed |= results_suspects_keep(b, s->only, 1);
    }
    return failed ? EXIT_NOTHING : 0;
}

static int compare(const settings *s)
{
    results_set a, b;
    results_comparison made = {.count = 0};
    results_expectations expected = {.count = 0};
    results_warnings warnings_a = {.count = 0}, warnings_b = {.count = 0};
    results_about about_a, about_b;
    results_set_init(&a, s->nranks, stderr);
    results_set_init(&b, s->nranks, stderr);
    b.keeps_documents = s->rows_json != NULL;
    int failed = 0, status = load(s, &a, &b, &expected);
    if (status == 0 && results_match(&a, &b, &s->rules, &made) != 0)
        status = EXIT_NOTHING;
    if (status == 0) {
        results_judge(&made, &s->rules);
        results_expect_check(&expected, &made);
        if (s->sources[0]) {
            results_warnings_read(&a, &warnings_a);
            results_warnings_read(&b, &warnings_b);
            results_about_read(&a, &about_a);
            results_about_read(&b, &about_b);
        }
        results_report report = {.a = &a,
                                 .b = &b,
                                 .name_a = s->sources[0],
                                 .name_b = s->sources[1],
                                 .comparison = &made,
                                 .rules = &s->rules,
                                 .expectations = &expected,
                                 .warnings_a = &warnings_a,
                                 .warnings_b = &warnings_b,
                                 .about_a = s->sources[0] ? &about_a : NULL,
                                 .about_b = s->sources[0] ? &about_b : NULL,
                                 .only_changes = s->changes};
        status = report.exit_code = outcome(s, &report);
        failed = print_all(s, &report);
    }
    results_set_free(&a);
    results_set_free(&b);
    return status ? status : failed;
}

static const char *plain(const char *text, char *copy, size_t bytes)
{
    snprintf(copy, bytes, "%s", text);
    return results_plain(copy);
}

static int accept_run(const settings *s)
{
    char reason[512], name[512], store[512];
    if (!s->store)
        return usage("needs --store DIR:", "--accept");
    if (results_store_accept(s->store, s->accept, reason, sizeof reason) == 0) {
        printf("%s is now the baseline of %s\n", plain(s->accept, name, sizeof name),
               plain(s->store, store, sizeof store));
        return 0;
    }
    results_complain("weir-compare", "--accept: %s", reason);
    return EXIT_NOTHING;
}

/* Whether a run can be named so: a run with any other name could not be selected. */
static int is_run_name(const char *name)
{
    return name[0] && strcmp(name, "latest") != 0 && strcmp(name, "baseline") != 0;
}

/* Adds B's rows to the store as a run. */
static int add_run(const settings *s)
{
    char reason[512];
    results_set set;
    if (!s->store || s->sources[0])
        return usage("needs --store FILE and one source:", "--add");
    if (!is_run_name(s->add))
        return usage("--add needs a name other than latest and baseline, which stand for runs:",
                     s->add);
    results_set_init(&set, s->nranks, stderr);
    int status = results_load(&set, s->sources[1], NULL) == 0 && set.count > 0 ? 0 : EXIT_NOTHING;
    /* A store keeps rows as they are; those that contradict themselves are reported again when they
     * are compared, and then cannot pass. */
    if (status == 0 && set.losses > set.disproved)
        status = say_losses(s->sources[1], set.losses - set.disproved);
    else if (status != 0)
        results_complain("weir-compare", "--add: nothing to add");
    else if (results_sqlite_add(&set, s->store, s->add, reason, sizeof reason) != 0) {
        results_complain("weir-compare", "--add: %s: %s", s->store, reason);
        status = EXIT_NOTHING;
    }
    results_set_free(&set);
    return status;
}

int main(int argc, char **argv)
{
    weiri_program_begin();
    settings s;
    int status = read_settings(&s, argc, argv);
    if (status != 0)
        return status;
    if (s.help) {
        print_help();
        return 0;
    }
    if (s.version) {
        printf("weir-compare: %s\n", weir_version_string());
        return 0;
    }
    status = check_outputs(&s);
    if (status != 0)
        return status;
    return s.accept ? accept_run(&s) : s.add ? add_run(&s) : compare(&s);
}
