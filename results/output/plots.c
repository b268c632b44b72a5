/* Writes a script for gnuplot in a temporary folder, runs it once, and copies the SVG files into
 * the page. */
#include "results/output/plots.h"

#include "base/new_file.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One for each candidate, in all plots of the page. No red and no green: those are verdicts
 * (report.css). */
static const char *const colours[] = {"#1f77b4", "#e69f00", "#9467bd", "#17a2b8",
                                      "#8c6d31", "#c285b8", "#0b3c6f", "#7f7f7f"};
enum { COLOURS = sizeof colours / sizeof *colours, PATH_BYTES = 256 };

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
    file_path(plots, path, "%d.svg", plots->count);
    fputs("reset\nset term svg size 600,360 dynamic noenhanced font 'sans-serif,14'\nset output ",
          script);
    put_quoted(script, path);
    fputs("\nset border 3\nset tics nomirror\nset grid lc rgb '#888888'\n"
          "set key top left reverse Left samplen 2\nset xlabel ",
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

/* The colour of a candidate: the same in each plot. More candidates than colours share the last. */
static const char *plots_colour(results_plots *plots, const char *candidate)
{
    int i = 0;
    while (i < plots->ncandidates && strcmp(plots->candidates[i], candidate) != 0)
        i++;
    if (i == plots->ncandidates && i < RESULTS_PLOTS_CANDIDATES)
        snprintf(plots->candidates[plots->ncandidates++], sizeof plots->candidates[0], "%s",
                 candidate);
    return colours[i < COLOURS ? i : COLOURS - 1];
}

void results_plots_line(results_plots *plots, const char *candidate, const char *remark, int dashed,
                        const results_point *points, size_t count)
{
    const char *colour = plots_colour(plots, candidate);
    int has_band = 0, number = plots->lines++;
    char name[RESULTS_PLOTS_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", candidate, remark);
    if (!plots->command)
        return;
    fprintf(plots->script, "$d%d << EOD\n", number);
    for (size_t i = 0; i < count; i++) {
        const results_point *p = &points[i];
        if (isnan(p->y)) {
            fputc('\n', plots->script);
            continue;
        }
        int band = isfinite(p->low) && isfinite(p->high);
        has_band |= band;
        fprintf(plots->script, "%.10g %.8g %.8g %.8g\n", p->x, p->y, band ? p->low : p->y,
                band ? p->high : p->y);
    }
    fputs("EOD\n", plots->script);
    if (has_band)
        fprintf(plots->command,
                "%s$d%d using 1:3:4 with filledcurves fc rgb '%s' fs transparent "
                "solid 0.18 noborder notitle",
                number ? ", " : "plot ", number, colour);
    fprintf(plots->command, "%s$d%d using 1:2 with linespoints lc rgb '%s' pt 7 ps 0.4%s title ",
            has_band || number ? ", " : "plot ", number, colour, dashed ? " dt 2" : "");
    put_quoted(plots->command, name);
}

void results_plots_mark(results_plots *plots, double x)
{
    fprintf(plots->script,
            "set arrow from first %.10g, graph 0 to first %.10g, graph 1 nohead "
            "dt 3 lw 1.5 lc rgb 'black'\n",
            x, x);
}

void results_plots_end(results_plots *plots)
{
    if (!plots->command)
        return;
    fclose(plots->command);
    fprintf(plots->script, "%s\nset output\n", plots->text);
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

/* Replaces black by the page's text colour, for light and dark pages. */
static void put_line(const char *line, FILE *page)
{
    const char *black;
    while ((black = strstr(line, "black")) != NULL) {
        char before = black > line ? black[-1] : ' ', behind = black[5];
        int whole = (before == '"' || before == '\'') && before == behind;
        fwrite(line, 1, (size_t)(black - line), page);
        fputs(whole ? "currentColor" : "black", page);
        line = black + 5;
    }
    fputs(line, page);
}

int results_plots_put(results_plots *plots, int number, FILE *page)
{
    char path[PATH_BYTES], *line = NULL;
    size_t room = 0;
    int begun = 0;
    file_path(plots, path, "%d.svg", number);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    while (getline(&line, &room, file) > 0) {
        begun |= strncmp(line, "<svg", 4) == 0;
        if (begun && strncmp(line, "<title>", 7) != 0 && strncmp(line, "<desc>", 6) != 0)
            put_line(line, page);
    }
    free(line);
    fclose(file);
    return begun ? 0 : -1;
}
