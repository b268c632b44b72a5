/*
 * Writes a judged comparison as a text table, as Markdown for a CI summary, as JSON, and in the
 * formats of checks.h; and rows as weir's CSV and JSON. Local.
 */
#ifndef RESULTS_OUTPUT_PRINT_H
#define RESULTS_OUTPUT_PRINT_H

#include "results/judge/compare.h"
#include "results/judge/expect.h"
#include "results/output/checks.h"
#include "results/read/about.h"
#include "results/read/rows.h"
#include "results/read/warnings.h"

#include <jansson.h>

typedef struct results_report {
    const results_set *a, *b;
    const char *name_a, *name_b;                     /* as the user named them; NULL a: B alone */
    const results_warnings *warnings_a, *warnings_b; /* of the manifests; NULL: not read */
    const results_about *about_a, *about_b;          /* NULL: not read */
    const results_comparison *comparison;
    const results_rules *rules;
    const results_expectations *expectations;
    int only_changes;   /* text and Markdown: leave out rows without a difference */
    int exit_code;      /* of the program */
    const char *output; /* the file that is written; NULL: standard output */
} results_report;

void results_print_text(FILE *file, const results_report *report);
void results_print_markdown(FILE *file, const results_report *report);
void results_print_json(FILE *file, const results_report *report);
void results_print_junit(FILE *file, const results_report *report);
void results_print_ctrf(FILE *file, const results_report *report);
void results_print_prometheus(FILE *file, const results_report *report);

/* Adds a check for each pair of rows, then for each expectation (checks.h); or for expectations
 * only. Their texts are those of the report, or memory of the list. */
void results_checks_of_report(const results_report *report, results_checks *checks);
void results_checks_of_expectations(const results_report *report, results_checks *checks);

/* Writes rows as weir's CSV with the newest schema's columns. */
void results_print_csv(FILE *file, const results_set *set);
/* Writes rows as weir's JSON, with the documents that the set kept. */
void results_print_rows_json(FILE *file, const results_set *set);

/* Sentences that several formats share: the noise that the verdicts are based on; the number of
 * each verdict. */
void results_say_noise(FILE *file, const results_report *report);
void results_say_counts(FILE *file, const results_report *report);
/* The overall verdict, and if there is nothing to compare the reason: "nothing to compare: A has 4
 * ranks, B has 2". */
void results_say_overall(FILE *file, const results_comparison *comparison);
/* A side's warning: "warning: vm was busy ...", with the number of files that have it if there are
 * several. The text is as in the manifest. Terminates line. */
void results_describe_warning(const results_warnings *warnings, int i, char *line, size_t bytes);
/* Whether rows have no counterpart because the sides differ in ranks, memory, ... */
int results_differs(const results_comparison *comparison);
/* The candidates of a pair: "weir", or "weir beside nccl:2.28.3" (B beside A) if they differ.
 * Terminates name. */
void results_pair_contender(const results_pair *pair, char *name, size_t bytes);
/* Whether rows belong to one table and one plot: they differ in size, candidate, and what
 * results_pair_apart names. */
int results_same_group(const results_row *a, const results_row *b);
/* What distinguishes a pair from others of its group, after `before`: ", layout flat,
 * tokens 16"; "" if nothing does. of_curve: without what sizes follow from. Terminates text. */
void results_pair_apart(const results_comparison *comparison, const results_pair *pair,
                        const char *before, int of_curve, char *text, size_t bytes);
/* Write text escaped for HTML and XML; for a cell of a Markdown table. */
void results_put_xml(FILE *file, const char *text);
void results_put_markdown(FILE *file, const char *text);

/*
 * What JSON files of results contain in addition to their rows, kept for writing them again
 * (results_print_rows_json). Local.
 */

/* Keeps a copy of all members of top, an object with a list `results`, except the results' rows,
 * which have this path and line numbers from `first` on. Does nothing for a set that does not keep
 * documents. */
void results_document_keep(results_set *set, const char *path, int first, json_t *top);

#endif
