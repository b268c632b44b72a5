/* Prints a table of options as --help shows it: see options.h. */
#include "programs/options.h"

#include <string.h>

enum { LINE_WIDTH = 80, LEFT_MAX = 28, LEFT_BYTES = 128, TEXT_BYTES = 2048 };

/* "-b, --minbytes SIZE". Names align with each other if some option of the table has a letter. */
static int help_left(const weiri_options *table, const weiri_option *option, char *text)
{
    int has_letters = 0;
    for (int i = 0; i < table->count; i++)
        has_letters |= table->rows[i].letter != 0;
    const char letter[] = {'-', option->letter, ',', ' ', '\0'};
    return snprintf(text, LEFT_BYTES, "%s--%s%s%s",
                    !has_letters     ? ""
                    : option->letter ? letter
                                     : "    ",
                    option->name, option->value ? " " : "", option->value ? option->value : "");
}

/* The length of the first word, with the words after it that begin with "-": a line of text that
 * begins so would look like an option. */
static int help_word_length(const char *text)
{
    size_t length = strcspn(text, " ");
    while (text[length] && text[length + 1] == '-')
        length += 1 + strcspn(text + length + 1, " ");
    return (int)length;
}

/* Prints text in lines that begin at a column; the first line is there already. */
static void help_wrap(FILE *to, int column, const char *text)
{
    int at = column;
    for (const char *word = text; *word;) {
        const int length = help_word_length(word);
        if (at > column && at + 1 + length > LINE_WIDTH - 1) {
            fprintf(to, "\n%*s", column, "");
            at = column;
        }
        at += fprintf(to, "%s%.*s", at > column ? " " : "", length, word);
        word += length + (word[length] == ' ');
    }
    fputc('\n', to);
}

/* What stands before an option's text: the commands that accept it, as "show, cost: ". Returns the
 * length. */
static int help_commands(const weiri_option *option, char *text)
{
    int length = 0;
    for (const char *from = option->commands; from && *from; from++) {
        if (*from == ' ')
            text[length++] = ',';
        text[length++] = *from;
    }
    return length +
           snprintf(text + length, TEXT_BYTES - (size_t)length, "%s", option->commands ? ": " : "");
}

void weiri_options_print(const weiri_options *table, FILE *to)
{
    char left[LEFT_BYTES], text[TEXT_BYTES];
    int width = 0;
    for (int i = 0; i < table->count; i++) {
        const int length = help_left(table, &table->rows[i], left);
        width = length > width && length <= LEFT_MAX ? length : width;
    }
    for (int i = 0; i < table->count; i++) {
        const int length = help_left(table, &table->rows[i], left);
        const weiri_option *option = &table->rows[i];
        const int says_default = option->initial && !(option->flags & WEIRI_OPTION_EXPLAINED);
        const int at = help_commands(option, text);
        snprintf(text + at, TEXT_BYTES - (size_t)at, "%s%s%s%s", option->help,
                 says_default ? " (default: " : "", says_default ? option->initial : "",
                 says_default ? ")" : "");
        if (length > width)
            fprintf(to, "  %s\n%*s", left, width + 4, "");
        else
            fprintf(to, "  %-*s  ", width, left);
        help_wrap(to, width + 4, text);
    }
}
