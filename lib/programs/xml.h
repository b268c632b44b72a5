/* Escapes text for HTML and XML. Control characters become '?'. Local. */
#ifndef WEIR_PROGRAMS_XML_H
#define WEIR_PROGRAMS_XML_H

#include <stdio.h>

static inline void weiri_xml_put(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? '?' : *text, file);
        }
}

#endif
