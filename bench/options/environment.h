/*
 * The environment variables that a result file may record: the settings of weir and of NCCL that
 * weir reads, and listed others that influence measurements. None of them holds a secret; all
 * others are left out.
 */
#ifndef BENCH_OPTIONS_ENVIRONMENT_H
#define BENCH_OPTIONS_ENVIRONMENT_H

/* variable: "NAME=value", as in environ. 1 if it may be recorded. Pure. */
int bench_environment_allows(const char *variable);

#endif
