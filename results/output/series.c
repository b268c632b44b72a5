/* The lines of results/plot: see series.h. */
#include "results/output/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_NAME = RESULTS_COLUMNS, TEXT_BYTES = 1024, COLOURS = 7, DASHES = 4 };

/* Columns that divide a candidate's rows if they differ; if two rows of one size differ. */
static const int always[] = {RESULTS_NRANKS,    RESULTS_NNODES, RESULTS_HOST,    RESULTS_BACKEND,
                             RESULTS_TRANSPORT, RESULTS_DTYPE,  RESULTS_REDOP,   RESULTS_ROOT,
                             RESULTS_PLACEMENT, RESULTS_DIST,   RESULTS_BUFFERS, RESULTS_MODE,
                             RESULTS_GRAPH};
static const int if_needed[] = {RESULTS_ALGO, FILE_NAME, RESULTS_RUN_ID};
enum { ALWAYS = sizeof always / sizeof *always, NEEDED = sizeof if_needed / sizeof *if_needed };

/* A row of the plot. Rows with equal candidates and variants are one line. */
typedef struct point {
    const results_row *row;
    char variant[TEXT_BYTES]; /* values of the dividing columns */
    char title[TEXT_BYTES];
    int line; /* from 0 */
} point;

typedef struct range {
    double low, high;
} range;

/* One plot: the rows of one collective. */
typedef struct plot {
    point *points;
    size_t count;
    char name[64]; /* the collective, fit to name a file */
    const char *folder;
    FILE *settings;
    range bytes, us, gbs;
    int failures;
} plot;

static const char *cell(const point *one, int column)
{
    const char *slash = strrchr(one->row->path, '/');
    if (column != FILE_NAME)
        return one->row->text[column];
    return slash ? slash + 1 : one->row->path;
}

static void append(char *text, const char *separator, const char *more)
{
    if (!more[0])
        return;
    size_t used = strlen(text);
    int length = snprintf(text + used, TEXT_BYTES - used, "%s%s", used ? separator : "", more);
    if (length < 0)
        text[used] = '\0';
}

/* The words of a title for a value of a column; "" if it says nothing. */
static void describe(int column, const char *value, char *words, size_t bytes)
{
    const char *plural = strcmp(value, "1") == 0 ? "" : "s";
    int is_nothing = !value[0] || strcmp(value, "-") == 0 ||
                     (column == RESULTS_ROOT && strcmp(value, "-1") == 0) ||
                     (column == RESULTS_REDOP && strcmp(value, "none") == 0);
    if (is_nothing)
        words[0] = '\0';
    else if (column == RESULTS_NRANKS)
        snprintf(words, bytes, "%s rank%s", value, plural);
    else if (column == RESULTS_NNODES)
        snprintf(words, bytes, "%s node%s", value, plural);
    else if (column == RESULTS_PLACEMENT)
        snprintf(words, bytes, "%s", strcmp(value, "in") == 0 ? "in place" : "out of place");
    else
        snprintf(words, bytes, "%s%s%s",
                 column == RESULTS_ROOT     ? "root "
                 : column == RESULTS_RUN_ID ? "run "
                                            : "",
                 value, column == RESULTS_BACKEND ? " memory" : "");
}

/* ------------------------------------------------------------ dividing into lines */

static int is_same_candidate(const point *a, const point *b)
{
    return strcmp(cell(a, RESULTS_CONTENDER), cell(b, RESULTS_CONTENDER)) == 0;
}

/* Whether a candidate has two values in this column; with at_one_size, two rows of one line for
 * one size. */
static int differs(const plot *p, int column, int at_one_size)
{
    for (size_t i = 0; i < p->count; i++)
        for (size_t j = 0; j < i; j++) {
            const point *a = &p->points[i], *b = &p->points[j];
            int is_pair = is_same_candidate(a, b) &&
                          (!at_one_size ||
                           (a->row->bytes == b->row->bytes && strcmp(a->variant, b->variant) == 0));
            if (is_pair && strcmp(cell(a, column), cell(b, column)) != 0)
                return 1;
        }
    return 0;
}

static void divide(plot *p, int column)
{
    for (size_t i = 0; i < p->count; i++) {
        char words[TEXT_BYTES];
        point *one = &p->points[i];
        describe(column, cell(one, column), words, sizeof words);
        append(one->title, ", ", words);
        append(one->variant, "\n", cell(one, column)[0] ? cell(one, column) : "-");
    }
}

static void divide_all(plot *p)
{
    for (size_t i = 0; i < p->count; i++)
        append(p->points[i].title, "", cell(&p->points[i], RESULTS_CONTENDER));
    for (int i = 0; i < ALWAYS; i++)
        if (differs(p, always[i], 0))
            divide(p, always[i]);
    for (int i = 0; i < NEEDED; i++)
        if (differs(p, if_needed[i], 1))
            divide(p, if_needed[i]);
}

/* Numbers values in the order of their first occurrence: sets number[i], returns how many. */
typedef int is_equal(const point *a, const point *b);

