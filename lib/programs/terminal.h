/*
 * Output for people at a terminal: colours, and the progress of what takes long. Files, pipes and
 * the output of ranks under a launcher are no terminals and get plain text. Local; one thread.
 */
#ifndef WEIR_PROGRAMS_TERMINAL_H
#define WEIR_PROGRAMS_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

typedef enum weiri_colour { WEIRI_COLOUR_NONE, WEIRI_COLOUR_GOOD, WEIRI_COLOUR_BAD } weiri_colour;

/* Finds out whether a launcher passes this process's output on: the pseudo-terminal that Open MPI
 * gives a rank says nothing about where mpirun writes. Call it before MPI_Init, which sets the same
 * environment variables as a launcher; otherwise the first use of a stream does it. */
void weiri_terminal_detect(void);
/* What begins a colour on the stream, or ends it (NONE): an escape sequence, or "" if the stream
 * has no colours: it is no terminal, or TERM is dumb, or NO_COLOR is set (no-color.org). Static. */
const char *weiri_terminal_colour(FILE *stream, weiri_colour colour);

/*
 * Progress: nothing in the first 3 s, then on a terminal one line that is rewritten at most twice a
 * second, elsewhere a line every 10 s. Nothing is written between calls, so that a caller who
 * measures decides when.
 */
typedef struct weiri_progress {
    FILE *to;            /* NULL: nothing is shown */
    const char *program; /* begins each line */
    int terminal;
    int visible;             /* a line is on the terminal */
    double began_s, shown_s; /* shown_s: the time of the last line; 0: none yet */
    double (*now_s)(void);   /* the clock; tests replace it */
} weiri_progress;

/* Starts the clock. to and program are borrowed. quiet: 1 shows nothing. */
void weiri_progress_begin(weiri_progress *progress, FILE *to, const char *program, int quiet);
/* Shows `what` if it is time: "program: what: 42%, 12 s left". done: the finished fraction of the
 * expected time, from 0 to 1; 0 if unknown, which shows the time so far instead. NULL: nothing. */
void weiri_progress_show(weiri_progress *progress, const char *what, double done);
/* Clears the terminal's line, if one is there, before other output or at the end. */
void weiri_progress_clear(weiri_progress *progress);

#endif
