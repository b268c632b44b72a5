/* Writing fields of CSV (RFC 4180). */
#ifndef WEIR_PROGRAMS_CSV_H
#define WEIR_PROGRAMS_CSV_H

#include <stdio.h>
#include <string.h>

/* Writes text as one field, quoted if necessary. */
static inline void weiri_csv_write_field(FILE *file, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

#endif
