/*
 * The report: one HTML page that needs nothing else. Sections are put in order, each under
 * its heading; all names are escaped. Local.
 */
#ifndef RESULTS_OUTPUT_PAGE_H
#define RESULTS_OUTPUT_PAGE_H

#include "results/store/history.h"
#include "results/read/machine.h"
#include "results/read/manifest.h"
#include "results/output/plots.h"
#include "results/output/print.h"

typedef struct results_page {
    FILE *file;
    const results_report *report;
    results_plots *plots;            /* NULL: no gnuplot */
    const results_history *history;  /* NULL: no store */
    const results_manifest *manifest_a, *manifest_b;
    const results_machine *machine;  /* B's */
} results_page;

/* Adds the plots of all sections, draws them and writes the page. 0, or -1: gnuplot failed,
 * the page is there without plots. */
int results_page_write(const results_page *page);

/* For results_page_write: plots of a comparison, in groups of rows that differ by their size
 * and contender, and of the history. */
typedef struct results_figure {
    int number;              /* of the plot; -1: none */
    const char *caption;     /* static */
} results_figure;
enum { RESULTS_FIGURES = 4, RESULTS_GROUPS = 16 };

typedef struct results_group {
    const results_pair *pairs; /* the comparison's */
    size_t count;
    results_figure figures[RESULTS_FIGURES]; /* bandwidth, time, ratio, ceiling */
} results_group;

/* Groups of a comparison, the first RESULTS_GROUPS with plots (plots NULL: none). Returns how
 * many; groups has room for most. */
size_t results_groups_make(const results_page *page, results_group *groups, size_t most);
/* A plot of a series; its number. */
int results_plot_series(results_plots *plots, const results_series *series);

#endif
