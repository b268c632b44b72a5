/* Parses options by their table, and prints it: see options.h. */
#include "programs/options.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int option_is(const char *name, const char *text, size_t length)
{
    return name && strlen(name) == length && strncmp(name, text, length) == 0;
}

static const weiri_option *option_find(const weiri_option *options, int count, const char *text,
                                       size_t length)
{
    for (int i = 0; i < count; i++)
        if (option_is(options[i].name, text, length) || option_is(options[i].letter, text, length))
            return &options[i];
    return NULL;
}

/* Whether the option may follow the command, or come before any. */
static int option_belongs(const weiri_option *option, const char *command)
{
    const size_t length = command ? strlen(command) : 0;
    if (!command || !option->commands)
        return option->commands == NULL;
    for (const char *word = option->commands; word; word = strchr(word, ' ')) {
        word += *word == ' ';
        if (strncmp(word, command, length) == 0 && (!word[length] || word[length] == ' '))
            return 1;
    }
    return 0;
}

weir_status weiri_option_take(const weiri_option *options, int count, const char *command, int argc,
                              char **argv, int *i, void *settings)
{
    const char *argument = argv[*i];
    const size_t length = strcspn(argument, "=");
    const char *value = argument[length] ? argument + length + 1 : NULL;
    const weiri_option *row = option_find(options, count, argument, length);
    if (!row || (value && !row->value) || !option_belongs(row, command))
        return weiri_fail(WEIR_ERR_INVALID, "%s%sunknown option %s; --help lists them all",
                          command ? command : "", command ? ": " : "", argument);
    if (!row->value) {
        *(int *)(void *)((char *)settings + row->offset) = 1;
        return WEIR_OK;
    }
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value || !*value)
        return weiri_fail(WEIR_ERR_INVALID, "%s: expected a value, as in %s %s", row->name,
                          row->name, row->value);
    *(const char **)(void *)((char *)settings + row->offset) = value;
    return WEIR_OK;
}

weir_status weiri_options_take_all(const weiri_option *options, int count, int argc, char **argv,
                                   void *settings)
{
    weir_status status = WEIR_OK;
    for (int i = 1; i < argc && status == WEIR_OK; i++)
        status = weiri_option_take(options, count, NULL, argc, argv, &i, settings);
    return status;
}

weir_status weiri_option_number(const char *name, const char *text, int least, int most,
                                int *number)
{
    char *end;
    if (!text)
        return WEIR_OK;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value < least || value > most)
        return weiri_fail(WEIR_ERR_INVALID, "%s %s: expected a number from %d to %d", name, text,
                          least, most);
    *number = (int)value;
    return WEIR_OK;
}

weir_status weiri_percent_read(const char *text, weiri_percent_kind kind, double most,
                               double *fraction, char *expected, size_t bytes)
{
    char *end;
    const size_t length = strspn(text, "0123456789.eE+-"); /* no hexadecimal digits, nan or inf */
    const int is_percent = strcmp(text + length, "%") == 0;
    const double number = strtod(text, &end);
    const double part = number / (is_percent || kind == WEIRI_PERCENT ? 100 : 1);
    if ((*text == '.' || isdigit((unsigned char)*text)) && end == text + length &&
        (is_percent || !*end) && part <= most && (kind != WEIRI_PERCENT || part > 0) &&
        (kind == WEIRI_PERCENT || is_percent || number < 1)) {
        *fraction = part;
        return WEIR_OK;
    }
    snprintf(expected, bytes,
             kind == WEIRI_PERCENT
                 ? "a percentage such as 2%%, above 0%% and at most %g%%"
                 : "a percentage such as 3%%, or a number below 1 such as 0.03; at most %g%%",
             100 * most);
    return WEIR_ERR_INVALID;
}

weir_status weiri_option_percent(const char *name, const char *text, weiri_percent_kind kind,
                                 double most, double *fraction)
{
    char expected[128];
    if (!text ||
        weiri_percent_read(text, kind, most, fraction, expected, sizeof expected) == WEIR_OK)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_INVALID, "%s %s: expected %s", name, text, expected);
}

/* "-n, --ranks N" */
static void option_describe(const weiri_option *option, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s%s%s%s", option->letter ? option->letter : "",
             option->letter ? ", " : "", option->name, option->value ? " " : "",
             option->value ? option->value : "");
}

void weiri_options_print(const weiri_option *options, int count, FILE *to)
{
    char left[80];
    int width = 0;
    for (int i = 0; i < count; i++) {
        option_describe(&options[i], left, sizeof left);
        width = (int)strlen(left) > width ? (int)strlen(left) : width;
    }
    for (int i = 0; i < count; i++) {
        const weiri_option *option = &options[i];
        option_describe(option, left, sizeof left);
        fprintf(to, "  %-*s  %s%s", width, left, option->commands ? option->commands : "",
                option->commands ? ": " : "");
        for (const char *at = option->help; *at; at++) {
            fputc(*at, to);
            if (*at == '\n')
                fprintf(to, "%*s", width + 4, "");
        }
        fputc('\n', to);
    }
}
