/* Programs that a check starts, each with a deadline. */
#ifndef BENCH_HEALTH_PROCESS_H
#define BENCH_HEALTH_PROCESS_H

#include <stddef.h>

enum { HEALTH_TIMED_OUT = -1, HEALTH_NOT_STARTED = -2 };

/* Runs a program until it ends or the deadline passes, then kills it and its children. Its standard
 * output is discarded; the last line of its standard error, without the program's name, is stored
 * in line. Returns its exit code, 128 + the signal that ended it, HEALTH_TIMED_OUT, or
 * HEALTH_NOT_STARTED. Local, blocking. */
int health_process_run(char *const argv[], double deadline_s, char *line, size_t bytes);

#endif
