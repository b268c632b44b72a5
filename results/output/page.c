/* Writes the report: the template, and in it a section each for the verdict, the groups of rows,
 * the machine, the nights, and what else differs between the runs. */
#include "results/output/page.h"

#include "results/output/matrix.h"

#include "base/words.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_PLOTTED = 36 };

/* Compiles a file into the program, as a string. Paths are relative to the top folder. */
#define EMBED(name, path)                                                                          \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.popsection\n");     \
    extern const char name[] __attribute__((visibility("hidden")))

EMBED(weiri_report_html, "results/output/report.html");
EMBED(weiri_report_css, "results/output/report.css");
EMBED(weiri_report_js, "results/output/report.js");

/* Writes the page's template from *at up to the placeholder, which is skipped. */
static void put_template(FILE *file, const char **at, const char *placeholder)
{
    const char *end = strstr(*at, placeholder);
    fwrite(*at, 1, (size_t)(end - *at), file);
    *at = end + strlen(placeholder);
}

static const char *class_of(results_verdict verdict)
{
    static const char *const classes[RESULTS_VERDICTS] = {"same",      "improved", "inconclusive",
                                                          "regressed", "missing",  "missing"};
    return classes[verdict];
}

static void put_pair(const results_page *page, const results_pair *pair)
{
    FILE *file = page->file;
    int has_a = page->report->name_a != NULL;
    const results_row *row = pair->b.starts ? pair->b.rows[0] : pair->example;
    char name[600], apart[300];
    results_pair_contender(pair, name, sizeof name);
    results_pair_apart(page->report->comparison, pair, ", ", 0, apart, sizeof apart);
    fprintf(file, "<tr><td class=\"n\">%llu</td>", row->bytes);
    fputs("<td>", file);
    results_put_xml(file, name);
    results_put_xml(file, apart);
    fputs("</td>", file);
    results_put_cell(file, row->text[RESULTS_ALGO]);
    if (has_a)
        results_put_number(file, pair->a.median_us, 2);
    results_put_number(file, pair->b.median_us, 2);
    if (has_a)
        results_put_number(file, pair->a.busbw_gbs, 2);
    results_put_number(file, pair->b.busbw_gbs, 2);
    if (page->machine->links)
        results_put_number(
            file, results_machine_pct(page->machine, row, pair->b.median_us, pair->b.busbw_gbs), 0);
    if (has_a && isnan(pair->ratio))
        fputs("<td></td>", file);
    else if (has_a)
        fprintf(file, "<td>%.3f (%.3f to %.3f)</td>", pair->ratio, pair->low, pair->high);
    if (has_a)
        fprintf(file, "<td class=\"%s\">%s%s%s</td>", class_of(pair->verdict),
                results_pair_word(pair, page->report->comparison->cross),
                pair->reason[0] ? ": " : "", pair->reason);
    fputs("</tr>\n", file);
}

static void put_headings(const results_page *page)
{
    FILE *file = page->file;
    int has_a = page->report->name_a != NULL;
    results_put_heading(file, "n", "bytes");
    results_put_heading(file, "t", "candidate");
    results_put_heading(file, "t", "algorithm");
    if (has_a)
        results_put_heading(file, "n a", "A us");
    results_put_heading(file, has_a ? "n b" : "n", has_a ? "B us" : "us");
    if (has_a)
        results_put_heading(file, "n a", "A GB/s");
    results_put_heading(file, has_a ? "n b" : "n", has_a ? "B GB/s" : "busbw GB/s");
    if (page->machine->links)
        results_put_heading(file, "n", "% of ceiling");
    if (has_a) {
        results_put_heading(file, "t", "B/A (95%)");
        results_put_heading(file, "t", "verdict");
    }
}

static void put_table(const results_page *page, const results_group *group)
{
    FILE *file = page->file;
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Rows\">"
          "<table><thead><tr>",
          file);
    put_headings(page);
    fputs("</tr></thead><tbody>\n", file);
    for (size_t i = 0; i < group->count; i++)
        put_pair(page, &group->pairs[i]);
    fputs("</tbody></table></div>\n", file);
}

/* Rows that changed, or of B alone (has_a 0) those with wrong results. */
static void put_changes(FILE *file, const results_comparison *c, int has_a)
{
    size_t changes = c->verdicts[RESULTS_REGRESSED] + c->verdicts[RESULTS_IMPROVED];
    if (changes == 0)
        return;
    fputs("<ul>\n", file);
    for (size_t i = 0; i < c->count; i++) {
        const results_pair *pair = &c->pairs[i];
        char name[600], apart[300];
        if (pair->verdict != RESULTS_REGRESSED && pair->verdict != RESULTS_IMPROVED)
            continue;
        fprintf(file, "<li class=\"%s\">%s: ", class_of(pair->verdict),
                results_pair_word(pair, c->cross || !has_a));
        results_put_title(file, pair->example);
        fprintf(file, ", %llu bytes, ", pair->example->bytes);
        results_pair_contender(pair, name, sizeof name);
        results_put_xml(file, name);
        results_pair_apart(c, pair, ", ", 0, apart, sizeof apart);
        results_put_xml(file, apart);
        if (!isnan(pair->ratio))
            fprintf(file, ": B/A %.3f (%.3f to %.3f)", pair->ratio, pair->low, pair->high);
        fprintf(file, " %s</li>\n", has_a ? pair->reason : "");
    }
    fputs("</ul>\n", file);
}

