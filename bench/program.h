/*
 * The flow that all benchmark programs share: options, job, buffers, candidates, sweep, report,
 * exit code. Each program measures one collective.
 */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <weir/weir.h>

/* Runs the benchmark of a collective and returns the exit code, the same on every rank: 0 all
 * passed, 1 wrong data, 2 usage error, 3 system or environment, 4 a deadline passed. program is the
 * name used in messages. Collective. */
int bench_program_main(weir_collective collective, const char *program, int argc, char **argv);

#endif
