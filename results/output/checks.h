/*
 * Checks as data: what was expected, what was found, and the verdict; and the formats in which
 * other programs read them: JUnit XML, CTRF, Prometheus metrics, JSON and Markdown. All programs
 * that judge write these by the functions below: weir-check, weir-compare, and with it ci/nightly.
 * Names are escaped for each format. Write errors stay in the file's error flag. Local.
 */
#ifndef RESULTS_OUTPUT_CHECKS_H
#define RESULTS_OUTPUT_CHECKS_H

#include "base/json.h"
#include "results/read/rows.h"

#include <stddef.h>
#include <stdio.h>

typedef enum results_check_state {
    RESULTS_PASSED,
    RESULTS_FAILED,
    RESULTS_SKIPPED, /* could not be judged */
    RESULTS_NOTED,   /* measured; nothing is expected */
    RESULTS_CHECK_STATES
} results_check_state;

typedef struct results_label {
    const char *name, *value;
} results_label;

enum { RESULTS_LABELS_MAX = 10 };

/* Texts are borrowed, or memory of the list; never NULL, except collective. */
typedef struct results_check {
    const char *group;   /* JUnit's class: "weir.check", "weir.allreduce" */
    const char *id;      /* differs from those of all other checks */
    const char *what;    /* for people */
    const char *verdict; /* the program's word: "SLOW", "regressed" */
    results_check_state state;
    double value; /* NaN: none */
    const char *unit;
    int decimals;
    const char *relation; /* ">=", "<=", "="; "": nothing is expected */
    double expected;
    const char *source;        /* of the expectation */
    const char *detail, *look; /* what was found, in words; what to look at after a failure */
    const char *action;        /* what to do after a failure: "reboot"; "": nothing is known */
    double seconds;            /* that the check took */
    const char *collective;    /* whose figures follow; NULL: of none */
    unsigned long long bytes;
    int nranks;
    results_label labels[RESULTS_LABELS_MAX]; /* more of them; unused ones have no name */
    double busbw_gbs, time_us;                /* NaN: none */
} results_check;

typedef struct results_checks {
    const char *tool;   /* "weir-check": the name of the tool, and the metrics' prefix */
    const char *level;  /* a label of the tool's metrics; "": none */
    const char *output; /* another one, the name of their file; "": none */
    const char *host;   /* "": unknown */
    double seconds;     /* that all checks took */
    int exit_code;
    results_check *list;
    size_t count, room;
    results_set memory; /* of texts that the list owns */
} results_checks;

void results_checks_begin(results_checks *checks, const char *tool);
/* Adds a check without texts and numbers; valid until the next call. Ends the program with exit
 * code 3 if there is no memory. */
results_check *results_checks_add(results_checks *checks);
/* The number of checks in a state. */
size_t results_checks_count(const results_checks *checks, results_check_state state);
void results_checks_free(results_checks *checks);

/* The value and the expectation as text: "12.5 GB/s", ">= 10 GB/s"; "" if there is none. */
void results_check_value(const results_check *check, char *text, size_t bytes);
void results_check_expected(const results_check *check, char *text, size_t bytes);
/* The outcome in one line: "SLOW: 5 GB/s, expected >= 10 GB/s; detail; look at: ...; action:
 * watch". */
void results_check_message(const results_check *check, char *text, size_t bytes);

void results_checks_junit(const results_checks *checks, FILE *to);
/* The Common Test Report Format (ctrf.io). */
void results_checks_ctrf(const results_checks *checks, FILE *to);
/* Metrics for the textfile collector of Prometheus' node exporter. */
void results_checks_prometheus(const results_checks *checks, FILE *to);
/* A Markdown table. */
void results_checks_markdown(const results_checks *checks, FILE *to);
/* The member "checks" of the object that is open. */
void results_checks_json(const results_checks *checks, weiri_json_writer *json);

#endif