static void put_summary_row(FILE *file, const results_report *report, const char *name,
                            const char *a, const char *b)
{
    if (!a[0] && !b[0])
        return;
    fprintf(file, "<tr><th scope=\"row\">%s</th>", name);
    if (report->name_a)
        results_put_cell(file, a);
    results_put_cell(file, b);
    fputs("</tr>\n", file);
}

/* What was compared: a column for each side. */
static void put_summary(FILE *file, const results_report *report)
{
    const results_set *sets[2] = {report->a, report->b};
    char rows[2][120] = {"", ""};
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Summary\">"
          "<table class=\"summary\">\n",
          file);
    if (report->name_a)
        fputs("<thead><tr><td></td><th scope=\"col\" class=\"a\">A</th>"
              "<th scope=\"col\" class=\"b\">B</th></tr></thead>\n",
              file);
    fputs("<tbody>\n", file);
    put_summary_row(file, report, "Results", report->name_a ? report->name_a : "", report->name_b);
    for (int line = 0; line < RESULTS_ABOUT_LINES; line++)
        put_summary_row(file, report, results_about_name(line),
                        results_about_text(report->about_a, line),
                        results_about_text(report->about_b, line));
    for (int side = 0; side < 2; side++)
        if (sets[side])
            snprintf(rows[side], sizeof rows[side], "%zu%s%zu line%s that could not be used)",
                     sets[side]->count, " (", sets[side]->problems, weiri_s(sets[side]->problems));
    put_summary_row(file, report, "Rows", rows[0], rows[1]);
    fputs("</tbody></table></div>\n", file);
}

static void put_verdict(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    fputs("<section id=\"verdict\" tabindex=\"-1\">\n<h2>", file);
    if (report->name_a)
        fprintf(file, "Verdict: <span class=\"%s\">%s</span></h2>\n",
                class_of(c->losses && c->overall != RESULTS_REGRESSED ? RESULTS_INCONCLUSIVE
                                                                      : c->overall),
                results_overall_word(c));
    else
        fputs("Results</h2>\n", file);
    put_summary(file, report);
    if (report->name_a) {
        fputs("<p>", file);
        results_say_counts(file, report);
        fputs(". Noise: ", file);
        results_say_noise(file, report);
        fputs(".</p>\n", file);
        if (results_differs(c)) {
            fputs("<p>Not compared: ", file);
            results_put_xml(file, c->differences);
            fputs("</p>\n", file);
        }
        put_changes(file, c, 1);
    } else if (c->wrong > 0) {
        fprintf(file, "<p class=\"%s\">%zu row%s with wrong results</p>\n",
                class_of(RESULTS_REGRESSED), c->wrong, weiri_s(c->wrong));
        put_changes(file, c, 0);
    }
    fputs("</section>\n", file);
}

static void put_group(const results_page *page, const results_group *group, size_t number)
{
    FILE *file = page->file;
    char heading[32];
    snprintf(heading, sizeof heading, "g%zuh", number);
    fprintf(file, "<section id=\"g%zu\">\n<h2 id=\"%s\">", number, heading);
    results_put_title(file, group->pairs[0].example);
    fputs("</h2>\n<div class=\"figures\">\n", file);
    for (int i = 0; i < RESULTS_FIGURES; i++)
        results_put_figure(page, group->figures[i].number, heading, group->figures[i].caption);
    fputs("</div>\n", file);
    results_matrices_put(file, group->pairs, group->count);
    fprintf(file, "<details><summary>%zu row%s</summary>\n", group->count, weiri_s(group->count));
    put_table(page, group);
    fputs("</details>\n</section>\n", file);
}

static void put_series(const results_page *page, const results_series *series, int plot)
{
    FILE *file = page->file;
    const results_history *history = page->history;
    char heading[32];
    snprintf(heading, sizeof heading, "n%zuh", (size_t)(series - history->series));
    fprintf(file, "<div><h3 id=\"%s\">", heading);
    results_put_title(file, series->row);
    fprintf(file, ", %llu bytes</h3>\n", series->row->bytes);
    results_put_figure(page, plot, heading,
                       "Time of each night; dotted lines are changes of level");
    for (size_t i = 0; i < series->nchanges; i++) {
        fputs("<p>changed with the night ", file);
        results_put_xml(file, history->nights[series->changes[i]]);
        fputs("</p>\n", file);
    }
    fputs("</div>\n", file);
}

/* A single night is not a history. */
static int has_history(const results_page *page)
{
    return page->history && page->history->nseries > 0 && page->history->count > 1;
}

