/*
 * The lines of a log as the program wrote them, whatever collected them: without byte order marks,
 * line ends of other systems, colours, JSON around each line, and the prefixes of launchers and log
 * collectors (tags, ranks, time stamps). Lines of several sources that a collector mixed are sorted
 * by source. Local.
 */
#ifndef RESULTS_READ_LINES_H
#define RESULTS_READ_LINES_H

#include "results/read/load.h"

typedef struct results_line {
    char *text;
    int number;   /* in the file, from 1 */
    int source;   /* lines of one source are adjacent, in their order */
    size_t place; /* in the file's order */
} results_line;

typedef struct results_lines {
    results_line *list; /* memory of the set, as are all texts */
    size_t count;
    int sources;
    int has_marker; /* a line with text of a benchmark: results_marker */
    int changed;    /* anything was removed, but line ends */
} results_lines;

/* Takes the text of the input apart, in place. */
void results_lines_make(results_set *set, results_input *input, results_lines *made);

/* The lines as one text, each with a line end. */
char *results_lines_join(results_set *set, const results_lines *lines);

/* Removes a byte order mark, and makes text of UTF-16 one byte a character. */
void results_narrow(results_input *input);

/* Steps of results_lines_make. Replaces lines that are JSON objects around a log's line by that
 * line (wrapped.c). */
void results_lines_unwrap(results_set *set, const results_input *input, results_lines *lines);
/* Joins lines that were folded at a width (folded.c). */
void results_lines_unfold(results_set *set, results_lines *lines);
/* Removes prefixes, and sorts the lines by source (prefix.c). */
void results_lines_strip(results_set *set, results_lines *lines);

/* Where text that a benchmark prints begins in a line: at its header, headings or footer, which
 * begin with '#', or at the header of a CSV. Returns NULL if there is none (prefix.c). */
char *results_marker(char *line);

#endif
