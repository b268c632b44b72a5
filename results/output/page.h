/* The report: one HTML page that loads nothing. All names are escaped. Local. */
#ifndef RESULTS_OUTPUT_PAGE_H
#define RESULTS_OUTPUT_PAGE_H

#include "results/store/history.h"
#include "results/read/machine.h"
#include "results/output/plots.h"
#include "results/output/print.h"

typedef struct results_page {
    FILE *file;
    const results_report *report;
    results_plots *plots;           /* NULL: no gnuplot */
    const results_history *history; /* NULL: no store */
    const results_manifest *manifest_a, *manifest_b;
    const results_machine *machine; /* B's */
} results_page;

/* Draws all plots and writes the page. Returns 0, or -1 if gnuplot failed and the page has no
 * plots. */
int results_page_write(const results_page *page);

/* Used by results_page_write: finds the time line that bench_replay drew next to a file of rows,
 * and whether there is one; writes its section. */
int results_timeline_find(const results_set *set, char *path, size_t bytes);
void results_timeline_put(const char *path, FILE *page);

/* Used by sections: parts of the page. */
void results_put_cell(FILE *file, const char *text);
void results_put_number(FILE *file, double value, int digits); /* a cell; empty for NaN */
/* A heading by which the reader can sort; the script enables the button. */
void results_put_heading(FILE *file, const char *kind, const char *text);
/* What the rows of a group share: "allreduce, float sum, 8 ranks, in place". */
void results_put_title(FILE *file, const results_row *row);
/* A plot under the element `heading`, a place for the text of the point that the reader points at,
 * and a button that copies the plot; the script shows the button. number -1: nothing. */
void results_put_figure(const results_page *page, int number, const char *heading,
                        const char *caption);

/* Used by results_page_write: the windows of each run by --for, and their plot. */
typedef struct results_window {
    double from_s, to_s, operations, median_us, p99_us, p999_us, max_us, outliers;
    char *causes; /* owned */
} results_window;

typedef struct results_hours {
    const results_row *row; /* of the run; borrowed */
    results_window *list;   /* owned */
    size_t count;
    int figure; /* number of the plot; -1: none */
} results_hours;
enum { RESULTS_HOURS = 8 };

/* Reads the windows next to the files of B's rows, and draws them. Returns how many runs have some;
 * `made` has room for `most`. results_hours_free each. */
size_t results_hours_make(const results_page *page, results_hours *made, size_t most);
void results_hours_put(const results_page *page, const results_hours *hours, size_t number);
void results_hours_free(results_hours *hours);
/* Whether there is a file next to a CSV: "a.svg" for "a.csv" and the ending ".svg"; writes its
 * path. */
int results_next_to(const char *csv, const char *ending, char *path, size_t bytes);

/* Used by results_page_write: the plots of a comparison, in groups of rows that differ in size and
 * candidate only, and of the history. */
typedef struct results_figure {
    int number;          /* number of the plot; -1: none */
    const char *caption; /* static storage */
} results_figure;
enum { RESULTS_FIGURES = 4, RESULTS_GROUPS = 16 };

typedef struct results_group {
    const results_pair *pairs; /* part of the comparison's */
    size_t count;
    results_figure figures[RESULTS_FIGURES]; /* bandwidth, time, ratio, ceiling */
} results_group;

/* Divides a comparison into groups, the first RESULTS_GROUPS of them with plots (none if
 * page->plots is NULL). Returns their number; groups has room for `most`. */
size_t results_groups_make(const results_page *page, results_group *groups, size_t most);
/* Draws a plot of a series. Returns its number. */
int results_plot_series(results_plots *plots, const results_series *series, results_side_of whose);

#endif
