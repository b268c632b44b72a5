/* The windows of a run by --for, a-windows.csv next to a.csv, in the report: see page.h. */
#include "results/output/page.h"
#include "results/read/load.h"

#include "base/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What bench/hours writes; the counters that follow up to the causes are left out. */
static const char hours_columns[] =
    "window,from_s,to_s,operations,median_us,p99_us,p999_us,max_us,outliers,";

int results_next_to(const char *csv, const char *ending, char *path, size_t bytes)
{
    const size_t length = strlen(csv);
    return length > 4 && strcmp(csv + length - 4, ".csv") == 0 &&
           snprintf(path, bytes, "%.*s%s", (int)length - 4, csv, ending) < (int)bytes &&
           access(path, R_OK) == 0;
}

/* The last field of a line of that many columns, in place; NULL if it has fewer. */
static char *hours_last_field(char *line, int columns)
{
    char *at = line;
    for (int i = 1; i < columns && at; i++)
        at = (at = strchr(at, ',')) ? at + 1 : NULL;
    if (!at || *at != '"')
        return at;
    char *to = ++at, *from = at;
    for (; *from && (*from != '"' || from[1] == '"'); from++)
        *to++ = *from == '"' ? *from++ : *from;
    *to = '\0';
    return at;
}

static int hours_read_line(char *line, int columns, results_window *window)
{
    int end = 0;
    line[strcspn(line, "\r\n")] = '\0';
    if (sscanf(line, "%*d,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%n", &window->from_s, &window->to_s,
               &window->operations, &window->median_us, &window->p99_us, &window->p999_us,
               &window->max_us, &window->outliers, &end) != 8 ||
        !end)
        return 0;
    const char *causes = hours_last_field(line, columns);
    window->causes = causes ? strdup(causes) : NULL;
    return window->causes != NULL;
}

/* Reads the windows of a file. Lines that cannot be read, such as the last one of a killed run, are
 * left out. */
static void hours_read(const char *path, results_hours *hours)
{
    FILE *file = results_open(path, RESULTS_FILE_BYTES);
    char *line = NULL;
    size_t room = 0;
    int columns = 1;
    if (!file)
        return;
    const int is_known = getline(&line, &room, file) > 0 &&
                         strncmp(line, hours_columns, sizeof hours_columns - 1) == 0;
    for (const char *at = line; is_known && (at = strchr(at, ',')); at++)
        columns++;
    while (is_known && getline(&line, &room, file) > 0) {
        results_window window, *more;
        if (!hours_read_line(line, columns, &window))
            continue;
        more = realloc(hours->list, (hours->count + 1) * sizeof *more);
        if (!more) {
            free(window.causes);
            break;
        }
        hours->list = more;
        hours->list[hours->count++] = window;
    }
    free(line);
    fclose(file);
}

/* --------------------------------------------------------------------- the plot */

typedef struct hours_unit {
    const char *name;
    double seconds;
} hours_unit;

static hours_unit hours_unit_of(const results_hours *hours)
{
    const double end_s = hours->list[hours->count - 1].to_s;
    return end_s < 600     ? (hours_unit){"seconds", 1}
           : end_s < 14400 ? (hours_unit){"minutes", 60}
                           : (hours_unit){"hours", 3600};
}

static int hours_draw(results_plots *plots, const results_hours *hours, results_side_of side)
{
    static const struct {
        const char *name;
        size_t at;
    } lines[] = {{"median", offsetof(results_window, median_us)},
                 {"p99", offsetof(results_window, p99_us)},
                 {"p99.9", offsetof(results_window, p999_us)},
                 {"maximum", offsetof(results_window, max_us)}};
    enum { LINES = sizeof lines / sizeof *lines };
    const hours_unit unit = hours_unit_of(hours);
    const results_axes axes = {.x = unit.name, .y = "time, us", .log_y = 1};
    results_point *points = malloc(hours->count * sizeof *points);
    if (!points)
        return -1;
    const int number = results_plots_begin(plots, &axes);
    for (int line = 0; line < LINES; line++) {
        for (size_t i = 0; i < hours->count; i++) {
            const results_window *window = &hours->list[i];
            const double us = *(const double *)((const char *)window + lines[line].at);
            points[i] = (results_point){(window->from_s + window->to_s) / 2 / unit.seconds,
                                        us > 0 ? us : NAN, NAN, NAN,
                                        line == LINES - 1 ? window->causes : NULL};
        }
        results_plots_line(plots, lines[line].name, side, points, hours->count);
    }
    results_plots_end(plots);
    free(points);
    return number;
}

