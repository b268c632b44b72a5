/* --wire: weir_allreduce_quantized as a candidate, whose results are close to the sum, not equal.
 */
#ifndef BENCH_CANDIDATE_QUANTIZED_H
#define BENCH_CANDIDATE_QUANTIZED_H

#include "bench/candidate/candidate.h"
#include <weir/quantized.h>

/* The candidate's state. The errors are of this rank's latest output that was checked, divided by
 * the root mean square of the exact sums; 0 before. */
typedef struct bench_quantized {
    weir_quantization format;
    double err_max, err_rms;
} bench_quantized;

/* Opens the candidate. Local. */
weir_status bench_candidate_quantized_open(bench_job *job, const bench_options *options,
                                           bench_candidate **candidate);
/* Whether a candidate is one. Pure. */
int bench_candidate_is_quantized(const bench_candidate *candidate);

#endif
