/*
 * The report of ranks that have no communicator yet. They cannot exchange messages, but their
 * lines appear in rank order: a rank that gives up binds an abstract socket named after the job
 * and its rank, waits for a time in proportion to its rank, and then reports itself and the ranks
 * below it that have no socket.
 */
#ifndef BENCH_JOB_SETUP_REPORT_H
#define BENCH_JOB_SETUP_REPORT_H

/* Writes this rank's part to standard error, and returns when all ranks of this node had the time
 * to write theirs: two to three seconds at most. Local, blocking. */
void bench_setup_report(const char *program, const char *phase, const char *why, int deadline_ms);

#endif
