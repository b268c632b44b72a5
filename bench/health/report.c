/* Checks and reports as data: see health.h. */
#include "bench/health/health.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

health_check *health_add(health_report *report, const char *id, const char *what)
{
    if (report->count == report->room) {
        report->room = report->room ? 2 * report->room : 32;
        report->checks = realloc(report->checks, report->room * sizeof *report->checks);
        if (!report->checks) {
            fputs("weir-check: out of memory\n", stderr);
            exit(3);
        }
    }
    health_check *check = &report->checks[report->count++];
    *check = (health_check){.value = NAN, .expected = NAN, .verdict = HEALTH_NOTED};
    snprintf(check->id, sizeof check->id, "%s", id);
    snprintf(check->what, sizeof check->what, "%s", what);
    return check;
}

health_check *health_find(const health_report *report, const char *id)
{
    for (size_t i = 0; i < report->count; i++)
        if (strcmp(report->checks[i].id, id) == 0)
            return &report->checks[i];
    return NULL;
}

void health_report_free(health_report *report)
{
    free(report->checks);
    report->checks = NULL;
    report->count = report->room = 0;
}

void health_set_value(health_check *check, double value, const char *unit, int decimals)
{
    check->value = value;
    check->decimals = decimals;
    snprintf(check->unit, sizeof check->unit, "%s", unit);
    check->verdict = HEALTH_NOTED;
}

void health_set(health_check *check, health_verdict verdict, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->detail, sizeof check->detail, format, arguments);
    va_end(arguments);
    check->verdict = verdict;
}

void health_look(health_check *check, const char *text)
{
    snprintf(check->look, sizeof check->look, "%s", text);
}

static int health_is_met(health_relation relation, double value, double expected)
{
    switch (relation) {
    case HEALTH_AT_LEAST:
        return value >= expected;
    case HEALTH_AT_MOST:
        return value <= expected;
    case HEALTH_EQUAL:
        return value == expected;
    default:
        return 1;
    }
}

void health_expect(health_check *check, health_relation relation, double expected,
                   health_verdict worse, const char *source)
{
    check->relation = relation;
    check->expected = expected;
    snprintf(check->source, sizeof check->source, "%s", source);
    health_judge(check, worse);
}

void health_judge(health_check *check, health_verdict worse)
{
    if (check->relation == HEALTH_ANY || check->verdict > HEALTH_SKIPPED || isnan(check->value))
        return;
    const int is_met = health_is_met(check->relation, check->value, check->expected);
    check->verdict = is_met ? HEALTH_PASS : worse;
}

const char *health_verdict_name(health_verdict verdict)
{
    static const char *const names[HEALTH_VERDICTS] = {
        [HEALTH_PASS] = "PASS", [HEALTH_NOTED] = "noted",  [HEALTH_SKIPPED] = "skipped",
        [HEALTH_SLOW] = "SLOW", [HEALTH_BROKEN] = "ERROR", [HEALTH_MISSING] = "MISSING",
        [HEALTH_HUNG] = "HUNG", [HEALTH_WRONG] = "WRONG"};
    return names[verdict];
}

int health_is_failure(health_verdict verdict)
{
    return verdict > HEALTH_SKIPPED;
}

void health_count(const health_report *report, int *judged, int *failed)
{
    *judged = *failed = 0;
    for (size_t i = 0; i < report->count; i++) {
        const health_verdict verdict = report->checks[i].verdict;
        *judged += verdict == HEALTH_PASS || health_is_failure(verdict);
        *failed += health_is_failure(verdict);
    }
}

health_verdict health_worst(const health_report *report)
{
    health_verdict worst = HEALTH_PASS;
    for (size_t i = 0; i < report->count; i++)
        if (report->checks[i].verdict > worst)
            worst = report->checks[i].verdict;
    return worst;
}

int health_exit_code(const health_report *report)
{
    switch (health_worst(report)) {
    case HEALTH_WRONG:
        return 1;
    case HEALTH_HUNG:
        return 4;
    case HEALTH_MISSING:
        return 6;
    case HEALTH_BROKEN:
        return 3;
    case HEALTH_SLOW:
        return 5;
    default:
        return 0;
    }
}
