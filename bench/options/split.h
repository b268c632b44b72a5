/*
 * The division of a job's ranks into groups that run at the same time: NCCL_TESTS_SPLIT and
 * NCCL_TESTS_SPLIT_MASK of nccl-tests, and --split. A rule is an operation and a value; ranks for
 * which the operation gives the same number, nccl-tests' color, form a group.
 */
#ifndef BENCH_OPTIONS_SPLIT_H
#define BENCH_OPTIONS_SPLIT_H

#include <stddef.h>

#define BENCH_SPLIT_WORDS                                                                          \
    "and, or, mod or div (&, |, %, /) and a whole number, such as \"mod 8\" or \"and 0x7\""

typedef enum bench_split_operation {
    BENCH_SPLIT_NONE, /* all ranks form one group */
    BENCH_SPLIT_AND,
    BENCH_SPLIT_OR,
    BENCH_SPLIT_MOD,
    BENCH_SPLIT_DIV
} bench_split_operation;

typedef struct bench_split {
    bench_split_operation operation;
    int value;
} bench_split;

/* Reads a rule: a word in any case or its symbol, blanks or a colon if wanted, and a value that is
 * decimal, octal (0), hexadecimal (0x) or binary (0b). Returns 0, or -1 if the text is none. Pure.
 */
int bench_split_read(const char *text, bench_split *split);
/* Reads NCCL_TESTS_SPLIT_MASK: a hexadecimal mask, of which "and" is the rule. Pure. */
int bench_split_read_mask(const char *text, bench_split *split);
/* The color of a rank. Pure. */
int bench_split_color(const bench_split *split, int rank);
/* Writes "mod:2", or "" without a rule. */
void bench_split_name(const bench_split *split, char *text, size_t bytes);

#endif
