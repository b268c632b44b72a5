/* Writes a script for gnuplot in a temporary folder, runs it once, and copies the SVG files into
 * the page. */
#include "results/output/plots.h"

#include "base/new_file.h"
#include "programs/xml.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two for each candidate: B's and A's; without A, one for each. report.css has the same as --c0 to
 * --c11, and others for dark pages. No red and no green: those are verdicts. */
static const char *const colours[] = {"#1f77b4", "#e69f00", "#9467bd", "#8c6d31",
                                      "#17a2b8", "#c285b8", "#0b3c6f", "#b8a000",
                                      "#5b50c8", "#b08968", "#8a4f7d", "#7f7f7f"};
enum { COLOURS = sizeof colours / sizeof *colours, PATH_BYTES = 256, KEY_CHARACTERS = 44 };

static void file_path(const results_plots *plots, char *path, const char *format, int number)
{
    int length = snprintf(path, PATH_BYTES, "%s/", plots->folder);
    snprintf(path + length, (size_t)(PATH_BYTES - length), format, number);
}

static int has_gnuplot(void)
{
    return system("command -v gnuplot >/dev/null 2>&1") == 0;
}

int results_plots_open(results_plots *plots)
{
    char path[PATH_BYTES];
    *plots = (results_plots){.count = 0};
    if (!has_gnuplot() ||
        weiri_temporary_folder(plots->folder, sizeof plots->folder, "weir-report") != 0) {
        plots->folder[0] = '\0';
        return -1;
    }
    file_path(plots, path, "script", 0);
    plots->script = fopen(path, "we");
    return plots->script ? 0 : -1;
}

void results_plots_free(results_plots *plots)
{
    char path[PATH_BYTES];
    if (plots->script)
        fclose(plots->script);
    if (plots->folder[0]) {
        for (int i = 0; i < plots->count; i++) {
            file_path(plots, path, "%d.svg", i);
            unlink(path);
            file_path(plots, path, "%d.points", i);
            unlink(path);
        }
        file_path(plots, path, "script", 0);
        unlink(path);
        rmdir(plots->folder);
    }
    *plots = (results_plots){.count = 0};
}

/* Inside single quotes, gnuplot interprets only the doubled quote. */
static void put_quoted(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text; text++)
        if (*text == '\'')
            fputs("''", file);
        else
            fputc(isprint((unsigned char)*text) ? *text : '?', file);
    fputc('\'', file);
}

int results_plots_begin(results_plots *plots, const results_axes *axes)
{
    FILE *script = plots->script;
    char path[PATH_BYTES];
    file_path(plots, path, "%d.points", plots->count);
    plots->points = fopen(path, "we");
    plots->axes = *axes;
    fputs("reset\nset border 3\nset tics nomirror\nset grid lc rgb '#888888'\n"
          "set key tmargin left vertical maxcols 1 reverse Left samplen 2\nset xlabel ",
          script);
    put_quoted(script, axes->x);
    fputs("\nset ylabel ", script);
    put_quoted(script, axes->y);
    fprintf(script, "\n%s%s%s", axes->log_x ? "set logscale x 2\nset format x '%.0b%B'\n" : "",
            axes->log_y ? "set logscale y\n" : "set yrange [0:*]\n",
            axes->nights ? "set format x '%.0f'\n" : "");
    plots->lines = 0;
    plots->command = open_memstream(&plots->text, &plots->bytes);
    return plots->count++;
}

/* The colour of a side's candidate: the same in each plot. What exceeds the colours shares a grey.
 */
static const char *plots_colour(results_plots *plots, results_side_of side, const char *candidate)
{
    char(*names)[RESULTS_PLOTS_NAME_BYTES] = plots->candidates[side == RESULTS_OF_A];
    int *count = &plots->ncandidates[side == RESULTS_OF_A], i = 0;
    while (i < *count && strcmp(names[i], candidate) != 0)
        i++;
    if (i == *count && i < RESULTS_PLOTS_CANDIDATES)
        snprintf(names[(*count)++], sizeof names[0], "%s", candidate);
    int slot = side == RESULTS_ALONE ? i : 2 * i + (side == RESULTS_OF_A);
    return colours[slot < COLOURS ? slot : COLOURS - 1];
}