static int number_values(const plot *p, is_equal *equal, int *number)
{
    int count = 0;
    for (size_t i = 0; i < p->count; i++) {
        size_t j = 0;
        while (j < i && !equal(&p->points[j], &p->points[i]))
            j++;
        number[i] = j < i ? number[j] : count++;
    }
    return count;
}

static int is_same_variant(const point *a, const point *b)
{
    return strcmp(a->variant, b->variant) == 0;
}

static int is_same_line(const point *a, const point *b)
{
    return is_same_candidate(a, b) && is_same_variant(a, b);
}

/* --------------------------------------------------------------------- writing */

static void extend(range *to, double value)
{
    to->low = isnan(to->low) || value < to->low ? value : to->low;
    to->high = isnan(to->high) || value > to->high ? value : to->high;
}

/* In double quotes gnuplot interprets these characters, which are left out. */
static void put_setting(FILE *file, const char *name, const char *text)
{
    fprintf(file, "%s = \"", name);
    for (; *text; text++)
        if (!strchr("\"\\`", *text))
            fputc(*text, file);
    fputs("\"\n", file);
}

static void put_point(plot *p, const results_row *row, FILE *file)
{
    extend(&p->bytes, (double)row->bytes);
    if (row->failed) {
        p->failures++;
        fprintf(file, "%llu nan nan nan nan nan nan 1\n", row->bytes);
        return;
    }
    /* Bandwidth is bytes divided by time, so its interval is the reciprocal of the time's. */
    double gbs = row->busbw_gbs > 0 ? row->busbw_gbs : NAN;
    extend(&p->us, row->median_us);
    if (!isnan(gbs))
        extend(&p->gbs, gbs);
    fprintf(file, "%llu %.10g %.10g %.10g %.10g %.10g %.10g 0\n", row->bytes, row->median_us,
            row->low_us, row->high_us, gbs, gbs * row->median_us / row->high_us,
            gbs * row->median_us / row->low_us);
}

static int by_size(const void *first, const void *second)
{
    const point *a = *(const point *const *)first, *b = *(const point *const *)second;
    if (a->row->bytes != b->row->bytes)
        return a->row->bytes < b->row->bytes ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Writes the points of one line in the order of their sizes. order: room for p->count. */
static int write_points(plot *p, int line, const char *path, const point **order)
{
    size_t count = 0;
    FILE *file = fopen(path, "we");
    if (!file)
        return -1;
    for (size_t i = 0; i < p->count; i++)
        if (p->points[i].line == line)
            order[count++] = &p->points[i];
    qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && order[i]->row->bytes == order[i - 1]->row->bytes)
            fprintf(stderr, "plot: %s of %llu bytes by %s occurs twice; both are drawn\n", p->name,
                    order[i]->row->bytes, order[i]->title);
        put_point(p, order[i]->row, file);
    }
    return fclose(file);
}

/* A line's title, colour, dash and file. One colour per candidate and one dash per variant; with
 * one candidate, or more variants than dashes, each line has its own colour. */
static int write_line(plot *p, int line, int candidates, const int *candidate, int variants,
                      const int *variant, const point **order)
{
    char name[64], path[512];
    size_t i = 0;
    int own_colours = candidates == 1 || variants > DASHES;
    while (p->points[i].line != line)
        i++;
    snprintf(path, sizeof path, "%s/%s.%d.dat", p->folder, p->name, line + 1);
    snprintf(name, sizeof name, "line_title[%d]", line + 1);
    put_setting(p->settings, name, p->points[i].title);
    snprintf(name, sizeof name, "line_file[%d]", line + 1);
    put_setting(p->settings, name, path);
    fprintf(p->settings, "line_colour[%d] = %d\nline_dash[%d] = %d\n", line + 1,
            1 + (own_colours ? line : candidate[i]), line + 1,
            1 + (own_colours ? line / COLOURS : variant[i]));
    return write_points(p, line, path, order);
}

/* Numbers the lines candidate by candidate, and writes them. */
static int write_lines(plot *p)
{
    int *candidate = calloc(3 * p->count, sizeof *candidate), status = 0, lines = 0;
    int *variant = candidate + p->count, *line = variant + p->count;
    const point **order = malloc(p->count * sizeof *order);
    if (!candidate || !order) {
        free(candidate);
        free(order);
        return -1;
    }
    int candidates = number_values(p, is_same_candidate, candidate);
    int variants = number_values(p, is_same_variant, variant);
    number_values(p, is_same_line, line);
    for (size_t i = 0; i < p->count; i++)
        p->points[i].line = -1;
    for (int one = 0; one < candidates; one++)
        for (size_t i = 0; i < p->count; i++) {
            size_t j = 0;
            if (candidate[i] != one)
                continue;
            while (line[j] != line[i])
                j++;
            p->points[i].line = j < i ? p->points[j].line : lines++;
        }
    fprintf(p->settings,
            "lines = %d\narray line_title[%d]; array line_file[%d]\n"
            "array line_colour[%d]; array line_dash[%d]\n",
            lines, lines, lines, lines, lines);
    for (int i = 0; i < lines && status == 0; i++)
        status = write_line(p, i, candidates, candidate, variants, variant, order);
    free(candidate);
    free(order);
    return status;
}

