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