/* The name in the key, in whose width the middle of a long one is left out. */
static void put_key(FILE *file, const char *candidate, const char *remark)
{
    char name[RESULTS_PLOTS_NAME_BYTES + 16];
    size_t length = strlen(candidate);
    if (length > KEY_CHARACTERS)
        snprintf(name, sizeof name, "%.*s...%s%s", KEY_CHARACTERS / 2, candidate,
                 candidate + length - KEY_CHARACTERS / 2, remark);
    else
        snprintf(name, sizeof name, "%s%s", candidate, remark);
    put_quoted(file, name);
}

/* Notes what a point shows when the reader points at it: a line of escaped text. */
static void note_point(const results_plots *plots, const char *name, const results_point *p)
{
    if (!plots->points)
        return;
    weiri_xml_put(plots->points, name);
    fprintf(plots->points, "; %s %.10g; %s %.5g", plots->axes.x, p->x, plots->axes.y, p->y);
    if (isfinite(p->low) && isfinite(p->high))
        fprintf(plots->points, "; 95%% interval %.5g to %.5g", p->low, p->high);
    if (p->note && *p->note) {
        fputs("; ", plots->points);
        weiri_xml_put(plots->points, p->note);
    }
    fputc('\n', plots->points);
}

void results_plots_line(results_plots *plots, const char *candidate, results_side_of side,
                        const results_point *points, size_t count)
{
    static const char *const remarks[] = {"", " (B)", " (A)"};
    const char *colour = plots_colour(plots, side, candidate);
    int has_band = 0, number = plots->lines++;
    char name[RESULTS_PLOTS_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", candidate, remarks[side]);
    if (!plots->command)
        return;
    fprintf(plots->script, "$d%d << EOD\n", number);
    for (size_t i = 0; i < count; i++) {
        const results_point *p = &points[i];
        if (!isfinite(p->y) || (i > 0 && p->x <= points[i - 1].x)) /* sizes of other hosts begin */
            fputc('\n', plots->script);
        if (!isfinite(p->y))
            continue;
        int band = isfinite(p->low) && isfinite(p->high);
        has_band |= band;
        fprintf(plots->script, "%.10g %.8g %.8g %.8g\n", p->x, p->y, band ? p->low : p->y,
                band ? p->high : p->y);
        note_point(plots, name, p);
    }
    fputs("EOD\n", plots->script);
    if (has_band)
        fprintf(plots->command,
                "%s$d%d using 1:3:4 with filledcurves fc rgb '%s' fs transparent "
                "solid 0.18 noborder notitle",
                number ? ", " : "plot ", number, colour);
    fprintf(plots->command,
            "%s$d%d using 1:2 with points lc rgb '%s' pt 7 ps 0.5 notitle, "
            "$d%d using 1:2 with lines lw 1.5 lc rgb '%s'%s title ",
            has_band || number ? ", " : "plot ", number, colour, number, colour,
            side == RESULTS_OF_A ? " dt 2" : "");
    put_key(plots->command, candidate, remarks[side]);
}

void results_plots_mark(results_plots *plots, double x)
{
    fprintf(plots->script,
            "set arrow from first %.10g, graph 0 to first %.10g, graph 1 nohead "
            "dt 3 lw 1.5 lc rgb 'black'\n",
            x, x);
}

/* The key stands above the plot, whose height grows by the key's. */
void results_plots_end(results_plots *plots)
{
    char path[PATH_BYTES];
    if (plots->points)
        fclose(plots->points);
    plots->points = NULL;
    if (!plots->command)
        return;
    fclose(plots->command);
    file_path(plots, path, "%d.svg", plots->count - 1);
    fprintf(plots->script,
            "set term svg size 480,%d dynamic noenhanced font 'sans-serif,13'\nset output ",
            290 + 17 * plots->lines);
    put_quoted(plots->script, path);
    fprintf(plots->script, "\n%s\nset output\n", plots->text);
    free(plots->text);
    plots->command = NULL;
    plots->text = NULL;
}

int results_plots_draw(results_plots *plots)
{
    char path[PATH_BYTES];
    file_path(plots, path, "script", 0);
    int broken = fclose(plots->script) != 0;
    plots->script = NULL;
    if (broken)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        execlp("gnuplot", "gnuplot", path, (char *)NULL);
        _exit(3);
    }
    int status = 0;
    pid_t got = child;
    while (child > 0 && (got = waitpid(child, &status, 0)) < 0 && errno == EINTR)
        continue;
    return got > 0 && status == 0 ? 0 : -1;
}

