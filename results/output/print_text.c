/* The text table, and the sentences that other formats share. */
#include "results/output/print.h"

#include "base/words.h"
#include "programs/terminal.h"

#include <math.h>
#include <string.h>

static void put_assumed(FILE *file, const results_comparison *c)
{
    if (c->assumed_gpu > 0 && c->assumed_host > 0 && c->assumed_gpu != c->assumed_host)
        fprintf(file, "%.2g%% on GPUs, %.2g%% on the host", c->assumed_gpu * 100,
                c->assumed_host * 100);
    else
        fprintf(file, "%.2g%%", fmax(c->assumed_gpu, c->assumed_host) * 100);
}

/* Writes the noise that the verdicts are based on, and its source; an assumption is named as
 * such. */
void results_say_noise(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    int is_assumed = c->assumed_gpu > 0 || c->assumed_host > 0;
    if (isnan(c->noise)) {
        fputs("unknown: no compared row shows how times differ from run to run", file);
    } else if (c->noise_freedom > 0) {
        fprintf(file, "times differ by %.2g%% from run to run (measured in %zu row%s; %s",
                c->noise * 100, c->noise_rows, weiri_s(c->noise_rows),
                is_assumed ? "an assumed " : "a prior");
        if (is_assumed)
            put_assumed(file, c);
        fprintf(file, " worth %.2g degrees of freedom)", c->noise_freedom);
    } else {
        fputs("no row has two runs per side: noise from run to run is assumed to be ", file);
        put_assumed(file, c);
        fprintf(file,
                " (--start-noise; a folder with several runs measures it), %.2g%% including "
                "the rows' own intervals",
                c->noise * 100);
    }
}

void results_say_counts(FILE *file, const results_report *report)
{
    static const results_verdict order[] = {RESULTS_REGRESSED,    RESULTS_IMPROVED,
                                            RESULTS_INCONCLUSIVE, RESULTS_NO_DIFFERENCE,
                                            RESULTS_MISSING_IN_A, RESULTS_MISSING_IN_B};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        fprintf(file, "%s%zu %s", i ? ", " : "", report->comparison->verdicts[order[i]],
                results_verdict_word(order[i], report->comparison->cross));
}

void results_say_overall(FILE *file, const results_comparison *comparison)
{
    fputs(results_overall_word(comparison), file);
    if (!results_has_verdicts(comparison))
        fprintf(file, ": %s",
                comparison->differences[0] ? comparison->differences : "no row of A fits one of B");
}

void results_describe_warning(const results_warnings *warnings, int i, char *line, size_t bytes)
{
    const results_warning *one = &warnings->list[i];
    if (warnings->manifests == 1)
        snprintf(line, bytes, "warning: %s", one->text);
    else
        snprintf(line, bytes, "warning in %zu of %zu manifests, the first: %s", one->files,
                 warnings->manifests, one->text);
}

int results_differs(const results_comparison *comparison)
{
    return comparison->differences[0] && results_matched(comparison) < comparison->count;
}

static const char *side_contender(const results_side *side)
{
    const results_row *row = side->starts ? side->rows[0] : side->failed;
    return row ? row->text[RESULTS_CONTENDER] : NULL;
}

void results_pair_contender(const results_pair *pair, char *name, size_t bytes)
{
    const char *a = side_contender(&pair->a), *b = side_contender(&pair->b);
    if (a && b && strcmp(a, b) != 0)
        snprintf(name, bytes, "%s beside %s", b, a);
    else
        snprintf(name, bytes, "%s", b ? b : a ? a : pair->example->text[RESULTS_CONTENDER]);
}

/* A name that a user or a file gave, as a terminal can show it. */
static void put_plain(FILE *file, const char *text)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    fputs(results_plain(copy), file);
}

static void put_side(FILE *file, const char *letter, const results_set *set, const char *name,
                     const char *contender, const char *hosts, size_t starts)
{
    fprintf(file, "# %s: ", letter);
    put_plain(file, name);
    fprintf(file, ": %zu row%s, %zu run%s", set->count, weiri_s(set->count), starts,
            weiri_s(starts));
    if (hosts[0])
        fprintf(file, ", host %s", hosts);
    if (contender[0])
        fprintf(file, ", candidate %s", contender);
    if (set->count > 0 && !results_is_own(set->rows[0].origin))
        fprintf(file, ", times are means");
    fputc('\n', file);
}

static void put_warnings(FILE *file, const char *letter, const results_warnings *warnings)
{
    for (int i = 0; warnings && i < warnings->count; i++) {
        char line[600];
        results_describe_warning(warnings, i, line, sizeof line);
        fprintf(file, "# %s: %s\n", letter, line);
    }
}

