/*
 * Suspects: rows that may have become slower and are worth measuring again, in a file of
 * lines `collective,dtype,redop,nranks,bytes`, which ci/nightly reads too. Local.
 */
#ifndef RESULTS_JUDGE_SUSPECTS_H
#define RESULTS_JUDGE_SUSPECTS_H

#include "results/judge/compare.h"

/* Slower by half the practical threshold or more and not plainly by chance (p below 0.2), or
 * wrong in B. */
int results_is_suspect(const results_pair *pair, const results_rules *rules);
/* A line for each row that is one, none twice. 0, or -1: the file cannot be written. */
int results_suspects_write(const char *path, const results_comparison *comparison,
                           const results_rules *rules);
/* Keeps of a set the rows that the file names. 0, or -1: noted, it cannot be read. */
int results_suspects_keep(results_set *set, const char *path);

#endif