/* Writes the page's colour for one that gnuplot wrote, "rgb( 31, 119, 180)". Returns its end. */
static const char *put_colour(const char *text, FILE *page)
{
    unsigned red, green, blue;
    const char *end = strchr(text, ')');
    if (!end || sscanf(text, "rgb( %u , %u , %u )", &red, &green, &blue) != 3) {
        fputc(*text, page);
        return text + 1;
    }
    char colour[32];
    snprintf(colour, sizeof colour, "#%02x%02x%02x", red & 255, green & 255, blue & 255);
    int i = 0;
    while (i < COLOURS && strcmp(colour, colours[i]) != 0)
        i++;
    if (i < COLOURS)
        fprintf(page, "var(--c%d,%s)", i, colour);
    else
        fputs(strcmp(colour, "#000000") == 0 ? "currentColor" : colour, page);
    return end + 1;
}

/* Writes a point in place of gnuplot's <use>, with the next line of notes. Returns its end. */
static const char *put_point(const char *use, FILE *notes, FILE *page)
{
    const char *at = strstr(use, "translate("), *end = strstr(use, "/>"),
               *colour = strstr(use, "color='");
    double x, y;
    char *note = NULL;
    size_t room = 0;
    if (!at || !end || !colour || sscanf(at, "translate(%lf,%lf)", &x, &y) != 2)
        return use + 1;
    ssize_t length = notes ? getline(&note, &room, notes) : 0;
    fprintf(page,
            "<circle class='point' role='img' stroke='none' cx='%.2f' cy='%.2f' r='2.6' fill='", x,
            y);
    put_colour(colour + strlen("color='"), page);
    fprintf(page, "'><title>%.*s</title></circle>", (int)(length > 0 ? length - 1 : 0),
            length > 0 ? note : "");
    free(note);
    return end + 2;
}

/* Copies a line of gnuplot's, with the page's colours and with points that have texts. */
static void put_line(const char *line, FILE *notes, FILE *page)
{
    static const char black[] = "'black'", quoted[] = "\"black\"";
    while (*line)
        if (strncmp(line, "<use ", 5) == 0)
            line = put_point(line, notes, page);
        else if (strncmp(line, "rgb(", 4) == 0)
            line = put_colour(line, page);
        else if (strncmp(line, black, 7) == 0 || strncmp(line, quoted, 7) == 0) {
            fprintf(page, "%ccurrentColor%c", *line, *line);
            line += 7;
        } else
            fputc(*line++, page);
}

/* Copies the drawing without what a page cannot have twice (ids and the marks that they name) and
 * without empty groups. */
static void put_drawing(FILE *file, FILE *notes, FILE *page)
{
    char *line = NULL, group[200] = "";
    size_t room = 0;
    int skipped = 0;
    while (getline(&line, &room, file) > 0) {
        const char *from = line + strspn(line, " \t");
        skipped |= strncmp(from, "<defs>", 6) == 0;
        if (skipped || strncmp(from, "<title>", 7) == 0 || strncmp(from, "<desc>", 6) == 0) {
            skipped &= strncmp(from, "</defs>", 7) != 0;
            continue;
        }
        int empty = group[0] && strncmp(from, "</g>", 4) == 0;
        if (!empty)
            put_line(group, notes, page);
        group[0] = '\0';
        if (strncmp(from, "<g id=", 6) == 0)
            fputs("<g>\n", page);
        else if (strncmp(from, "<g fill=", 8) == 0 && strlen(from) < sizeof group)
            strcpy(group, from);
        else if (!empty)
            put_line(from, notes, page);
    }
    free(line);
}

int results_plots_put(results_plots *plots, int number, const char *heading, const char *caption,
                      FILE *page)
{
    char path[PATH_BYTES], line[PATH_BYTES];
    int width, height, size = 0;
    file_path(plots, path, "%d.svg", number);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file) && strcmp(line, ">\n") != 0)
        size |= sscanf(line, " viewBox=\"0 0 %d %d\"", &width, &height) == 2;
    if (size) {
        file_path(plots, path, "%d.points", number);
        FILE *notes = fopen(path, "re");
        fprintf(page,
                "<svg viewBox=\"0 0 %d %d\" role=\"group\" tabindex=\"0\" aria-labelledby=\"%s "
                "p%d\" aria-describedby=\"d%d\">\n<title id=\"p%d\">%s</title>\n<desc id=\"d%d\">"
                "The arrow keys step through the points; the table has their values.</desc>\n",
                width, height, heading, number, number, number, caption, number);
        put_drawing(file, notes, page);
        if (notes)
            fclose(notes);
    }
    fclose(file);
    return size ? 0 : -1;
}
