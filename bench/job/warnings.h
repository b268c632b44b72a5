/*
 * Conditions that make results doubtful. Each is one line on standard error, once per kind, and an
 * entry of the manifest. Kept on rank 0; other ranks ignore them. Local.
 */
#ifndef BENCH_JOB_WARNINGS_H
#define BENCH_JOB_WARNINGS_H

#include "base/json.h"

enum { BENCH_WARNINGS_MAX = 32, BENCH_WARNING_BYTES = 400 };

typedef struct bench_warnings {
    int count;
    struct bench_warning {
        const char *kind; /* for programs: "load", "ceiling", "links", "interval", "preflight" */
        char text[BENCH_WARNING_BYTES];
    } list[BENCH_WARNINGS_MAX];
} bench_warnings;

struct bench_job;

/* Prints "program: warning: text" and keeps it, unless there is one of that kind. kind: static
 * storage. */
void bench_warning_add(struct bench_job *job, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Keeps a line that has been printed. */
void bench_warning_keep(bench_warnings *warnings, const char *kind, const char *text);
/* Writes the member "warnings", a list of objects with kind and text. */
void bench_warnings_put(weiri_json_writer *json, const bench_warnings *warnings);

#endif
