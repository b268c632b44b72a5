/*
 * Tables whose lines a terminal, or a mail, has folded at a width: the headings of nccl-tests go on
 * in the next line. All lines of that width are joined with the line after them.
 */
#include "results/read/lines.h"
#include "results/read/table.h"

#include <ctype.h>
#include <string.h>

enum { WORD_BYTES = 64, PREFIX_BYTES = 6 };

static int is_heading(const char *from, size_t length)
{
    char word[WORD_BYTES];
    if (length == 0 || length >= sizeof word)
        return 0;
    memcpy(word, from, length);
    word[length] = '\0';
    return results_table_is_heading(word);
}

/* The length of the word of headings that the end of a line and the start of the next one make;
 * writes where the rest of the next line begins. 0: no word is divided. */
static size_t divided_word(const char *line, const char *next, char *word, const char **rest)
{
    size_t end = strlen(line), start = end;
    const size_t more = strcspn(next, " \t");
    while (start > 0 && !strchr(" \t", line[start - 1]))
        start--;
    *rest = next;
    if (start == end || more == 0 || end - start + more >= WORD_BYTES)
        return 0;
    memcpy(word, line + start, end - start);
    memcpy(word + (end - start), next, more);
    *rest = next + more;
    return end - start + more;
}

/* Whether a line goes on with the headings of the one before it, and has nothing else. */
static int continues_headings(const char *line, const char *next)
{
    char word[WORD_BYTES];
    const char *at;
    const size_t length = divided_word(line, next, word, &at);
    int count = length > 0;
    if (length > 0 && !is_heading(word, length))
        return 0;
    for (at += strspn(at, " \t"); *at; at += strspn(at, " \t"), count++) {
        if (!is_heading(at, strcspn(at, " \t")))
            return 0;
        at += strcspn(at, " \t");
    }
    return count > 0;
}

/* The width at which the lines are folded; 0: they are not. Writes whether the headings end with a
 * word: fields of its column end there, too, and blanks behind them may be lost. */
static size_t width_of(const results_lines *lines, int *ends_column)
{
    char word[WORD_BYTES];
    const char *rest;
    *ends_column = 0;
    for (size_t i = 0; i + 1 < lines->count; i++) {
        const char *line = lines->list[i].text, *mark = strchr(line, '#');
        if (mark && strstr(mark, " size ") && strstr(mark, " count ") &&
            continues_headings(line, lines->list[i + 1].text)) {
            *ends_column = !strchr(" \t", line[strlen(line) - 1]) &&
                           divided_word(line, lines->list[i + 1].text, word, &rest) == 0;
            return strlen(line);
        }
    }
    return 0;
}

/* Whether a line begins on its own: a comment, or a row, which has two whole numbers and a type. */
static int begins_alone(char *line)
{
    const char *at = line + strspn(line, " \t");
    if (results_marker(line) || (*at == '#' && !is_heading(at, strcspn(at, " \t"))))
        return 1;
    for (int i = 0; i < 2; i++) {
        const size_t digits = strspn(at, "0123456789");
        if (digits == 0 || !strchr(" \t", at[digits]))
            return 0;
        at += digits + strspn(at + digits, " \t");
    }
    return isalpha((unsigned char)*at) != 0;
}

/* Whether two lines begin with the same text, such as a prefix or a host's name. */
static int begin_alike(const char *line, const char *next)
{
    return strncmp(line, next, PREFIX_BYTES) == 0 && strspn(line, " \t0123456789.") < PREFIX_BYTES;
}

void results_lines_unfold(results_set *set, results_lines *lines)
{
    int ends_column;
    const size_t width = width_of(lines, &ends_column);
    size_t kept = 0;
    if (width == 0)
        return;
    for (size_t i = 0; i < lines->count; i++) {
        results_line made = lines->list[i];
        size_t length = strlen(made.text);
        while (length == width && i + 1 < lines->count && !begins_alone(lines->list[i + 1].text) &&
               !begin_alike(made.text, lines->list[i + 1].text)) {
            length = strlen(lines->list[++i].text);
            const char *next = lines->list[i].text;
            const int ends_number = ends_column && !strchr(made.text, '#') &&
                                    isdigit((unsigned char)made.text[strlen(made.text) - 1]) &&
                                    isdigit((unsigned char)*next);
            made.text =
                results_keep_printed(set, "%s%s%s", made.text, ends_number ? " " : "", next);
        }
        made.place = kept;
        lines->list[kept++] = made;
    }
    lines->count = kept;
    lines->changed = 1;
}
