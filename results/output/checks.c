/* The list of checks, and their texts: see checks.h. */
#include "results/output/checks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void results_checks_begin(results_checks *checks, const char *tool)
{
    *checks = (results_checks){.tool = tool, .level = "", .output = "", .host = ""};
    results_set_init(&checks->memory, 0, NULL);
}

results_check *results_checks_add(results_checks *checks)
{
    if (checks->count == checks->room) {
        checks->room = checks->room ? 2 * checks->room : 32;
        checks->list = realloc(checks->list, checks->room * sizeof *checks->list);
        if (!checks->list) {
            fprintf(stderr, "%s: out of memory\n", checks->tool);
            exit(3);
        }
    }
    results_check *check = &checks->list[checks->count++];
    *check = (results_check){.group = "",
                             .id = "",
                             .what = "",
                             .verdict = "",
                             .unit = "",
                             .relation = "",
                             .source = "",
                             .detail = "",
                             .look = "",
                             .action = "",
                             .value = NAN,
                             .expected = NAN,
                             .busbw_gbs = NAN,
                             .time_us = NAN};
    return check;
}

size_t results_checks_count(const results_checks *checks, results_check_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < checks->count; i++)
        count += checks->list[i].state == state;
    return count;
}

void results_checks_free(results_checks *checks)
{
    free(checks->list);
    results_set_free(&checks->memory);
    checks->list = NULL;
    checks->count = checks->room = 0;
}

static void check_number(double value, const results_check *check, char *text, size_t bytes)
{
    snprintf(text, bytes, "%.*f%s%s", check->decimals, value, check->unit[0] ? " " : "",
             check->unit);
}

void results_check_value(const results_check *check, char *text, size_t bytes)
{
    text[0] = '\0';
    if (!isnan(check->value))
        check_number(check->value, check, text, bytes);
}

void results_check_expected(const results_check *check, char *text, size_t bytes)
{
    char number[64];
    text[0] = '\0';
    if (!check->relation[0] || isnan(check->expected))
        return;
    check_number(check->expected, check, number, sizeof number);
    snprintf(text, bytes, "%s %s", check->relation, number);
}

/* Appends text after a separator, which is left out at the beginning of the message. */
static void message_append(char *text, size_t bytes, size_t begin, const char *separator,
                           const char *more)
{
    const size_t used = strlen(text);
    if (more[0])
        snprintf(text + used, bytes - used, "%s%s", used > begin ? separator : "", more);
}

void results_check_message(const results_check *check, char *text, size_t bytes)
{
    char value[96], expected[96], expectation[112] = "";
    results_check_value(check, value, sizeof value);
    results_check_expected(check, expected, sizeof expected);
    if (expected[0])
        snprintf(expectation, sizeof expectation, "expected %s", expected);
    snprintf(text, bytes, "%s: ", check->verdict);
    const size_t begin = strlen(text);
    message_append(text, bytes, begin, "", value);
    if (value[0])
        message_append(text, bytes, begin, ", ", expectation);
    message_append(text, bytes, begin, "; ", check->detail);
    if (!value[0])
        message_append(text, bytes, begin, "; ", expectation);
    if (check->look[0]) {
        message_append(text, bytes, begin, "; ", "look at: ");
        message_append(text, bytes, begin, "", check->look);
    }
    if (check->action[0]) {
        message_append(text, bytes, begin, "; ", "action: ");
        message_append(text, bytes, begin, "", check->action);
    }
}
