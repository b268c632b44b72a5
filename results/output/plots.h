/*
 * Plots as SVG, all drawn by one run of gnuplot: plots are described first, then drawn, then copied
 * into the page. Names from files occur in gnuplot's script inside single quotes only, where
 * nothing is executed. Local.
 */
#ifndef RESULTS_OUTPUT_PLOTS_H
#define RESULTS_OUTPUT_PLOTS_H

#include <stddef.h>
#include <stdio.h>

enum { RESULTS_PLOTS_CANDIDATES = 32, RESULTS_PLOTS_NAME_BYTES = 128 };

typedef struct results_axes {
    const char *x, *y; /* labels */
    int log_x, log_y;  /* log_x: powers of 2 with K, M, G */
    int nights;        /* x counts nights */
} results_axes;

typedef struct results_plots {
    FILE *script;     /* a temporary file */
    char folder[192]; /* below TMPDIR, else /tmp */
    int count;        /* plots so far */
    int lines;        /* of the current plot */
    results_axes axes;
    FILE *command; /* its plot command, until results_plots_end */
    char *text;
    size_t bytes;
    FILE *points; /* a temporary file: a line of text for each point, in the order of drawing */
    char candidates[2][RESULTS_PLOTS_CANDIDATES][RESULTS_PLOTS_NAME_BYTES]; /* B's, A's: coloured */
    int ncandidates[2];
} results_plots;

/* Whose line it is: of the only side, or of one of two. */
typedef enum results_side_of { RESULTS_ALONE, RESULTS_OF_B, RESULTS_OF_A } results_side_of;

typedef struct results_point {
    double x, y, low, high; /* the band; NaN: none. An infinite or NaN y interrupts the line */
    const char *note;       /* more words for the reader who points at it; NULL: none */
} results_point;

/* Returns 0, or -1 without gnuplot or without a temporary folder. Call results_plots_free in either
 * case. */
int results_plots_open(results_plots *plots);
void results_plots_free(results_plots *plots);

/* A plot consists of begin, its lines, and end. Returns its number. */
int results_plots_begin(results_plots *plots, const results_axes *axes);
/* A candidate has one colour in all plots, and another one for A's lines, which are dashed. */
void results_plots_line(results_plots *plots, const char *candidate, results_side_of side,
                        const results_point *points, size_t count);
/* Adds a vertical line. */
void results_plots_mark(results_plots *plots, double x);
void results_plots_end(results_plots *plots);

/* Draws all plots. Returns 0, or -1 if gnuplot failed, or another part of this process
 * has its exit code. */
int results_plots_draw(results_plots *plots);
/* Copies a plot into the page, named by the element `heading` and the caption. Returns 0, or -1 if
 * it does not exist. */
int results_plots_put(results_plots *plots, int number, const char *heading, const char *caption,
                      FILE *page);

#endif