static void put_history(const results_page *page, const int *plots)
{
    const results_history *history = page->history;
    if (!has_history(page))
        return;
    fprintf(page->file, "<section id=\"nights\">\n<h2>%zu nights</h2>\n<div class=\"figures\">\n",
            history->count);
    for (size_t i = 0; i < history->nseries; i++)
        if (plots[i] >= 0 || history->series[i].nchanges > 0)
            put_series(page, &history->series[i], plots[i]);
    fputs("</div>\n</section>\n", page->file);
}

typedef struct differences {
    FILE *file;
    size_t count;
} differences;

static void put_difference(void *context, const char *path, const char *a, const char *b)
{
    differences *made = context;
    FILE *file = made->file;
    if (made->count++ == 0) {
        fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Manifests\">"
              "<table><thead><tr>",
              file);
        results_put_heading(file, "t", "manifest");
        results_put_heading(file, "t a", "A");
        results_put_heading(file, "t b", "B");
        fputs("</tr></thead><tbody>\n", file);
    }
    fputs("<tr>", file);
    results_put_cell(file, path);
    results_put_cell(file, a ? a : "(absent)");
    results_put_cell(file, b ? b : "(absent)");
    fputs("</tr>\n", file);
}

static void put_manifests(const results_page *page)
{
    differences made = {page->file, 0};
    if (!page->manifest_a->file || !page->manifest_b->file)
        return;
    fputs("<section id=\"what\">\n<h2>What else differs</h2>\n", page->file);
    results_manifest_diff(page->manifest_a, page->manifest_b, put_difference, &made);
    fputs(made.count ? "</tbody></table></div>\n</section>\n"
                     : "<p>No differences between the manifests.</p>\n</section>\n",
          page->file);
}

/* What the page has next to the rows. */
typedef struct extras {
    char timeline[PATH_MAX]; /* "": none */
    results_hours hours[RESULTS_HOURS];
    size_t nhours;
} extras;

static void put_navigation(const results_page *page, const results_group *groups, size_t count,
                           const extras *extra)
{
    FILE *file = page->file;
    fprintf(file,
            "<header><h1>weir: report</h1></header>\n<nav aria-label=\"Sections\">"
            "<a href=\"#verdict\">%s</a>",
            page->report->name_a ? "Verdict" : "Results");
    if (*extra->timeline)
        fputs("<a href=\"#timeline\">Time line</a>", file);
    for (size_t i = 0; i < extra->nhours; i++)
        fprintf(file, "<a href=\"#h%zu\">Over time</a>", i);
    for (size_t i = 0; i < count && i < RESULTS_GROUPS; i++) {
        fprintf(file, "<a href=\"#g%zu\">", i);
        results_put_title(file, groups[i].pairs[0].example);
        fputs("</a>", file);
    }
    if (page->machine->links || page->machine->topology)
        fputs("<a href=\"#machine\">The machine</a>", file);
    if (has_history(page))
        fputs("<a href=\"#nights\">Nights</a>", file);
    if (page->manifest_a->file && page->manifest_b->file)
        fputs("<a href=\"#what\">What else differs</a>", file);
    fputs("</nav>\n<main>\n", file);
}

int results_page_write(const results_page *page)
{
    const results_comparison *c = page->report->comparison;
    size_t nseries = has_history(page) ? page->history->nseries : 0;
    results_group *groups = malloc((c->count + 1) * sizeof *groups);
    int *series = malloc((nseries + 1) * sizeof *series), status = 0;
    extras extra = {.nhours = results_hours_make(page, extra.hours, RESULTS_HOURS)};
    if (!results_timeline_find(page->report->b, extra.timeline, sizeof extra.timeline))
        *extra.timeline = '\0';
    results_side_of whose = page->report->name_a ? RESULTS_OF_B : RESULTS_ALONE;
    if (groups && series) {
        size_t count = results_groups_make(page, groups, c->count);
        for (size_t i = 0; i < nseries; i++)
            series[i] = page->plots && i < SERIES_PLOTTED
                            ? results_plot_series(page->plots, &page->history->series[i], whose)
                            : -1;
        if (page->plots)
            status = results_plots_draw(page->plots);
        const char *template = weiri_report_html;
        put_template(page->file, &template, "@style@");
        fputs(weiri_report_css, page->file);
        put_template(page->file, &template, "@script@");
        fputs(weiri_report_js, page->file);
        put_template(page->file, &template, "@sections@");
        put_navigation(page, groups, count, &extra);
        put_verdict(page->file, page->report);
        if (*extra.timeline)
            results_timeline_put(extra.timeline, page->file);
        for (size_t i = 0; i < extra.nhours; i++)
            results_hours_put(page, &extra.hours[i], i);
        for (size_t i = 0; i < count; i++)
            put_group(page, &groups[i], i);
        results_machine_put(page->machine, page->file);
        put_history(page, series);
        put_manifests(page);
        fputs("</main>\n", page->file);
        fputs(template, page->file);
    }
    for (size_t i = 0; i < extra.nhours; i++)
        results_hours_free(&extra.hours[i]);
    free(groups);
    free(series);
    return status;
}
