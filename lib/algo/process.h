/* Runs a program, such as a compiler, and captures its output. */
#ifndef WEIR_ALGO_PROCESS_H
#define WEIR_ALGO_PROCESS_H

#include <weir/weir.h>

/* Starts argv[0], which is looked up in PATH, without a shell, with an empty standard input and the
 * C locale, and waits until it ends. output receives its standard output and standard error,
 * truncated to bytes - 1 and terminated. Local, blocking. WEIR_ERR_SYSTEM if it cannot be started,
 * a signal ended it, or its exit code is unknown, because another part of this process reaped it;
 * WEIR_ERR_TIMEOUT if it was killed at the deadline. */
weir_status weiri_process_run(const char *const *argv, int timeout_ms, char *output, size_t bytes,
                              int *exit_code);

#endif
