/*
 * The data of a trial: where buffers lie, what is in them, and copies between host memory, where
 * data is generated and checked, and the operands, where the candidate works. On the host backend
 * both are the same memory.
 */
#ifndef BENCH_TRIAL_DATA_H
#define BENCH_TRIAL_DATA_H

#include "bench/trial/trial.h"

/* Lays out the buffers for trial->row and trial->round, and describes the call and its data.
 * Collective; agreed. */
weir_status bench_trial_lay_out(bench_trial *trial);
/* Writes new input and poisons the output, in the candidate's operands. Local. */
weir_status bench_trial_reset(bench_trial *trial, const bench_candidate *candidate);
/* The same with the data of the last reset. Local. */
weir_status bench_trial_fill(bench_trial *trial, const bench_candidate *candidate);

/* 1 if the call is an alltoallv, which has counts. Pure. */
int bench_trial_has_splits(const bench_trial *trial);
/* 1 if the counts of alltoallv change from call to call (a trace). Pure. */
int bench_trial_has_steps(const bench_trial *trial);
/* Selects the step of the distribution that the next call uses; alltoallv only. Local. */
void bench_trial_set_step(bench_trial *trial, int step);
/* Called before each operation of a loop: selects the next copy (--cold) and the next step. Local.
 */
void bench_trial_next(bench_trial *trial);

/* The address in host memory of the candidate's result, valid after bench_trial_pull. Pure. */
void *bench_trial_result(const bench_trial *trial, bench_candidate *candidate);
/* Copies the layout, and with --cold the result of the last operation, from the operands to host
 * memory; push copies the layout back. Local, blocking; nothing to do on the host backend. */
weir_status bench_trial_pull(const bench_trial *trial, bench_candidate *candidate);
weir_status bench_trial_push(const bench_trial *trial);
/* Waits until the operations that were enqueued are complete, and asks weir for asynchronous
 * errors. Local, blocking; nothing to do on the host backend. */
weir_status bench_trial_wait(const bench_trial *trial, const bench_candidate *candidate);

/*
 * --cold: operations cycle through many copies of their buffers, together larger than the
 * last-level cache, so that no operation finds its data there. The copies are stored after the part
 * of the buffers that checked calls use. All functions are local and change trial->rotation or the
 * addresses in trial->call.
 */

/* Lays out the copies; there are none without --cold. */
void bench_cold_place(bench_trial *trial);
/* Points the call at the buffers themselves. */
void bench_cold_reset(bench_trial *trial);
/* Copies the input into every copy, and poisons every copy of the output. */
weir_status bench_cold_fill(bench_trial *trial);
/* Points the call at the next copy. */
void bench_cold_next(bench_trial *trial);

#endif
