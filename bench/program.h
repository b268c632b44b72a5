/*
 * The flow that all benchmark programs share: options, job, points, report, exit code. Each program
 * measures one workload, and of the collectives one.
 */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include "bench/workload.h"

/* Runs a benchmark and returns the exit code, the same on every rank: 0 all passed, 1 wrong data or
 * a missed floor, 2 usage error, 3 system or environment, 4 a deadline passed. collective: what
 * bench_collectives measures. program is the name used in messages. Collective. */
int bench_program_main(const bench_workload *workload, weir_collective collective,
                       const char *program, int argc, char **argv);

#endif
