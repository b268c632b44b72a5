/* Checks as JUnit XML and as a Markdown table: see checks.h. */
#include "results/output/checks.h"
#include "results/output/print.h"

static void put_xml_attribute(FILE *to, const char *name, const char *text)
{
    fprintf(to, " %s=\"", name);
    results_put_xml(to, text);
    fputc('"', to);
}

/* The figures, for those that passed too. */
static void put_junit_output(const results_check *check, FILE *to)
{
    char message[2048];
    results_check_message(check, message, sizeof message);
    fputs("    <system-out>", to);
    results_put_xml(to, check->what);
    fputs(check->what[0] ? ": " : "", to);
    results_put_xml(to, message);
    fputs("</system-out>\n", to);
}

static void put_junit_case(const results_check *check, FILE *to)
{
    char message[2048];
    fputs("  <testcase", to);
    put_xml_attribute(to, "classname", check->group);
    put_xml_attribute(to, "name", check->id);
    fprintf(to, " time=\"%.3f\">\n", check->seconds);
    results_check_message(check, message, sizeof message);
    if (check->state == RESULTS_FAILED || check->state == RESULTS_SKIPPED) {
        fputs(check->state == RESULTS_FAILED ? "    <failure" : "    <skipped", to);
        put_xml_attribute(to, "message", message);
        if (check->state == RESULTS_FAILED)
            put_xml_attribute(to, "type", check->verdict);
        fputs("/>\n", to);
    }
    put_junit_output(check, to);
    fputs("  </testcase>\n", to);
}

void results_checks_junit(const results_checks *checks, FILE *to)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"", to);
    results_put_xml(to, checks->tool);
    fputs(checks->level[0] ? " " : "", to);
    results_put_xml(to, checks->level);
    fprintf(to, "\" tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\" time=\"%.3f\"", checks->count,
            results_checks_count(checks, RESULTS_FAILED),
            results_checks_count(checks, RESULTS_SKIPPED), checks->seconds);
    if (checks->host[0])
        put_xml_attribute(to, "hostname", checks->host);
    fputs(">\n", to);
    for (size_t i = 0; i < checks->count; i++)
        put_junit_case(&checks->list[i], to);
    fputs("</testsuite>\n", to);
}

static void put_cell(FILE *to, const char *text)
{
    fputs(" | ", to);
    results_put_markdown(to, text);
}

void results_checks_markdown(const results_checks *checks, FILE *to)
{
    fputs("| check | found | expected | verdict | what |\n|---|--:|--:|---|---|\n", to);
    for (size_t i = 0; i < checks->count; i++) {
        const results_check *check = &checks->list[i];
        char value[96], expected[96];
        results_check_value(check, value, sizeof value);
        results_check_expected(check, expected, sizeof expected);
        fputs("| ", to);
        results_put_markdown(to, check->id);
        put_cell(to, value);
        put_cell(to, expected);
        put_cell(to, check->verdict);
        fputs(check->detail[0] ? " (" : "", to);
        results_put_markdown(to, check->detail);
        fputs(check->detail[0] ? ")" : "", to);
        put_cell(to, check->what);
        fputs(" |\n", to);
    }
}
