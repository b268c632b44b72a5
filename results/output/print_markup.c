/* Markdown for a CI summary, and the forms that are written from checks alone. Names from files are
 * escaped for their context. */
#include "results/output/print.h"

#include <math.h>
#include <string.h>

static void put_cell(FILE *file, const char *text)
{
    fputs(" | ", file);
    results_put_markdown(file, text);
}

static void put_numbers(FILE *file, const results_pair *pair)
{
    const double numbers[] = {pair->a.median_us, pair->b.median_us, pair->a.busbw_gbs,
                              pair->b.busbw_gbs};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (isnan(numbers[i]))
            fputs(" | ", file);
        else
            fprintf(file, " | %.2f", numbers[i]);
    if (isnan(pair->ratio))
        fputs(" | ", file);
    else
        fprintf(file, " | %.3f (%.3f to %.3f)", pair->ratio, pair->low, pair->high);
}

static void put_row(FILE *file, const results_comparison *c, const results_pair *pair)
{
    const results_row *row = pair->example;
    char name[600], apart[300];
    results_pair_contender(pair, name, sizeof name);
    results_pair_apart(c, pair, ", ", 0, apart, sizeof apart);
    fprintf(file, "| %llu", row->bytes);
    put_cell(file, row->text[RESULTS_COLLECTIVE]);
    put_cell(file, row->text[RESULTS_DTYPE]);
    put_cell(file, row->text[RESULTS_REDOP]);
    fprintf(file, " | %d", row->nranks);
    put_cell(file, row->text[RESULTS_PLACEMENT]);
    put_cell(file, name);
    results_put_markdown(file, apart);
    put_numbers(file, pair);
    put_cell(file, results_pair_word(pair, c->cross));
    fprintf(file, "%s%s |\n", pair->reason[0] ? ": " : "", pair->reason);
}

static void put_markdown_warnings(FILE *file, const char *letter, const results_warnings *warnings)
{
    for (int i = 0; warnings && i < warnings->count; i++) {
        char line[600];
        results_describe_warning(warnings, i, line, sizeof line);
        fprintf(file, "\n%s: ", letter);
        results_put_markdown(file, line);
        fputc('\n', file);
    }
}

/* A line for each fact that is known: hosts, devices, commits, times. */
static void put_markdown_summary(FILE *file, const results_report *report)
{
    const results_about *a = report->about_a, *b = report->about_b;
    int count = 0;
    for (int line = 0; a && b && line < RESULTS_ABOUT_LINES; line++) {
        const char *of_a = results_about_text(a, line), *of_b = results_about_text(b, line);
        if (!of_a[0] && !of_b[0])
            continue;
        fprintf(file, "%s| %s", count++ ? "" : "\n| | A | B |\n|---|---|---|\n",
                results_about_name(line));
        put_cell(file, of_a);
        put_cell(file, of_b);
        fputs(" |\n", file);
    }
}

static void put_markdown_table(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    fputs("\n| bytes | collective | type | op | ranks | place | candidate | A us | B us | "
          "A GB/s | B GB/s | B/A (95%) | verdict |\n"
          "|--:|---|---|---|--:|---|---|--:|--:|--:|--:|--:|---|\n",
          file);
    for (size_t i = 0; i < c->count; i++)
        if (!report->only_changes || c->pairs[i].verdict != RESULTS_NO_DIFFERENCE)
            put_row(file, c, &c->pairs[i]);
}

static void put_markdown_expectations(FILE *file, const results_report *report)
{
    results_checks checks;
    results_checks_begin(&checks, "weir-compare");
    results_checks_of_expectations(report, &checks);
    if (checks.count > 0) {
        fputs(report->name_a ? "\n" : "", file);
        results_checks_markdown(&checks, file);
    }
    results_checks_free(&checks);
}

void results_print_markdown(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    if (report->name_a) {
        fputs("### Verdict: ", file);
        results_say_overall(file, c);
        fputs("\n\n", file);
        results_say_counts(file, report);
        fputs(".\nA: ", file);
        results_put_markdown(file, report->name_a);
        fputs("; B: ", file);
        results_put_markdown(file, report->name_b);
        fputs("; ", file);
        results_say_noise(file, report);
        if (results_differs(c) && results_matched(c) > 0) {
            fputs("; not compared: ", file);
            results_put_markdown(file, c->differences);
        }
        fputs(".\n", file);
        if (results_matched(c) > 0)
            put_markdown_summary(file, report);
        put_markdown_warnings(file, "A", report->warnings_a);
        put_markdown_warnings(file, "B", report->warnings_b);
        if (results_has_verdicts(c))
            put_markdown_table(file, report);
    }
    put_markdown_expectations(file, report);
    fputc('\n', file);
}

/* What names the output in metrics: the file without folder and ending; of standard output, what
 * was compared. */
static const char *output_name(results_checks *checks, const results_report *report)
{
    const char *path = report->output ? report->output : report->name_b;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return results_keep_text(&checks->memory, name,
                             report->output && dot && dot > name ? (size_t)(dot - name)
                                                                 : strlen(name));
}

/* Writes a form that needs the checks alone. */
static void print_checks(FILE *file, const results_report *report,
                         void (*form)(const results_checks *checks, FILE *to))
{
    results_checks checks;
    results_checks_begin(&checks, "weir-compare");
    results_checks_of_report(report, &checks);
    checks.output = output_name(&checks, report);
    form(&checks, file);
    results_checks_free(&checks);
}

void results_print_junit(FILE *file, const results_report *report)
{
    print_checks(file, report, results_checks_junit);
}

void results_print_ctrf(FILE *file, const results_report *report)
{
    print_checks(file, report, results_checks_ctrf);
}

void results_print_prometheus(FILE *file, const results_report *report)
{
    print_checks(file, report, results_checks_prometheus);
}
