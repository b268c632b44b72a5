/* Names from files, escaped for XML and Markdown. */
#include "results/output/print.h"

#include "programs/xml.h"

void results_put_xml(FILE *file, const char *text)
{
    weiri_xml_put(file, text);
}

/* Escapes HTML, and the characters that links and emphasis are made of. */
void results_put_markdown(FILE *file, const char *text)
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
        case '|':
        case '`':
        case '*':
        case '_':
        case '[':
        case ']':
        case '\\':
        case '!':
        case '#':
        case '~':
        case '@':
            fprintf(file, "&#%d;", *text);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? '?' : *text, file);
        }
}
