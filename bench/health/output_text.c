/* Reports for people: a table on the terminal, and Markdown. */
#include "bench/health/output.h"

#include "base/error.h"
#include "base/terminal.h"
#include "results/output/print.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void health_number_text(double value, int decimals, const char *unit, char *text,
                               size_t bytes)
{
    snprintf(text, bytes, "%.*f%s%s", decimals, value, unit[0] ? " " : "", unit);
}

void health_value_text(const health_check *check, char *text, size_t bytes)
{
    text[0] = '\0';
    if (!isnan(check->value))
        health_number_text(check->value, check->decimals, check->unit, text, bytes);
}

void health_expected_text(const health_check *check, char *text, size_t bytes)
{
    static const char *const relations[] = {
        [HEALTH_AT_LEAST] = ">= ", [HEALTH_AT_MOST] = "<= ", [HEALTH_EQUAL] = "= "};
    char number[64];
    text[0] = '\0';
    if (check->relation == HEALTH_ANY || isnan(check->expected))
        return;
    health_number_text(check->expected, check->decimals, check->unit, number, sizeof number);
    snprintf(text, bytes, "%s%s", relations[check->relation], number);
}

/* Text from the system, without control characters. */
static void put_plain(FILE *to, const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, to);
}

static void put_check(const health_check *check, FILE *to)
{
    char value[96], expected[96];
    const int is_bad = health_is_failure(check->verdict);
    const weiri_colour colour = is_bad                          ? WEIRI_COLOUR_BAD
                                : check->verdict == HEALTH_PASS ? WEIRI_COLOUR_GOOD
                                                                : WEIRI_COLOUR_NONE;
    health_value_text(check, value, sizeof value);
    health_expected_text(check, expected, sizeof expected);
    fprintf(to, "%-26s %14s  %-18s %s%-8s%s ", check->id, value, expected,
            colour ? weiri_terminal_colour(to, colour) : "", health_verdict_name(check->verdict),
            colour ? weiri_terminal_colour(to, WEIRI_COLOUR_NONE) : "");
    put_plain(to, check->what);
    fputs(check->detail[0] ? "; " : "", to);
    put_plain(to, check->detail);
    fputc('\n', to);
}

static void put_failure(const health_check *check, FILE *to)
{
    char value[96], expected[96];
    health_value_text(check, value, sizeof value);
    health_expected_text(check, expected, sizeof expected);
    fprintf(to, "\n%s: %s: ", check->id, health_verdict_name(check->verdict));
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
    fputc('\n', to);
}

void health_write_verdict(const health_report *report, FILE *to)
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
    fprintf(to, "# weir-check %s on ", report->level);
    put_plain(to, report->host);
    fputs(report->hardware[0] ? ": " : "", to);
    put_plain(to, report->hardware);
    fprintf(to, "\n\n%-26s %14s  %-18s %-8s %s\n", "check", "found", "expected", "verdict", "what");
    for (size_t i = 0; i < report->count; i++)
        put_check(&report->checks[i], to);
    for (size_t i = 0; i < report->count; i++)
        if (health_is_failure(report->checks[i].verdict))
            put_failure(&report->checks[i], to);
    if (report->busy) {
        fputs("\n# busy: ", to);
        put_plain(to, report->busy_text);
        fputc('\n', to);
    }
    fprintf(to, "\n# took %.1f s\n", report->seconds);
    health_write_verdict(report, to);
    fputc('\n', to);
}

/* ---------------------------------------------------------------- Markdown */

static void put_cell(FILE *to, const char *text)
{
    fputs(" | ", to);
    results_put_markdown(to, text);
}

void health_write_markdown(const health_report *report, FILE *to)
{
    fputs("### ", to);
    health_write_verdict(report, to);
    fputs("\n\nweir-check ", to);
    results_put_markdown(to, report->level);
    fputs(" on ", to);
    results_put_markdown(to, report->host);
    fputs(report->hardware[0] ? ": " : "", to);
    results_put_markdown(to, report->hardware);
    fputs("\n\n| check | found | expected | verdict | what |\n|---|--:|--:|---|---|\n", to);
    for (size_t i = 0; i < report->count; i++) {
        const health_check *check = &report->checks[i];
        char value[96], expected[96], what[2 * HEALTH_TEXT_BYTES + 4];
        health_value_text(check, value, sizeof value);
        health_expected_text(check, expected, sizeof expected);
        snprintf(what, sizeof what, "%s%s%s", check->what, check->detail[0] ? "; " : "",
                 check->detail);
        fputs("| ", to);
        results_put_markdown(to, check->id);
        put_cell(to, value);
        put_cell(to, expected);
        put_cell(to, health_verdict_name(check->verdict));
        put_cell(to, what);
        fputs(" |\n", to);
    }
}

/* ------------------------------------------------------------------- files */

weir_status health_write_file(const health_report *report, const char *path,
                              void (*form)(const health_report *report, FILE *to))
{
    char temporary[4096];
    const int length = snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary)
        return weiri_fail(WEIR_ERR_INVALID, "%s: the path is too long", path);
    FILE *to = fopen(temporary, "w");
    if (!to)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot write %s", path);
    form(report, to);
    int failed = ferror(to);
    failed |= fclose(to) != 0;
    if (failed || rename(temporary, path) != 0) {
        const int reason = errno;
        unlink(temporary);
        return weiri_fail_errno(WEIR_ERR_SYSTEM, reason, "cannot write %s", path);
    }
    return WEIR_OK;
}
