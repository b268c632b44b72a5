/* Reports for people: a table on the terminal, and Markdown. */
#include "bench/health/output.h"

#include "programs/terminal.h"
#include "results/output/print.h"

/* Text from the system, without control characters. */
static void put_plain(FILE *to, const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, to);
}

static void put_check(const results_check *check, FILE *to)
{
    char value[96], expected[96];
    const weiri_colour colour = check->state == RESULTS_FAILED   ? WEIRI_COLOUR_BAD
                                : check->state == RESULTS_PASSED ? WEIRI_COLOUR_GOOD
                                                                 : WEIRI_COLOUR_NONE;
    results_check_value(check, value, sizeof value);
    results_check_expected(check, expected, sizeof expected);
    fprintf(to, "%-26s %14s  %-18s %s%-8s%s ", check->id, value, expected,
            colour ? weiri_terminal_colour(to, colour) : "", check->verdict,
            colour ? weiri_terminal_colour(to, WEIRI_COLOUR_NONE) : "");
    put_plain(to, check->what);
    fputs(check->detail[0] ? "; " : "", to);
    put_plain(to, check->detail);
    fputc('\n', to);
}

static void put_failure(const results_check *check, FILE *to)
{
    char value[96], expected[96];
    results_check_value(check, value, sizeof value);
    results_check_expected(check, expected, sizeof expected);
    fprintf(to, "\n%s: %s: ", check->id, check->verdict);
    put_plain(to, check->what);
    if (value[0])
        fprintf(to, ": %s", value);
    if (expected[0])
        fprintf(to, ", expected %s (%s)", expected, check->source);
    if (check->detail[0]) {
        fputs("; ", to);
        put_plain(to, check->detail);
    }
    if (check->look[0])
        fprintf(to, "\n  look at: %s", check->look);
    if (check->action[0])
        fprintf(to, "\n  action: %s", check->action);
    fputc('\n', to);
}

/* The last line alone, without a line break. */
static void put_verdict(const health_report *report, FILE *to)
{
    int judged, failed;
    health_count(report, &judged, &failed);
    if (failed)
        fprintf(to, "FAIL: %d of %d checks", failed, judged);
    else
        fprintf(to, "PASS: %d checks", judged);
}

void health_write_text(const health_report *report, FILE *to)
{
    results_checks checks;
    health_checks_begin(report, &checks);
    fprintf(to, "# weir-check %s on ", report->level);
    put_plain(to, report->host);
    fputs(report->hardware[0] ? ": " : "", to);
    put_plain(to, report->hardware);
    fprintf(to, "\n\n%-26s %14s  %-18s %-8s %s\n", "check", "found", "expected", "verdict", "what");
    for (size_t i = 0; i < checks.count; i++)
        put_check(&checks.list[i], to);
    for (size_t i = 0; i < checks.count; i++)
        if (checks.list[i].state == RESULTS_FAILED)
            put_failure(&checks.list[i], to);
    results_checks_free(&checks);
    if (report->busy) {
        fputs("\n# busy: ", to);
        put_plain(to, report->busy_text);
        fputc('\n', to);
    }
    fprintf(to, "\n# took %.1f s\n", report->seconds);
    put_verdict(report, to);
    fputc('\n', to);
}

/* ---------------------------------------------------------------- Markdown */

void health_write_markdown(const health_report *report, FILE *to)
{
    fputs("### ", to);
    put_verdict(report, to);
    fputs("\n\nweir-check ", to);
    results_put_markdown(to, report->level);
    fputs(" on ", to);
    results_put_markdown(to, report->host);
    fputs(report->hardware[0] ? ": " : "", to);
    results_put_markdown(to, report->hardware);
    fputs("\n\n", to);
    results_checks checks;
    health_checks_begin(report, &checks);
    results_checks_markdown(&checks, to);
    results_checks_free(&checks);
}
