/*
 * Checks of --fuse. The residual must be, bit by bit, the exact sum added to it once for each
 * operation since it was reset, and rounded each time. The output is compared, element by element,
 * with a normalisation of that residual in double; it may differ by
 *
 *   |y| * (u + 2^-16) + 2^-20       u: half a unit in the last place of the type, 2^-8 for bfloat16
 *   |y| / 16 + scale / 512 + 2^-20  fp8
 *
 * which covers the rounding to the type and float arithmetic. A timed iteration is checked in one
 * row, which changes from iteration to iteration: the residual is reset before it, so that an
 * output of an earlier one is found.
 */
#ifndef BENCH_CHECK_FUSED_H
#define BENCH_CHECK_FUSED_H

#include "bench/trial/trial.h"

/* Checks all rows of the output of a call, which is the only one since the residual was reset. out:
 * the output in host memory. Adds the findings to found. Local. */
weir_status bench_fused_check(const bench_trial *trial, bench_candidate *candidate, const void *out,
                              weirv_result *found);
/* Before a timed iteration. Local, blocking. */
weir_status bench_fused_open_iteration(bench_candidate *candidate);
/* After a timed iteration of so many operations: checks a row. Local, blocking. */
weir_status bench_fused_close_iteration(const bench_trial *trial, bench_candidate *candidate,
                                        uint64_t iteration, int operations, weirv_result *found);

#endif
