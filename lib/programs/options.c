/* Parses options by their table, and writes what the table says about them: see options.h. */
#include "programs/options.h"

#include "base/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

/* ------------------------------------------------------------------ look-up */

static const weiri_option *option_of_letter(const weiri_options *table, char letter)
{
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].letter && table->rows[i].letter == letter)
            return &table->rows[i];
    return NULL;
}

/* Finds the option of that name, or the only one whose name begins so. */
static const weiri_option *option_of_name(const weiri_options *table, const char *name,
                                          size_t length)
{
    const weiri_option *found = NULL;
    int matches = 0;
    for (int i = 0; i < table->count && length; i++) {
        const weiri_option *row = &table->rows[i];
        if (strncmp(row->name, name, length) != 0)
            continue;
        if (!row->name[length])
            return row;
        found = row;
        matches++;
    }
    return matches == 1 ? found : NULL;
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

/* Writes the option as messages name it, "-n (--ranks)" or "--ranks", and returns text. */
static const char *option_name(const weiri_option *option, char *text, size_t bytes)
{
    if (option->letter)
        snprintf(text, bytes, "-%c (--%s)", option->letter, option->name);
    else
        snprintf(text, bytes, "--%s", option->name);
    return text;
}

/* ------------------------------------------------------------------ parsing */

static weir_status option_read(const weiri_option *option, const char *text, void *settings)
{
    char expected[WEIRI_EXPECTED_BYTES] = "", name[NAME_BYTES];
    if (option->type->read(option, text, settings, expected) != 0)
        return weiri_fail(WEIR_ERR_INVALID, "%s %s: expected %s",
                          option_name(option, name, sizeof name), *text ? text : "''", expected);
    if (option->given)
        *(int *)(void *)((char *)settings + option->given) = 1;
    return WEIR_OK;
}

/* Takes the value that follows the option, or is the next argument. */
static weir_status option_take_value(const weiri_option *row, const char *value, int argc,
                                     char **argv, int *i, void *settings)
{
    char name[NAME_BYTES];
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value)
        return weiri_fail(WEIR_ERR_INVALID, "%s needs a value: %s",
                          option_name(row, name, sizeof name), row->value);
    return option_read(row, value, settings);
}

static weir_status option_reject(const char *command, const char *argument)
{
    return weiri_fail(WEIR_ERR_INVALID, "%s%sunknown option %s; --help lists the options",
                      command ? command : "", command ? ": " : "", argument);
}

static weir_status option_take_name(const weiri_options *table, const char *command, int argc,
                                    char **argv, int *i, void *settings)
{
    const char *name = argv[*i] + 2;
    const size_t length = strcspn(name, "=");
    const char *value = name[length] ? name + length + 1 : NULL;
    const weiri_option *row = option_of_name(table, name, length);
    if (!row || !option_belongs(row, command))
        return option_reject(command, argv[*i]);
    if (row->value)
        return option_take_value(row, value, argc, argv, i, settings);
    if (value)
        return weiri_fail(WEIR_ERR_INVALID, "--%s takes no value", row->name);
    return option_read(row, "", settings);
}

static weir_status option_take_letters(const weiri_options *table, const char *command, int argc,
                                       char **argv, int *i, void *settings)
{
    weir_status status = WEIR_OK;
    for (const char *letter = argv[*i] + 1; *letter && status == WEIR_OK; letter++) {
        const weiri_option *row = option_of_letter(table, *letter);
        if (!row || !option_belongs(row, command)) {
            const char text[] = {'-', *letter, '\0'};
            return option_reject(command, text);
        }
        if (row->value)
            return option_take_value(row, letter[1] ? letter + 1 : NULL, argc, argv, i, settings);
        status = option_read(row, "", settings);
    }
    return status;
}

weir_status weiri_option_take(const weiri_options *table, const char *command, int argc,
                              char **argv, int *i, void *settings)
{
    return (argv[*i][1] == '-' ? option_take_name : option_take_letters)(table, command, argc, argv,
                                                                         i, settings);
}

weir_status weiri_options_take_all(const weiri_options *table, int argc, char **argv,
                                   void *settings)
{
    weir_status status = WEIR_OK;
    for (int i = 1; i < argc && status == WEIR_OK; i++) {
        if (argv[i][0] != '-' || !argv[i][1] || strcmp(argv[i], "--") == 0)
            return weiri_fail(WEIR_ERR_INVALID,
                              "unexpected word %s: options start with -, --help lists them",
                              argv[i]);
        status = weiri_option_take(table, NULL, argc, argv, &i, settings);
    }
    return status;
}

void weiri_options_set_defaults(const weiri_options *table, void *settings)
{
    char expected[WEIRI_EXPECTED_BYTES];
    for (int i = 0; i < table->count; i++) {
        weiri_option row = table->rows[i];
        row.low = INT_MIN; /* a default may stand for "not given" */
        if (row.initial)
            row.type->read(&row, row.initial, settings, expected);
    }
}

/* ------------------------------------------------------ ranks and results */

/* The value as a user gives it, which the caller frees; empty if the option is not in use. */
static char *option_value(const weiri_option *option, const void *settings)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return NULL;
    option->type->write(option, settings, memory);
    fclose(memory);
    return text;
}

static void option_write_same(const weiri_option *option, const void *settings, FILE *to)
{
    const char letter[] = {option->letter, '\0'};
    const char *dashes = option->letter ? "-" : "--",
               *name = option->letter ? letter : option->name;
    char *value = option->value ? option_value(option, settings) : NULL;
    const int in_use =
        option->value ? value && *value
                      : *(const int *)(const void *)((const char *)settings + option->offset) != 0;
    const int shows = in_use && value && option->flags & WEIRI_OPTION_SAME;
    fprintf(to, "%s%s%s%s%s\n", in_use ? "" : "no ", dashes, name, shows ? " " : "",
            shows ? value : "");
    free(value);
}

void weiri_options_write_same(const weiri_options *table, const void *settings, FILE *to)
{
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].flags & (WEIRI_OPTION_SAME | WEIRI_OPTION_SAME_USE))
            option_write_same(&table->rows[i], settings, to);
}

static void option_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    if (option->type->put) {
        option->type->put(option, settings, json);
        return;
    }
    char *value = option_value(option, settings);
    if (value && *value)
        weiri_json_put_text(json, option->manifest, value);
    free(value);
}

void weiri_options_put(const weiri_options *table, const void *settings, weiri_json_writer *json)
{
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].manifest)
            option_put(&table->rows[i], settings, json);
}
