/* Numbers as text: which texts are numbers, and how weir's CSV writes the numbers of a column, so
 * that JSON can have them as numbers without loss. */
#include "results/read/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int results_real(const char *text, double *value)
{
    char *end;
    if (!text[0] || text[strspn(text, "0123456789+-.eE")] || !strpbrk(text, "0123456789"))
        return -1;
    double read = strtod(text, &end);
    if (*end || !isfinite(read))
        return -1;
    *value = read;
    return 0;
}

int results_whole(const char *text, unsigned long long *value)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits])
        return -1;
    *value = strtoull(text, NULL, 10);
    return 0;
}

/* How a column's fields are written. */
static weiri_column_form form_of(results_column column)
{
#define FORM(enumerator, name, form) WEIRI_COLUMN_##form,
    static const weiri_column_form forms[RESULTS_COLUMNS] = {WEIRI_COLUMNS(FORM)};
#undef FORM
    return forms[column];
}

int results_is_number_column(results_column column)
{
    return form_of(column) != WEIRI_COLUMN_NAME;
}

int results_is_decimal_column(results_column column)
{
    return form_of(column) > WEIRI_COLUMN_WHOLE;
}

/* A finite double with three decimals has at most 313 characters. */
enum { NUMBER_BYTES = 512 };

static void print_number(char *text, results_column column, double value)
{
    switch (form_of(column)) {
    case WEIRI_COLUMN_TIME:
        snprintf(text, NUMBER_BYTES, "%.3f", value);
        break;
    case WEIRI_COLUMN_RATE:
        snprintf(text, NUMBER_BYTES, "%.6g", value);
        break;
    case WEIRI_COLUMN_PERCENT:
        snprintf(text, NUMBER_BYTES, "%.1f", value);
        break;
    case WEIRI_COLUMN_NAME:
    case WEIRI_COLUMN_WHOLE:
        snprintf(text, NUMBER_BYTES, "%.17g", value);
        break;
    }
}

const char *results_number_text(results_set *set, results_column column, double value)
{
    char text[NUMBER_BYTES];
    print_number(text, column, value);
    return results_keep_text(set, text, strlen(text));
}

/* No sign but a minus, no leading zeros, at most 18 digits. */
static int is_whole_text(const char *text)
{
    const char *digits = text + (text[0] == '-');
    size_t count = strspn(digits, "0123456789");
    return count > 0 && count <= 18 && !digits[count] && (digits[0] != '0' || text[1] == '\0');
}

int results_is_number_text(results_column column, const char *text)
{
    char again[NUMBER_BYTES];
    double value;
    if (form_of(column) == WEIRI_COLUMN_WHOLE)
        return is_whole_text(text);
    if (form_of(column) == WEIRI_COLUMN_NAME || results_real(text, &value) != 0)
        return 0;
    print_number(again, column, value);
    return strcmp(again, text) == 0 && strcmp(text, "-0") != 0;
}
