/* What is drawn: for each group of rows, bandwidth and time by size with one line per candidate and
 * its interval, A's dashed and in other colours; the ratio B/A with its interval; percent of the
 * ceiling; a series of nights. */
#include "results/output/matrix.h"
#include "results/output/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 12, POINTS = 512, NAME_BYTES = 256 };

/* The label of a line: the candidate, the algorithm if it is part of the key, and what else
 * distinguishes the rows of a group. */
static void line_name(const results_comparison *c, const results_pair *pair,
                      const results_side *side, char name[NAME_BYTES])
{
    char apart[NAME_BYTES];
    const results_row *row = side->rows[0];
    const char *algo = row->text[RESULTS_ALGO];
    size_t key = strlen(pair->key), tail = strlen(algo);
    int by_algo = tail > 0 && key > tail && strcmp(pair->key + key - tail, algo) == 0;
    results_pair_apart(c, pair, ", ", 1, apart, sizeof apart);
    snprintf(name, NAME_BYTES, "%.60s%s%.40s%.120s", row->text[RESULTS_CONTENDER],
             by_algo ? " " : "", by_algo ? algo : "", apart);
}

/* Pairs of ranks have tables instead of lines. */
static int is_in_matrix(const results_pair *pair)
{
    results_pattern pattern;
    return results_pattern_of(pair->example, &pattern);
}

typedef enum measure { BANDWIDTH, TIME } measure;

static results_point point_of(const results_pair *pair, const results_side *side, measure what)
{
    double half = pair->scale / (pair->paired ? sqrt(2) : 1) * 2 / sqrt(side->starts);
    double y = what == TIME ? side->median_us : side->busbw_gbs;
    return (results_point){(double)pair->example->bytes, y > 0 ? y : NAN, y * exp(-half),
                           y * exp(half), NULL};
}

/* Draws one line: the pairs of a group whose side has this label. */
static void draw_line(results_plots *plots, const results_comparison *c, const results_group *group,
                      const char *name, results_side_of whose, measure what)
{
    results_point points[POINTS];
    char other[NAME_BYTES];
    size_t count = 0;
    for (size_t i = 0; i < group->count && count < POINTS; i++) {
        const results_pair *pair = &group->pairs[i];
        const results_side *side = whose == RESULTS_OF_A ? &pair->a : &pair->b;
        if (side->starts == 0 || pair->example->bytes == 0 || is_in_matrix(pair))
            continue;
        line_name(c, pair, side, other);
        if (strcmp(other, name) == 0)
            points[count++] = point_of(pair, side, what);
    }
    if (count > 0)
        results_plots_line(plots, name, whose, points, count);
}

/* Collects the labels of a side's lines in their order. Returns their number. */
static int name_lines(const results_comparison *c, const results_group *group, int is_b,
                      char names[LINES][NAME_BYTES])
{
    int count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const results_side *side = is_b ? &group->pairs[i].b : &group->pairs[i].a;
        char name[NAME_BYTES];
        int seen = 0;
        if (side->starts == 0 || is_in_matrix(&group->pairs[i]))
            continue;
        line_name(c, &group->pairs[i], side, name);
        for (int j = 0; j < count; j++)
            seen |= strcmp(names[j], name) == 0;
        if (!seen && count < LINES)
            memcpy(names[count++], name, sizeof name);
    }
    return count;
}

static results_figure draw_measure(const results_page *page, const results_group *group,
                                   measure what)
{
    results_plots *plots = page->plots;
    const results_comparison *c = page->report->comparison;
    const int has_a = page->report->name_a != NULL;
    static const results_axes axes[] = {
        {.x = "bytes", .y = "busbw, GB/s", .log_x = 1},
        {.x = "bytes", .y = "time, us", .log_x = 1, .log_y = 1},
    };
    char names[LINES][NAME_BYTES], before[LINES][NAME_BYTES];
    int count = name_lines(c, group, 1, names),
        earlier = has_a ? name_lines(c, group, 0, before) : 0;
    if (count + earlier == 0)
        return (results_figure){-1, ""};
    int number = results_plots_begin(plots, &axes[what]);
    for (int i = 0; i < count; i++)
        draw_line(plots, c, group, names[i], has_a ? RESULTS_OF_B : RESULTS_ALONE, what);
    for (int i = 0; i < earlier; i++)
        draw_line(plots, c, group, before[i], RESULTS_OF_A, what);
    results_plots_end(plots);
    return (results_figure){number, what == TIME ? "Time of one operation"
                                                 : "Bus bandwidth; bands are 95% intervals"};
}

