/*
 * Floors and ceilings that a result must keep, from a file with one a line:
 *
 *   allreduce 1G >= 350 GB/s
 *   alltoallv 8M dtype=bfloat16 ranks=4 place=out contender=nccl algbw >= 200 GB/s
 *   allgather 8 <= 6.5 us      # behind a number sign: a remark
 *
 * Bandwidths are busbw unless the word algbw stands there. Words that are left out fit any
 * row, but a contender that is left out is weir. Each row that fits must keep it, and be right
 * in all starts. Local.
 */
#ifndef RESULTS_JUDGE_EXPECT_H
#define RESULTS_JUDGE_EXPECT_H

#include "results/judge/compare.h"

typedef enum results_outcome {
    RESULTS_MET,
    RESULTS_CLOSE,  /* not met, but by less than the noise */
    RESULTS_UNMET,
    RESULTS_ABSENT  /* no row fits */
} results_outcome;

typedef struct results_expectation {
    const char *text;  /* as in the file, without blanks around; the set's */
    const char *path;
    int line;
    const char *collective, *dtype, *redop, *placement; /* NULL: any */
    const char *contender, *algo; /* NULL: weir; any */
    unsigned long long bytes;
    int nranks;        /* 0: any */
    int is_time, is_algbw;
    double value;
    results_outcome outcome;
    const results_pair *worst; /* the row that keeps it least; NULL if absent */
    double got;                /* of worst, in the unit of value; NaN: its results are wrong */
} results_expectation;

typedef struct results_expectations {
    results_expectation *list; /* the set's memory */
    size_t count;
    size_t outcomes[RESULTS_ABSENT + 1];
} results_expectations;

/* What is wrong is noted in the set, by file and line. 0; -1: the file cannot be read; 1: it has
 * no expectation, or lines that cannot be understood, so that a check of the others would pass
 * what it was to stop. */
int results_expect_read(results_set *set, const char *path, results_expectations *made);
/* Holds them against the B side of a judged comparison. */
void results_expect_check(results_expectations *made, const results_comparison *comparison);

const char *results_outcome_name(results_outcome outcome);
/* What worst is and has: "218.3, float sum, 4 ranks, in, weir ce"; "" where no row fits. text is
 * terminated. */
void results_expect_describe(const results_expectation *one, char *text, size_t bytes);

#endif
