/* Numbers of a text: their resolution, which follows from the digits that are printed, and their
 * unit. */
#include "results/read/read_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The digits of a decimal number without an exponent, as a whole number; -1 if it has others, or
 * too many. Writes the number of its decimals. */
static long long digits_of(const char *text, int *decimals)
{
    long long digits = 0;
    int count = 0, dot = -1;
    for (; *text; text++) {
        if (*text == '.' && dot < 0) {
            dot = count;
        } else if (*text >= '0' && *text <= '9' && count < 15) {
            digits = 10 * digits + (*text - '0');
            count++;
        } else {
            return -1;
        }
    }
    *decimals = dot < 0 ? 0 : count - dot;
    return digits;
}

/* Writes a whole number with a decimal point before its last digits. */
static const char *with_point(results_set *set, long long digits, int decimals)
{
    char text[40], *at = text + sizeof text;
    *--at = '\0';
    for (int i = 0; digits > 0 || i <= decimals; i++, digits /= 10) {
        if (i == decimals)
            *--at = '.';
        *--at = (char)('0' + digits % 10);
    }
    return results_keep_text(set, at, (size_t)(text + sizeof text - 1 - at));
}

static const char *scaled_number(results_set *set, double value, double scale)
{
    return results_keep_printed(set, "%.10g", value * scale);
}

void results_text_resolution(results_set *set, results_row *row, const char *text, double scale)
{
    const char *exponent = strpbrk(text, "eE");
    int decimals = 0;
    double time;
    const long long digits = text[0] ? digits_of(text, &decimals) : -1;
    if (digits > 0 && scale == 1) { /* half of the last digit less, and more */
        row->text[RESULTS_CI_LOW_US] = with_point(set, 10 * digits - 5, decimals + 1);
        row->text[RESULTS_CI_HIGH_US] = with_point(set, 10 * digits + 5, decimals + 1);
        row->resolution = log1p(0.5 / (double)digits);
    } else if (results_real(text, &time) == 0 && time > 0) {
        const char *dot = strchr(text, '.');
        const size_t places = dot ? strspn(dot + 1, "0123456789") : 0;
        const double half = 0.5 * pow(10, (exponent ? atoi(exponent + 1) : 0) - (double)places);
        row->text[RESULTS_CI_LOW_US] = scaled_number(set, fmax(time - half, time / 2), scale);
        row->text[RESULTS_CI_HIGH_US] = scaled_number(set, time + half, scale);
        row->resolution = log1p(half / time);
    }
}

const char *results_text_run(results_text *in)
{
    return results_keep_printed(in->set, "%.200s#%d", in->path, in->sections);
}

const char *results_text_scaled(results_set *set, const results_cell *cell, const char *text)
{
    double value;
    if (cell->scale == 1 || !(cell->scale > 0) || results_real(text, &value) != 0)
        return text;
    return results_keep_printed(set, "%.10g", value * cell->scale);
}
