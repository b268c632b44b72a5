/*
 * A health check of a node or of a fleet, as plain data: what was looked at, what was found, what
 * was expected, and the verdict. Data flows one way:
 *
 *   checks (facts, copies, links, programs; fleet) -> expectations (expect) -> report -> output
 *
 * A check that finds nothing wrong but has no expectation is reported and never fails: unknown
 * hardware is no fault. All functions are local.
 */
#ifndef BENCH_HEALTH_HEALTH_H
#define BENCH_HEALTH_HEALTH_H

#include "base/clock.h"

#include <stddef.h>
#include <stdio.h>

/* Worse verdicts have larger values. */
typedef enum health_verdict {
    HEALTH_PASS,
    HEALTH_NOTED,   /* measured; nothing is expected */
    HEALTH_SKIPPED, /* cannot be checked here; the detail has the reason */
    HEALTH_SLOW,    /* below the expected performance */
    HEALTH_BROKEN,  /* the check itself could not be executed */
    HEALTH_MISSING, /* hardware that should be there is not, or is not usable */
    HEALTH_HUNG,    /* did not end before its deadline */
    HEALTH_WRONG,   /* wrong data */
    HEALTH_VERDICTS
} health_verdict;

/* What to do with a node that failed a check. Stronger actions have larger values. */
typedef enum health_action {
    HEALTH_NOTHING,
    HEALTH_WATCH,     /* check again; act if it fails again */
    HEALTH_RESET_GPU, /* when no job uses it */
    HEALTH_REBOOT,
    HEALTH_DRAIN /* no new jobs until the cause is removed */
} health_action;

/* What is expected of a check's value. */
typedef enum health_relation {
    HEALTH_ANY,
    HEALTH_AT_LEAST,
    HEALTH_AT_MOST,
    HEALTH_EQUAL
} health_relation;

enum { HEALTH_ID_BYTES = 64, HEALTH_TEXT_BYTES = 240 };

typedef struct health_check {
    char id[HEALTH_ID_BYTES]; /* stable, for machines: "host.copy", "gpu0.nvlink.errors" */
    char what[HEALTH_TEXT_BYTES];
    char device[96]; /* the model of the NIC that the check is of; else empty */
    health_verdict verdict;
    double value; /* NaN: none */
    char unit[16];
    int decimals;
    health_relation relation;
    double expected;
    char source[HEALTH_TEXT_BYTES]; /* of the expectation: "baseline good.json", "data sheet ..." */
    char detail[HEALTH_TEXT_BYTES]; /* what was found, in words; empty: the value says all */
    char look[HEALTH_TEXT_BYTES];   /* after a failure: what to look at */
    double seconds;                 /* that the check took */
    char collective[32];            /* of a collective's time or bandwidth; else empty */
    unsigned long long bytes;       /* its message size */
    int nranks;
} health_check;

typedef struct health_report {
    char level[16]; /* "quick", "standard", "long", "fleet" */
    char host[64], utc[24], hardware[HEALTH_TEXT_BYTES];
    char cpu_model[96], gpu_model[96]; /* empty: none or unknown */
    int nodes;                         /* of a fleet; 1 for a node */
    double seconds;
    int busy; /* 1: other processes used the node's processors, so slowness is not judged */
    char busy_text[HEALTH_TEXT_BYTES];
    double busy_s, all_s, own_s; /* of the processors at the last look (busy.h) */
    health_check *checks;
    size_t count, room;
} health_report;

/* Adds a check with its id and description, and returns it; valid until the next call. Ends the
 * program with exit code 3 if there is no memory. */
health_check *health_add(health_report *report, const char *id, const char *what);
/* The check with that id, or NULL. */
health_check *health_find(const health_report *report, const char *id);
void health_report_free(health_report *report);

/* Set the value of a check; the verdict becomes HEALTH_NOTED. */
void health_set_value(health_check *check, double value, const char *unit, int decimals);
/* Sets a verdict and the words for it. */
void health_set(health_check *check, health_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets what to look at if the check fails. */
void health_look(health_check *check, const char *text);
/* Sets what is expected; the verdict follows from the value: PASS, or `worse` if it is not met.
 * A verdict worse than HEALTH_SKIPPED is kept. */
void health_expect(health_check *check, health_relation relation, double expected,
                   health_verdict worse, const char *source);

/* Decides again, after the value of a check with an expectation has changed. */
void health_judge(health_check *check, health_verdict worse);

/* "PASS", "noted", "skipped", "SLOW", ... */
const char *health_verdict_name(health_verdict verdict);
/* 1 for verdicts that fail a report. */
int health_is_failure(health_verdict verdict);
/* The number of checks that were judged, and the number of checks that failed. */
void health_count(const health_report *report, int *judged, int *failed);
/* The worst verdict of all checks. */
health_verdict health_worst(const health_report *report);
/* 0 passed, 1 wrong data, 3 a check could not be executed, 4 hung, 5 slow, 6 missing hardware: of
 * several failures the worst. */
int health_exit_code(const health_report *report);

/* What to do about a check, and about the checks of a report: the strongest of their actions. */
health_action health_action_of(const health_check *check);
health_action health_action_of_all(const health_report *report);
/* "watch", "reset the GPU", "reboot", "drain"; "" for none. */
const char *health_action_name(health_action action);

#endif
