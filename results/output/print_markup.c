/* Markdown for a CI summary, and JUnit XML for test reports. Names from files are escaped for their
 * context. */
#include "results/output/print.h"

#include "base/words.h"

#include <math.h>

void results_put_xml(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        case '"': fputs("&quot;", file); break;
        case '\'': fputs("&#39;", file); break;
        default: fputc((unsigned char)*text < ' ' ? '?' : *text, file);
        }
}

/* Escapes HTML, and the characters that links and emphasis are made of. */
void results_put_markdown(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        case '|': case '`': case '*': case '_': case '[': case ']': case '\\': case '!': case '#':
        case '~': case '@': fprintf(file, "&#%d;", *text); break;
        default: fputc((unsigned char)*text < ' ' ? '?' : *text, file);
        }
}

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

static void put_row(FILE *file, const results_pair *pair, int cross)
{
    const results_row *row = pair->example;
    char name[600];
    results_pair_contender(pair, name, sizeof name);
    fprintf(file, "| %llu", row->bytes);
    put_cell(file, row->text[RESULTS_COLLECTIVE]);
    put_cell(file, row->text[RESULTS_DTYPE]);
    put_cell(file, row->text[RESULTS_REDOP]);
    fprintf(file, " | %d", row->nranks);
    put_cell(file, row->text[RESULTS_PLACEMENT]);
    put_cell(file, name);
    put_numbers(file, pair);
    put_cell(file, results_verdict_word(pair->verdict, cross));
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

static void put_markdown_table(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    fputs("\n| bytes | collective | type | op | ranks | place | candidate | A us | B us | "
          "A GB/s | B GB/s | B/A (95%) | verdict |\n"
          "|--:|---|---|---|--:|---|---|--:|--:|--:|--:|--:|---|\n", file);
    for (size_t i = 0; i < c->count; i++)
        if (!report->only_changes || c->pairs[i].verdict != RESULTS_NO_DIFFERENCE)
            put_row(file, &c->pairs[i], c->cross);
}

void results_print_markdown(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    const results_expectations *e = report->expectations;
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
        put_markdown_warnings(file, "A", report->warnings_a);
        put_markdown_warnings(file, "B", report->warnings_b);
        if (results_matched(c) > 0)
            put_markdown_table(file, report);
    }
    for (size_t i = 0; e && i < e->count; i++) {
        char about[1400];
        fputs("\n- expected ", file);
        results_put_markdown(file, e->list[i].text);
        fprintf(file, ": %s", results_outcome_name(e->list[i].outcome));
        results_expect_describe(&e->list[i], about, sizeof about);
        fputs(about[0] ? " (" : "", file);
        results_put_markdown(file, about);
        fputs(about[0] ? ")" : "", file);
    }
    fputc('\n', file);
}

static void put_case(FILE *file, const results_pair *pair, int cross)
{
    const results_row *row = pair->example;
    int missing = pair->verdict == RESULTS_MISSING_IN_A || pair->verdict == RESULTS_MISSING_IN_B;
    fputs("  <testcase classname=\"weir.", file);
    results_put_xml(file, row->text[RESULTS_COLLECTIVE]);
    fprintf(file, "\" name=\"%llu bytes, ", row->bytes);
    results_put_xml(file, row->text[RESULTS_DTYPE]);
    fputc(' ', file);
    results_put_xml(file, row->text[RESULTS_REDOP]);
    fprintf(file, ", %d rank%s, %s", row->nranks, weiri_s(row->nranks),
            row->text[RESULTS_PLACEMENT]);
    if (!cross) {
        fputs(", ", file);
        results_put_xml(file, row->text[RESULTS_CONTENDER]);
    }
    if (pair->verdict == RESULTS_REGRESSED)
        fprintf(file, "\"><failure message=\"B/A %.3f (%.3f to %.3f) %s\"/></testcase>\n",
                pair->ratio, pair->low, pair->high, pair->reason);
    else if (missing || pair->verdict == RESULTS_INCONCLUSIVE)
        fprintf(file, "\"><skipped message=\"%s %s\"/></testcase>\n",
                results_verdict_word(pair->verdict, cross), pair->reason);
    else
        fputs("\"/>\n", file);
}

static void put_missed(FILE *file, const results_expectation *one)
{
    char about[1400];
    results_expect_describe(one, about, sizeof about);
    fprintf(file, "\"><%s message=\"%s", one->outcome == RESULTS_UNMET ? "failure" : "skipped",
            results_outcome_name(one->outcome));
    fputs(about[0] ? ": " : "", file);
    results_put_xml(file, about);
    fputs("\"/></testcase>\n", file);
}

void results_print_junit(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    const results_expectations *e = report->expectations;
    size_t pairs = report->name_a ? c->count : 0;
    fprintf(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"weir-compare\" tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\">\n",
            pairs + e->count,
            (pairs ? c->verdicts[RESULTS_REGRESSED] : 0) + e->outcomes[RESULTS_UNMET],
            (pairs ? c->verdicts[RESULTS_MISSING_IN_A] + c->verdicts[RESULTS_MISSING_IN_B] +
                 c->verdicts[RESULTS_INCONCLUSIVE] : 0) + e->outcomes[RESULTS_ABSENT] +
                e->outcomes[RESULTS_CLOSE]);
    for (size_t i = 0; i < pairs; i++)
        put_case(file, &c->pairs[i], c->cross);
    for (size_t i = 0; i < e->count; i++) {
        const results_outcome outcome = e->list[i].outcome;
        fputs("  <testcase classname=\"weir.expected\" name=\"", file);
        results_put_xml(file, e->list[i].text);
        if (outcome == RESULTS_MET)
            fputs("\"/>\n", file);
        else
            put_missed(file, &e->list[i]);
    }
    fputs("</testsuite>\n", file);
}
