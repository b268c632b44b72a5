/*
 * Fractions in files, answers and messages have a decimal point, whatever locale the program has
 * set. Between the two calls, printf, scanf and strtod of the calling thread use the C locale.
 */
#ifndef WEIR_BASE_C_LOCALE_H
#define WEIR_BASE_C_LOCALE_H

#include <locale.h>

/* Switches to the C locale; returns what weiri_c_locale_end needs. Nests. errno stays. */
locale_t weiri_c_locale_begin(void);
void weiri_c_locale_end(locale_t before);

/* strtod in the C locale. */
double weiri_strtod(const char *text, char **end);

#endif
