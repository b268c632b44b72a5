/*
 * Checks of --wire. Each element must be as close to the sum, in double, as weir/quantized.h
 * states. The bound of an element depends on its contributions and on the largest magnitude of its
 * group on each rank, which are known from the data.
 */
#ifndef BENCH_CHECK_QUANTIZED_H
#define BENCH_CHECK_QUANTIZED_H

#include "bench/trial/trial.h"

/* Elements [at, at + count) of the data, which replace those of a trial in one iteration. */
typedef struct bench_quantized_window {
    const weirv_case *data;
    size_t at, count;
} bench_quantized_window;

/* Checks the output of a call, in host memory, and keeps the candidate's errors. Adds the findings
 * to found. Local. */
void bench_quantized_check(const bench_trial *trial, bench_candidate *candidate, const void *out,
                           weirv_result *found);
/* Checks the elements of a window; got: the window's part of the output. Local. */
void bench_quantized_check_window(const bench_trial *trial, bench_candidate *candidate,
                                  const bench_quantized_window *window, const void *got,
                                  weirv_result *found);

#endif
