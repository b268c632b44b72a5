/*
 * Expectations: bounds that a result must satisfy, from a file with one per line:
 *
 *   allreduce 1G >= 350 GB/s
 *   alltoallv 8M dtype=bfloat16 ranks=4 place=out contender=nccl algbw >= 200 GB/s
 *   allgather 8 <= 6.5 us      # a comment
 *
 * Bandwidths are busbw unless the line has the word algbw. Omitted filters match any row, except
 * that the candidate is then weir. Every row that matches must satisfy the line and be right in
 * all runs. Local.
 */
#ifndef RESULTS_JUDGE_EXPECT_H
#define RESULTS_JUDGE_EXPECT_H

#include "results/judge/compare.h"

typedef enum results_outcome {
    RESULTS_MET,
    RESULTS_CLOSE, /* missed, but by less than the noise */
    RESULTS_UNMET,
    RESULTS_ABSENT /* no row matches */
} results_outcome;

typedef struct results_expectation {
    const char *text; /* as in the file, without surrounding blanks; memory of the set */
    const char *path;
    int line;
    const char *collective, *dtype, *redop, *placement; /* NULL: any */
    const char *contender, *algo;                       /* NULL: weir; any */
    unsigned long long bytes;
    int nranks; /* 0: any */
    int is_time, is_algbw;
    double value;
    results_outcome outcome;
    const results_pair *worst; /* the row that is worst by this line; NULL if absent */
    double got;                /* value of `worst` in the expectation's unit; NaN: its results
                                * are wrong */
} results_expectation;

typedef struct results_expectations {
    results_expectation *list; /* memory of the set */
    size_t count;
    size_t outcomes[RESULTS_ABSENT + 1];
} results_expectations;

/* Reads a file of expectations. Invalid lines are reported in the set with file and line. Returns
 * 0; -1 if the file cannot be read; 1 if it has no expectation or an invalid line, so that the
 * caller does not accept results that the line would have rejected. */
int results_expect_read(results_set *set, const char *path, results_expectations *made);
/* Checks the B side of a judged comparison. */
void results_expect_check(results_expectations *made, const results_comparison *comparison);

const char *results_outcome_name(results_outcome outcome);
/* Describes `worst`: "218.3, float sum, 4 ranks, in, weir ce"; "" if no row matches. Terminates
 * text. */
void results_expect_describe(const results_expectation *one, char *text, size_t bytes);

#endif
