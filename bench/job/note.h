/*
 * The line that explains a local failure until the ranks agree on it: bench_job_agree prints it.
 * The unit is separate from the job so that gpu/ can report failures without knowing the job.
 */
#ifndef BENCH_JOB_NOTE_H
#define BENCH_JOB_NOTE_H

#include <weir/weir.h>

#include <stdarg.h>

typedef struct bench_note {
    char text[256]; /* empty: no failure of the benchmark itself; weir_last_error() explains it */
} bench_note;

/* Writes the line and returns status, so that a caller can fail in one statement. Local. */
weir_status bench_note_write(bench_note *note, weir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the arguments as a list. Local. */
weir_status bench_note_list(bench_note *note, weir_status status, const char *format,
                            va_list arguments) __attribute__((format(printf, 3, 0)));

#endif
