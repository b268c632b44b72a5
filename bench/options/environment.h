/*
 * The environment variables that a result file may record: the settings of weir and of NCCL that
 * weir reads, names that begin with WEIR_ by mistake, and listed others that influence
 * measurements. None of them holds a secret; all others are left out. And what weir makes of
 * variables that users set for NCCL, nccl-tests, MPI, Slurm and CUDA: one table says of each
 * whether weir obeys it, only peers do, or nobody does.
 */
#ifndef BENCH_OPTIONS_ENVIRONMENT_H
#define BENCH_OPTIONS_ENVIRONMENT_H

#include <stddef.h>
#include <stdio.h>

/* variable: "NAME=value", as in environ. 1 if it may be recorded. Pure. */
int bench_environment_allows(const char *variable);
/* Writes the variables of nccl-tests (of_tests 1) or of NCCL (0) that are set and that weir does
 * not obey although a user may expect it, each with what does the same for weir: "NCCL_ALGO
 * (--algo); NCCL_BUFFSIZE". Returns their number. */
int bench_environment_foreign(int of_tests, char *text, size_t bytes);
/* Writes the variables that are set and change what peers do, as "NCCL_ALGO=Ring
 * NCCL_NVLS_ENABLE=0", with blanks and control characters in values replaced by "?", followed
 * by the files from which NCCL takes settings: "/etc/nccl.conf ~/.nccl.conf". Returns the number
 * of both. */
int bench_environment_of_peers(char *text, size_t bytes);
/* Writes the table for --help-env. */
void bench_environment_help(FILE *to);

#endif
