/* Cells, headings and figures, from which sections of the page are made: see page.h. */
#include "results/output/page.h"

#include "base/words.h"

#include <math.h>
#include <string.h>

void results_put_cell(FILE *file, const char *text)
{
    fputs("<td>", file);
    results_put_xml(file, text);
    fputs("</td>", file);
}

void results_put_number(FILE *file, double value, int digits)
{
    if (isnan(value))
        fputs("<td class=\"n\"></td>", file);
    else
        fprintf(file, "<td class=\"n\">%.*f</td>", digits, value);
}

void results_put_heading(FILE *file, const char *kind, const char *text)
{
    fprintf(file,
            "<th scope=\"col\" class=\"%s\" aria-sort=\"none\">"
            "<button type=\"button\" disabled>%s</button></th>",
            kind, text);
}

void results_put_title(FILE *file, const results_row *row)
{
    results_put_xml(file, row->text[RESULTS_COLLECTIVE]);
    fputs(", ", file);
    results_put_xml(file, row->text[RESULTS_DTYPE]);
    if (strcmp(row->text[RESULTS_REDOP], "none") != 0) {
        fputc(' ', file);
        results_put_xml(file, row->text[RESULTS_REDOP]);
    }
    fprintf(file, ", %d rank%s, %s", row->nranks, weiri_s(row->nranks),
            strcmp(row->text[RESULTS_PLACEMENT], "in") == 0 ? "in place" : "out of place");
}

void results_put_figure(const results_page *page, int number, const char *heading,
                        const char *caption)
{
    if (number < 0)
        return;
    fputs("<figure>\n", page->file);
    results_plots_put(page->plots, number, heading, caption, page->file);
    fprintf(page->file,
            "<figcaption>%s <button class=\"copy\" type=\"button\" hidden>Copy picture</button> "
            "<span role=\"status\"></span></figcaption>"
            "<p class=\"at\" aria-hidden=\"true\"></p></figure>\n",
            caption);
}
