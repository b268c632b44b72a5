/* Measures one number of tokens: all candidates in turns, each iteration checked. */
#ifndef BENCH_MOE_MEASURE_H
#define BENCH_MOE_MEASURE_H

#include "bench/moe/moe_output.h"

/* Measures and writes the lines of the table. out is used on rank 0 only. *wrong is increased by
 * what was wrong on any rank. Collective; agreed. */
weir_status bench_moe_measure(bench_moe_trial *trial, moe_output *out, uint64_t *wrong);

#endif
