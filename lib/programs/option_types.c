/* The types of options: see options.h. */
#include "programs/numbers.h"
#include "programs/options.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void *member(const weiri_option *option, void *settings)
{
    return (char *)settings + option->offset;
}

static const void *member_of(const weiri_option *option, const void *settings)
{
    return (const char *)settings + option->offset;
}

int weiri_expect(char *expected, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, WEIRI_EXPECTED_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

/* ------------------------------------------------------------------ numbers */

static int whole_read(const weiri_option *option, const char *text, long long *value,
                      char *expected)
{
    if (weiri_whole_read(text, option->low, option->high, value) == 0)
        return 0;
    return weiri_expect(expected, "a whole number from %lld to %lld", option->low, option->high);
}

static int int_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    long long value;
    if (whole_read(option, text, &value, expected) != 0)
        return -1;
    *(int *)member(option, settings) = (int)value;
    return 0;
}

/* A number below the range is a default that no user can give, such as "found by the run". */
void weiri_int_write(const weiri_option *option, const void *settings, FILE *to)
{
    const int value = *(const int *)member_of(option, settings);
    if (value >= option->low)
        fprintf(to, "%d", value);
}

void weiri_int_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    weiri_json_put_whole(json, option->manifest, *(const int *)member_of(option, settings));
}

static int size_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    long long value;
    if (whole_read(option, text, &value, expected) != 0)
        return -1;
    *(size_t *)member(option, settings) = (size_t)value;
    return 0;
}

static void size_write(const weiri_option *option, const void *settings, FILE *to)
{
    fprintf(to, "%zu", *(const size_t *)member_of(option, settings));
}

static void size_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    const size_t value = *(const size_t *)member_of(option, settings);
    weiri_json_put_whole(json, option->manifest, (long long)value);
}

static int bytes_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    size_t bytes;
    if (weiri_bytes_read(text, &bytes) == 0 && (option->low < 0 || bytes >= (size_t)option->low)) {
        *(size_t *)member(option, settings) = bytes;
        return 0;
    }
    return weiri_expect(
        expected,
        "a size of %lld or more: whole bytes, or a number with a unit (K, M, G, T), such as 8, "
        "64K, 1.5M or 1GB",
        option->low);
}

static int decimal_read(const weiri_option *option, const char *text, void *settings,
                        char *expected)
{
    double value;
    if (weiri_decimal_read(text, &value) == 0 && value >= (double)option->low) {
        *(double *)member(option, settings) = value;
        return 0;
    }
    return weiri_expect(expected, "a number of %lld or more such as 350 or 12.5", option->low);
}

static void decimal_write(const weiri_option *option, const void *settings, FILE *to)
{
    fprintf(to, "%g", *(const double *)member_of(option, settings));
}

static void decimal_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    weiri_json_put_real(json, option->manifest, *(const double *)member_of(option, settings));
}

int weiri_percent_read(const char *text, weiri_percent_kind kind, double most, double *fraction,
                       char *expected, size_t bytes)
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
        return 0;
    }
    snprintf(expected, bytes,
             kind == WEIRI_PERCENT
                 ? "a percentage such as 2%%, above 0%% and at most %g%%"
                 : "a percentage such as 3%%, or a number below 1 such as 0.03; at most %g%%",
             100 * most);
    return -1;
}

static int percent_read(const weiri_option *option, const char *text, void *settings,
                        char *expected)
{
    return weiri_percent_read(text, WEIRI_PERCENT, (double)option->high / 100,
                              member(option, settings), expected, WEIRI_EXPECTED_BYTES);
}

static int share_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    return weiri_percent_read(text, WEIRI_PERCENT_OR_PART, (double)option->high / 100,
                              member(option, settings), expected, WEIRI_EXPECTED_BYTES);
}

static void percent_write(const weiri_option *option, const void *settings, FILE *to)
{
    const double fraction = *(const double *)member_of(option, settings);
    if (fraction > 0)
        fprintf(to, "%g%%", fraction * 100);
}

const weiri_option_type weiri_option_int = {int_read, weiri_int_write, weiri_int_put};
const weiri_option_type weiri_option_whole = {size_read, size_write, size_put};
const weiri_option_type weiri_option_bytes = {bytes_read, size_write, size_put};
const weiri_option_type weiri_option_decimal = {decimal_read, decimal_write, decimal_put};
const weiri_option_type weiri_option_percent = {percent_read, percent_write, decimal_put};
const weiri_option_type weiri_option_share = {share_read, percent_write, decimal_put};

/* --------------------------------------------------------------- texts, flags */

static int text_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    if (!*text)
        return weiri_expect(expected, "%s, not an empty word", option->value);
    *(const char **)member(option, settings) = text;
    return 0;
}

static void text_write(const weiri_option *option, const void *settings, FILE *to)
{
    const char *text = *(const char *const *)member_of(option, settings);
    fputs(text ? text : "", to);
}

static void text_put(const weiri_option *option, const void *settings, weiri_json_writer *json)
{
    const char *text = *(const char *const *)member_of(option, settings);
    if (text)
        weiri_json_put_text(json, option->manifest, text);
}

static int flag_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    (void)text, (void)expected;
    *(int *)member(option, settings) = option->high ? (int)option->high : 1;
    return 0;
}

static void flag_write(const weiri_option *option, const void *settings, FILE *to)
{
    (void)option, (void)settings, (void)to; /* there is no value to write */
}

const weiri_option_type weiri_option_text = {text_read, text_write, text_put};
const weiri_option_type weiri_option_flags = {flag_read, flag_write, weiri_int_put};

/* -------------------------------------------------------------------- words */

/* Finds a word in "a|b|c". Returns its index, or -1; *begin is where the word stands. */
static int word_find(const char *list, const char *text, const char **begin)
{
    const size_t length = strlen(text);
    int index = 0;
    for (const char *word = list; word && *word; word += strcspn(word, "|"), index++) {
        word += *word == '|';
        if (length && strcspn(word, "|") == length && strncmp(word, text, length) == 0) {
            *begin = word;
            return index;
        }
    }
    return -1;
}

/* The word at an index of "a|b|c", which ends at '|' or at the end of the text. */
static const char *word_at(const char *list, int index)
{
    for (; index > 0 && *list; index--) {
        list += strcspn(list, "|");
        list += *list == '|';
    }
    return list;
}

static int words_read(const weiri_option *option, const char *text, void *settings, char *expected)
{
    const char *word;
    int index = word_find(option->value, text, &word);
    if (index < 0)
        index = word_find(option->recorded, text, &word);
    if (index < 0)
        return weiri_expect(expected, "one of %s", option->value);
    *(int *)member(option, settings) = index;
    return 0;
}

static void words_write(const weiri_option *option, const void *settings, FILE *to)
{
    const int index = *(const int *)member_of(option, settings);
    const char *word = word_at(option->recorded ? option->recorded : option->value, index);
    fprintf(to, "%.*s", (int)strcspn(word, "|"), word);
}

const weiri_option_type weiri_option_words = {words_read, words_write, NULL};
