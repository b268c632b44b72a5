/* The timed iterations of one round of a trial. */
#ifndef BENCH_MEASURE_TIMING_H
#define BENCH_MEASURE_TIMING_H

#include "bench/trial/trial.h"

/* Times the round's iterations of the candidates that ran in round 0 and were never found wrong,
 * interleaved, and appends the times to trial->series. The first round also finds the number of
 * iterations. Collective; agreed. */
weir_status bench_timing_round(bench_trial *trial);

#endif
