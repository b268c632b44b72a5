/*
 * The report of ranks that have no communicator yet, in rank order although they
 * cannot talk to each other. A rank that gives up shows itself by a socket whose
 * name has the job and its rank, in no file system; ranks then speak one after the
 * other, and each tells of those below it that do not show themselves.
 */
#ifndef BENCH_JOB_SETUP_REPORT_H
#define BENCH_JOB_SETUP_REPORT_H

/* Writes this rank's part to standard error, and returns when all ranks of this
 * machine have had their turn, two to three seconds at most. Local. */
void bench_setup_report(const char *program, const char *phase, const char *why,
                        int deadline_ms);

#endif
