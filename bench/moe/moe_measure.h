/* Measures one number of tokens: all candidates in turns, each iteration checked. */
#ifndef BENCH_MOE_MEASURE_H
#define BENCH_MOE_MEASURE_H

#include "bench/moe/moe_output.h"

/* Measures a moe_point, whose trial is open, and fills in its results. Collective; agreed. */
weir_status bench_moe_measure(void *point);

#endif
