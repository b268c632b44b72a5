/* Runs a program and takes what it prints: for compilers. */
#ifndef WEIR_ALGO_PROCESS_H
#define WEIR_ALGO_PROCESS_H

#include <weir/weir.h>

/* Starts argv[0], which is looked up in PATH, without a shell, with an empty standard input
 * and the C locale; waits for its end. output gets what it printed on both outputs, cut to
 * bytes - 1, terminated. Local, blocking. WEIR_ERR_SYSTEM: it cannot be started, or a signal
 * ended it; WEIR_ERR_TIMEOUT: it was stopped at the deadline. */
weir_status weiri_process_run(const char *const *argv, int timeout_ms, char *output, size_t bytes,
                              int *exit_code);

#endif
