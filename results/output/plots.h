/*
 * Plots as SVG, drawn by gnuplot in one go: a plot is described while lines are added, and
 * written into the page when gnuplot has ended. Names from files stand in gnuplot's script
 * inside single quotes only, where nothing is executed. Local.
 */
#ifndef RESULTS_OUTPUT_PLOTS_H
#define RESULTS_OUTPUT_PLOTS_H

#include <stddef.h>
#include <stdio.h>

typedef struct results_plots {
    FILE *script; /* a temporary file */
    char folder[192]; /* below TMPDIR, else /tmp */
    int count;    /* plots begun */
    int lines;    /* of the current one */
    FILE *command; /* its plot command, until results_plots_end */
    char *text;
    size_t bytes;
} results_plots;

typedef struct results_axes {
    const char *x, *y;      /* labels */
    int log_x, log_y;       /* log_x: powers of 2 with K, M, G */
    int nights;             /* x counts nights */
} results_axes;

typedef struct results_point {
    double x, y, low, high; /* the band; NaN: none. NaN y breaks the line */
} results_point;

/* 0, or -1: no gnuplot, or no temporary folder. results_plots_free in any case. */
int results_plots_open(results_plots *plots);
void results_plots_free(results_plots *plots);

/* A plot: begin, its lines, end. Returns its number. */
int results_plots_begin(results_plots *plots, const results_axes *axes);
/* dashed: the other side's line of the same place. */
void results_plots_line(results_plots *plots, const char *name, int dashed,
                        const results_point *points, size_t count);
/* A vertical mark. */
void results_plots_mark(results_plots *plots, double x);
void results_plots_end(results_plots *plots);

/* Draws all. 0, or -1: gnuplot failed. */
int results_plots_draw(results_plots *plots);
/* Puts one into the page. 0, or -1: it is not there. */
int results_plots_put(results_plots *plots, int number, FILE *page);

#endif