size_t results_hours_make(const results_page *page, results_hours *made, size_t most)
{
    const results_set *set = page->report->b;
    size_t count = 0;
    for (size_t i = 0; i < set->count && count < most; i++) {
        results_hours hours = {.row = &set->rows[i], .figure = -1};
        char path[4096];
        int is_known = 0;
        for (size_t k = 0; k < count; k++)
            is_known |= strcmp(made[k].row->path, hours.row->path) == 0;
        if (is_known || !results_next_to(hours.row->path, "-windows.csv", path, sizeof path))
            continue;
        hours_read(path, &hours);
        if (hours.count && page->plots)
            hours.figure = hours_draw(page->plots, &hours,
                                      page->report->name_a ? RESULTS_OF_B : RESULTS_ALONE);
        if (hours.count)
            made[count++] = hours;
    }
    return count;
}

void results_hours_free(results_hours *hours)
{
    for (size_t i = 0; i < hours->count; i++)
        free(hours->list[i].causes);
    free(hours->list);
}

/* ------------------------------------------------------------------ the section */

static void hours_put_window(FILE *file, size_t number, const results_window *window)
{
    const long from = (long)window->from_s;
    fprintf(file, "<tr><td class=\"n\">%zu</td><td class=\"n\">%ld:%02ld:%02ld</td>", number,
            from / 3600, from / 60 % 60, from % 60);
    results_put_number(file, window->operations, 0);
    results_put_number(file, window->median_us, 2);
    results_put_number(file, window->p99_us, 2);
    results_put_number(file, window->p999_us, 2);
    results_put_number(file, window->max_us, 2);
    results_put_number(file, window->outliers, 0);
    results_put_cell(file, window->causes);
    fputs("</tr>\n", file);
}

void results_hours_put(const results_page *page, const results_hours *hours, size_t number)
{
    static const char *const headings[] = {"window", "from",     "operations", "median us",
                                           "p99 us", "p99.9 us", "maximum us", "outliers"};
    FILE *file = page->file;
    char heading[32];
    double outliers = 0;
    size_t windows = 0;
    for (size_t i = 0; i < hours->count; i++) {
        outliers += hours->list[i].outliers;
        windows += hours->list[i].outliers > 0;
    }
    snprintf(heading, sizeof heading, "h%zuh", number);
    fprintf(file, "<section id=\"h%zu\">\n<h2 id=\"%s\">Over time: ", number, heading);
    results_put_title(file, hours->row);
    fprintf(file,
            ", %llu bytes</h2>\n<p>%.0f outlier%s in %zu of %zu window%s; an outlier takes more "
            "than 3 times the median.</p>\n<div class=\"figures\">\n",
            hours->row->bytes, outliers, outliers == 1 ? "" : "s", windows, hours->count,
            weiri_s(hours->count));
    results_put_figure(
        page, hours->figure, heading,
        "Time of an operation in each window; a maximum names the causes of outliers");
    fprintf(file,
            "</div>\n<details><summary>%zu window%s, and the causes of outliers</summary>\n"
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Windows\">"
            "<table><thead><tr>",
            hours->count, weiri_s(hours->count));
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
        results_put_heading(file, "n", headings[i]);
    results_put_heading(file, "t", "causes");
    fputs("</tr></thead><tbody>\n", file);
    for (size_t i = 0; i < hours->count; i++)
        hours_put_window(file, i + 1, &hours->list[i]);
    fputs("</tbody></table></div>\n</details>\n</section>\n", file);
}