static void put_number(FILE *file, double value, int width)
{
    if (isnan(value))
        fprintf(file, " %*s", width, "-");
    else
        fprintf(file, " %*.*f", width, value < 100 ? 2 : 1, value);
}

static void put_contender(FILE *file, const results_row *row)
{
    char text[600];
    snprintf(text, sizeof text, "%s %s", row->text[RESULTS_CONTENDER], row->text[RESULTS_ALGO]);
    fprintf(file, " %-20.20s", text);
}

/* In colour on a terminal. */
static void put_verdict(FILE *file, const results_pair *pair, int cross)
{
    const results_verdict verdict = pair->verdict;
    const int coloured = verdict == RESULTS_REGRESSED || verdict == RESULTS_IMPROVED;
    const weiri_colour colour = verdict == RESULTS_REGRESSED ? WEIRI_COLOUR_BAD : WEIRI_COLOUR_GOOD;
    fprintf(file, "  %s%s%s", coloured ? weiri_terminal_colour(file, colour) : "",
            results_pair_word(pair, cross),
            coloured ? weiri_terminal_colour(file, WEIRI_COLOUR_NONE) : "");
}

static void put_pair(FILE *file, const results_comparison *c, const results_pair *pair)
{
    const results_row *row = pair->example;
    const int cross = c->cross;
    char apart[300];
    fprintf(file, "%14llu %14s %8s %6s %5d %5s", row->bytes, row->text[RESULTS_COLLECTIVE],
            row->text[RESULTS_DTYPE], row->text[RESULTS_REDOP], row->nranks,
            row->text[RESULTS_PLACEMENT]);
    if (!cross)
        put_contender(file, row);
    put_number(file, pair->a.median_us, 9);
    put_number(file, pair->b.median_us, 9);
    put_number(file, pair->a.busbw_gbs, 7);
    put_number(file, pair->b.busbw_gbs, 7);
    if (isnan(pair->ratio))
        fprintf(file, " %7s %16s", "-", "");
    else
        fprintf(file, " %7.3f [%6.3f, %6.3f]", pair->ratio, pair->low, pair->high);
    put_verdict(file, pair, cross);
    const results_row *other = pair->b.starts ? pair->b.rows[0] : row;
    if (!cross && strcmp(row->text[RESULTS_ALGO], other->text[RESULTS_ALGO]) != 0)
        fprintf(file, " (%s, then %s)", row->text[RESULTS_ALGO], other->text[RESULTS_ALGO]);
    results_pair_apart(c, pair, "; ", 0, apart, sizeof apart);
    fprintf(file, "%s%s%s\n", pair->reason[0] ? ": " : "", pair->reason, apart);
}

static void put_expectations(FILE *file, const results_expectations *expectations)
{
    for (size_t i = 0; expectations && i < expectations->count; i++) {
        const results_expectation *one = &expectations->list[i];
        char about[1400];
        results_expect_describe(one, about, sizeof about);
        fputs("# expected ", file);
        put_plain(file, one->text);
        fprintf(file, ": %s", results_outcome_name(one->outcome));
        fprintf(file, about[0] ? " (%s)\n" : "%s\n", about);
    }
}

static void put_table(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    fprintf(file, "#%13s %14s %8s %6s %5s %5s", "bytes", "collective", "type", "redop", "ranks",
            "place");
    if (!c->cross)
        fprintf(file, " %-20s", "contender");
    fprintf(file, " %9s %9s %7s %7s %7s %16s  %s\n", "A us", "B us", "A GB/s", "B GB/s", "B/A",
            "95% interval", "verdict");
    for (size_t i = 0; i < c->count; i++)
        if (!report->only_changes || c->pairs[i].verdict != RESULTS_NO_DIFFERENCE)
            put_pair(file, c, &c->pairs[i]);
}

void results_print_text(FILE *file, const results_report *report)
{
    const results_comparison *c = report->comparison;
    if (report->name_a) {
        put_side(file, "A", report->a, report->name_a, c->contender_a, c->hosts_a, c->starts_a);
        put_warnings(file, "A", report->warnings_a);
        put_side(file, "B", report->b, report->name_b, c->contender_b, c->hosts_b, c->starts_b);
        put_warnings(file, "B", report->warnings_b);
        fputs("# Noise: ", file);
        results_say_noise(file, report);
        fputc('\n', file);
        if (results_differs(c) && results_matched(c) > 0)
            fprintf(file, "# Not compared: %zu row%s: %s\n", c->count - results_matched(c),
                    weiri_s(c->count - results_matched(c)), c->differences);
        if (results_has_verdicts(c))
            put_table(file, report);
        fputs("# Verdict: ", file);
        results_say_overall(file, c);
        fputs(" (", file);
        results_say_counts(file, report);
        fputs(")\n", file);
    }
    put_expectations(file, report->expectations);
}
