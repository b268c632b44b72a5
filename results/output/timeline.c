/* The time line of a replayed step, a.svg next to a.csv, in the report: see page.h. */
#include "results/output/page.h"
#include "results/read/load.h"

#include <stdlib.h>
#include <string.h>

int results_timeline_find(const results_set *set, char *path, size_t bytes)
{
    for (size_t i = 0; i < set->count; i++)
        if (strncmp(set->rows[i].text[RESULTS_COLLECTIVE], "replay_", 7) == 0 &&
            results_next_to(set->rows[i].path, ".svg", path, bytes))
            return 1;
    return 0;
}

/* Whether a line is one that bench_replay writes: the page takes no other elements from a file. */
static int is_drawing(const char *line)
{
    static const char *const begins[] = {
        "<svg xmlns=", "<rect x=", "<rect width=", "<text x=", "</svg>"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(line, begins[i], strlen(begins[i])) == 0)
            return 1;
    return 0;
}

void results_timeline_put(const char *path, FILE *page)
{
    FILE *file = results_open(path, RESULTS_FILE_BYTES);
    char *line = NULL;
    size_t room = 0;
    if (!file)
        return;
    fputs("<section id=\"timeline\">\n<h2>Time line of a step</h2>\n<p>A row for each rank, a bar "
          "for each call; point at a bar for its name and time.</p>\n<div class=\"scroll\" "
          "tabindex=\"0\" role=\"region\" aria-label=\"Time line\">\n",
          page);
    while (getline(&line, &room, file) > 0)
        if (is_drawing(line))
            fputs(line, page);
    fputs("</div>\n</section>\n", page);
    free(line);
    fclose(file);
}
