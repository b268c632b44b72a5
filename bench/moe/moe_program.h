/* The flow of bench_moe: options, job, rows of the table, exit code. */
#ifndef BENCH_MOE_PROGRAM_H
#define BENCH_MOE_PROGRAM_H

/* Returns the exit code, the same on every rank, as bench_program_main does. Collective. */
int bench_moe_main(int argc, char **argv);

#endif
