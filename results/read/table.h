/*
 * Tables of logs: what each column means, by the words and the unit of its heading. Local.
 */
#ifndef RESULTS_READ_TABLE_H
#define RESULTS_READ_TABLE_H

#include <stddef.h>

enum { RESULTS_TABLE_CELLS = 48, RESULTS_TABLE_HALVES = 2 };

typedef enum results_meaning {
    RESULTS_CELL_OTHER,
    RESULTS_CELL_SIZE,
    RESULTS_CELL_COUNT,
    RESULTS_CELL_TYPE,
    RESULTS_CELL_REDOP,
    RESULTS_CELL_ROOT,
    RESULTS_CELL_TIME,
    RESULTS_CELL_CPU_TIME,
    RESULTS_CELL_ALGBW,
    RESULTS_CELL_BUSBW,
    RESULTS_CELL_WRONG,
    RESULTS_CELL_ERROR, /* the largest difference, of which a small one is right */
    RESULTS_CELL_MIN,
    RESULTS_CELL_MAX,
    RESULTS_CELL_P99,
    RESULTS_CELL_ITERS,
    RESULTS_CELL_VERDICT, /* Pass or Fail */
    RESULTS_CELL_OVERLAP  /* of communication with computation: no plain time */
} results_meaning;

typedef struct results_cell {
    results_meaning meaning;
    double scale; /* of its unit to bytes or microseconds; 0: the heading has none */
    int half;     /* of out-of-place and in-place: 0 or 1, in their order in the table */
    int end;      /* of its heading: characters from the start of the line */
} results_cell;

typedef struct results_table {
    results_cell cells[RESULTS_TABLE_CELLS];
    int count, halves;
} results_table;

/* Reads a line of headings, with its units if they are part of the words: "Avg Latency(us)",
 * "t_min[usec]", "Latency (us)". Changes the line. */
void results_table_headings(results_table *table, char *line);
/* Reads a line of units: "(B) (elements) (us) (GB/s) (GB/s)". Those of times apply to all times. */
void results_table_units(results_table *table, const char *line);
/* Whether a word is a heading of a table of nccl-tests. */
int results_table_is_heading(const char *word);
/* The column of that meaning in a half (-1: of no half), or -1. */
int results_table_find(const results_table *table, results_meaning meaning, int half);
/* Whether the text can be a field of that column. */
int results_table_fits(const results_cell *cell, const char *text);

#endif
