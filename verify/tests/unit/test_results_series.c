/*
 * What plots and the history show: titles, colours, intervals and ranges of the lines that
 * results_series_write hands to gnuplot, and how many nights a change of level needs.
 */
#include "results/output/page.h"
#include "results/output/series.h"
#include "results/store/history.h"
#include "verify/tests/support/unit_test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ------------------------------------------------------------------- plots */

typedef struct series_row {
    const char *contender, *nodes;
    unsigned long long bytes;
    double us;
} series_row;

static void series_add(results_set *set, int line, const series_row *from)
{
    results_row made = results_row_make("a.csv", line, RESULTS_OWN_CSV);
    const struct {
        int column;
        const char *value;
    } cells[] = {{RESULTS_COLLECTIVE, "allreduce"},
                 {RESULTS_BACKEND, "host"},
                 {RESULTS_NRANKS, "8"},
                 {RESULTS_NNODES, from->nodes},
                 {RESULTS_CONTENDER, from->contender},
                 {RESULTS_DTYPE, "float"},
                 {RESULTS_REDOP, "sum"},
                 {RESULTS_PLACEMENT, "out"},
                 {RESULTS_VERIFY, "pass"},
                 {RESULTS_BYTES, results_keep_printed(set, "%llu", from->bytes)},
                 {RESULTS_MEDIAN_US, results_keep_printed(set, "%.1f", from->us)},
                 {RESULTS_CI_LOW_US, results_keep_printed(set, "%.1f", from->us / 2)},
                 {RESULTS_CI_HIGH_US, results_keep_printed(set, "%.1f", from->us * 4)},
                 {RESULTS_BUSBW_GBS, results_keep_printed(set, "%.1f", 8.0)}};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        made.text[cells[i].column] = cells[i].value;
    assert_int_equal(results_add(set, &made), 0);
}

static char folder[] = "/tmp/weir_series_XXXXXX";

/* The contents of a file that the series were written to; the file is removed. */
static char *series_take(const char *name)
{
    static char text[8192];
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s was not written", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    return text;
}

static void expect_line(const char *text, const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s\n", line);
    if (!strstr(text, whole))
        fail_msg("expected the line '%s' in:\n%s", line, text);
}

/* Writes the series of rows. */
static void series_write(const series_row *rows, size_t count)
{
    results_set set;
    char *list = NULL;
    size_t bytes = 0;
    FILE *names = open_memstream(&list, &bytes);
    results_set_init(&set, 0, NULL);
    for (size_t i = 0; i < count; i++)
        series_add(&set, (int)i + 2, &rows[i]);
    assert_int_equal(results_series_write(&set, folder, names), 1);
    fclose(names);
    assert_string_equal(list, "allreduce\n");
    free(list);
    results_set_free(&set);
}

TEST(lines_of_a_plot_have_titles_colours_ranges_and_intervals)
{
    static const series_row rows[] = {{"weir", "1", 64, 10},
                                      {"weir", "1", 1024, 40},
                                      {"weir", "2", 64, 20},
                                      {"nccl", "1", 64, 16},
                                      {"nccl", "2", 64, 24}};
    assert_non_null(mkdtemp(folder));
    series_write(rows, sizeof rows / sizeof *rows);
    const char *points = series_take("allreduce.1.dat");
    expect_line(points, "64 10 5 40 8 2 16 0");
    expect_line(points, "1024 40 20 160 8 2 16 0");
    for (int i = 2; i <= 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "allreduce.%d.dat", i);
        series_take(name);
    }
    const char *settings = series_take("allreduce.gp");
    expect_line(settings, "line_title[1] = \"weir, 1 node\"");
    expect_line(settings, "line_title[2] = \"weir, 2 nodes\"");
    expect_line(settings, "line_title[4] = \"nccl, 2 nodes\"");
    /* a colour per candidate, a dash per variant */
    expect_line(settings, "line_colour[1] = 1\nline_dash[1] = 1");
    expect_line(settings, "line_colour[2] = 1\nline_dash[2] = 2");
    expect_line(settings, "line_colour[4] = 2\nline_dash[4] = 2");
    expect_line(settings, "bytes_low = 64\nbytes_high = 1024");
    expect_line(settings, "us_low = 10\nus_high = 40");
    expect_line(settings, "gbs_low = 8\ngbs_high = 8");
    expect_line(settings, "failures = 0\nhas_bandwidth = 1");
    expect_line(settings, "subtitle = \"float sum, 8 ranks, host memory, out of place\"");
    rmdir(folder);
}

