/*
 * Suspects: rows that may have become slower and are worth measuring again, in a file with lines
 * `collective,dtype,redop,nranks,bytes`, which ci/nightly reads. Local.
 */
#ifndef RESULTS_JUDGE_SUSPECTS_H
#define RESULTS_JUDGE_SUSPECTS_H

#include "results/judge/compare.h"

/* Whether a row is slower by half the practical threshold or more and p is below 0.2, or is wrong
 * in B. */
int results_is_suspect(const results_pair *pair, const results_rules *rules);
/* Writes a line for each suspect, without repetition. Returns 0, or -1 if the file cannot be
 * written. */
int results_suspects_write(const char *path, const results_comparison *comparison,
                           const results_rules *rules);
/* Keeps only the rows of a set that the file names. Returns 0, or -1 after reporting that it cannot
 * be read. */
int results_suspects_keep(results_set *set, const char *path);

#endif
