/* A field of RFC 4180, for all who write CSV. */
#ifndef WEIR_BASE_CSV_H
#define WEIR_BASE_CSV_H

#include <stdio.h>
#include <string.h>

/* Writes text as one field, in quotes where it must be. */
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