TEST(points_that_cannot_be_drawn_leave_the_texts_of_others_in_place)
{
    const results_axes axes = {.x = "bytes", .y = "time, us", .log_x = 1};
    const results_point points[] = {{1024, 5, NAN, NAN, NULL},
                                    {2048, INFINITY, NAN, NAN, NULL},
                                    {4096, NAN, NAN, NAN, NULL},
                                    {8192, 7, 6, 8, NULL}};
    results_plots plots;
    if (results_plots_open(&plots) != 0)
        skip(); /* no gnuplot */
    char *page = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&page, &bytes);
    const int number = results_plots_begin(&plots, &axes);
    results_plots_line(&plots, "<weir>", RESULTS_OF_A, points, 4);
    results_plots_end(&plots);
    assert_int_equal(results_plots_draw(&plots), 0);
    assert_int_equal(results_plots_put(&plots, number, "g0h", "Time", file), 0);
    fclose(file);
    results_plots_free(&plots);
    expect_line(page, "<title>&lt;weir&gt; (A); bytes 1024; time, us 5</title></circle>");
    expect_line(
        page,
        "<title>&lt;weir&gt; (A); bytes 8192; time, us 7; 95% interval 6 to 8</title></circle>");
    assert_null(strstr(page, "<title></title>"));
    assert_null(strstr(page, "inf"));
    free(page);
}

/* ----------------------------------------------------------------- history */

TEST(a_change_of_level_needs_five_nights_on_each_side)
{
    double times[24];
    size_t changes[RESULTS_CHANGES];
    for (size_t count = 12; count <= 24; count += 4)
        for (size_t after = 1; after <= 7; after += after == 2 ? 3 : 1) { /* 1, 2, 5, 6, 7 */
            for (size_t i = 0; i < count; i++)
                times[i] = (i + after >= count ? 20 : 10) * (i % 2 ? 1.001 : 0.999);
            const size_t found = results_change_points(times, count, changes, RESULTS_CHANGES);
            assert_int_equal(found, after >= 5);
            if (found)
                assert_int_equal(changes[0], count - after);
        }
}

TEST(a_change_below_two_percent_is_none)
{
    double times[20];
    size_t changes[RESULTS_CHANGES];
    for (size_t i = 0; i < 20; i++)
        times[i] = i < 10 ? 100 : 101.9;
    assert_int_equal(results_change_points(times, 20, changes, RESULTS_CHANGES), 0);
    for (size_t i = 10; i < 20; i++)
        times[i] = 102.1;
    assert_int_equal(results_change_points(times, 20, changes, RESULTS_CHANGES), 1);
}

/* The plot of a series has the number and time of each night, and a mark before each change. */
TEST(nights_are_drawn_from_the_first)
{
    static const double times_us[] = {10, 11, NAN, 20, 21};
    const results_series series = {
        .times_us = times_us, .nights = 5, .changes = {3}, .nchanges = 1};
    char *script = NULL;
    size_t bytes = 0;
    results_plots plots = {.script = open_memstream(&script, &bytes)};
    snprintf(folder, sizeof folder, "/tmp/weir_series_XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(plots.folder, sizeof plots.folder, "%s", folder);
    assert_int_equal(results_plot_series(&plots, &series, RESULTS_ALONE), 0);
    assert_int_equal(results_plot_series(&plots, &series, RESULTS_OF_A), 1);
    fclose(plots.script);
    expect_line(script, "$d0 << EOD\n1 10 10 10\n2 11 11 11\n\n4 20 20 20\n5 21 21 21\nEOD");
    assert_non_null(strstr(script, "set arrow from first 3.5, graph 0 to first 3.5, graph 1"));
    free(script);
    assert_string_equal(series_take("0.points"),
                        "weir; night 1; time, us 10\nweir; night 2; time, us 11\n"
                        "weir; night 4; time, us 20\nweir; night 5; time, us 21\n");
    expect_line(series_take("1.points"), "weir (A); night 4; time, us 20");
    rmdir(folder);
}

int main(void)
{
    return run_all_tests("results_series");
}
