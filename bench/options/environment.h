/*
 * The environment variables that a result file may record: those that influence the measurement
 * and never hold a secret. All others are left out.
 */
#ifndef BENCH_OPTIONS_ENVIRONMENT_H
#define BENCH_OPTIONS_ENVIRONMENT_H

/* variable: "NAME=value", as in environ. 1 if it may be recorded. Pure. */
int bench_environment_allows(const char *variable);

#endif
