/*
 * A judged comparison in words: a table for people, Markdown for a summary of CI, JSON and
 * JUnit XML for programs; and rows as our CSV. Local.
 */
#ifndef RESULTS_OUTPUT_PRINT_H
#define RESULTS_OUTPUT_PRINT_H

#include "results/judge/compare.h"
#include "results/judge/expect.h"

typedef struct results_report {
    const results_set *a, *b;
    const char *name_a, *name_b; /* what the user called them; NULL a: B alone */
    const results_comparison *comparison;
    const results_rules *rules;
    const results_expectations *expectations;
    int only_changes; /* of the table and Markdown: leave out rows with no difference */
} results_report;

void results_print_text(FILE *file, const results_report *report);
void results_print_markdown(FILE *file, const results_report *report);
void results_print_json(FILE *file, const results_report *report);
void results_print_junit(FILE *file, const results_report *report);

/* Rows as our CSV with the newest schema's columns. */
void results_print_csv(FILE *file, const results_set *set);
/* Rows as our JSON (README.md), with the documents that the set kept. */
void results_print_rows_json(FILE *file, const results_set *set);

/* What several formats say alike: the noise behind the verdicts; a verdict's counts. */
void results_say_noise(FILE *file, const results_report *report);
void results_say_counts(FILE *file, const results_report *report);
/* Whose times a pair's are: "weir", or "weir beside nccl:2.28.3", B's beside A's, if they are not
 * the same. name is terminated. */
void results_pair_contender(const results_pair *pair, char *name, size_t bytes);
/* Text inside HTML, XML; inside a cell of a Markdown table. */
void results_put_xml(FILE *file, const char *text);
void results_put_markdown(FILE *file, const char *text);

#endif