/* Adds the words for a column that has one value in all rows. */
static void add_common(const plot *p, int column, const char *separator, char *subtitle)
{
    char words[TEXT_BYTES];
    for (size_t i = 1; i < p->count; i++)
        if (strcmp(cell(&p->points[i], column), cell(&p->points[0], column)) != 0)
            return;
    describe(column, cell(&p->points[0], column), words, sizeof words);
    append(subtitle, separator, words);
}

static void put_subtitle(plot *p)
{
    char subtitle[TEXT_BYTES] = "";
    add_common(p, RESULTS_DTYPE, ", ", subtitle);
    add_common(p, RESULTS_REDOP, " ", subtitle);
    add_common(p, RESULTS_NRANKS, ", ", subtitle);
    add_common(p, RESULTS_NNODES, strstr(subtitle, " rank") ? " on " : ", ", subtitle);
    add_common(p, RESULTS_BACKEND, ", ", subtitle);
    add_common(p, RESULTS_PLACEMENT, ", ", subtitle);
    add_common(p, RESULTS_HOST, ", ", subtitle);
    put_setting(p->settings, "subtitle", subtitle);
}

static int write_plot(plot *p)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.gp", p->folder, p->name);
    p->settings = fopen(path, "we");
    if (!p->settings)
        return -1;
    divide_all(p);
    put_setting(p->settings, "collective", p->name);
    put_subtitle(p);
    int status = write_lines(p);
    const range *ranges[] = {&p->bytes, &p->us, &p->gbs};
    static const char *const names[] = {"bytes", "us", "gbs"};
    for (int i = 0; i < 3; i++)
        if (!isnan(ranges[i]->low))
            fprintf(p->settings, "%s_low = %.10g\n%s_high = %.10g\n", names[i], ranges[i]->low,
                    names[i], ranges[i]->high);
    fprintf(p->settings, "failures = %d\nhas_bandwidth = %d\n", p->failures, !isnan(p->gbs.low));
    return fclose(p->settings) != 0 ? -1 : status;
}

/* Reports a row that has no numbers to draw. Returns whether the plot has a place for it. */
static int is_drawn(const results_row *row)
{
    const char *algo = row->text[RESULTS_ALGO], *what = NULL;
    if (row->failed)
        what = "failed verification";
    else if (row->bytes == 0)
        what = "cannot be shown on a logarithmic axis; row left out";
    if (what)
        fprintf(stderr, "plot: %s line %d: %s of %llu bytes by %s%s%s%s %s", row->path, row->line,
                row->text[RESULTS_COLLECTIVE], row->bytes, row->text[RESULTS_CONTENDER],
                algo[0] ? " (" : "", algo, algo[0] ? ")" : "", what);
    if (row->failed)
        fprintf(stderr, " (%s wrong elements); it has no numbers to draw",
                row->text[RESULTS_WRONG]);
    if (what)
        fputc('\n', stderr);
    return row->bytes > 0;
}

/* The rows of one collective become a plot, if any has a time. Returns 1, 0 or -1. */
static int draw_collective(results_set *set, const char *collective, const int *drawn, plot *p)
{
    int has_time = 0;
    p->count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const results_row *row = &set->rows[i];
        if (!drawn[i] || strcmp(row->text[RESULTS_COLLECTIVE], collective) != 0)
            continue;
        p->points[p->count++] = (point){.row = row};
        has_time |= !row->failed;
    }
    snprintf(p->name, sizeof p->name, "%s", collective);
    for (char *at = p->name; *at; at++) /* it names files */
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *at))
            *at = '_';
    p->bytes = p->us = p->gbs = (range){NAN, NAN};
    p->failures = 0;
    return has_time ? write_plot(p) != 0 ? -1 : 1 : 0;
}

int results_series_write(results_set *set, const char *folder, FILE *list)
{
    plot p = {.points = malloc((set->count + 1) * sizeof *p.points), .folder = folder};
    int *drawn = malloc((set->count + 1) * sizeof *drawn), plots = 0;
    for (size_t i = 0; drawn && i < set->count; i++)
        drawn[i] = is_drawn(&set->rows[i]);
    for (size_t i = 0; p.points && drawn && plots >= 0 && i < set->count; i++) {
        const char *collective = set->rows[i].text[RESULTS_COLLECTIVE];
        size_t j = 0;
        while (strcmp(set->rows[j].text[RESULTS_COLLECTIVE], collective) != 0)
            j++;
        int made = j < i ? 0 : draw_collective(set, collective, drawn, &p);
        plots = made < 0 ? -1 : plots + made;
        if (made > 0)
            fprintf(list, "%s\n", p.name);
    }
    if (!p.points || !drawn)
        plots = -1;
    free(p.points);
    free(drawn);
    return plots;
}
