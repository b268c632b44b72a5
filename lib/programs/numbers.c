/* Strict readers of numbers: see numbers.h. */
#include "programs/numbers.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { UNIT_SHIFT = 10, BYTES_SHIFT_MAX = 62 };

static const char digits[] = "0123456789";

int weiri_whole_read(const char *text, long long low, long long high, long long *value)
{
    const char *first = text + (*text == '-' && low < 0);
    const size_t length = strspn(first, digits);
    errno = 0;
    const long long number = strtoll(text, NULL, 10);
    if (!length || first[length] || errno || number < low || number > high)
        return -1;
    *value = number;
    return 0;
}

/* Returns the length of the decimal number that text begins with; 0: none. */
static size_t decimal_length(const char *text)
{
    const size_t whole = strspn(text, digits);
    const size_t fraction = text[whole] == '.' ? strspn(text + whole + 1, digits) : 0;
    return whole + fraction == 0 ? 0 : whole + (text[whole] == '.') + fraction;
}

int weiri_decimal_read(const char *text, double *value)
{
    char *end = NULL;
    const int is_plain = decimal_length(text) && !text[strspn(text, "0123456789.eE+-")];
    const double number = is_plain ? strtod(text, &end) : -1;
    if (number < 0 || *end || !isfinite(number))
        return -1;
    *value = number;
    return 0;
}

/* Returns the power of two of a unit, such as 10 of "KB"; 0 of ""; -1: no unit. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "KMGT";
    if (!*unit)
        return 0;
    const char *letter = strchr(letters, toupper((unsigned char)*unit));
    if (!letter || (unit[1] && strcasecmp(unit + 1, "B") != 0 && strcasecmp(unit + 1, "iB") != 0))
        return -1;
    return UNIT_SHIFT * (int)(letter - letters + 1);
}

int weiri_bytes_read(const char *text, size_t *bytes)
{
    const size_t length = decimal_length(text);
    const int has_blank = length && text[length] == ' ' && text[length + 1];
    const int shift = length ? unit_shift(text + length + has_blank) : -1;
    if (shift < 0)
        return -1;
    if (shift == 0) { /* 1.5 is no number of bytes */
        long long whole;
        if (weiri_whole_read(text, 0, 1ll << BYTES_SHIFT_MAX, &whole) != 0)
            return -1;
        *bytes = (size_t)whole;
        return 0;
    }
    const double number = ldexp(strtod(text, NULL), shift);
    if (number > ldexp(1, BYTES_SHIFT_MAX) || (number > 0 && number < 1))
        return -1;
    *bytes = (size_t)number;
    return 0;
}
