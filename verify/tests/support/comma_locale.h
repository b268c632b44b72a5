/*
 * A locale whose fractions have a decimal comma, as German's have, without a package of locales:
 * the file of its numbers, as localedef of glibc writes it.
 */
#ifndef WEIR_TESTS_COMMA_LOCALE_H
#define WEIR_TESTS_COMMA_LOCALE_H

#include "verify/tests/support/test_files.h"

#include <errno.h>
#include <locale.h>

/* Sets the locale of the process, with files in a folder that exists. Returns 0 if the C library
 * has other files. */
static inline int comma_locale_set(const char *folder)
{
    const struct {
        uint32_t magic, count, at[6];
        char point[4], thousands[4], grouping[4];
        uint32_t wide_point, wide_thousands;
        char codeset[8];
    } numbers = {
        0x20031115u ^ LC_NUMERIC, 6, {32, 36, 40, 44, 48, 52}, ",", ".", "\3", ',', '.', "UTF-8"};
    char path[512];
    snprintf(path, sizeof path, "%s/comma", folder);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return 0;
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", folder);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(&numbers, sizeof numbers, 1, file) != 1 || fclose(file) != 0)
        return 0;
    setenv("LOCPATH", folder, 1);
    return setlocale(LC_NUMERIC, "comma") != NULL;
}

#endif