/* The point of a pair on a line of B; NaN y: none. */
typedef results_point one_point(const results_pair *pair, const results_machine *machine);

static results_point ratio_point(const results_pair *pair, const results_machine *machine)
{
    (void)machine;
    return (results_point){(double)pair->example->bytes, pair->ratio, pair->low, pair->high, NULL};
}

static results_point ceiling_point(const results_pair *pair, const results_machine *machine)
{
    const results_row *row = pair->b.starts ? pair->b.rows[0] : pair->example;
    double pct = results_machine_pct(machine, row, pair->b.median_us, pair->b.busbw_gbs);
    return (results_point){(double)pair->example->bytes, pct, NAN, NAN, NULL};
}

/* Draws a plot with one line per candidate of B; none if there is no point. */
static results_figure draw_points(const results_page *page, const results_group *group,
                                  const results_axes *axes, one_point *point, const char *caption)
{
    char names[LINES][NAME_BYTES];
    int count = name_lines(page->report->comparison, group, 1, names), number = -1;
    for (int i = 0; i < count; i++) {
        results_point points[POINTS];
        size_t n = 0;
        for (size_t k = 0; k < group->count && n < POINTS; k++) {
            const results_pair *pair = &group->pairs[k];
            char name[NAME_BYTES];
            results_point made = point(pair, page->machine);
            if (isnan(made.y) || pair->example->bytes == 0 || is_in_matrix(pair))
                continue;
            line_name(page->report->comparison, pair, &pair->b, name);
            if (strcmp(name, names[i]) == 0)
                points[n++] = made;
        }
        if (n > 0 && number < 0)
            number = results_plots_begin(page->plots, axes);
        if (n > 0)
            results_plots_line(page->plots, names[i],
                               page->report->name_a ? RESULTS_OF_B : RESULTS_ALONE, points, n);
    }
    if (number >= 0)
        results_plots_end(page->plots);
    return (results_figure){number, caption};
}

static void draw_group(const results_page *page, results_group *group)
{
    static const results_axes ratios = {.x = "bytes", .y = "time of B / time of A", .log_x = 1};
    static const results_axes ceiling = {.x = "bytes", .y = "% of the ceiling", .log_x = 1};
    int has_a = page->report->name_a != NULL;
    group->figures[0] = draw_measure(page, group, BANDWIDTH);
    group->figures[1] = draw_measure(page, group, TIME);
    if (has_a)
        group->figures[2] =
            draw_points(page, group, &ratios, ratio_point, "Ratio of times; above 1, B is slower");
    group->figures[3] = draw_points(page, group, &ceiling, ceiling_point,
                                    "Percent of what the machine's measured links allow");
}

size_t results_groups_make(const results_page *page, results_group *groups, size_t most)
{
    const results_comparison *comparison = page->report->comparison;
    size_t made = 0;
    for (size_t from = 0, to; from < comparison->count && made < most; from = to) {
        results_group *group = &groups[made];
        for (to = from + 1;
             to < comparison->count &&
             results_same_group(comparison->pairs[from].example, comparison->pairs[to].example);)
            to++;
        *group = (results_group){
            comparison->pairs + from, to - from, {{-1, ""}, {-1, ""}, {-1, ""}, {-1, ""}}};
        if (page->plots && made < RESULTS_GROUPS)
            draw_group(page, group);
        made++;
    }
    return made;
}

int results_plot_series(results_plots *plots, const results_series *series, results_side_of whose)
{
    static const results_axes axes = {.x = "night", .y = "time, us", .nights = 1};
    results_point *points = malloc((series->nights + 1) * sizeof *points);
    if (!points)
        return -1;
    for (size_t i = 0; i < series->nights; i++)
        points[i] = (results_point){(double)i + 1, series->times_us[i], NAN, NAN, NULL};
    int number = results_plots_begin(plots, &axes);
    for (size_t i = 0; i < series->nchanges; i++)
        results_plots_mark(plots, (double)series->changes[i] + 0.5);
    results_plots_line(plots, "weir", whose, points, series->nights);
    results_plots_end(plots);
    free(points);
    return number;
}
