/*
 * Output for people at a terminal: colours, and the progress of what takes long. Files, pipes and
 * the output of ranks under a launcher are no terminals and get plain text. Local; one thread.
 */
#ifndef WEIR_BASE_TERMINAL_H
#define WEIR_BASE_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

typedef enum weiri_colour { WEIRI_COLOUR_NONE, WEIRI_COLOUR_GOOD, WEIRI_COLOUR_BAD } weiri_colour;

/* 1 if a stream may have colours: a terminal other than TERM=dumb, and NO_COLOR is unset or empty
 * (no-color.org). */
int weiri_terminal_has_colours(FILE *stream);
/* What begins a colour on the stream, or ends it (NONE): an escape sequence, or "" if the stream
 * has no colours. Static. */
const char *weiri_terminal_colour(FILE *stream, weiri_colour colour);

/*
 * Progress: nothing in the first 3 s, then on a terminal one line that is rewritten twice a second
 * at most, elsewhere a line every 10 s. Nothing is written between calls, so that a caller who
 * measures decides when.
 */
typedef struct weiri_progress {
    FILE *to;
    const char *program; /* begins each line */
    int quiet;           /* 1: lines only on a terminal */
    int terminal;
    double began_s, shown_s; /* shown_s: the time of the last line; 0: none yet */
    double (*now_s)(void);   /* the clock; tests replace it */
} weiri_progress;

/* Starts the clock. to and program are borrowed. */
void weiri_progress_begin(weiri_progress *progress, FILE *to, const char *program, int quiet);
/* Shows `what` if it is time: "program: what: 42%, 12 s left". done: the finished fraction of the
 * work, from 0 to 1, in units of time if possible. */
void weiri_progress_show(weiri_progress *progress, const char *what, double done);
/* Clears the terminal's line, if one is there, before other output or at the end. */
void weiri_progress_clear(weiri_progress *progress);

#endif
