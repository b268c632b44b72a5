/*
 * --cold: operations cycle through many copies of their buffers, together larger than the
 * last-level cache, so that no operation finds its data there. The copies are stored after the part
 * of the buffers that checked calls use. All functions are local and change trial->rotation or the
 * addresses in trial->call.
 */
#ifndef BENCH_TRIAL_COLD_H
#define BENCH_TRIAL_COLD_H

#include "bench/trial/trial.h"

/* Lays out the copies; there are none without --cold. */
void bench_cold_place(bench_trial *trial);
/* Points the call at the buffers themselves. */
void bench_cold_reset(bench_trial *trial);
/* Copies the input into every copy, and poisons every copy of the output. */
weir_status bench_cold_fill(bench_trial *trial);
/* Points the call at the next copy. */
void bench_cold_next(bench_trial *trial);

#endif
